/* SPDX-License-Identifier: MIT */
/* command.c - sends a command to workers, and reads the record of one, which has its answer.
 *
 * The command is a message on a channel of ours, which a user needs a right for. A cluster passes
 * it on to all its nodes; how many workers receive it is not counted there, so the number is of no
 * use. The record is one field, however many workers and runs there are. */
#include "broker/owner.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/worker_record.h"

static quern_status take_record(const struct qn_redis *self, struct qn_pipeline *pipeline,
                                const char *id, struct qn_found_worker *ret_worker,
                                quern_error *err)
{
    const struct qn_reply *reply;
    struct qn_worker_record record;
    quern_status status = qn_pipeline_reply(pipeline, 1, &reply, err);
    if (status != QUERN_OK || reply->type == QN_REPLY_NIL) {
        return status;
    }
    status = qn_worker_record_read(pipeline->arena, id, reply, &record, err);
    if (status == QUERN_OK) {
        int64_t now_ms = qn_redis_inspect_time_ms(self, pipeline, 0);
        ret_worker->is_there = true;
        ret_worker->lives = qn_owner_lives(record.owner, record.info.heartbeat_at_ms, now_ms);
        ret_worker->status = record.info.status;
        qn_command_read_answer(record.info.queues, &ret_worker->answer);
    }
    return status;
}

quern_status qn_redis_find_worker(struct qn_broker *broker, const char *id,
                                  struct qn_found_worker *ret_worker, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "TIME");
    qn_pipeline_command(&pipeline, "HGET");
    qn_pipeline_text(&pipeline, QN_KEY_RECORDS);
    qn_pipeline_text(&pipeline, id);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = take_record(qn_redis_of(broker), &pipeline, id, ret_worker, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_redis_command(struct qn_broker *broker, const char *text, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    qn_pipeline_command(&pipeline, "PUBLISH");
    qn_pipeline_text(&pipeline, QN_KEY_COMMAND);
    qn_pipeline_text(&pipeline, text);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}
