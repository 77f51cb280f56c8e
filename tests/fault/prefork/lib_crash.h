/* SPDX-License-Identifier: MIT */
/* lib_crash.h - handlers that crash in eight ways, in a program that a worker executes as its
 * zygote, and the worker beside the test.
 *
 * The payload is the number of the task and a way ("17 segv"). Types:
 *
 *   steady                      rests up to 3 ms and is done
 *   once                        crashes in its first run, and is done in the next
 *   requeue fail archive drop   crash in each run; so is their policy
 */
#ifndef TESTS_FAULT_LIB_CRASH_H
#define TESTS_FAULT_LIB_CRASH_H

#include "lib_fault.h"

#include <pthread.h>

#define CRASH_LOOP_MS 100 /* the timeout of tasks that loop */
#define CRASH_TASKS_MAX 65536

struct crash_way {
    const char *name;
    const char *words[3]; /* all in the error text of a run that has died so; NULL: no more */
    bool is_long;         /* its own last words may be cut away, or there are none */
};
extern const struct crash_way crash_ways[];
#define CRASH_WAY_COUNT 8
#define CRASH_LOOP 6 /* its runs end by their timeout, so no policy of crashes counts */

struct crash_task {
    const char *type;
    size_t way;
    uint32_t starts;
    uint32_t ends;
    int64_t start_at_ns;   /* the first */
    int64_t applied_at_ns; /* when the outcome of its first run was stored */
};

struct crash {
    struct fault_site site;
    quern_client *client;
    quern_inspector *inspector;
    quern_zygote *zygote;
    quern_worker *worker;
    pthread_t thread;
    quern_status status; /* of the worker */
    quern_error error;
    quern_worker_stats stats; /* at its end */
    struct crash_task tasks[CRASH_TASKS_MAX];
};

struct crash *crash_open(uint32_t concurrency);
/* Ends the worker, which must end well, and reads the records. */
void crash_end(struct crash *crash);
void crash_close(struct crash *crash);

/* Enqueues a task; the number of it. */
size_t crash_put(struct crash *crash, const char *type, size_t way);
void crash_put_steady(struct crash *crash, size_t count);
quern_queue_info crash_queue(struct crash *crash);

/* The zygote. */
int crash_serve(int argc, char **argv);
#define CRASH_MAIN(group_name, tests)                                                              \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const struct test_role roles[] = {{.name = "crash", .main = crash_serve}};          \
        const struct test_group group = {(group_name), (tests), TEST_COUNT(tests), roles,          \
                                         TEST_COUNT(roles)};                                       \
        return test_main_over_brokers(argc, argv, &group);                                         \
    }

#endif
