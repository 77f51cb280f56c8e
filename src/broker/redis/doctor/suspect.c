/* SPDX-License-Identifier: MIT */
/* suspect.c - tasks that may be wrong: reads their messages, and checks each of them in one script
 * that reads all places at once (doctor_task.lua). Only the findings of that script are
 * reported. */
#include "broker/redis/doctor/suspect.h"
#include "broker/redis/schema/keys.h"

#include "base/error.h"
#include "broker/redis/schema/task_fields.h"

#include "base/text/plural.h"
#include "broker/redis/doctor/doctor_task_lua.h"

static bool blame(struct qn_redis_doctor *doctor, const char *message, size_t size, const char *why,
                  struct qn_suspect *suspect)
{
    suspect->message = qn_arena_copy(&doctor->page, message, size);
    suspect->message_size = size;
    suspect->why = why;
    return false;
}

/* The field of the message as protobuf writes it. */
static void set_retry_count(struct qn_suspect *suspect, uint64_t count)
{
    size_t used = 0;
    suspect->addition[used++] = QN_ASYNQ_TAG_RETRIED;
    for (; count >= 128; count >>= 7) {
        suspect->addition[used++] = (unsigned char)(count | 128);
    }
    suspect->addition[used++] = (unsigned char)count;
    suspect->addition_size = used;
}

bool qn_suspect_read(struct qn_redis_doctor *doctor, const char *queue, const char *message,
                     size_t size, struct qn_suspect *suspect)
{
    quern_error why = {0};
    struct qn_asynq_task decoded;
    struct qn_task task;
    const struct qn_stored_task stored = {
        .queue = queue, .id = suspect->id, .message = {message, size}};
    quern_status status = qn_task_fields_decode(&doctor->page, &stored, &decoded, &task, &why);
    if (status == QUERN_E_NOMEM) {
        return true; /* it is not the message's fault */
    }
    const struct qn_asynq_unusable unusable = {.data = message,
                                               .size = size,
                                               .id = suspect->id,
                                               .id_size = suspect->id_size,
                                               .queue = queue};
    if (status != QUERN_OK && qn_asynq_go_reads(&doctor->page, &unusable)) {
        return true; /* it is not for us, but no damage */
    }
    if (status != QUERN_OK) {
        return blame(doctor, message, size, qn_arena_strdup(&doctor->page, why.text), suspect);
    }
    suspect->group = decoded.group;
    int64_t at_ms = decoded.completed_at_ms > 0 ? decoded.completed_at_ms + task.retention_ms
                                                : decoded.failed_at_ms;
    suspect->known_at_s = at_ms / 1000;
    if (decoded.retry_count > task.retry_max) {
        set_retry_count(suspect, (uint64_t)task.retry_max);
        return blame(doctor, message, size,
                     qn_arena_printf(&doctor->page, "%lld %s of %lld",
                                     (long long)decoded.retry_count,
                                     qn_plural((uint64_t)decoded.retry_count, "retry", "retries"),
                                     (long long)task.retry_max),
                     suspect);
    }
    return true;
}

static void add_suspect(struct qn_pipeline *pipeline, const struct qn_redis_doctor *doctor,
                        const char *queue, const struct qn_suspect *suspect)
{
    qn_pipeline_script(pipeline, &qn_lua_doctor_task, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, queue);
    qn_pipeline_bytes(pipeline, suspect->id, suspect->id_size);
    qn_pipeline_text(pipeline, doctor->repair ? "1" : "0");
    if (suspect->message != NULL) {
        qn_pipeline_bytes(pipeline, suspect->message, suspect->message_size);
    } else {
        qn_pipeline_text(pipeline, "");
    }
    qn_pipeline_text(pipeline, suspect->why == NULL ? "" : suspect->why);
    qn_pipeline_text(pipeline, suspect->seen_in == NULL ? "" : suspect->seen_in);
    qn_pipeline_text(pipeline, suspect->group == NULL ? "" : suspect->group);
    if (suspect->known_at_s > 0) {
        qn_pipeline_int(pipeline, suspect->known_at_s);
    } else {
        qn_pipeline_text(pipeline, "");
    }
    qn_pipeline_bytes(pipeline, suspect->addition, suspect->addition_size);
}

quern_status qn_suspect_check_all(struct qn_redis_doctor *doctor, const char *queue,
                                  const struct qn_suspect *suspects, size_t count, quern_error *err)
{
    struct qn_pipeline pipeline;
    if (count == 0) {
        return QUERN_OK;
    }
    qn_redis_begin(&pipeline, doctor->self, QN_CHANNEL_REST,
                   doctor->repair ? QN_PIPELINE_WRITES : QN_PIPELINE_READS);
    for (size_t i = 0; i < count; i++) {
        add_suspect(&pipeline, doctor, queue, &suspects[i]);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *reply;
        status = qn_pipeline_reply(&pipeline, i, &reply, err);
        for (size_t k = 0; status == QUERN_OK && k + 1 < reply->count; k += 2) {
            const quern_finding finding = {.invariant = qn_reply_text(qn_reply_at(reply, k)),
                                           .queue = queue,
                                           .id = suspects[i].id,
                                           .text = qn_reply_text(qn_reply_at(reply, k + 1)),
                                           .repaired = doctor->repair};
            status = qn_redis_findings_keep(&doctor->findings, &finding, err);
        }
        if (status == QUERN_E_CORRUPT) {
            status = QUERN_OK; /* a container of the wrong type is a finding of its own */
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}
