/* SPDX-License-Identifier: MIT */
/* lead.c - which scheduler leads (lead.lua), and that its predecessors no longer do (claim.lua). */
#include <stdatomic.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/schedule/claim_lua.h"
#include "broker/redis/schedule/lead_lua.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

#define CLAIM_STEP 256 /* queues in a write */

static quern_status ask(struct qn_redis *self, const struct qn_lead *lead, uint64_t dead_epoch,
                        struct qn_lead_reply *ret_reply, quern_error *err)
{
    static const char *const words[] = {[QN_LEAD_LOOK] = "look",
                                        [QN_LEAD_TAKE] = "take",
                                        [QN_LEAD_RENEW] = "renew",
                                        [QN_LEAD_GIVE_BACK] = "end"};
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_KEEPER,
                   lead->what == QN_LEAD_LOOK ? QN_PIPELINE_READS : QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &qn_lua_lead, 1);
    qn_pipeline_text(&pipeline, QN_KEY_SCHEDULE);
    qn_pipeline_text(&pipeline, words[lead->what]);
    qn_pipeline_text(&pipeline, lead->owner != NULL ? lead->owner : "");
    qn_pipeline_text(&pipeline, lead->id != NULL ? lead->id : "");
    qn_pipeline_int(&pipeline, lead->lease_ms);
    qn_pipeline_uint(&pipeline, dead_epoch);
    qn_pipeline_uint(&pipeline, atomic_load(&self->claimed_epoch));
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        *ret_reply = (struct qn_lead_reply){
            .leads = qn_reply_int(qn_reply_at(reply, 0), 0) == 1,
            .epoch = qn_reply_uint(qn_reply_at(reply, 1)),
            .lease_left_ms =
                qn_number_clamp(qn_reply_moment_ms(qn_reply_at(reply, 4)), 0, QN_LEAD_MS_MAX),
            .version = qn_reply_uint(qn_reply_at(reply, 5)),
            .now_ms = qn_reply_moment_ms(qn_reply_at(reply, 6))};
        (void)snprintf(ret_reply->owner, sizeof ret_reply->owner, "%s",
                       qn_reply_text(qn_reply_at(reply, 2)));
        (void)snprintf(ret_reply->id, sizeof ret_reply->id, "%s",
                       qn_reply_text(qn_reply_at(reply, 3)));
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_schedule_lead(struct qn_broker *broker, const struct qn_lead *lead,
                                    struct qn_lead_reply *ret_reply, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    quern_status status = ask(self, lead, 0, ret_reply, err);
    if (status == QUERN_OK && lead->what == QN_LEAD_TAKE && !ret_reply->leads &&
        ret_reply->id[0] != '\0' && qn_owner_judge(ret_reply->owner) == QN_OWNER_DEAD) {
        status = ask(self, lead, ret_reply->epoch, ret_reply, err);
    }
    return status;
}

/* A later epoch that a queue has: if that is none of a later leader, but damaged, or the record of
 * the leader was lost, the next take is later than it (lead.lua). */
static void note_later(struct qn_redis *self, uint64_t epoch)
{
    if (epoch > atomic_load(&self->claimed_epoch)) {
        atomic_store(&self->claimed_epoch, epoch);
    }
}

/* A queue whose keys have the wrong type takes no tick of anybody. */
static quern_status claim_some(struct qn_redis *self, struct qn_names queues, uint64_t epoch,
                               quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    bool is_over = false;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    for (size_t i = 0; i < queues.count; i++) {
        qn_pipeline_script(&pipeline, &qn_lua_claim, 1);
        qn_keys_add_prefix(&pipeline, queues.items[i]);
        qn_pipeline_uint(&pipeline, epoch);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        uint64_t later = status == QUERN_OK ? qn_reply_uint(reply) : 0;
        note_later(self, later);
        is_over = is_over || later > 0;
        status = status == QUERN_E_CORRUPT ? QUERN_OK : status;
    }
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK && is_over) {
        status = qn_error_set(err, QUERN_E_STATE, "another scheduler has led since");
    }
    return status;
}

quern_status qn_redis_schedule_claim(struct qn_broker *broker, uint64_t epoch, quern_error *err)
{
    struct qn_arena arena = {0};
    struct qn_names queues = {0};
    quern_status status = qn_schedule_queues(qn_redis_of(broker), &arena, &queues, err);
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i += CLAIM_STEP) {
        size_t left = queues.count - i;
        const struct qn_names some = {&queues.items[i], left < CLAIM_STEP ? left : CLAIM_STEP};
        status = claim_some(qn_redis_of(broker), some, epoch, err);
    }
    qn_arena_finish(&arena);
    return status;
}
