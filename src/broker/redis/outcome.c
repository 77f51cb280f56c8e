/* SPDX-License-Identifier: MIT */
/* outcome.c - the first half of an exchange: tells how runs ended, one script per queue. */
#include "base/error.h"
#include "broker/redis/exchange.h"

/* NEEDSWORK: a stub, so that the exchange can be built; helper `outcome` writes it. */
quern_status qn_outcomes_add(struct qn_talk *talk, const struct qn_exchange *exchange,
                             struct qn_outcomes *ret_outcomes, quern_error *err)
{
    if (exchange->outcome_count + exchange->start_count > 0) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED, "outcomes: not written yet");
    }
    *ret_outcomes = (struct qn_outcomes){.first_command = talk->command_count};
    return QUERN_OK;
}

quern_status qn_outcomes_take(const struct qn_talk *talk, const struct qn_exchange *exchange,
                              const struct qn_outcomes *outcomes, enum qn_applied *applied,
                              quern_error *err)
{
    (void)talk;
    (void)exchange;
    (void)outcomes;
    (void)applied;
    (void)err;
    return QUERN_OK;
}

void qn_quarantine_add(struct qn_talk *talk, const struct qn_unreadable *tasks, size_t count)
{
    (void)talk;
    (void)tasks;
    (void)count;
}
