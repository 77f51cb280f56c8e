/* SPDX-License-Identifier: MIT */
/* channel.h - one connection with its own lock, and the memory of the pipelines that use it in
 * turn; on a cluster, one connection to each node that it needs.
 *
 * A channel connects when it is first used. A pipeline holds its lock from begin to end
 * (pipeline.h). */
#ifndef QN_REDIS_CHANNEL_H
#define QN_REDIS_CHANNEL_H

#include <pthread.h>

#include "base/memory/arena.h"
#include "base/random.h"
#include "redis/cluster/cluster.h"
#include "redis/connection.h"

struct qn_channel {
    pthread_mutex_t mutex;           /* guards the rest, held for a whole pipeline */
    struct qn_connection connection; /* to the one server; on a cluster never opened */
    struct qn_arena arena;           /* of the pipeline: requests and replies */
    struct qn_random random;
    struct qn_cluster *cluster;   /* NULL: there is one server; else it routes (route.h) */
    struct qn_connection **nodes; /* by their numbers, which they hold; NULL: not used yet */
    size_t node_capacity;
    uint64_t tidied;       /* the cluster's read_count then */
    uint64_t opened_count; /* the largest of the connections that are no more */
};

/* role: for the name of the connection, "" for none (connection.h). Both are borrowed. */
void qn_channel_init(struct qn_channel *channel, struct qn_failover *failover, const char *role);
/* From now on it is one to this cluster, which is borrowed. Not yet used before. */
void qn_channel_route(struct qn_channel *channel, struct qn_cluster *cluster);
void qn_channel_finish(struct qn_channel *channel);
/* The connection to a node, open or not. NULL: out of memory. On one server: that, whatever the
 * number. */
struct qn_connection *qn_channel_connection(struct qn_channel *channel, int node);
/* While nothing is in progress: gives up connections to nodes of a cluster that own no slot. */
void qn_channel_tidy(struct qn_channel *channel);
/* On a cluster: a node that owns slots, if possible one that is connected and is not `worse`. -1:
 * none is known. */
int qn_channel_any_node(struct qn_channel *channel, int worse);

#endif
