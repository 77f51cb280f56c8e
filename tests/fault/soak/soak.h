/* SPDX-License-Identifier: MIT */
/* soak.h - common to the parts of the soak test: all planted faults with their times, so that the
 * judge can match extra starts with them. */
#ifndef TESTS_FAULT_SOAK_H
#define TESTS_FAULT_SOAK_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib_fault.h"

/* A run that failed on request; follows enum fault_kind. */
#define SOAK_FAILED 3

#define SOAK_LEASE_MS 5000
/* Extended each third of it: a process that is stopped for longer than this may lose a lease. */
#define SOAK_CARELESS_MS (SOAK_LEASE_MS / 2)
#define SOAK_TASKS_MAX ((size_t)1 << 20)

/* The wall clock of the workers and, if `ours`, of this process; its file is beside the records. */
void soak_clock_open(const char *journal, bool ours);
void soak_clock_close(void);
void soak_clock_jump(int64_t ms); /* so far from the real one; 0: back */

/* The client. */
struct soak_feeder {
    const char *url;
    pthread_t thread;
    _Atomic bool feeding;
    _Atomic size_t stored; /* tasks 0 .. stored - 1 are known to be there */
};
void soak_feed_start(struct soak_feeder *feeder, const char *url);
void soak_feed_stop(struct soak_feeder *feeder);

/* The role of the workers: argv: URL, journal, "prefork" or "threads". */
int soak_worker(int argc, char **argv);
/* A process of that name ("quern-zygote", "quern-child") below a worker with a pool of children;
 * any of them, by `dice`. 0: there is none, or the kernel does not name children. */
int soak_find_below(int worker, const char *name, uint64_t dice);

/* Something that explains extra starts. All moments are real, monotonic. */
struct soak_event {
    enum {
        SOAK_LOST,     /* the process was killed, or ended on its own; its pid may be reused */
        SOAK_STOPPED,  /* it was stopped for longer than its lease lasts without an extension */
        SOAK_TURNED,   /* the server's clock jumped: all its leases have expired */
        SOAK_HINDERED, /* it was stopped, or the server for all: too long a stop loses a lease */
        SOAK_CHILD     /* one of its children was killed, which explains one run that had it */
    } kind;
    int pid; /* 0: all */
    int64_t from_ms;
    int64_t until_ms;
};

struct soak_times {
    int64_t *ms;
    size_t count;
    size_t room;
};

#define SOAK_CHARGES 3

struct soak_journal {
    const struct fault_record *records;
    size_t count;
    const struct soak_event *events;
    size_t event_count;
    size_t task_count;
};

struct soak_verdict {
    size_t unexplained;
    size_t extra; /* starts after the first of a task */
    size_t child; /* those of them whose cause is the death of a child */
    size_t ended; /* tasks */
    /* A worker died: until each of its runs ran again; by the charges of the task: 1, 2, more. */
    struct soak_times worker[SOAK_CHARGES];
};

/* At the end. */
struct soak_remainder {
    uint64_t size; /* of all queues, whatever their state */
    uint64_t archived;
    uint64_t open; /* neither archived nor completed */
};
struct soak_remainder soak_read_remainder(const char *url);
/* Prints the first few that are neither done nor archived, and where they are. */
void soak_show_stuck(const char *url);
/* Counts violated invariants, and tasks 0 .. stored - 1 that never ended (ends: as of soak_judge)
 * but are completed, or archived for another reason than our kills. */
size_t soak_check(const char *url, const bool *ends, size_t stored);

void soak_note_ms(struct soak_times *times, int64_t ms);
/* Prints p50, p99 and the greatest, and forgets them. */
void soak_print_times(const char *what, struct soak_times *times);
/* ends: by task, whether it has ended well; of task_count entries. */
void soak_judge(const struct soak_journal *journal, bool *ends, struct soak_verdict *ret_verdict);

#endif
