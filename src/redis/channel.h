/* SPDX-License-Identifier: MIT */
/* channel.h - one connection with its own lock, and the memory of the pipelines that use it in
 * turn.
 *
 * A channel connects when it is first used. A pipeline holds its lock from begin to end
 * (pipeline.h). */
#ifndef QN_REDIS_CHANNEL_H
#define QN_REDIS_CHANNEL_H

#include <pthread.h>

#include "base/memory/arena.h"
#include "base/random.h"
#include "redis/connection.h"

struct qn_channel {
    pthread_mutex_t mutex; /* guards the rest, held for a whole pipeline */
    struct qn_connection connection;
    struct qn_arena arena; /* of the pipeline: requests and replies */
    struct qn_random random;
};

/* role: for the name of the connection, "" for none (connection.h). Both are borrowed. */
void qn_channel_init(struct qn_channel *channel, struct qn_failover *failover, const char *role);
void qn_channel_finish(struct qn_channel *channel);

#endif
