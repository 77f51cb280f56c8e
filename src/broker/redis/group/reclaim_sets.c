/* SPDX-License-Identifier: MIT */
/* reclaim_sets.c - gives back the members of sets whose worker is gone or did not extend its lease,
 * also of Go's (reclaim_sets.lua).
 *
 * One command finds whether any queue has sets, since mostly none has, and idle workers ask this
 * all the time. Only of queues that have some the records of the workers are read, to know whose
 * process is dead. */
#include "base/error.h"
#include "broker/redis/group/reclaim_sets_lua.h"
#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/upkeep/known_workers.h"

#define STEP_MAX 1000 /* members that one script gives back: 2 ms */
#define STEPS_MAX 100 /* of one queue in one call */

struct reclaiming {
    struct qn_pipeline pipeline;
    size_t left;
    size_t reclaimed;
};

static quern_status any_has_sets(struct qn_pipeline *pipeline, struct qn_names queues,
                                 bool *ret_any, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    qn_pipeline_command(pipeline, "EXISTS");
    for (size_t i = 0; i < queues.count; i++) {
        qn_keys_add(pipeline, queues.items[i], "aggregation_sets");
    }
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    *ret_any = status == QUERN_OK && qn_reply_int(reply, 0) > 0;
    return status;
}

/* Those of `queues` that have sets; in the arena of the pipeline. */
static quern_status choose_queues(struct reclaiming *reclaiming, struct qn_names queues,
                                  struct qn_names *ret_chosen, quern_error *err)
{
    struct qn_pipeline *pipeline = &reclaiming->pipeline;
    size_t count = 0;
    size_t first = pipeline->command_count;
    const char **chosen = qn_arena_alloc(pipeline->arena, queues.count * sizeof *chosen);
    if (chosen == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < queues.count; i++) {
        qn_pipeline_command(pipeline, "ZCARD");
        qn_keys_add(pipeline, queues.items[i], "aggregation_sets");
        qn_pipeline_hasty(pipeline);
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        const struct qn_reply *reply = NULL;
        status = qn_pipeline_reply(pipeline, first + i, &reply, err);
        if (status == QUERN_OK && qn_reply_int(reply, 0) > 0) {
            chosen[count++] = queues.items[i];
        }
        if (status == QUERN_E_CORRUPT || status == QUERN_E_BUSY) {
            status = QUERN_OK; /* doctor reports it; another node of a cluster is not affected */
        }
    }
    *ret_chosen = (struct qn_names){chosen, count};
    return status;
}

/* from: the rank of the first set that is looked at; -1 at the end. */
static quern_status reclaim_step(struct reclaiming *reclaiming, const char *queue,
                                 const struct qn_known_workers *known, int64_t *from,
                                 quern_error *err)
{
    struct qn_pipeline *pipeline = &reclaiming->pipeline;
    const struct qn_reply *reply = NULL;
    size_t most = reclaiming->left < STEP_MAX ? reclaiming->left : STEP_MAX;
    qn_pipeline_script(pipeline, &qn_lua_reclaim_sets, 1);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_uint(pipeline, most);
    qn_pipeline_int(pipeline, *from);
    for (size_t i = 0; i < known->count; i++) {
        if (known->letters[i] != 'l') {
            qn_pipeline_bytes(pipeline, known->ids[i]->data, known->ids[i]->size);
        }
    }
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status != QUERN_OK) {
        return status;
    }
    size_t count = (size_t)qn_reply_uint(qn_reply_at(reply, 0));
    reclaiming->reclaimed += count;
    reclaiming->left -= count < reclaiming->left ? count : reclaiming->left;
    *from = qn_reply_int(qn_reply_at(reply, 1), -1);
    return QUERN_OK;
}

static quern_status reclaim_queues(struct reclaiming *reclaiming, struct qn_names queues,
                                   quern_error *err)
{
    struct qn_pipeline *pipeline = &reclaiming->pipeline;
    struct qn_names chosen = {0};
    bool any = pipeline->channel->cluster != NULL; /* no command has keys of several nodes */
    quern_status status = any ? QUERN_OK : any_has_sets(pipeline, queues, &any, err);
    if (status == QUERN_OK && any) {
        status = choose_queues(reclaiming, queues, &chosen, err);
    }
    if (status != QUERN_OK || chosen.count == 0) {
        return status;
    }
    struct qn_known_workers *known =
        qn_arena_alloc(pipeline->arena, chosen.count * sizeof known[0]);
    if (known == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_known_workers_read(pipeline, chosen, known, err);
    for (size_t i = 0; status == QUERN_OK && i < chosen.count; i++) {
        int64_t from = 0;
        for (int k = 0; status == QUERN_OK && from >= 0 && reclaiming->left > 0 && k < STEPS_MAX;
             k++) {
            status = reclaim_step(reclaiming, chosen.items[i], &known[i], &from, err);
        }
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status;
    }
    return status;
}

quern_status qn_redis_reclaim_sets(struct qn_broker *broker, struct qn_upkeep upkeep,
                                   size_t *ret_reclaimed, quern_error *err)
{
    struct reclaiming reclaiming = {.left = upkeep.limit};
    if (upkeep.queues.count == 0 || upkeep.limit == 0) {
        return QUERN_OK;
    }
    qn_redis_begin(&reclaiming.pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    quern_status status = reclaim_queues(&reclaiming, upkeep.queues, err);
    qn_pipeline_end(&reclaiming.pipeline);
    *ret_reclaimed = reclaiming.reclaimed;
    return status;
}
