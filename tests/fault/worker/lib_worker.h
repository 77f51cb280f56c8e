/* SPDX-License-Identifier: MIT */
/* lib_worker.h - the rig for tests of workers: workers inside the test program, on a fresh broker;
 * enqueue, run, inspect, wait.
 *
 * The handler "obey" acts by the payload, so that a test reads as one list of tasks:
 *
 *   done retry archive drop odd   returns that outcome (odd: one that does not exist)
 *   snooze                        runs again in an hour
 *   result                        writes the result "42" and progress 50 "half", then done
 *   result-hold                   the same, but waits for the gate before it returns
 *   wait                          waits for its cancellation by poll() and returns retry
 *   wait-done                     the same, and returns done
 *   die abort exit leave          ends its process: SIGKILL, SIGABRT, exit code 3, exit code 0
 *   spin                          computes for ever, whatever happens
 *   hold                          waits until the test opens the gate, whatever happens; done
 *   hold-retry                    the same; retry
 *
 * All waiting is for events, with the patience of lib_test.h. */
#ifndef TESTS_FAULT_LIB_WORKER_H
#define TESTS_FAULT_LIB_WORKER_H

#include "lib_store.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "broker/inspect.h"
#include "quern/client.h"
#include "quern/testing.h"
#include "quern/worker.h"

#define RIG_STARTS_MAX 20000
#define RIG_LOG_SIZE 65536

struct rig;

/* One worker and the thread it runs on. */
struct rig_worker {
    struct rig *rig;
    quern_worker *worker;
    pthread_t thread;
    quern_status status; /* of quern_worker_run */
    quern_error error;
    bool joined;
};

struct rig_start {
    char id[40];
    char queue[16];
    int64_t at_ms; /* monotonic */
    int64_t retry_count;
    int64_t crash_count;
    quern_cause cause;
    pid_t pid;       /* where it ran */
    char reason[32]; /* of its cancellation, when it ended */
};

struct rig {
    struct test_store store;
    const char *url;
    struct quern_clock clock; /* used when turned is true */
    bool turned;
    quern_client *client;
    struct qn_broker *broker; /* for reading and operating, as another process would */
    quern_mux *mux;
    void (*on_child_start)(void *rig); /* set by what prepares it; NULL: nothing */
    size_t may_live;                   /* children, as a test counts them; with the mutex */
    size_t stillborn_count;            /* the same */
    bool zygote_used;
    quern_zygote *zygote;  /* NULL: handlers run in threads */
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t change;
    _Atomic bool gate;
    size_t inside;
    size_t inside_max;
    size_t start_count;
    struct rig_start starts[RIG_STARTS_MAX];
    size_t written_count; /* results that were written */
    size_t report_count;
    size_t stale_count; /* reports of outcomes that were refused */
    char log[RIG_LOG_SIZE];
    size_t log_size;
    pid_t test_pid;  /* as a test has noted it */
    char seen[1024]; /* by a handler of the test's own */
};

/* On an empty broker, with a mux that serves every type with "obey". turned: time stands still
 * until the test advances it. */
struct rig *rig_new(bool turned);
/* The same with handlers in children, which share the rig. prepare (may be NULL) adds to the mux,
 * which cannot be changed afterwards. Only in a program without threads. */
struct rig *rig_new_prefork(void (*prepare)(struct rig *rig));
/* "obey", to be registered with options of its own; user: the rig. */
quern_handler rig_handler(void);
/* Every worker must have been joined. */
void rig_free(struct rig *rig);

/* Lets time pass on the turned clock, and on the broker's own. */
void rig_advance(struct rig *rig, int64_t ms);

void rig_put(struct rig *rig, const char *id, const char *payload);
void rig_put_task(struct rig *rig, const quern_task *task);
/* `count` tasks "PREFIX00000" ... that are done at once; of the type "t", or another one. */
void rig_put_many(struct rig *rig, const char *queue, const char *prefix, size_t count);
void rig_put_many_of(struct rig *rig, const char *type, const char *queue, const char *prefix,
                     size_t count);

/* options may be NULL: concurrency 4. Its callbacks and clock are filled in here. */
void rig_start(struct rig *rig, struct rig_worker *worker, const quern_worker_options *options);
/* Stops it and waits for its end, which must be clean; then frees it. */
void rig_stop(struct rig_worker *worker);
/* Waits for its end and frees it; returns its status. */
quern_status rig_join(struct rig_worker *worker);

/* 0 when there is no such task. */
int rig_state(struct rig *rig, const char *id);
/* The info of a task; the caller frees it. Fails the test when there is none. */
quern_task_info *rig_inspect(struct rig *rig, const char *id);
/* Waits until the task is completed, and compares its result. */
void rig_wait_result(struct rig *rig, const char *id, const char *result);
quern_queue_info rig_queue(struct rig *rig, const char *queue);
void rig_wait_state(struct rig *rig, const char *id, int state);
void rig_wait_starts(struct rig *rig, size_t count);
void rig_wait_reports(struct rig *rig, size_t count);
void rig_wait_written(struct rig *rig, size_t count);
void rig_wait_log(struct rig *rig, const char *text);
bool rig_logged(struct rig *rig, const char *text);
/* Until the worker reports that it fetches nothing. */
void rig_wait_unready(struct rig_worker *worker);
/* Until this many runs were given back. */
void rig_wait_given_back(struct rig_worker *worker, uint64_t count);
/* Until no handler runs. */
void rig_wait_empty(struct rig *rig);
bool rig_is_draining(void *worker); /* quern_worker *: a condition for test_until */
void rig_open_gate(struct rig *rig);
struct rig_start rig_start_at(struct rig *rig, size_t index);
void rig_act(struct rig *rig, quern_action action, const char *id);
quern_worker_stats rig_stats(struct rig_worker *worker);

#endif
