/* SPDX-License-Identifier: MIT */
/* node.h - at which nodes of a cluster keys lie. */
#ifndef QN_BROKER_REDIS_SCHEMA_NODE_H
#define QN_BROKER_REDIS_SCHEMA_NODE_H

#include "base/memory/arena.h"
#include "redis/cluster/cluster.h"

/* The node that owns a queue by the present map; -1: none. One server (cluster NULL): 0. */
QUERN_NODISCARD quern_status qn_node_of_queue(struct qn_cluster *cluster, struct qn_arena *arena,
                                              const char *queue, int *ret_node, quern_error *err);
/* The nodes on which keys may lie; one server: 0. For commands that walk through all keys. */
size_t qn_node_list(struct qn_cluster *cluster, int nodes[QN_SLOT_NODES_MAX]);

#endif
