/* SPDX-License-Identifier: MIT */
/* node.c - at which nodes of a cluster keys lie. */
#include "broker/redis/schema/node.h"

#include <string.h>

#include "base/error.h"
#include "broker/redis/schema/keys.h"

quern_status qn_node_of_queue(struct qn_cluster *cluster, struct qn_arena *arena, const char *queue,
                              int *ret_node, quern_error *err)
{
    *ret_node = 0;
    if (cluster == NULL) {
        return QUERN_OK;
    }
    const char *key = qn_arena_printf(arena, QN_KEY_ROOT "%s" QN_KEY_NAME, queue);
    if (key == NULL) {
        return qn_error_nomem(err);
    }
    uint16_t slot = qn_slots_of(key, strlen(key));
    (void)qn_cluster_owners(cluster, &slot, ret_node, 1);
    return QUERN_OK;
}

size_t qn_node_list(struct qn_cluster *cluster, int nodes[QN_SLOT_NODES_MAX])
{
    nodes[0] = 0;
    return cluster == NULL ? 1 : qn_cluster_masters(cluster, nodes, QN_SLOT_NODES_MAX);
}
