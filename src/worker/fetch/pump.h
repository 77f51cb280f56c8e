/* SPDX-License-Identifier: MIT */
/* pump.h - the thread that fetches runs, and the state that it shares with the second pump. */
#ifndef QN_WORKER_FETCH_PUMP_H
#define QN_WORKER_FETCH_PUMP_H

#include <pthread.h>

#include "task/choice.h"
#include "task/limits.h"
#include "worker/backoff.h"
#include "worker/fetch/leftover.h"
#include "worker/fetch/prefetch.h"
#include "worker/fetch/request.h"
#include "worker/fetch/solo.h"
#include "worker/fetch/unknown.h"
#include "worker/liveness/beats.h"

struct qn_pump {
    pthread_mutex_t step_mutex;        /* held for a step of the pump, on whichever thread */
    enum qn_beat stepper;              /* that thread; guarded by step_mutex */
    pthread_mutex_t plan_mutex;        /* guards all below */
    struct qn_exchange_request first;  /* the pump's own */
    struct qn_exchange_request second; /* the second pump's, see second_pump.c */
    struct qn_leftovers leftovers;     /* of both */
    /* Leased, but there was no memory for a run: given back by the next exchange. */
    struct qn_leased *unplaced[QN_EXCHANGES_MAX * QN_BATCH_MAX];
    size_t unplaced_count;
    struct qn_choice choice;
    struct qn_prefetch prefetch;
    struct qn_unknown unknown;
    struct qn_backoff backoff;         /* of exchange, arm and drained */
    int64_t drained_since_mono_ns;     /* the broker has said so since then; 0: it has not */
    struct qn_backoff forward_backoff; /* of forward: the others need not wait for it */
    struct qn_backoff second_backoff;  /* of the second pump: how long it stays away */
    struct qn_solo_state solo;
    bool plenty;                /* the latest look found all it had room for, and that was much */
    bool armed;                 /* since the last exchange that had room */
    uint32_t room_max;          /* runs that one exchange may ask for */
    uint32_t ahead;             /* how many of the latest types may be prefetched */
    bool is_fast;               /* a batch of them is over at once: so are a thousand */
    uint64_t leased_count;      /* runs, of all exchanges */
    uint32_t fruitless;         /* times in a row that arm saw work and exchange found none */
    int64_t armed_at_mono_ns;   /* when arm was last called */
    int64_t look_at_mono_ns;    /* after a fruitless look: when to look again; 0: not */
    int64_t wait_until_mono_ns; /* when a probe or a solo task may be leased; 0: none waits */
    int64_t starts_at_mono_ns;  /* when there was last a free slot to lease for */
    int64_t no_ahead_until_mono_ns; /* runs had to be given back: do not fetch ahead until then */
    int64_t forwarded_at_mono_ns;   /* when forward was last called */
    int64_t due_known_at_mono_ns;   /* up to when next_due_at_ms was known to be true */
    int64_t log_at_mono_ns;         /* when to log the tasks that a drain waits for; 0: it does not
                                     * wait */
    int64_t next_due_at_ms;         /* wall clock; INT64_MAX: none known */
};

/* After the options, the log and the backoffs of the worker. */
QUERN_NODISCARD quern_status qn_pump_init(struct quern_worker *worker, quern_error *err);
/* Also where init failed or was never called. */
void qn_pump_finish(struct quern_worker *worker);
void *qn_pump_main(void *worker);
/* Does one step of the pump for it if it sleeps. False: it found nothing to fetch. Any thread. */
bool qn_pump_help(struct quern_worker *worker);

#endif
