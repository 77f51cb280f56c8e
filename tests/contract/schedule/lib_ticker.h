/* SPDX-License-Identifier: MIT */
/* lib_ticker.h - the loop of a scheduler without its thread, on the clock of the test. */
#ifndef TEST_CONTRACT_LIB_TICKER_H
#define TEST_CONTRACT_LIB_TICKER_H

#include "lib_contract.h"
#include "schedule/tick/ticker.h"

struct ticker_test {
    struct qn_broker *broker;
    struct qn_log log;
    struct qn_zones zones;
    struct qn_leader leader;
    struct qn_ticker ticker;
    char lines[4096]; /* what it has logged */
};

void ticker_open(struct contract *c, struct ticker_test *ret_scheduler);
void ticker_open_with(struct contract *c, const struct qn_ticker_hooks *hooks,
                      struct ticker_test *ret_scheduler);
void ticker_close(struct ticker_test *scheduler);
/* Returns for how long it wants to sleep. */
int64_t ticker_step(struct ticker_test *scheduler);

/* An entry of each second whose last tick is `last_s`. */
void ticker_put_seconds(struct contract *c, const char *name, enum qn_misfire misfire,
                        int64_t last_s);
/* Whether the task of this tick of such an entry is stored. */
bool ticker_has_task(struct contract *c, const char *name, int64_t tick_s);

#endif
