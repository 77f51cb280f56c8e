/* SPDX-License-Identifier: MIT */
/* internal.h - what a worker is inside, shared by the files of this folder.
 *
 * Locks, always taken in this order: turn_mutex (who holds it is the pump), plan_mutex (what the
 * pump and the second pump share; free while an exchange is under way), mutex (the books and all
 * flags), then the pool's own. The broker is never called with `mutex` held. */
#ifndef QN_WORKER_INTERNAL_H
#define QN_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/cond.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/owner.h"
#include "message/id.h"
#include "pool/pool.h"
#include "quern/worker.h"
#include "task/choice.h"
#include "task/limits.h"
#include "worker/backoff.h"
#include "worker/fetch/prefetch.h"
#include "worker/fetch/solo.h"
#include "worker/fetch/unknown.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"
#include "worker/run/run_table.h"
#include "worker/run/shortage.h"

#define QN_NS_PER_MS INT64_C(1000000)

static inline int64_t qn_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum qn_worker_state { QN_WORKER_NEW, QN_WORKER_RUNNING, QN_WORKER_DRAINING, QN_WORKER_STOPPED };

/* One exchange with the broker. It stays open, and is sent again as it is, until it is answered. */
struct qn_turn {
    bool open;
    bool in_doubt;           /* it may have taken effect: not a word of it may change */
    bool looks;              /* it was built because there may be something to fetch */
    bool in_flight;          /* the broker is being asked; guarded by mutex, too */
    bool sent_again;         /* while it was in doubt */
    int64_t sent_at_boot_ms; /* when it was sent first: no lease of it is older */
    struct qn_stamp stamp;   /* of the latest exchange: a session for each turn */
    struct qn_exchange exchange;
    struct qn_exchange_reply reply;
    struct quern_run *ended[QN_BATCH_MAX];    /* one per outcome; NULL: see the next */
    struct qn_leased *returned[QN_BATCH_MAX]; /* a lease that never became a run; owned */
    struct qn_outcome outcomes[QN_BATCH_MAX];
    enum qn_applied applied[QN_BATCH_MAX];
    struct quern_run *starting[QN_BATCH_MAX];
    const struct qn_leased *starts[QN_BATCH_MAX];
    struct qn_leased *leased[QN_BATCH_MAX];
    uint16_t order[QN_BATCH_MAX];  /* the drawn queue of each slot */
    struct qn_queue_share *queues; /* queue_count entries, as the next three */
    uint32_t *quota;
    uint32_t *taken;
    struct qn_list *drawn; /* the new runs of each queue */
};

/* Guarded by plan_mutex. */
struct qn_pump {
    struct qn_turn first;  /* the pump's own */
    struct qn_turn second; /* the second pump's, see second_pump.c */
    /* Leased, but memory for a run was out: given back by the next exchange. */
    struct qn_leased *unplaced[QN_EXCHANGES_MAX * QN_BATCH_MAX];
    size_t unplaced_count;
    struct qn_choice choice;
    struct qn_fetch fetch;
    struct qn_unknown unknown;
    struct qn_outage outage;         /* of exchange, arm and drained */
    struct qn_outage forward_outage; /* of forward: others need not wait for it */
    struct qn_outage second_outage;  /* of the second pump: how long it stays away */
    struct qn_solo_state solo;
    bool plenty;                /* the latest look found all it had room for, and that was much */
    bool armed;                 /* since the last exchange that had room */
    uint32_t ahead;             /* how many of the types seen last may be fetched ahead */
    uint64_t leased_count;      /* runs, of all exchanges */
    uint32_t fruitless;         /* times in a row that arm saw work and exchange found none */
    int64_t armed_at_mono_ns;   /* when arm was last called */
    int64_t look_at_mono_ns;    /* after a fruitless look: when to look again; 0: not */
    int64_t wait_until_mono_ns; /* when a probe or a solo task may be leased; 0: none waits */
    int64_t starts_at_mono_ns;  /* when there was last a free slot to lease for */
    int64_t no_ahead_until_mono_ns; /* runs had to be taken back: do not fetch ahead until then */
    int64_t forwarded_at_mono_ns;   /* when forward was last called */
    int64_t due_known_at_mono_ns;   /* up to when next_due_at_ms was known to be true */
    int64_t tell_at_mono_ns;        /* when to say what a drain waits for; 0: it does not wait */
    int64_t next_due_at_ms;         /* wall clock; INT64_MAX: none known */
};

