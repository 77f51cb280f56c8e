/* SPDX-License-Identifier: MIT */
/* lib_deaths.h - workers that die and are started again at once, as by a supervisor, their records
 * (lib_fault.h), and queries on them.
 *
 * Tasks are numbered from 0 and have one of these types:
 *
 *   good     rests 10 ms
 *   second   rests 1 s
 *   fatal    its handler kills the worker
 *   command  is a command that kills itself
 *   parent   is a command that kills its worker
 *   rest     is a command that rests 200 ms
 *   nap      rests 200 ms
 *   orphan   its handler, in a prefork child, kills its parent: the guard of its process group
 *   heir     the same for its grandparent, the zygote
 *   usurper  the same for the worker
 *   despot   the same for all three
 *   twice    is a command that kills itself two times; the third time it lasts until deaths_release
 *   deploy   a good one, but kills the worker on a host that is broken (deaths_break)
 *
 * Two hosts on one machine: the workers' gethostname returns a name that the test sets. */
#ifndef TESTS_FAULT_LIB_DEATHS_H
#define TESTS_FAULT_LIB_DEATHS_H

#include "lib_fault.h"

struct quern_clock;

#define DEATHS_MEMBERS_MAX 12
#define DEATHS_TASKS_MAX 16384

struct deaths_member {
    const char *host;
    const char *queues; /* "a" or "a,b" */
    unsigned concurrency;
    bool prefork; /* handlers run in children */
    struct test_child child;
    size_t died; /* times */
    size_t fell; /* of these, when its zygote was lost, and it ended with an error */
};

struct deaths_task {
    const char *type;
    const char *queue;
    int64_t put_at_ms;   /* when enqueue had returned; real, monotonic, as all below */
    int64_t first_at_ms; /* 0: not yet; its first start */
    int64_t last_at_ms;  /* its last start */
    int64_t end_at_ms;   /* its first end */
    uint32_t starts;
    uint32_t ends;
};

struct deaths {
    struct fault_site site;
    quern_client *client;
    quern_inspector *inspector;
    struct quern_clock *clock; /* of all workers, in a shared file; NULL: the system's */
    unsigned pace;             /* so much faster it goes */
    int64_t turned_at_ms;      /* real */
    int64_t passed_ms;         /* turned */
    struct deaths_member members[DEATHS_MEMBERS_MAX];
    size_t member_count;
    size_t died; /* workers, of all members */
    int journal;
    int64_t journal_offset;
    struct deaths_task tasks[DEATHS_TASKS_MAX];
};

/* pace: 0 for the real time, else a clock that runs this much faster, for workers and broker. */
struct deaths *deaths_open(unsigned pace);
/* Ends the workers, which must end well, and checks the records and the queues: fences, causes,
 * every task ended but those that are to die; no invariant is violated. */
void deaths_close(struct deaths *deaths);

/* Enqueues tasks; the number of the first. */
size_t deaths_put(struct deaths *deaths, const char *queue, const char *type, size_t count);
void deaths_add(struct deaths *deaths, const struct deaths_member *member);
/* SIGKILL; it is started again by the next step. */
void deaths_kill(struct deaths *deaths, size_t member);
void deaths_break(struct deaths *deaths, const char *host, bool broken);
/* Lets commands of the type "twice" end; how many of these are running for the third time. */
void deaths_release(struct deaths *deaths);
size_t deaths_held(struct deaths *deaths);

/* Restarts dead workers, reads records, advances turned time. Takes a millisecond. */
void deaths_step(struct deaths *deaths);
/* Steps until the condition holds, for at most this many ms of real time; returns whether it
 * holds. */
bool deaths_until(struct deaths *deaths, bool (*condition)(struct deaths *deaths, void *user),
                  void *user, int64_t within_ms);

/* How many tasks of this type (NULL: any) were put into this queue (NULL: any), and how many of
 * them have ended. */
size_t deaths_count(const struct deaths *deaths, const char *queue, const char *type);
size_t deaths_ended(const struct deaths *deaths, const char *queue, const char *type);
/* How many are archived, and of these as poison. */
size_t deaths_archived(struct deaths *deaths, const char *queue, const char *type);
size_t deaths_poisoned(struct deaths *deaths, const char *queue, const char *type);
/* How many have a death on record, wherever they are now. */
size_t deaths_charged(struct deaths *deaths, const char *queue, const char *type);
/* Of tasks [from, to): how late the given share (percent) of them first started after its put; such
 * as have not started count from now. */
int64_t deaths_late_ms(const struct deaths *deaths, size_t from, size_t to, unsigned percent);

/* The role of the workers. */
int deaths_worker(int argc, char **argv);
#define DEATHS_MAIN(group_name, tests)                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const struct test_role roles[] = {{.name = "mortal", .main = deaths_worker}};       \
        const struct test_group group = {(group_name), (tests), TEST_COUNT(tests), roles,          \
                                         TEST_COUNT(roles)};                                       \
        return test_main_over_brokers(argc, argv, &group);                                         \
    }

#endif
