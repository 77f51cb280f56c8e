/* SPDX-License-Identifier: MIT */
/* lib_fault.h - a worker program to be killed, whose handler records its actions in a journal
 * (lib_journal.h), and the checks of that journal. */
#ifndef TESTS_FAULT_LIB_FAULT_H
#define TESTS_FAULT_LIB_FAULT_H

#include "lib_journal.h"
#include "lib_store.h"

#include "quern/quern.h"

#define FAULT_LOST_MAX 1024

struct fault_site {
    struct test_store store;
    const char *url;
    char journal[256];
    size_t task_count;
    int64_t lease_ms;         /* of the workers; 0: the library's default */
    int lost[FAULT_LOST_MAX]; /* processes whose runs may have to be repeated */
    size_t lost_count;
};

void fault_site_open(struct fault_site *site);
/* wall_ms: the time of the broker's own clock, as of test_store_open. */
void fault_site_open_at(struct fault_site *site, int64_t wall_ms);
void fault_site_close(struct fault_site *site);
/* Enqueues tasks first .. first + count - 1 of type `type` with the public client; they are kept
 * when completed. */
void fault_enqueue(struct fault_site *site, const char *type, size_t count);

/* The role "worker": argv: URL, journal, concurrency, "drain" or "stay", lease. Runs a quern worker
 * that knows the types "steady" (rests up to 3 ms), "poison" (kills its own process) and "held"
 * (its first run lasts until fault_release). It ends when its parent sends anything. */
int fault_worker(int argc, char **argv);
#define FAULT_ROLES                                                                                \
    {                                                                                              \
        {                                                                                          \
            .name = "worker", .main = fault_worker                                                 \
        }                                                                                          \
    }
struct test_child fault_spawn_worker(const struct fault_site *site, const char *concurrency,
                                     const char *mode);

/* As /proc has it. */
pid_t fault_parent_of(pid_t pid);
/* For worker programs of other tests: runs a worker with these options (on_log is filled in) until
 * the parent sends anything. Exit code. */
int fault_serve(const char *url, const quern_mux *mux, const quern_worker_options *options);

/* Lets the held runs end, or makes the next ones wait again. */
void fault_release(const struct fault_site *site, bool release);

/* SIGKILL; from now on its runs may be repeated. */
void fault_kill(struct fault_site *site, struct test_child *child);
/* Notes that the runs of this process may be repeated, however it was lost. */
void fault_lose(struct fault_site *site, pid_t pid);

size_t fault_journal_size(const struct fault_site *site); /* records so far */
void fault_wait_records(const struct fault_site *site, size_t count);
/* Reads the whole journal; freed by the caller. */
struct fault_record *fault_journal_read(const struct fault_site *site, size_t *ret_count);

/* Asserts for the whole journal: fences of a task strictly grow, each start after its first has a
 * cause and follows a run of a process that was lost, and each task has ended at least once unless
 * it is `poison` (SIZE_MAX: none). Returns the number of extra starts. */
size_t fault_journal_judge(const struct fault_site *site, size_t poison);
/* The same; a task that `excused` names need not have ended. */
size_t fault_journal_judge_but(const struct fault_site *site,
                               bool (*excused)(uint64_t task, const void *user), const void *user);
/* Asserts the queue's end: this many completed and archived, no others left, matching counters, and
 * no violated invariant. */
void fault_assert_end(const struct fault_site *site, uint64_t completed, uint64_t archived);

#endif
