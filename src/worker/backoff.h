/* SPDX-License-Identifier: MIT */
/* backoff.h - what the threads of a worker do while the broker does not answer.
 *
 * Each of them is a party with a backoff of its own (full jitter, up to a second). The outage is
 * one for the process: one line in the log when it begins, one a minute, one when it is over. The
 * first party that is answered again ends the waiting of all others, so that each thread uses the
 * broker at once when it is back. */
#ifndef QN_WORKER_BACKOFF_H
#define QN_WORKER_BACKOFF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/random.h"

struct qn_outages;

/* Fails and ends on one thread at a time; the atomics are read by all. */
struct qn_outage {
    struct qn_outages *all;
    struct qn_outage *next; /* guarded by the mutex of all, as all down to the atomics */
    struct qn_random random;
    uint32_t failures;             /* in a row */
    quern_error error;             /* of the latest */
    int64_t same_since_mono_ns;    /* it has failed with this status since */
    uint32_t same_count;           /* so often */
    bool is_lazy;                  /* it may not try again for long: nobody waits for it to end */
    _Atomic int64_t since_mono_ns; /* 0: none */
    _Atomic int64_t retry_at_mono_ns; /* 0: at once, somebody else was answered */
};

struct qn_outages {
    pthread_mutex_t mutex; /* guards the rest; never held while somebody is called */
    struct qn_log *log;
    void (*wake)(void *user); /* the broker answers again: waiting threads may try */
    void *user;
    struct qn_outage *parties;
    int64_t since_mono_ns; /* 0: none */
    int64_t told_mono_ns;
    int64_t failed_mono_ns; /* the latest failure */
    uint32_t failures;
};

void qn_outages_init(struct qn_outages *outages, struct qn_log *log, void (*wake)(void *user),
                     void *user);
void qn_outages_finish(struct qn_outages *outages);

/* A party from now on, until finish; one that leaves while it fails neither tells an end nor makes
 * the next failure another outage, or each thread of a worker that ends would tell one. */
void qn_outage_init(struct qn_outage *outage, struct qn_outages *all);
void qn_outage_finish(struct qn_outage *outage);
/* A call failed: sets retry_at_mono_ns. */
void qn_outage_fail(struct qn_outage *outage, const quern_error *error);
/* A call worked. */
void qn_outage_end(struct qn_outage *outage);
/* Whether its calls fail with this status only, for so long, more than twice; err: the latest. Any
 * thread. */
bool qn_outage_lasts(struct qn_outage *outage, quern_status status, int64_t ms, quern_error *err);

#endif
