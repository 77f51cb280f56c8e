/* SPDX-License-Identifier: MIT */
/* lib_round.h - every operation of a broker once, on the queue "default", whatever the result: for
 * tests that plant damage before. Ids are "t0" to "t7". tests/scripts/test_operations.sh compares
 * it with the table of operations; it names the two that are missing. */
#ifndef TESTS_LIB_ROUND_H
#define TESTS_LIB_ROUND_H

#include "broker/inspect.h"

struct test_round {
    struct qn_broker *broker;
    struct qn_broker *watcher; /* another object of the same broker, see qn_watch_fn */
    const char *copy_path;     /* of a file that backup makes, and that is then removed */
    const char *worker_id;
    uint64_t sequence;
    const char *strange; /* the operation with a number that no caller could handle; NULL: none */
    int64_t number;
};

/* Leases, extends, reads, ends the runs in different ways, does upkeep, acts and checks. */
void test_round(struct test_round *round);
/* A part of it, in lib_task.c: where one task of each state stands, edits, moves. */
void test_round_stand(struct test_round *round);

#endif
