/* SPDX-License-Identifier: MIT */
/* asynq_unusable.c - the archived form of tasks that we cannot run, which Go can show.
 *
 * There are two kinds. Go reads texts with NUL bytes, which are not C strings: such a message is
 * kept unchanged, and gets an error. A message that Go refuses, or takes for another task, becomes
 * the payload of a new message; so nothing is lost, and asynq's Inspector lists it like any
 * other. */
#include <string.h>

#include "base/text/utf8.h"
#include "message/asynq/asynq_wire.h"

static bool is_text(ProtobufCBinaryData bytes)
{
    return bytes.len == 0 || qn_utf8_valid((const char *)bytes.data, bytes.len);
}

static bool is_same(ProtobufCBinaryData bytes, const char *text, size_t size)
{
    return bytes.len == size && (size == 0 || memcmp(bytes.data, text, size) == 0);
}

bool qn_asynq_go_reads(struct qn_arena *arena, const struct qn_asynq_unusable *unusable)
{
    struct qn_wire wire = {.arena = arena, .message = "task"};
    const Asynq__TaskMessage *message = (Asynq__TaskMessage *)qn_wire_unpack(
        &wire, &asynq__task_message__descriptor, unusable->data, unusable->size);
    if (message == NULL || !is_same(message->id, unusable->id, unusable->id_size) ||
        !is_same(message->queue, unusable->queue, strlen(unusable->queue))) {
        return false;
    }
    const ProtobufCBinaryData texts[] = {message->type,       message->id,
                                         message->queue,      message->error_msg,
                                         message->unique_key, message->group_key};
    bool reads = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reads = reads && is_text(texts[i]);
    }
    const ProtobufCBinaryData nothing = {0};
    for (size_t i = 0; i < message->n_headers; i++) {
        const Asynq__HeaderEntry *entry = message->headers[i];
        bool has_key = entry->has_key_case == ASYNQ__HEADER_ENTRY__HAS_KEY_KEY;
        bool has_value = entry->has_value_case == ASYNQ__HEADER_ENTRY__HAS_VALUE_VALUE;
        reads = reads && is_text(has_key ? entry->key : nothing) &&
                is_text(has_value ? entry->value : nothing);
    }
    return reads;
}

/* Behind the message, where an error counts instead of one that it has. */
static quern_status add_error(struct qn_arena *arena, const struct qn_asynq_unusable *unusable,
                              struct qn_bytes *ret_bytes, quern_error *err)
{
    const struct qn_asynq_task only_error = {.error = unusable->why};
    struct qn_bytes more;
    quern_status status = qn_asynq_task_encode(arena, &only_error, &more, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_wire wire = {.arena = arena, .message = "task", .err = err};
    char *bytes = qn_wire_alloc(&wire, unusable->size + more.size, 1);
    if (bytes == NULL) {
        return wire.status;
    }
    memcpy(bytes, unusable->data, unusable->size);
    memcpy(bytes + unusable->size, more.data, more.size);
    *ret_bytes = (struct qn_bytes){.data = bytes, .size = unusable->size + more.size};
    return QUERN_OK;
}

quern_status qn_asynq_task_excuse(struct qn_arena *arena, const struct qn_asynq_unusable *unusable,
                                  struct qn_bytes *ret_bytes, quern_error *err)
{
    if (qn_asynq_go_reads(arena, unusable)) {
        return add_error(arena, unusable, ret_bytes, err);
    }
    struct qn_wire wire = {.arena = arena, .message = "task", .err = err};
    size_t id_max = 3 * unusable->id_size + 1; /* each bad byte becomes three */
    char *id = qn_wire_alloc(&wire, id_max, 1);
    if (id == NULL) {
        return wire.status;
    }
    (void)qn_utf8_sanitize(unusable->id, unusable->id_size, id, id_max);
    const struct qn_asynq_task task = {.type = QN_UNREADABLE_TYPE,
                                       .payload = unusable->data,
                                       .payload_size = unusable->size,
                                       .id = id,
                                       .queue = unusable->queue,
                                       .error = unusable->why,
                                       .timeout_ms = QN_ASYNQ_TIMEOUT_MS};
    return qn_asynq_task_encode(arena, &task, ret_bytes, err);
}
