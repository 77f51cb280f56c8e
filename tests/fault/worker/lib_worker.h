/* SPDX-License-Identifier: MIT */
/* lib_worker.h - workers inside the test program, on a fresh broker: enqueue, run, look, wait.
 *
 * The handler "obey" does what the payload says, so that a test reads as one list of tasks:
 *
 *   done retry archive drop odd   returns that outcome (odd: one that does not exist)
 *   snooze                        runs again in an hour
 *   result                        writes the result "42" and progress 50 "half", then done
 *   result-hold                   the same, but waits for the gate before it returns
 *   wait                          waits for its cancellation by poll() and returns retry
 *   wait-done                     the same, and returns done
 *   hold                          waits until the test opens the gate, whatever happens; done
 *   hold-retry                    the same; retry
 *
 * All waiting is for events, with the patience of lib_test.h. */
#ifndef TESTS_FAULT_LIB_WORKER_H
#define TESTS_FAULT_LIB_WORKER_H

#include "lib_place.h"

#include <pthread.h>

#include "base/clock.h"
#include "broker/broker.h"
#include "quern/client.h"
#include "quern/testing.h"
#include "quern/worker.h"

#define STAGE_STARTS_MAX 20000
#define STAGE_LOG_SIZE 65536

struct stage;

/* One worker and the thread it runs on. */
struct stage_worker {
    struct stage *stage;
    quern_worker *worker;
    pthread_t thread;
    quern_status status; /* of quern_worker_run */
    quern_error error;
    bool joined;
};

struct stage_start {
    char id[40];
    char queue[16];
    int64_t at_ms; /* monotonic */
    int64_t retry_count;
    int64_t crash_count;
    quern_cause cause;
    char reason[32]; /* of its cancellation, when it ended */
};

struct stage {
    struct test_place place;
    const char *url;
    struct quern_clock clock; /* used when turned is true */
    bool turned;
    quern_client *client;
    struct qn_broker *broker; /* for looking and steering, as another process would */
    quern_mux *mux;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t change;
    bool gate;
    size_t inside;
    size_t inside_max;
    size_t start_count;
    struct stage_start starts[STAGE_STARTS_MAX];
    size_t written_count; /* results that were written */
    size_t report_count;
    size_t stale_count; /* reports of outcomes that were refused */
    char log[STAGE_LOG_SIZE];
    size_t log_size;
};

/* On an empty broker, with a mux that serves every type with "obey". turned: time stands still
 * until the test turns it. */
struct stage *stage_new(bool turned);
/* "obey", to be registered with options of its own; user: the stage. */
quern_handler stage_handler(void);
/* Every worker must have been joined. */
void stage_free(struct stage *stage);

/* Lets time pass on the turned clock, and on the broker's own. */
void stage_advance(struct stage *stage, int64_t ms);

void stage_put(struct stage *stage, const char *id, const char *payload);
void stage_put_task(struct stage *stage, const quern_task *task);
/* `count` tasks "PREFIX00000" ... that are done at once; of the type "t", or another one. */
void stage_put_many(struct stage *stage, const char *queue, const char *prefix, size_t count);
void stage_put_many_of(struct stage *stage, const char *type, const char *queue, const char *prefix,
                       size_t count);

/* options may be NULL: concurrency 4. Its callbacks and clock are filled in here. */
void stage_start(struct stage *stage, struct stage_worker *worker,
                 const quern_worker_options *options);
/* Stops it and waits for its end, which must be clean; then frees it. */
void stage_stop(struct stage_worker *worker);
/* Waits for its end and frees it; what it returned. */
quern_status stage_join(struct stage_worker *worker);

/* 0 when there is no such task. */
int stage_state(struct stage *stage, const char *id);
/* What is known of a task; the caller frees it. Fails the test when there is none. */
quern_task_info *stage_see(struct stage *stage, const char *id);
quern_queue_info stage_queue(struct stage *stage, const char *queue);
void stage_wait_state(struct stage *stage, const char *id, int state);
void stage_wait_starts(struct stage *stage, size_t count);
void stage_wait_reports(struct stage *stage, size_t count);
void stage_wait_written(struct stage *stage, size_t count);
void stage_wait_log(struct stage *stage, const char *text);
bool stage_logged(struct stage *stage, const char *text);
/* Until the worker says that it fetches nothing. */
void stage_wait_unready(struct stage_worker *worker);
/* Until so many runs were given back. */
void stage_wait_given_back(struct stage_worker *worker, uint64_t count);
/* Until no handler runs. */
void stage_wait_empty(struct stage *stage);
void stage_open_gate(struct stage *stage);
struct stage_start stage_start_at(struct stage *stage, size_t index);
void stage_act(struct stage *stage, quern_action action, const char *id);
quern_worker_stats stage_stats(struct stage_worker *worker);

#endif