/* What the keeper knows of the groups of a queue. */
struct qn_group_note {
    uint64_t tasks;
    uint64_t groups;
    bool told;
};

struct quern_worker {
    /* Constant after quern_worker_new. */
    struct qn_broker *broker; /* NULL until it is there, see begin.c */
    char *url;                /* while it is not; owned */
    const quern_mux *mux;
    const struct quern_clock *clock;
    quern_worker_options options; /* defaults filled in; its queues are our copy */
    size_t queue_count;
    const char **queue_names;
    struct qn_queue_share *queue_shares; /* for the heartbeat */
    bool queue_found[QN_QUEUES_MAX];     /* it existed when the worker was made */
    bool queues_known;                   /* else the broker could not say that */
    char *queues_text;                   /* "critical=6 default=3" */
    int64_t opener_pid;
    int64_t started_at_ms;
    char id[QN_ID_TEXT_SIZE];
    char owner[QN_OWNER_SIZE];
    char host[QN_NAME_SIZE_MAX + 1];
    bool shares_process; /* handlers run in it: one may end it and all others */
    int bell;            /* eventfd: something for the thread in quern_worker_run */

    struct qn_pool *pool; /* from run on; NULL when it was stopped */
    struct qn_log log;
    struct qn_outages outages;
    _Atomic int stops; /* calls of quern_worker_stop */
    _Atomic bool quiet;
    _Atomic bool log_runs; /* asked for by quern_worker_log_runs */

    pthread_mutex_t turn_mutex; /* a step of the pump, on whichever thread */
    pthread_mutex_t plan_mutex; /* guards pump and everything in it */
    struct qn_pump pump;

    struct qn_group_note *group_notes; /* the keeper's; per queue */
    uint32_t gone_looks;               /* the keeper's: looks in a row that found no data */

    pthread_mutex_t ack_mutex; /* guards ack_stamp: early acks go one by one */
    struct qn_stamp ack_stamp;

    pthread_mutex_t mutex;        /* guards all below */
    pthread_cond_t pump_cond;     /* the pump sleeps here, on CLOCK_MONOTONIC as the next */
    pthread_cond_t second_cond;   /* the second pump sleeps here */
    pthread_cond_t keeper_cond;   /* the keeper sleeps here */
    pthread_cond_t holder_cond;   /* the holder of the leases sleeps here */
    pthread_cond_t listener_cond; /* the listener waits here after an error */
    enum qn_worker_state state;
    struct qn_books books;
    quern_worker_stats stats;
    quern_error lost;        /* why it has to end; code QUERN_OK: it has not */
    struct qn_random random; /* for retry delays */
    struct qn_shortage shortage;
    bool *paused;       /* per queue: what the last exchange said */
    bool *queue_braked; /* the same: on this host */
    bool look;          /* there may be something to fetch */
    bool owes;          /* there may be leases of ours that are not in the books */
    bool braked;        /* all of its queues are */
    bool clearing;      /* nothing starts: a task that must be alone comes next */
    bool pump_asleep;
    bool pump_awaits; /* asleep until the second exchange is back or enough is there for one */
    bool pump_poked;
    bool second_asleep;
    bool second_poked;
    bool keeper_poked;
    bool holder_poked;
    bool announce_due;            /* the status changed */
    int64_t pump_until_mono_ns;   /* until when the pump sleeps */
    int64_t keeper_until_mono_ns; /* until when the keeper sleeps */
    int64_t due_known_at_mono_ns; /* when the pump last asked which task is due next */
    uint64_t extend_round;        /* the holder's: counts its extensions */
};

