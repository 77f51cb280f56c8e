/* SPDX-License-Identifier: MIT */
/* lib_lives.h - what became of each task of a test: enqueued, run, run again and why. Workers and
 * clients are threads of the test; handlers write down what they see, and the end compares.
 *
 * Three kinds of tasks, each numbered from 0: plain ones ("t"), members of groups ("m", which the
 * aggregator puts into tasks "sum"), and the ticks of an entry of each second ("tick"). */
#ifndef TESTS_FAULT_PROXY_LIB_LIVES_H
#define TESTS_FAULT_PROXY_LIB_LIVES_H

#include "lib_test.h"

#include <pthread.h>

#include "quern/quern.h"

#define LIVES_MAX 20000
#define LIVES_REST_MS 2500 /* of some tasks: longer than a lease */
#define LIVES_LEASE_MS 2000

enum lives_fate {
    LIVES_UNTRIED,
    LIVES_STORED,
    LIVES_REFUSED, /* the client said that it is not stored */
    LIVES_UNKNOWN
};

struct life {
    enum lives_fate fate;
    char id[40]; /* of the task that has run; "": none so far */
    size_t starts;
    size_t ends;
    uint64_t fence;
};

struct lives {
    pthread_mutex_t mutex; /* guards the rest */
    struct life tasks[LIVES_MAX];
    struct life members[LIVES_MAX];
    struct life ticks[LIVES_MAX]; /* by second */
    size_t task_count;
    size_t member_count;
    int64_t began_s;
    size_t ended;            /* of all kinds, counted once */
    size_t unknown, refused; /* of those that were tried */
    size_t extra[16];        /* by cause */
    size_t wrong;            /* each is printed */
};

struct lives *lives_new(void);
void lives_free(struct lives *lives);
/* Handlers for "t", "tick" and "sum" and the aggregator, all with lives as user. */
quern_mux *lives_mux(struct lives *lives);
/* Enqueues what `dice` chooses: one task or a batch; into one of three queues; with an id or not,
 * unique, delayed, or as member of a group. Only one thread. */
void lives_enqueue(struct lives *lives, quern_client *client, uint64_t dice);
/* Whether all that is stored has run. */
bool lives_are_over(void *lives);
/* Whether ticks of two seconds have run. */
bool lives_have_ticked(struct lives *lives);
/* Prints the figures and asserts that nothing is wrong: what is stored ran, what was refused did
 * not, each extra run has a cause, members are in one task each, and no second lacks its tick. */
void lives_judge(struct lives *lives);

extern const quern_queue lives_queues[3];

#endif
