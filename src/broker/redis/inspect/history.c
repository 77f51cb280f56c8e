/* SPDX-License-Identifier: MIT */
/* history.c - the counters of days, as asynq keeps them. Today is today on the server. */
#include <stdio.h>

#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"

/* Reads the server's time, and whether the queue exists. */
static quern_status ask_today(struct qn_redis *self, struct qn_pipeline *pipeline,
                              const char *queue, int64_t *ret_now_ms, quern_error *err)
{
    const struct qn_reply *reply;
    qn_pipeline_command(pipeline, "TIME");
    qn_pipeline_command(pipeline, "SISMEMBER");
    qn_pipeline_text(pipeline, QN_KEY_QUEUES);
    qn_pipeline_text(pipeline, queue);
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(pipeline, 1, &reply, err);
    }
    if (status == QUERN_OK && qn_reply_int(reply, 0) != 1) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", queue);
    }
    if (status == QUERN_OK) {
        *ret_now_ms = qn_redis_inspect_time_ms(self, pipeline, 0);
    }
    return status;
}

struct history {
    int64_t now_ms;
    quern_day *days;
    size_t count;
};

static quern_status ask_days(struct qn_pipeline *pipeline, const char *queue,
                             struct history *history, quern_error *err)
{
    const struct qn_reply *reply;
    char suffix[40];
    qn_pipeline_command(pipeline, "MGET");
    for (size_t i = 0; i < history->count; i++) {
        quern_day *day = &history->days[i];
        *day = (quern_day){0};
        qn_redis_inspect_date(history->now_ms - (int64_t)i * QN_DAY_MS, day->date);
        (void)snprintf(suffix, sizeof suffix, "processed:%s", day->date);
        qn_keys_add(pipeline, queue, suffix);
        (void)snprintf(suffix, sizeof suffix, "failed:%s", day->date);
        qn_keys_add(pipeline, queue, suffix);
    }
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    for (size_t i = 0; status == QUERN_OK && i < history->count; i++) {
        history->days[i].processed = qn_reply_uint(qn_reply_at(reply, 2 * i));
        history->days[i].failed = qn_reply_uint(qn_reply_at(reply, 2 * i + 1));
    }
    return status;
}

quern_status qn_redis_history(struct qn_broker *broker, const char *queue, size_t days,
                              quern_day *ret_days, quern_error *err)
{
    struct history history = {.days = ret_days, .count = days};
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    quern_status status = ask_today(self, &pipeline, queue, &history.now_ms, err);
    if (status == QUERN_OK) {
        status = ask_days(&pipeline, queue, &history, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}