/* options.c */
QUERN_NODISCARD quern_status qn_worker_options_read(struct quern_worker *worker, const char *url,
                                                    const quern_worker_options *options,
                                                    size_t options_size, quern_error *err);
void qn_worker_options_finish(struct quern_worker *worker);

/* execute.c: on pool threads */
extern const struct qn_run_sink qn_worker_sink;
void qn_execute(struct qn_pool_item *item);

/* verdict.c */
/* What a handler that returned means. On its thread; may call the user's retry_delay_ms. */
void qn_verdict_judge(struct quern_worker *worker, struct quern_run *run,
                      struct qn_verdict *ret_verdict);
/* What becomes of a run whose handler is given up, or never started: by its cancel reason. With
 * mutex held, but for a run that is to be given back. */
void qn_verdict_interrupt(struct quern_worker *worker, struct quern_run *run,
                          enum qn_cancel_reason reason, struct qn_verdict *ret_verdict);
/* With mutex held, before it goes into the books: what a lost lease or an early ack, which may have
 * come while the verdict was made, leaves of it. */
void qn_verdict_revise(const struct quern_run *run, struct qn_verdict *verdict);

/* ack_early.c: true when done is confirmed; else the run must not start. */
bool qn_ack_early(struct quern_worker *worker, struct quern_run *run);

/* report.c */
/* Logs what a command wrote: that some was dropped, and stderr where that was asked for. */
void qn_report_output(struct quern_worker *worker, const struct quern_run *run);
/* With mutex held: counts an outcome. */
void qn_report_count(struct quern_worker *worker, const struct quern_run *run,
                     enum qn_applied applied);
/* Without: logs it and calls on_run. */
void qn_report_run(struct quern_worker *worker, const struct quern_run *run,
                   enum qn_applied applied);

/* qn_exchange.on_unusable; user: the worker. Logs and counts it. */
void qn_report_unusable(const struct qn_unusable *unusable, void *user);

/* request.c, response.c: with plan_mutex held */
QUERN_NODISCARD quern_status qn_turns_init(struct quern_worker *worker, quern_error *err);
void qn_turns_finish(struct quern_worker *worker);
/* Fills the next exchange; leaves it closed when there is nothing to say and nothing to fetch. */
void qn_turn_build(struct quern_worker *worker, struct qn_turn *turn, int64_t now_mono_ns);
/* Sends it on this channel, without plan_mutex meanwhile, and takes in the answer. */
QUERN_NODISCARD quern_status qn_turn_exchange(struct quern_worker *worker, struct qn_turn *turn,
                                              uint32_t channel, quern_error *err);
/* How many runs fit now beyond those in the pool and those that the other turn has asked for;
 * *ret_free: how many of them start at once. With mutex held, too. */
uint32_t qn_turn_room(struct quern_worker *worker, const struct qn_turn *turn, int64_t now_mono_ns,
                      uint32_t *ret_free);
/* Whether an exchange beside the other turn's would be a full one. With mutex held, too. */
bool qn_turn_is_worth_it(struct quern_worker *worker, const struct qn_turn *turn,
                         int64_t now_mono_ns);

/* give_back.c: with mutex held */
/* Cancels a held run, wherever it is. */
void qn_worker_cancel_run(struct quern_worker *worker, struct quern_run *run,
                          enum qn_cancel_reason reason);
/* Takes back runs that wait too long, whose queue is paused, or all when the worker drains.
 * Returns how many waited too long. */
size_t qn_take_back_waiting(struct quern_worker *worker, int64_t now_mono_ns);
/* Takes this run out of the pool if it has not started, and finishes it with this reason. */
void qn_take_back_run(struct quern_worker *worker, struct quern_run *run,
                      enum qn_cancel_reason reason);

/* drain.c: with turn_mutex held, while a draining worker has nothing to do and must not end */
void qn_drain_tell(struct quern_worker *worker, int64_t now_mono_ns);

/* pump.c */
void *qn_pump_main(void *worker);
/* Does one step of the pump for it if it sleeps. False: in vain, there was nothing to be had. Any
 * thread. */
