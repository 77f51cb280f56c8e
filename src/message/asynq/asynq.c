/* SPDX-License-Identifier: MIT */
/* asynq.c - asynq's TaskMessage to and from a plain struct.
 *
 * Fields that we do not know are carried from decoding to encoding, behind the known ones, so that
 * a newer program's additions survive our rewriting of a message. The other messages are in
 * asynq_info.c. */
#include "message/asynq/asynq.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/number.h"
#include "message/asynq/asynq_wire.h"

#define SECONDS_MAX (INT64_MAX / 1000)

/* Whole seconds, never shorter than the requested time. */
static int64_t seconds_up(int64_t ms)
{
    return ms / 1000 + (ms % 1000 > 0 ? 1 : 0);
}

/* Seconds of any size may occur; beyond the range of milliseconds they mean for ever. */
static int64_t ms_of(int64_t seconds)
{
    if (seconds > SECONDS_MAX) {
        return SECONDS_MAX * 1000;
    }
    return seconds < -SECONDS_MAX ? -SECONDS_MAX * 1000 : seconds * 1000;
}

static void put_headers(struct qn_wire *wire, const struct qn_asynq_task *task,
                        Asynq__TaskMessage *message)
{
    message->headers = qn_wire_alloc(wire, task->header_count, sizeof *message->headers);
    Asynq__HeaderEntry *entries = qn_wire_alloc(wire, task->header_count, sizeof *entries);
    if (entries == NULL) {
        return;
    }
    for (size_t i = 0; i < task->header_count; i++) {
        asynq__header_entry__init(&entries[i]);
        entries[i].has_key_case = ASYNQ__HEADER_ENTRY__HAS_KEY_KEY;
        entries[i].key = qn_wire_put_text(wire, "header", task->headers[i].name);
        entries[i].has_value_case = ASYNQ__HEADER_ENTRY__HAS_VALUE_VALUE;
        entries[i].value = qn_wire_put_text(wire, "header", task->headers[i].value);
        message->headers[i] = &entries[i];
    }
    message->n_headers = task->header_count;
}

quern_status qn_asynq_task_encode(struct qn_arena *arena, const struct qn_asynq_task *task,
                                  struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "task", .err = err};
    Asynq__TaskMessage message;
    asynq__task_message__init(&message);
    message.type = qn_wire_put_text(&wire, "type", task->type);
    message.payload = qn_wire_put_bytes(task->payload, task->payload_size);
    message.id = qn_wire_put_text(&wire, "id", task->id);
    message.queue = qn_wire_put_text(&wire, "queue", task->queue);
    message.retry = qn_wire_put_int32(&wire, "retry_max", task->retry_max);
    message.retried = qn_wire_put_int32(&wire, "retry_count", task->retry_count);
    message.error_msg = qn_wire_put_clean(&wire, task->error);
    message.timeout = seconds_up(task->timeout_ms);
    message.deadline = seconds_up(task->deadline_at_ms);
    message.unique_key = qn_wire_put_text(&wire, "unique_key", task->unique_key);
    message.last_failed_at = task->failed_at_ms / 1000;
    message.retention = seconds_up(task->retention_ms);
    message.completed_at = task->completed_at_ms / 1000;
    message.group_key = qn_wire_put_text(&wire, "group", task->group);
    put_headers(&wire, task, &message);
    message.base.n_unknown_fields = (unsigned)task->unknown_count;
    /* Only read while packing. */
    message.base.unknown_fields = (ProtobufCMessageUnknownField *)(uintptr_t)task->unknown_fields;
    return qn_wire_pack(&wire, &message.base, ret_bytes);
}

struct named {
    const char *name;
    size_t at;
};

