/* SPDX-License-Identifier: MIT */
/* prune.c - removes expired tasks, a bounded number at a time (prune.lua).
 *
 * Locks, sessions and the counters of days expire, as keys with a lifetime.
 *
 * The archive is for operators, who cannot restore tasks that a wrong clock destroyed. So for an
 * hour after the server's clock jumped against our clock since boot (it was set, or another server
 * took over), nothing is trimmed for its age. The script itself tests the clock it trims by. */
#include "broker/redis/redis.h"

#include "broker/redis/schema/keys.h"
#include "broker/redis/upkeep/prune_lua.h"
#include "redis/server_error.h"

#define CLOCK_JUMP_MS                                                                              \
    (3600 * INT64_C(1000)) /* as in prune.lua; less is a clock that was set right */
#define CLOCK_TRUSTED_AFTER_MS (3600 * INT64_C(1000))

/* One call of the script. QUERN_E_CORRUPT: but *ret_removed of the sound queues are gone. */
static quern_status prune_some(struct qn_redis *self, struct qn_upkeep upkeep, size_t *ret_removed,
                               quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_KEEPER, QN_PIPELINE_WRITES);
    int64_t boot_ms = qn_clock_boot_ms(self->base.clock);
    qn_pipeline_script(&pipeline, &qn_lua_prune, upkeep.queues.count);
    for (size_t i = 0; i < upkeep.queues.count; i++) {
        qn_keys_add_prefix(&pipeline, upkeep.queues.items[i]);
    }
    qn_pipeline_uint(&pipeline, upkeep.limit);
    qn_pipeline_int(&pipeline, QN_ARCHIVE_SIZE_MAX);
    if (!qn_clock_jump_is_recent(&self->prune_clock, boot_ms, CLOCK_TRUSTED_AFTER_MS)) {
        qn_pipeline_int(&pipeline, QN_ARCHIVE_AGE_MS / 1000);
    } else {
        qn_pipeline_text(&pipeline, "");
    }
    if (self->prune_clock.seen) {
        qn_pipeline_int(&pipeline, boot_ms + self->prune_clock.offset_ms);
    } else {
        qn_pipeline_text(&pipeline, "");
    }
    qn_pipeline_hasty(&pipeline);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        const struct qn_reply *damage = qn_reply_at(reply, 2);
        *ret_removed = (size_t)qn_reply_uint(qn_reply_at(reply, 0));
        qn_clock_jump_note(&self->prune_clock, boot_ms, qn_reply_moment_ms(qn_reply_at(reply, 1)),
                           CLOCK_JUMP_MS);
        if (damage->type == QN_REPLY_ERROR) {
            const struct qn_server_call call = {.script = &qn_lua_prune};
            status = qn_server_error(qn_failover_address(&self->failover), damage, &call, err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* Queues that one script can reach. */
static quern_status prune_queues(struct qn_redis *self, struct qn_upkeep upkeep,
                                 size_t *ret_removed, quern_error *err)
{
    size_t removed = 0;
    quern_status status = QUERN_OK;
    bool more = upkeep.queues.count > 0;
    while (more && removed < upkeep.limit) {
        size_t left = upkeep.limit - removed;
        size_t step = left < QN_PRUNE_BATCH_MAX ? left : QN_PRUNE_BATCH_MAX;
        size_t count = 0;
        status = prune_some(self, (struct qn_upkeep){upkeep.queues, step}, &count, err);
        removed += count;
        more = count == step && (status == QUERN_OK || status == QUERN_E_CORRUPT);
    }
    if (status == QUERN_OK || status == QUERN_E_CORRUPT) {
        *ret_removed = removed;
    }
    return status;
}

/* On a cluster each queue is at a node of its own. One that cannot answer is passed over. */
static quern_status prune_each(struct qn_redis *self, struct qn_upkeep upkeep, size_t *ret_removed,
                               quern_error *err)
{
    quern_status first = QUERN_OK;
    size_t removed = 0;
    for (size_t i = 0; i < upkeep.queues.count && removed < upkeep.limit; i++) {
        size_t count = 0;
        struct qn_upkeep one = {{&upkeep.queues.items[i], 1}, upkeep.limit - removed};
        quern_error *to = first == QUERN_OK ? err : NULL;
        quern_status status = prune_queues(self, one, &count, to);
        removed += count;
        if (status != QUERN_OK && status != QUERN_E_BUSY && status != QUERN_E_CORRUPT) {
            return status;
        }
        first = first == QUERN_OK && status == QUERN_E_CORRUPT ? status : first;
    }
    *ret_removed = removed;
    return first;
}

quern_status qn_redis_prune(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_removed,
                            quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    return self->cluster == NULL ? prune_queues(self, upkeep, ret_removed, err)
                                 : prune_each(self, upkeep, ret_removed, err);
}