bool qn_pump_help(struct quern_worker *worker);
/* With mutex held: makes a sleeping pump look again. */
void qn_pump_poke(struct quern_worker *worker);
/* The same after a run was finished; while an exchange is under way many have to be. */
void qn_pump_note_finished(struct quern_worker *worker);

/* second_pump.c */
void *qn_second_main(void *worker);
/* With mutex held: there may be enough for a second exchange. */
void qn_second_poke(struct quern_worker *worker);

/* begin.c */
/* Opens the broker, or keeps the URL when that may work a moment later. */
QUERN_NODISCARD quern_status qn_worker_open(struct quern_worker *worker, const char *url,
                                            quern_error *err);
/* Waits until the broker is there and has this worker's record. *ret_stopped: somebody stopped it
 * meanwhile. */
QUERN_NODISCARD quern_status qn_worker_begin(struct quern_worker *worker, bool *ret_stopped,
                                             quern_error *err);
void qn_worker_forget_url(struct quern_worker *worker);
/* While it begins and ends, waiting for locks of other processes must be short. */
void qn_worker_hurry(struct quern_worker *worker, bool hurry);

/* lost.c */
/* Ends the worker when its data are gone for good; always QUERN_OK. */
QUERN_NODISCARD quern_status qn_keeper_check_place(struct quern_worker *worker, quern_error *err);
/* Whether it ends for that; err says why. */
bool qn_worker_is_lost(struct quern_worker *worker, quern_error *err);

/* holder.c, leases.c */
void *qn_holder_main(void *worker);
/* Prolongs the leases of all held runs. One thread. */
QUERN_NODISCARD quern_status qn_leases_extend(struct quern_worker *worker, quern_error *err);

/* worker.c: returns a reference of each; without mutex. */
void qn_worker_release_runs(struct quern_worker *worker, struct quern_run *const *runs,
                            size_t count);

/* keeper.c, upkeep.c, timeouts.c */
void *qn_keeper_main(void *worker);
/* With mutex held: makes the keeper look at its timers again. */
void qn_keeper_poke(struct quern_worker *worker);
QUERN_NODISCARD quern_status qn_keeper_heartbeat(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_keeper_recover(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_keeper_forward(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_keeper_prune(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_keeper_warn_groups(struct quern_worker *worker, quern_error *err);
/* Cancels runs past their time and gives up those that ignore it; returns when to look again. */
int64_t qn_keeper_watch(struct quern_worker *worker, int64_t now_mono_ns);

/* served.c */
/* QUERN_E_INVALID: a name reads like a list or a pattern, and there is no queue of that name. */
QUERN_NODISCARD quern_status qn_worker_check_queues(struct quern_worker *worker, quern_error *err);
/* Logs which of its queues do not exist yet. */
void qn_worker_tell_queues(struct quern_worker *worker);

/* listener.c */
void *qn_listener_main(void *worker);

/* steer.c */
/* Logs what runs, if somebody has asked for it since. */
void qn_steer_log_runs(struct quern_worker *worker);
/* Until quern_worker_stop; QUERN_E_STATE: no slot was left for too long. */
QUERN_NODISCARD quern_status qn_steer_until_stopped(struct quern_worker *worker, quern_error *err);
/* Handlers that ignore their cancellation and still hold a thread. */
size_t qn_worker_hung(struct quern_worker *worker);
/* With mutex held: they hold all slots. */
bool qn_worker_is_stuck(const struct quern_worker *worker);

/* steer.c, shutdown.c */
void qn_worker_ring(struct quern_worker *worker); /* async-signal-safe */
/* With mutex held, after runs ended or left the books: a shutdown may be waiting for the last. */
void qn_worker_note_settled(struct quern_worker *worker);
/* Drains: returns when every run is settled or given up. */
void qn_worker_shut_down(struct quern_worker *worker);
/* Logs what the broker has not been told, once nobody tries any more. */
void qn_worker_tell_untold(struct quern_worker *worker);
/* Waits for the bell, at most this long (-1: for ever). */
void qn_worker_wait_bell(struct quern_worker *worker, int64_t timeout_ms);

#endif
