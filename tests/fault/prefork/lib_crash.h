/* SPDX-License-Identifier: MIT */
/* lib_crash.h - a worker beside the test, whose handlers crash in eight ways (lib_ways.h), and what
 * must be told of each death. */
#ifndef TESTS_FAULT_LIB_CRASH_H
#define TESTS_FAULT_LIB_CRASH_H

#include "lib_fault.h"
#include "lib_ways.h"

#include <pthread.h>

#define CRASH_LOOP_MS 400 /* the timeout of tasks that loop; a child may get the processor late */
#define CRASH_TASKS_MAX 65536

struct crash_way {
    const char *name;
    const char *words[3]; /* all in the error text of a run that has died so; NULL: no more */
    const char *bare[2];  /* the same where the zygote has no sanitizer */
    bool is_ours;         /* no crash: the worker ends it, its text has no last words */
    bool is_report;       /* ASan's: it may have cut the last words away */
};
extern const struct crash_way crash_ways[];
#define CRASH_WAY_COUNT 8
#define CRASH_LOOP 6 /* its runs end by their timeout, so no policy of crashes counts */
#define CRASH_QUEUES_MAX 32

struct crash_task {
    const char *type;
    size_t way;
    size_t queue;
    uint32_t starts;
    uint32_t ends;
    int64_t start_at_ns;   /* the first */
    int64_t applied_at_ns; /* when the outcome of its first run was stored */
};

struct crash_setup {
    uint32_t concurrency;
    size_t queues;      /* named by their numbers, from 0; each has a brake of its own */
    bool is_bare;       /* the zygote is a program without sanitizers */
    const char *cgroup; /* this process and what it starts join it; NULL: none */
};

struct crash {
    struct fault_site site;
    quern_client *client;
    quern_inspector *inspector;
    struct crash_setup setup;
    quern_zygote *zygote;
    quern_worker *worker;
    pthread_t thread;
    quern_status status; /* of the worker */
    quern_error error;
    quern_worker_stats stats; /* at its end */
    struct crash_task tasks[CRASH_TASKS_MAX];
};

/* This process moves into a cgroup. */
void crash_join(const char *cgroup);
struct crash *crash_open(const struct crash_setup *setup);
/* Ends the worker, which must end well, and reads the records. */
void crash_end(struct crash *crash);
void crash_close(struct crash *crash);

/* Enqueues a task; the number of it. */
size_t crash_put(struct crash *crash, size_t queue, const char *type, size_t way);
/* The same with other words of its payload and with the limits and retries of this task. */
size_t crash_put_limited(struct crash *crash, const char *type, const char *words,
                         const quern_task *limits);
void crash_put_steady(struct crash *crash, size_t queue, size_t count);
/* The counts of one queue, and of all. */
quern_queue_info crash_queue(struct crash *crash, size_t queue);
quern_queue_info crash_queues(struct crash *crash);

#define CRASH_MAIN(group_name, tests)                                                              \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const struct test_role roles[] = {{.name = "crash", .main = ways_serve}};           \
        const struct test_group group = {(group_name), (tests), TEST_COUNT(tests), roles,          \
                                         TEST_COUNT(roles)};                                       \
        return test_main_over_brokers(argc, argv, &group);                                         \
    }

#endif
