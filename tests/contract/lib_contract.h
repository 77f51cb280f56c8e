/* SPDX-License-Identifier: MIT */
/* lib_contract.h - a fresh broker for each contract test, and short helpers to use it.
 *
 * The suite runs over every broker in the table of makers in lib_contract.c, or only over the one
 * that QUERN_TEST_BROKER names; a new broker is one line there and a store in lib_store.c. A test
 * of one broker is marked (CONTRACT_TEST_ONLY); nothing else in the tests names one. Time stands
 * still until a test advances it, except for waits for wake-ups. By convention there are two
 * queues: "default" and "other".
 *
 * The helpers assert that the call itself works; the test asserts the rest. */
#ifndef TESTS_CONTRACT_LIB_CONTRACT_H
#define TESTS_CONTRACT_LIB_CONTRACT_H

#include "lib_store.h"

#include "broker/inspect.h"
#include "quern/inspector.h"
#include "task/limits.h"

#define CONTRACT_NOW_MS INT64_C(1800000000000)
#define CONTRACT_LEASE_MS INT64_C(30000)
#define CONTRACT_WORKER "worker-1"
#define CONTRACT_HOST "host-a"

struct contract;
struct contract_maker {
    const char *name; /* of the broker, as in lib_store.h */
    bool has_clock;   /* it has a clock of its own, not the worker's */
    bool is_private;  /* other processes cannot open it */
    /* The caller's own transaction for enqueue_in; NULL where the broker has none. */
    void *(*begin)(struct contract *c);
    void (*end)(void *tx, bool commit);
};

struct contract {
    const struct contract_maker *maker;
    struct test_store store;
    char url[256];
    struct quern_clock clock;
    struct qn_broker *broker;
    struct qn_broker *keeper; /* keeps data that end when the last object is closed; unused */
    struct qn_id_source ids;
    uint64_t session;
    uint64_t sequence;
    uint32_t deaths; /* in a row; of the queue of the latest exchange with one queue */
    bool braked;     /* the same, as the next two */
    bool paused;
    int64_t wait_ms;
    bool more;               /* the latest exchange ended early */
    size_t late_count;       /* all exchanges: tasks archived past their deadline */
    int64_t recovered_at_ms; /* real, monotonic; 0: never */
};

/* --- The frame of a test program ---------------------------------------------------- */

struct contract_test {
    const char *name;
    void (*run)(struct contract *c);
    const char *only; /* the one broker it is about; NULL: all */
    bool spawns;      /* other processes use the broker, too: not where that is private */
};
#define CONTRACT_TEST(function)                                                                    \
    {                                                                                              \
        .name = #function, .run = (function)                                                       \
    }
#define CONTRACT_TEST_ONLY(broker, function)                                                       \
    {                                                                                              \
        .name = #function, .run = (function), .only = (broker)                                     \
    }
#define CONTRACT_TEST_SPAWNS(function)                                                             \
    {                                                                                              \
        .name = #function, .run = (function), .spawns = true                                       \
    }
struct contract_suite {
    const struct contract_test *tests;
    size_t test_count;
    const struct test_role *roles; /* of child processes */
    size_t role_count;
};
int contract_main(int argc, char **argv, const struct contract_suite *suite);
#define CONTRACT_MAIN(array)                                                                       \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct contract_suite suite = {.tests = (array), .test_count = TEST_COUNT(array)};   \
        return contract_main(argc, argv, &suite);                                                  \
    }

/* On the broker's data and the test's clock; freed by the caller. */
quern_inspector *contract_open_inspector(struct contract *c);
/* Another broker object for the same data, as another process would have; closed by the caller. */
struct qn_broker *contract_open(struct contract *c);
/* In a child: the broker of `url` on the system's clock; ends the child if it cannot be opened. */
struct qn_broker *contract_open_child(const char *url);
/* Writes the record of a worker that runs in this process on CONTRACT_HOST. */
void contract_heartbeat(struct qn_broker *broker, const char *worker_id);
struct contract_worker {
    const char *id;
    const char *host;   /* NULL: CONTRACT_HOST */
    const char *status; /* NULL: "active" */
    bool is_dead;       /* its process is known to have ended */
    bool is_far;        /* its process cannot be judged here */
    bool is_ahead;      /* it fetches ahead: its runs have not started */
};
void contract_heartbeat_as(struct qn_broker *broker, const struct contract_worker *worker);
/* Lets time pass for the broker: wall clock and leases. */
void contract_advance(struct contract *c, int64_t ms);
/* Lets the wall clock of the worker jump; no time passes. Where the broker has a clock of its own
 * (has_clock), that one stays as it is. */
void contract_jump(struct contract *c, int64_t ms);

/* --- Enqueueing --------------------------------------------------------------------- */

