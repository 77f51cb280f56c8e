/* SPDX-License-Identifier: MIT */
/* sentinel.h - asks sentinels where the master is.
 *
 * All sentinels that answer are asked, and the answer with the highest epoch wins: a sentinel that
 * was away knows an older master, which may be back and still take itself for one. Whether the
 * server that they name is a master is found out when a connection to it opens (handshake.h). */
#ifndef QN_REDIS_FAILOVER_SENTINEL_H
#define QN_REDIS_FAILOVER_SENTINEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/url.h"
#include "quern/status.h"
#include "redis/endpoint.h"
#include "redis/failover/failover.h"
#include "redis/failover/sentinel_list.h"
#include "redis/failover/url_params.h"

struct qn_sentinels {
    struct qn_failover *failover; /* borrowed */
    char *master;                 /* the name that they know it by */
    struct qn_endpoint *model;    /* of the data nodes; a reference */
    pthread_mutex_t mutex;        /* guards the rest */
    pthread_cond_t asked;         /* `asking` is false again */
    bool asking;                  /* one thread at a time does */
    uint64_t answer;              /* grows with each one */
    quern_status status;          /* of the latest */
    quern_error error;
    uint64_t epoch;               /* the highest that was seen */
    struct qn_sentinel_list list; /* has a mutex of its own */
};

/* url: of scheme redis-sentinel, whose user and password are those of the data nodes. Connects to
 * nothing. */
QUERN_NODISCARD quern_status qn_sentinels_init(struct qn_sentinels *sentinels,
                                               const struct qn_url *url,
                                               const struct qn_url_params *params,
                                               const struct qn_endpoint_terms *terms,
                                               quern_error *err);
void qn_sentinels_finish(struct qn_sentinels *sentinels);
/* From now on `failover`, whose endpoint is the model, asks them. */
void qn_sentinels_serve(struct qn_sentinels *sentinels, struct qn_failover *failover);
/* Asks them, and makes the master that they name current. Several threads that call at one time
 * share one answer. QUERN_E_CONNECT: none answers, QUERN_E_INVALID: they know no such master,
 * QUERN_E_DENIED. */
QUERN_NODISCARD quern_status qn_sentinels_find(struct qn_sentinels *sentinels,
                                               int64_t deadline_mono_ns, quern_error *err);

#endif
