/* SPDX-License-Identifier: MIT */
/* signals.h - how the threads of a worker wake each other.
 *
 * Each thread sleeps at a condition of its own, with the worker's mutex. The thread that called
 * quern_worker_run sleeps at wake_fd, because signal handlers can write to a descriptor. All other
 * files of the worker are above this one. */
#ifndef QN_WORKER_SIGNALS_H
#define QN_WORKER_SIGNALS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "quern/status.h"

struct quern_worker;

/* The conditions are on CLOCK_MONOTONIC. What follows them is guarded by the worker's mutex. */
struct qn_signals {
    int wake_fd; /* eventfd; -1: not open */
    pthread_cond_t pump_cond;
    pthread_cond_t second_cond;
    pthread_cond_t keeper_cond;
    pthread_cond_t leases_cond;
    pthread_cond_t listener_cond; /* the listener waits here after an error */
    bool pump_asleep;
    bool pump_awaits; /* asleep until the second exchange is back or enough is there for one */
    bool pump_signalled;
    bool second_asleep;
    bool second_signalled;
    bool keeper_signalled;
    bool leases_signalled;
    int64_t pump_until_mono_ns;   /* until when the pump sleeps */
    int64_t keeper_until_mono_ns; /* until when the keeper sleeps; INT64_MAX: it is awake */
};

void qn_signals_init(struct qn_signals *signals);
QUERN_NODISCARD quern_status qn_signals_open(struct qn_signals *signals, quern_error *err);
void qn_signals_finish(struct qn_signals *signals);

/* Wakes the thread of quern_worker_run. Any thread, and signal handlers. */
void qn_signals_wake_main(struct quern_worker *worker);
/* Returns when that thread was woken, or after this time (-1: never). */
void qn_signals_wait_main(struct quern_worker *worker, int64_t timeout_ms);

/* The rest with the worker's mutex held. */

/* Makes a sleeping pump look again. */
void qn_signals_wake_pump(struct quern_worker *worker);
/* There may be enough for a second exchange. */
void qn_signals_wake_second(struct quern_worker *worker);
/* Makes the keeper check its timers again. */
void qn_signals_wake_keeper(struct quern_worker *worker);
/* Wakes all threads but the pool's and that of quern_worker_run. */
void qn_signals_wake_all(struct quern_worker *worker);
/* A run was finished: wakes the pumps if they are to send its outcome now. While an exchange is in
 * flight they wait for many. */
void qn_signals_run_finished(struct quern_worker *worker);
/* Runs ended, or left the run table: a shutdown may be waiting for the last. */
void qn_signals_run_settled(struct quern_worker *worker);

#endif
