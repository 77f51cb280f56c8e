/* SPDX-License-Identifier: MIT */
/* lib_round.h - every operation of a broker once, on the queue "default", whatever they answer: for
 * tests that plant something before. Ids are "t0" to "t7". */
#ifndef TESTS_LIB_ROUND_H
#define TESTS_LIB_ROUND_H

#include "broker/inspect.h"

struct test_round {
    struct qn_broker *broker;
    const char *worker_id;
    uint64_t sequence;
    const char *strange; /* what had a number that no caller of ours could bear; NULL: nothing */
    int64_t number;
};

/* Leases, extends, looks, ends the runs in different ways, keeps up, acts and checks. */
void test_round(struct test_round *round);

#endif