static int compare_named(const void *left, const void *right)
{
    const struct named *a = left;
    const struct named *b = right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* Go's headers are a map: of several with one name the last one counts. */
static size_t drop_doubled(struct qn_wire *wire, quern_header *headers, size_t count)
{
    struct named *names = count > 1 ? qn_wire_alloc(wire, count, sizeof *names) : NULL;
    if (names == NULL) {
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = (struct named){.name = headers[i].name, .at = i};
    }
    qsort(names, count, sizeof *names, compare_named);
    for (size_t i = 0; i + 1 < count; i++) {
        if (strcmp(names[i].name, names[i + 1].name) == 0) {
            headers[names[i].at].name = NULL;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].name != NULL) {
            headers[kept++] = headers[i];
        }
    }
    return kept;
}

static const quern_header *get_headers(struct qn_wire *wire, const Asynq__TaskMessage *message,
                                       size_t *ret_count)
{
    quern_header *headers = qn_wire_alloc(wire, message->n_headers, sizeof *headers);
    for (size_t i = 0; headers != NULL && i < message->n_headers; i++) {
        const Asynq__HeaderEntry *entry = message->headers[i];
        ProtobufCBinaryData nothing = {0};
        bool has_key = entry->has_key_case == ASYNQ__HEADER_ENTRY__HAS_KEY_KEY;
        bool has_value = entry->has_value_case == ASYNQ__HEADER_ENTRY__HAS_VALUE_VALUE;
        headers[i].name = qn_wire_get_text(wire, "header", has_key ? entry->key : nothing);
        headers[i].value = qn_wire_get_text(wire, "header", has_value ? entry->value : nothing);
    }
    *ret_count = headers == NULL ? 0 : drop_doubled(wire, headers, message->n_headers);
    return headers;
}

static quern_status decode_task(struct qn_wire wire, const void *data, size_t size,
                                struct qn_asynq_task *ret_task)
{
    const Asynq__TaskMessage *message =
        (Asynq__TaskMessage *)qn_wire_unpack(&wire, &asynq__task_message__descriptor, data, size);
    if (message == NULL) {
        return wire.status;
    }
    size_t header_count = 0;
    const quern_header *headers = get_headers(&wire, message, &header_count);
    struct qn_asynq_task task = {
        .type = qn_wire_get_text(&wire, "type", message->type),
        .payload = message->payload.data,
        .payload_size = message->payload.len,
        .id = qn_wire_get_text(&wire, "id", message->id),
        .queue = qn_wire_get_text(&wire, "queue", message->queue),
        .retry_max = message->retry,
        .retry_count = message->retried,
        .error = qn_wire_get_clean(&wire, "error_msg", message->error_msg),
        .timeout_ms = ms_of(message->timeout),
        .deadline_at_ms = ms_of(message->deadline),
        .unique_key = qn_wire_get_text(&wire, "unique_key", message->unique_key),
        .failed_at_ms = qn_moment_ms_of(ms_of(message->last_failed_at)),
        .retention_ms = ms_of(message->retention),
        .completed_at_ms = qn_moment_ms_of(ms_of(message->completed_at)),
        .group = qn_wire_get_text(&wire, "group_key", message->group_key),
        .headers = headers,
        .header_count = header_count,
        .unknown_fields = message->base.unknown_fields,
        .unknown_count = message->base.n_unknown_fields,
    };
    if (wire.status == QUERN_OK) {
        *ret_task = task;
    }
    return wire.status;
}

quern_status qn_asynq_task_decode(struct qn_arena *arena, const void *data, size_t size,
                                  struct qn_asynq_task *ret_task, quern_error *err)
{
    const struct qn_wire wire = {.arena = arena, .message = "task", .err = err};
    return decode_task(wire, data, size, ret_task);
}

quern_status qn_asynq_task_show(struct qn_arena *arena, const void *data, size_t size,
                                struct qn_asynq_task *ret_task, quern_error *err)
{
    const struct qn_wire wire = {.arena = arena, .message = "task", .err = err, .cleans = true};
    return decode_task(wire, data, size, ret_task);
}