/* For a task that is prepared now. */
struct qn_task_terms contract_terms(struct contract *c);
/* Stores the task as the library would; returns the result for that one task. */
quern_status contract_try(struct contract *c, const quern_task *task);
void contract_enqueue(struct contract *c, const quern_task *task);
/* A plain task "t" with this id in this queue. */
void contract_put(struct contract *c, const char *queue, const char *id);
/* count tasks "PREFIX0000", "PREFIX0001", ... in a few batches. */
void contract_put_many(struct contract *c, const char *queue, const char *prefix, size_t count);

/* --- Limits ------------------------------------------------------------------------- */

/* Skips the test where the broker has none. */
void contract_need_limits(const struct contract *c);
/* text as qn_limit_parse reads it. */
quern_status contract_try_limit(struct contract *c, const char *queue, quern_limit_scope scope,
                                const char *name, const char *text);
void contract_limit(struct contract *c, const char *queue, quern_limit_scope scope,
                    const char *name, const char *text);

/* --- Running ------------------------------------------------------------------------ */

/* Leases up to `room` tasks of one queue, all of them started, suspects included. */
size_t contract_lease(struct contract *c, const char *queue, uint32_t room,
                      struct qn_leased **runs);
/* The same for another worker; the exchange is its own, so no answer is kept in `c`. */
size_t contract_lease_as(struct contract *c, const struct contract_worker *worker,
                         const char *queue, uint32_t room, struct qn_leased **runs);
/* The next run of the queue, started; NULL when it gives nothing. */
struct qn_leased *contract_take(struct contract *c, const char *queue);
/* The same, but prefetched: not started. */
struct qn_leased *contract_fetch(struct contract *c, const char *queue);
/* As contract_take, but there must be one and it must have this id. */
struct qn_leased *contract_take_id(struct contract *c, const char *queue, const char *id);
/* Enqueues a plain task and leases it. */
struct qn_leased *contract_start(struct contract *c, const char *id);

/* Reports the end of a run to the broker. */
enum qn_applied contract_end(struct contract *c, const struct qn_outcome *outcome);
/* The same by kind: delay_ms 60 000, the cause that fits, started, error "broken" for failures;
 * frees the run. */
enum qn_applied contract_finish(struct contract *c, struct qn_leased *run,
                                enum qn_outcome_kind kind);
/* Without freeing it. */
enum qn_applied contract_report(struct contract *c, const struct qn_leased *run,
                                enum qn_outcome_kind kind);
/* The handler's process died, alone and at once; frees the run. */
enum qn_applied contract_die(struct contract *c, struct qn_leased *run);
/* Any exchange; fills in worker, host, lease and other missing fields. applied may be NULL without
 * outcomes. */
size_t contract_exchange(struct contract *c, struct qn_exchange *exchange, enum qn_applied *applied,
                         struct qn_leased **runs);

size_t contract_recover(struct contract *c, const char *queue);
/* In one call; sink may be NULL. */
size_t contract_recover_all(struct contract *c, struct qn_upkeep upkeep,
                            const struct qn_recovery_sink *sink);
/* Without waiting where the server seems to have been silent. */
size_t contract_recover_once(struct contract *c, const char *queue);
size_t contract_forward(struct contract *c, const char *queue, int64_t *ret_next_due_at_ms);
/* Lets the leases of all runs of the queue expire and recovers them. */
void contract_expire(struct contract *c, const char *queue);

/* --- Looking ------------------------------------------------------------------------ */

#define CONTRACT_TEXT_SIZE 300
struct contract_view {
    bool found;
    quern_task_state state;
    char queue[CONTRACT_TEXT_SIZE];
    char id[CONTRACT_TEXT_SIZE];
    char type[CONTRACT_TEXT_SIZE];
    char error[5000];
    char worker[CONTRACT_TEXT_SIZE];
    char note[CONTRACT_TEXT_SIZE];
    unsigned char result[CONTRACT_TEXT_SIZE];
    size_t result_size;
    bool has_result;
    size_t payload_size;
    int64_t retry_count;
    int64_t crash_count;
    int64_t failed_at_ms;
    int64_t at_ms;
    int64_t enqueued_at_ms;
    int64_t started_at_ms;
    int64_t completed_at_ms;
    quern_cause cause;
    uint64_t fence;
    int32_t progress;
};
struct contract_view contract_inspect(struct contract *c, const char *queue, const char *id);
/* 0 when the task does not exist. */
int contract_state(struct contract *c, const char *queue, const char *id);
/* The numbers of a queue; zero when it does not exist (name is NULL then, else ""). */
quern_queue_info contract_queue(struct contract *c, const char *queue);
uint64_t contract_count(struct contract *c, const char *queue, quern_task_state state);
/* Asserts the day's and the total counters of the queue. */
void contract_assert_counted(struct contract *c, const char *queue, uint64_t processed,
                             uint64_t failed);

#endif
