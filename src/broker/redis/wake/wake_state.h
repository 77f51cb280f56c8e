/* SPDX-License-Identifier: MIT */
/* wake_state.h - the way in which wait is notified of work, and the results it has still to return.
 *
 *                  refused                          armed (arm saw no work)
 *            NEWS ---------> POLLING           BUSY <------------> ARMED
 *           |    <---------         |            ^      busy         |
 *  unpaired |     connected         |      taken |                   | missed
 *           v     refused           v            |       armed       v
 *            NONE ---------> NONE_REFUSED      MISSED_ARMED <--- MISSED (taken: BUSY)
 *
 * Paired leads back up on the left. Two parts that do not depend on each other; the tables in
 * wake_state.c have every change. */
#ifndef QN_BROKER_REDIS_WAKE_WAKE_STATE_H
#define QN_BROKER_REDIS_WAKE_WAKE_STATE_H

#include <stdbool.h>

enum qn_wake_source {
    QN_WAKE_BY_NEWS,     /* the server reports changes of the keys that arm read */
    QN_WAKE_BY_POLLING,  /* it refuses that: wait returns from time to time, and the pump polls */
    QN_WAKE_BY_NONE,     /* no pair can be had: wait fails, its caller has to look */
    QN_WAKE_NONE_REFUSED /* the same; and a pair that is had again will poll */
};

enum qn_wake_arm {
    QN_ARM_BUSY,        /* the last arm saw work, or there was none yet */
    QN_ARM_ARMED,       /* it saw no work: only a notice wakes us */
    QN_ARM_MISSED,      /* then a poll saw work without a notice: wait has to return it */
    QN_ARM_MISSED_ARMED /* the same; an arm since saw no work, but may have read before that */
};

struct qn_wake_state {
    enum qn_wake_source source;
    enum qn_wake_arm arm;
};

enum qn_wake_event {
    QN_WAKE_CONNECTED, /* the listener has a new connection, on which nothing was refused yet */
    QN_WAKE_REFUSED,   /* the server refuses tracking to this user */
    QN_WAKE_UNPAIRED,  /* arm could not have a pair */
    QN_WAKE_PAIRED,    /* arm has one */
    QN_WAKE_ARMED,     /* arm saw no work, on a pair or without one */
    QN_WAKE_BUSY,      /* arm saw work, or its pair fell apart */
    QN_WAKE_MISSED,    /* a poll saw more than the last arm */
    QN_WAKE_TAKEN,     /* wait returns that */
    QN_WAKE_EVENT_COUNT
};

/* The one place where a state changes. A state of zeros is the first one. */
void qn_wake_state_change(struct qn_wake_state *state, enum qn_wake_event event);

bool qn_wake_state_polls(const struct qn_wake_state *state);
bool qn_wake_state_is_unpaired(const struct qn_wake_state *state);
bool qn_wake_state_is_armed(const struct qn_wake_state *state);
bool qn_wake_state_has_missed(const struct qn_wake_state *state);

#endif
