/* SPDX-License-Identifier: MIT */
/* backoff.h - what the threads of a worker do while the broker does not answer.
 *
 * Each of them has a backoff of its own (full jitter, see base/pace.h). All backoffs of a worker
 * form a group, because an outage is one for the process: one line in the log when it begins, one
 * that says why there is no connection if it began with the loss of one, one when it turns out that
 * the broker refuses us, one a minute, one when it ends. The first thread that gets an answer again
 * ends the waiting of all others, so that each uses the broker at once when it is back. */
#ifndef QN_WORKER_BACKOFF_H
#define QN_WORKER_BACKOFF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/pace.h"
#include "base/random.h"

struct qn_backoff_group;

/* Fails and ends on one thread at a time; the atomics are read by all. */
struct qn_backoff {
    struct qn_backoff_group *group;
    struct qn_backoff *next; /* guarded by the mutex of the group, as all down to the atomics */
    struct qn_random random;
    uint32_t failures;          /* in a row */
    quern_error error;          /* of the latest */
    int64_t same_since_mono_ns; /* it has failed with this status since */
    uint32_t same_count;        /* this many times */
    bool is_lazy;               /* it may not try again for long: the outage can end without it */
    bool is_witness;            /* calls often: its answers show that the broker is there */
    _Atomic int64_t since_mono_ns;    /* 0: its latest call worked */
    _Atomic int refusal;              /* see qn_backoff_refusal */
    _Atomic int64_t retry_at_mono_ns; /* 0: at once, another thread got an answer */
};

struct qn_backoff_group {
    pthread_mutex_t mutex; /* guards the rest; not held while a callback runs */
    struct qn_log *log;
    struct qn_pace pace;      /* all zero: the usual one; set before the first failure */
    void (*wake)(void *user); /* the broker answers again: waiting threads may try */
    void *user;
    struct qn_backoff *members;
    int64_t since_mono_ns; /* of the outage; 0: none */
    int64_t logged_mono_ns;
    int64_t failed_mono_ns; /* the latest failure */
    uint32_t failures;
    bool refused;        /* in this outage the broker has refused the login or a command */
    bool is_unexplained; /* it began with a lost connection, and none was refused since */
    int64_t witnessed_since_mono_ns;     /* witnesses get answers, and none failed; 0: not so */
    _Atomic int64_t answered_at_mono_ns; /* the latest answer to any member; 0: none yet */
    _Atomic uint64_t failed_total;       /* calls, for metrics */
    _Atomic uint64_t returned_total;     /* outages that have ended */
};

void qn_backoff_group_init(struct qn_backoff_group *group, struct qn_log *log,
                           void (*wake)(void *user), void *user);
void qn_backoff_group_finish(struct qn_backoff_group *group);

/* A member of the group from now on, until finish. A member that leaves while it fails neither
 * logs an end nor makes the next failure another outage; else each thread of a worker that ends
 * would log one. */
void qn_backoff_init(struct qn_backoff *backoff, struct qn_backoff_group *group);
void qn_backoff_finish(struct qn_backoff *backoff);
/* A call failed: sets retry_at_mono_ns. */
void qn_backoff_fail(struct qn_backoff *backoff, const quern_error *error);
/* A call worked. */
void qn_backoff_end(struct qn_backoff *backoff);
/* Whether its calls have failed with this status only, for this long and more than twice; err: the
 * latest. Any thread. */
bool qn_backoff_lasts(struct qn_backoff *backoff, quern_status status, int64_t ms,
                      quern_error *err);
/* Whether its calls have failed as often in a row as the pace allows; err: the latest, as
 * QUERN_E_CONNECT where no answer came. Any thread. */
bool qn_backoff_has_tried(struct qn_backoff *backoff, quern_error *err);
/* QUERN_E_DENIED, QUERN_E_BROKER: the broker has refused more than two calls in a row: it is there,
 * but does not let this user in, or do that. QUERN_OK: not so. Any thread. */
quern_status qn_backoff_refusal(const struct qn_backoff *backoff);
/* Whether it alone has had no answer for this long, while the broker answered all witnesses. Not
 * where the broker refuses what it asks: that is an answer. Any thread. */
bool qn_backoff_is_alone(struct qn_backoff *backoff, int64_t ms);

#endif
