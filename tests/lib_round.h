/* SPDX-License-Identifier: MIT */
/* lib_round.h - every operation of a broker once, on the queue "default", whatever the result: for
 * tests that plant damage before. Ids are "t0" to "t7". */
#ifndef TESTS_LIB_ROUND_H
#define TESTS_LIB_ROUND_H

#include "broker/inspect.h"

struct test_round {
    struct qn_broker *broker;
    const char *worker_id;
    uint64_t sequence;
    const char *strange; /* the operation with a number that no caller could handle; NULL: none */
    int64_t number;
};

/* Leases, extends, reads, ends the runs in different ways, does upkeep, acts and checks. */
void test_round(struct test_round *round);

#endif
