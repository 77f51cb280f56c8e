/* SPDX-License-Identifier: MIT */
/* cluster.h - the nodes of a Redis Cluster and which of them owns each slot, for all connections of
 * a broker.
 *
 * Nodes have numbers. A node that is in no map any more, and is held by no connection, is forgotten
 * when new ones come: then its number is that of another node. A command that was on its way there
 * is sent on by that one (MOVED). The map comes from CLUSTER SLOTS,
 * asked of one node; each map has its epoch. Who finds that a map is wrong asks for a newer one by
 * naming the epoch of that which it used: many threads that find the same fault ask once. Any
 * thread. */
#ifndef QN_REDIS_CLUSTER_CLUSTER_H
#define QN_REDIS_CLUSTER_CLUSTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory/arena.h"
#include "quern/status.h"
#include "redis/cluster/slots.h"
#include "redis/endpoint.h"

#define QN_CLUSTER_SEEDS_MAX 32

struct qn_cluster_node {
    struct qn_slot_place place;
    struct qn_endpoint *endpoint;
    bool is_silent;     /* silence.h */
    quern_error reason; /* why there is no connection to it; "": it does not answer */
    size_t holds;       /* of connections */
    uint64_t named;     /* read_count when it was last named */
};

/* The thread that looks after silent nodes (silence.h); guarded by the cluster's mutex. */
struct qn_silence {
    pthread_t thread;
    pthread_cond_t changed;
    bool runs;
    bool stops;
    size_t count; /* of silent nodes */
};

struct qn_cluster {
    struct qn_endpoint *model; /* user, password and limits of time; a reference */
    pthread_mutex_t mutex;     /* guards the rest */
    pthread_cond_t refreshed;
    bool is_refreshing;
    quern_error refusal;         /* why the latest refresh got no map */
    uint64_t answer_count;       /* maps that were had, also such as were known */
    _Atomic uint64_t read_count; /* maps that were read, sound or not */
    _Atomic uint64_t epoch;      /* of the map, with each that differs; 0: there is none yet */
    int16_t owners[QN_SLOT_COUNT];
    struct qn_cluster_node *nodes[QN_SLOT_NODES_MAX]; /* the seeds come first */
    size_t node_count;
    size_t seed_count;
    struct qn_silence silence;
};

/* model: what the URL says; its address has the list of seeds, "h1:7000,h2,[::1]:7002", where the
 * port is 6379 if it is left out. QUERN_E_INVALID: the list is wrong; finish it all the same. */
QUERN_NODISCARD quern_status qn_cluster_init(struct qn_cluster *cluster, struct qn_endpoint *model,
                                             quern_error *err);
void qn_cluster_finish(struct qn_cluster *cluster);

uint64_t qn_cluster_epoch(const struct qn_cluster *cluster);
/* The owners of some slots, all of one map: nodes[i] = that of slots[i], or -1. Returns the epoch
 * of the map. */
uint64_t qn_cluster_owners(struct qn_cluster *cluster, const uint16_t *slots, int *ret_nodes,
                           size_t count);
/* The masters that own a slot, in the order of their numbers, at most max of them. */
size_t qn_cluster_masters(struct qn_cluster *cluster, int *ret_nodes, size_t max);
/* Its endpoint, borrowed; both stay until release. */
struct qn_endpoint *qn_cluster_hold(struct qn_cluster *cluster, int node);
void qn_cluster_release(struct qn_cluster *cluster, int node);
/* A reference. */
struct qn_endpoint *qn_cluster_endpoint_ref(struct qn_cluster *cluster, int node);
/* Whether a map may have changed since `*read_count`; then that is set, and owns[node] for each. */
bool qn_cluster_owning(struct qn_cluster *cluster, uint64_t *read_count,
                       bool owns[QN_SLOT_NODES_MAX]);
/* The number of the node at this place; `beside`: the node that named it, for a place without a
 * host. -1: there are too many, or memory is out. */
int qn_cluster_node_at(struct qn_cluster *cluster, const struct qn_slot_place *place, int beside);

/* What is known of the fault of a map. */
struct qn_cluster_fault {
    uint64_t epoch; /* of the map */
    int better;     /* a node that is likely to know it better; -1: none */
    int worse;      /* one that is likely to be down; -1: none */
};
/* Returns when the map is known to be newer, or still the same: by asking the nodes, or by waiting
 * for a thread that does. QUERN_E_CONNECT, QUERN_E_TIMEOUT, ...: none of the nodes has one; the
 * error is that of the first. */
QUERN_NODISCARD quern_status qn_cluster_refresh(struct qn_cluster *cluster,
                                                const struct qn_cluster_fault *fault,
                                                int64_t deadline_mono_ns, quern_error *err);

#endif
