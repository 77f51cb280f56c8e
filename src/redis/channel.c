/* SPDX-License-Identifier: MIT */
/* channel.c - the beginning and the end of a channel. */
#include "redis/channel.h"

void qn_channel_init(struct qn_channel *channel, struct qn_failover *failover, const char *role)
{
    pthread_mutex_init(&channel->mutex, NULL);
    qn_connection_init(&channel->connection, failover);
    channel->connection.role = role;
    channel->arena = (struct qn_arena){0};
    qn_random_init(&channel->random);
}

void qn_channel_finish(struct qn_channel *channel)
{
    qn_connection_finish(&channel->connection);
    qn_arena_finish(&channel->arena);
    pthread_mutex_destroy(&channel->mutex);
}
