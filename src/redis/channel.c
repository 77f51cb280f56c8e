/* SPDX-License-Identifier: MIT */
/* channel.c - the beginning and the end of a channel, and its connections to the nodes of a
 * cluster. */
#include "redis/channel.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "redis/cluster/silence.h"

void qn_channel_init(struct qn_channel *channel, struct qn_failover *failover, const char *role)
{
    pthread_mutex_init(&channel->mutex, NULL);
    qn_connection_init(&channel->connection, failover);
    channel->connection.role = role;
    channel->arena = (struct qn_arena){0};
    qn_random_init(&channel->random);
    channel->cluster = NULL;
    channel->nodes = NULL;
    channel->node_capacity = 0;
    channel->tidied = 0;
    channel->opened_count = 0;
}

void qn_channel_route(struct qn_channel *channel, struct qn_cluster *cluster)
{
    channel->cluster = cluster;
}

static bool make_room(struct qn_channel *channel, size_t node)
{
    size_t capacity = channel->node_capacity == 0 ? 8 : channel->node_capacity;
    while (capacity <= node) {
        capacity *= 2;
    }
    if (capacity == channel->node_capacity) {
        return true;
    }
    struct qn_connection **nodes = qn_alloc_zero(capacity, sizeof(struct qn_connection *));
    if (nodes == NULL) {
        return false;
    }
    if (channel->nodes != NULL) {
        memcpy(nodes, channel->nodes, channel->node_capacity * sizeof(struct qn_connection *));
    }
    qn_free(channel->nodes);
    channel->nodes = nodes;
    channel->node_capacity = capacity;
    return true;
}

struct qn_connection *qn_channel_connection(struct qn_channel *channel, int node)
{
    if (channel->cluster == NULL) {
        return &channel->connection;
    }
    if (!make_room(channel, (size_t)node)) {
        return NULL;
    }
    struct qn_connection **at = &channel->nodes[node];
    if (*at == NULL) {
        *at = qn_alloc_zero(1, sizeof **at);
        if (*at != NULL) {
            qn_connection_init_at(*at, qn_cluster_hold(channel->cluster, node));
            (*at)->role = channel->connection.role;
            (*at)->opened_count = channel->opened_count; /* it is never taken for an older one */
        }
    }
    return *at;
}

static void give_up(struct qn_channel *channel, size_t node)
{
    struct qn_connection *connection = channel->nodes[node];
    channel->nodes[node] = NULL;
    if (connection->opened_count > channel->opened_count) {
        channel->opened_count = connection->opened_count;
    }
    qn_connection_finish(connection);
    qn_free(connection);
    qn_cluster_release(channel->cluster, (int)node);
}

void qn_channel_tidy(struct qn_channel *channel)
{
    bool owns[QN_SLOT_NODES_MAX];
    if (channel->cluster == NULL || !qn_cluster_owning(channel->cluster, &channel->tidied, owns)) {
        return;
    }
    for (size_t i = 0; i < channel->node_capacity; i++) {
        if (channel->nodes[i] != NULL && !owns[i]) {
            give_up(channel, i);
        }
    }
}

/* Where all are silent they stay. Returns how many are left. */
static size_t drop_silent(struct qn_cluster *cluster, int *nodes, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (!qn_silence_is(cluster, nodes[i])) {
            nodes[left++] = nodes[i];
        }
    }
    return left > 0 ? left : count;
}

int qn_channel_any_node(struct qn_channel *channel, int worse)
{
    int masters[QN_SLOT_NODES_MAX];
    size_t count = qn_cluster_masters(channel->cluster, masters, QN_SLOT_NODES_MAX);
    count = drop_silent(channel->cluster, masters, count);
    for (size_t i = 0; i < count; i++) {
        size_t node = (size_t)masters[i];
        if (node < channel->node_capacity && channel->nodes[node] != NULL &&
            channel->nodes[node]->socket.fd >= 0 && masters[i] != worse) {
            return masters[i];
        }
    }
    return count == 0 ? -1 : masters[qn_random_below(&channel->random, count)];
}

void qn_channel_finish(struct qn_channel *channel)
{
    for (size_t i = 0; i < channel->node_capacity; i++) {
        if (channel->nodes[i] != NULL) {
            give_up(channel, i);
        }
    }
    qn_free(channel->nodes);
    qn_connection_finish(&channel->connection);
    qn_arena_finish(&channel->arena);
    pthread_mutex_destroy(&channel->mutex);
}
