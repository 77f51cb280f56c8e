/* SPDX-License-Identifier: MIT */
/* supply.h - how many children, or threads, can run something.
 *
 * A worker leases no more runs than there are children that are ready, so that none is taken back
 * only because no child could be started (no process, no descriptor, no memory, code that dies at
 * its start). The pool itself tries again and again, with pauses; no task is charged for that. It
 * is logged when it begins, each minute, and when all children are there again.
 *
 * Threads are made when a run needs one. Where the system refuses that, the run waits for another
 * one, and no more are leased than there are threads, until one can be started. */
#ifndef QN_WORKER_RUN_SUPPLY_H
#define QN_WORKER_RUN_SUPPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quern_worker;

/* Guarded by the worker's mutex. */
struct qn_supply {
    uint32_t ready; /* children */
    bool is_short;
    int64_t since_mono_ns;
    int64_t logged_at_mono_ns;
    uint64_t failed; /* starts since then */
    size_t threads;  /* all that there can be at present; 0: as many as there are slots */
};

/* Of the thread that calls qn_supply_watch_threads. */
struct qn_supply_watch {
    int64_t pause_ms; /* 0: threads can be started */
    int64_t next_at_mono_ns;
    int64_t logged_at_mono_ns; /* 0: never */
    bool is_logged;            /* but its end is not */
};

/* With mutex held: how many runs can run at a time. */
size_t qn_supply_slots(const struct quern_worker *worker);
/* So many children are ready from now on. Without the mutex. */
void qn_supply_set_ready(struct quern_worker *worker, uint32_t count);
/* A child could not be started, or ended before it was ready. Without the mutex. */
void qn_supply_note_failure(struct quern_worker *worker, int64_t pid, const char *why);

/* Starts threads that the system had refused. Returns after how many ms to call it again; -1: there
 * is no hurry. Without the mutex. */
int64_t qn_supply_watch_threads(struct quern_worker *worker, struct qn_supply_watch *watch);

#endif
