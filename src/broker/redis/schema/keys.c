/* SPDX-License-Identifier: MIT */
/* keys.c - how the keys of a queue and of a session are spelled. */
#include "broker/redis/schema/keys.h"

#include "base/bug.h"

void qn_keys_add_prefix(struct qn_pipeline *pipeline, const char *queue)
{
    qn_keys_add(pipeline, queue, "");
}

void qn_keys_add(struct qn_pipeline *pipeline, const char *queue, const char *suffix)
{
    qn_pipeline_text(pipeline, qn_arena_printf(pipeline->arena, "asynq:{%s}:%s", queue, suffix));
}

void qn_keys_add_session(struct qn_pipeline *pipeline, uint64_t session)
{
    if (QN_BUG(RECONNECT_FORGETS)) {
        const struct qn_connection *connection = &pipeline->channel->connection;
        session += connection->opened_count + (connection->socket.fd < 0 ? 1 : 0);
    }
    qn_pipeline_text(pipeline,
                     qn_arena_printf(pipeline->arena, "%016llx", (unsigned long long)session));
}
