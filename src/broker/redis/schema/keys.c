/* SPDX-License-Identifier: MIT */
/* keys.c - how the keys of a queue and of a session are spelled. */
#include "broker/redis/schema/keys.h"

#include <string.h>

#include "base/bug.h"

void qn_keys_add_prefix(struct qn_pipeline *pipeline, const char *queue)
{
    qn_keys_add(pipeline, queue, "");
}

void qn_keys_add(struct qn_pipeline *pipeline, const char *queue, const char *suffix)
{
    const char *key =
        suffix == NULL
            ? NULL
            : qn_arena_printf(pipeline->arena, QN_KEY_ROOT "%s" QN_KEY_NAME "%s", queue, suffix);
    qn_pipeline_text(pipeline, key);
}

void qn_keys_add_task(struct qn_pipeline *pipeline, const char *queue, const char *id,
                      size_t id_size)
{
    const char *prefix =
        qn_arena_printf(pipeline->arena, QN_KEY_ROOT "%s" QN_KEY_NAME QN_KEY_TASK, queue);
    size_t prefix_size = prefix == NULL ? 0 : strlen(prefix);
    char *key = qn_arena_alloc(pipeline->arena, prefix_size + id_size + 1);
    if (prefix == NULL || key == NULL) {
        qn_pipeline_nomem(pipeline);
        return;
    }
    memcpy(key, prefix, prefix_size);
    memcpy(key + prefix_size, id, id_size);
    qn_pipeline_bytes(pipeline, key, prefix_size + id_size);
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
