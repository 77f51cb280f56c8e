/* SPDX-License-Identifier: MIT */
/* set.c - the lease of a set: extended, or given up with its members back in their group.
 *
 * As in asynq the lease is the entry of the set's key in aggregation_sets, with the second of its
 * end; the key is new for each set, so it is its token, too. A Go server gives back the members of
 * every set whose end has passed. */
#include "base/error.h"
#include "broker/redis/group/extend_set_lua.h"
#include "broker/redis/group/return_set_lua.h"
#include "broker/redis/group/sets.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"

void qn_sets_add_key(struct qn_pipeline *pipeline, const struct qn_group_set *set)
{
    const char *suffix =
        qn_arena_printf(pipeline->arena, QN_KEY_GROUP "%s:%s", set->group, set->name);
    qn_keys_add(pipeline, set->queue, suffix);
}

quern_status qn_sets_stale(const struct qn_group_set *set, quern_error *err)
{
    return qn_error_set(err, QUERN_E_STALE, "the lease of set %s of the group \"%s\" is lost",
                        set->name, set->group);
}

quern_status qn_redis_extend_sets(struct qn_broker *broker, struct qn_set_extension *extensions,
                                  size_t count, int64_t lease_ms, quern_error *err)
{
    struct qn_pipeline pipeline;
    if (count == 0) {
        return QUERN_OK;
    }
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_LEASES, QN_PIPELINE_WRITES);
    for (size_t i = 0; i < count; i++) {
        qn_pipeline_script(&pipeline, &qn_lua_extend_set, 1);
        qn_pipeline_hasty(&pipeline); /* neither the other sets nor the runs wait for its node */
        qn_keys_add_prefix(&pipeline, extensions[i].set->queue);
        qn_sets_add_key(&pipeline, extensions[i].set);
        qn_pipeline_int(&pipeline, lease_ms);
    }
    quern_status first = qn_pipeline_run(&pipeline, err);
    bool ran = first == QUERN_OK;
    for (size_t i = 0; ran && i < count; i++) {
        const struct qn_reply *reply = NULL;
        quern_error *to = first == QUERN_OK ? err : NULL;
        quern_status status = qn_pipeline_reply(&pipeline, i, &reply, to);
        if (status == QUERN_OK || status == QUERN_E_CORRUPT) {
            /* Where the key of the leases is something else, all of this queue are lost. */
            extensions[i].held = status == QUERN_OK && qn_reply_int(reply, 0) == 1;
        } else if (first == QUERN_OK) {
            first = status;
        }
    }
    qn_pipeline_end(&pipeline);
    return first;
}

quern_status qn_redis_return_set(struct qn_broker *broker, const struct qn_group_set *set,
                                 quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_return_set, 1);
    qn_pipeline_hasty(&pipeline);
    qn_keys_add_prefix(&pipeline, set->queue);
    qn_sets_add_key(&pipeline, set);
    qn_pipeline_text(&pipeline, set->group);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    int64_t answer = status == QUERN_OK ? qn_reply_int(reply, 0) : 0;
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && answer < 0) {
        return qn_error_set(err, QUERN_E_CORRUPT, "a key of the group \"%s\" has the wrong type",
                            set->group);
    }
    return status == QUERN_OK && answer == 0 ? qn_sets_stale(set, err) : status;
}
