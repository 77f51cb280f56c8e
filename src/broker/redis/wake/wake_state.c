/* SPDX-License-Identifier: MIT */
/* wake_state.c - the tables of changes; an event that is not in a row changes nothing there. */
#include "broker/redis/wake/wake_state.h"

#define TO(state) ((unsigned char)((state) + 1)) /* 0: unchanged */

static const unsigned char sources[][QN_WAKE_EVENT_COUNT] = {
    [QN_WAKE_BY_NEWS] =
        {[QN_WAKE_REFUSED] = TO(QN_WAKE_BY_POLLING), [QN_WAKE_UNPAIRED] = TO(QN_WAKE_BY_NONE)},
    [QN_WAKE_BY_POLLING] =
        {[QN_WAKE_CONNECTED] = TO(QN_WAKE_BY_NEWS), [QN_WAKE_UNPAIRED] = TO(QN_WAKE_NONE_REFUSED)},
    [QN_WAKE_BY_NONE] =
        {[QN_WAKE_REFUSED] = TO(QN_WAKE_NONE_REFUSED), [QN_WAKE_PAIRED] = TO(QN_WAKE_BY_NEWS)},
    [QN_WAKE_NONE_REFUSED] =
        {[QN_WAKE_CONNECTED] = TO(QN_WAKE_BY_NONE), [QN_WAKE_PAIRED] = TO(QN_WAKE_BY_POLLING)},
};

static const unsigned char arms[][QN_WAKE_EVENT_COUNT] = {
    [QN_ARM_BUSY] = {[QN_WAKE_ARMED] = TO(QN_ARM_ARMED)},
    [QN_ARM_ARMED] = {[QN_WAKE_BUSY] = TO(QN_ARM_BUSY), [QN_WAKE_MISSED] = TO(QN_ARM_MISSED)},
    [QN_ARM_MISSED] =
        {[QN_WAKE_ARMED] = TO(QN_ARM_MISSED_ARMED), [QN_WAKE_TAKEN] = TO(QN_ARM_BUSY)},
    [QN_ARM_MISSED_ARMED] = {[QN_WAKE_BUSY] = TO(QN_ARM_MISSED),
                             [QN_WAKE_MISSED] = TO(QN_ARM_MISSED),
                             [QN_WAKE_TAKEN] = TO(QN_ARM_ARMED)},
};

void qn_wake_state_change(struct qn_wake_state *state, enum qn_wake_event event)
{
    unsigned char source = sources[state->source][event];
    unsigned char arm = arms[state->arm][event];
    state->source = source == 0 ? state->source : (enum qn_wake_source)(source - 1);
    state->arm = arm == 0 ? state->arm : (enum qn_wake_arm)(arm - 1);
}

#undef TO

bool qn_wake_state_polls(const struct qn_wake_state *state)
{
    return state->source == QN_WAKE_BY_POLLING || state->source == QN_WAKE_NONE_REFUSED;
}

bool qn_wake_state_is_unpaired(const struct qn_wake_state *state)
{
    return state->source == QN_WAKE_BY_NONE || state->source == QN_WAKE_NONE_REFUSED;
}

bool qn_wake_state_is_armed(const struct qn_wake_state *state)
{
    return state->arm == QN_ARM_ARMED || state->arm == QN_ARM_MISSED_ARMED;
}

bool qn_wake_state_has_missed(const struct qn_wake_state *state)
{
    return state->arm == QN_ARM_MISSED || state->arm == QN_ARM_MISSED_ARMED;
}
