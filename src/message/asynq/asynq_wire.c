/* SPDX-License-Identifier: MIT */
/* asynq_wire.c - texts, times and memory of a conversion.
 *
 * protobuf-c allocates from the arena; memory that it frees stays there until the arena is reset. A
 * few bytes can claim many fields, each with a struct of its own, so a message may use only as much
 * memory as its size justifies: a message that needs more is corrupt, as is one that cannot be
 * decoded. */
#include "message/asynq/asynq_wire.h"

#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "message/asynq/asynq_lenient.h"

#define GO_ZERO_TIME_SECONDS INT64_C(-62135596800) /* 0001-01-01, Go's "never" */
#define SECONDS_MAX (INT64_MAX / 1000)

/* Memory for one decoding: enough for thousands of small fields, and a few copies of large ones. */
#define BUDGET_MIN ((size_t)64 << 10)
#define BUDGET_PER_BYTE 4
#define BUDGET_PER_BYTE_OF_SMALL 32
#define SMALL_SIZE ((size_t)1 << 20)

struct qn_asynq_time qn_asynq_time_of_ms(int64_t at_ms)
{
    if (at_ms == 0) {
        return (struct qn_asynq_time){.seconds = GO_ZERO_TIME_SECONDS};
    }
    int64_t seconds = at_ms / 1000;
    int64_t rest_ms = at_ms % 1000;
    if (rest_ms < 0) { /* nanoseconds count forward, also before 1970 */
        rest_ms += 1000;
        seconds--;
    }
    return (struct qn_asynq_time){.seconds = seconds, .nanos = (int32_t)rest_ms * 1000000};
}

int64_t qn_asynq_time_ms(struct qn_asynq_time time)
{
    if (time.seconds <= GO_ZERO_TIME_SECONDS) {
        return 0;
    }
    int64_t seconds = time.seconds < SECONDS_MAX ? time.seconds : SECONDS_MAX - 1;
    return seconds * 1000 + time.nanos / 1000000;
}

static void fail(struct qn_wire *wire, quern_status status, const char *field, const char *why)
{
    if (wire->status == QUERN_OK) {
        wire->status =
            qn_error_set(wire->err, status, "message of %s: %s %s", wire->message, field, why);
    }
}

static void fail_nomem(struct qn_wire *wire)
{
    if (wire->status == QUERN_OK) {
        wire->status = qn_error_nomem(wire->err);
    }
}

void *qn_wire_alloc(struct qn_wire *wire, size_t count, size_t size)
{
    if (count == 0 || wire->status != QUERN_OK) {
        return NULL;
    }
    void *block = count > SIZE_MAX / size ? NULL : qn_arena_alloc(wire->arena, count * size);
    if (block == NULL) {
        fail_nomem(wire);
        return NULL;
    }
    memset(block, 0, count * size);
    return block;
}

ProtobufCBinaryData qn_wire_put_bytes(const void *data, size_t size)
{
    /* protobuf-c has one type for both directions; while packing it only reads. */
    return (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)data};
}

ProtobufCBinaryData qn_wire_put_text(struct qn_wire *wire, const char *field, const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text);
    if (size > 0 && !qn_utf8_valid(text, size)) {
        fail(wire, QUERN_E_INVALID, field, "is not valid UTF-8");
    }
    return qn_wire_put_bytes(text, size);
}

ProtobufCBinaryData qn_wire_put_clean(struct qn_wire *wire, const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text);
    if (size == 0 || qn_utf8_valid(text, size)) {
        return qn_wire_put_bytes(text, size);
    }
    size_t clean_max = 3 * size + 1; /* each bad byte becomes three */
    char *clean = qn_wire_alloc(wire, clean_max, 1);
    size = clean == NULL ? 0 : qn_utf8_sanitize(text, size, clean, clean_max);
    return qn_wire_put_bytes(clean, size);
}

int32_t qn_wire_put_int32(struct qn_wire *wire, const char *field, int64_t number)
{
    if (number < INT32_MIN || number > INT32_MAX) {
        fail(wire, QUERN_E_INVALID, field, "does not fit 32 bits");
        return 0;
    }
    return (int32_t)number;
}

Asynq__Timestamp *qn_wire_put_time(struct qn_wire *wire, struct qn_asynq_time time)
{
    Asynq__Timestamp *stamp = qn_wire_alloc(wire, 1, sizeof *stamp);
    if (stamp != NULL) {
        asynq__timestamp__init(stamp);
        stamp->seconds = time.seconds;
        stamp->nanos = time.nanos;
    }
    return stamp;
}

quern_status qn_wire_pack(struct qn_wire *wire, const ProtobufCMessage *message,
                          struct qn_bytes *ret_bytes)
{
    if (wire->status != QUERN_OK) {
        return wire->status;
    }
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *data = qn_arena_alloc(wire->arena, size);
    if (data == NULL) {
        fail_nomem(wire);
        return wire->status;
    }
    *ret_bytes = (struct qn_bytes){.data = data, .size = protobuf_c_message_pack(message, data)};
    return QUERN_OK;
}

/* The memory that one unpacking may still use. */
struct budget {
    struct qn_arena *arena;
    size_t left;
    bool exceeded;
    bool out_of_memory;
};

static void *budget_alloc(void *user, size_t size)
{
    struct budget *budget = user;
    if (size > budget->left) {
        budget->exceeded = true;
        return NULL;
    }
    budget->left -= size;
    void *block = qn_arena_alloc(budget->arena, size + 1); /* room for a text's NUL */
    budget->out_of_memory = budget->out_of_memory || block == NULL;
    return block;
}

static void budget_free(void *user, void *block)
{
    (void)user;
    (void)block;
}

/* protobuf-c takes a field number of 0 when it is written long enough; no one could read it back.
 */
static bool has_field_0(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        if (message->unknown_fields[i].tag == 0) {
            return true;
        }
    }
    return false;
}

ProtobufCMessage *qn_wire_unpack(struct qn_wire *wire, const ProtobufCMessageDescriptor *descriptor,
                                 const void *data, size_t size)
{
    size_t small = size < SMALL_SIZE ? size : SMALL_SIZE;
    struct budget budget = {.arena = wire->arena,
                            .left = BUDGET_MIN + BUDGET_PER_BYTE * size +
                                    BUDGET_PER_BYTE_OF_SMALL * small};
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, size, data);
    if (message == NULL && !budget.exceeded && !budget.out_of_memory) {
        uint8_t *copy = budget_alloc(&budget, size);
        bool is_read = copy != NULL && qn_lenient_copy(descriptor, data, size, copy, &size);
        message = is_read ? protobuf_c_message_unpack(descriptor, &allocator, size, copy) : NULL;
    }
    if (budget.out_of_memory) {
        fail_nomem(wire);
        return NULL;
    }
    if (message == NULL || has_field_0(message)) {
        fail(wire, QUERN_E_CORRUPT, "its bytes",
             budget.exceeded ? "hold too many fields" : "cannot be decoded");
        return NULL;
    }
    return message;
}

const char *qn_wire_get_text(struct qn_wire *wire, const char *field, ProtobufCBinaryData bytes)
{
    if (bytes.len == 0 || wire->status != QUERN_OK) {
        return "";
    }
    if (wire->cleans && memchr(bytes.data, '\0', bytes.len) != NULL) {
        return qn_wire_get_clean(wire, field, bytes);
    }
    char *text = (char *)bytes.data;
    if (!qn_utf8_valid(text, bytes.len)) {
        fail(wire, QUERN_E_CORRUPT, field, "is not valid UTF-8");
        return "";
    }
    if (memchr(text, '\0', bytes.len) != NULL) {
        fail(wire, QUERN_E_CORRUPT, field, "holds a NUL byte");
        return "";
    }
    text[bytes.len] = '\0';
    return text;
}

const char *qn_wire_get_clean(struct qn_wire *wire, const char *field, ProtobufCBinaryData bytes)
{
    if (bytes.len == 0 || memchr(bytes.data, '\0', bytes.len) == NULL ||
        !qn_utf8_valid((char *)bytes.data, bytes.len)) {
        return qn_wire_get_text(wire, field, bytes);
    }
    size_t clean_max = 3 * bytes.len + 1;
    char *clean = qn_wire_alloc(wire, clean_max, 1);
    if (clean == NULL) {
        return "";
    }
    (void)qn_utf8_sanitize((char *)bytes.data, bytes.len, clean, clean_max);
    return clean;
}

struct qn_asynq_time qn_wire_get_time(const Asynq__Timestamp *time)
{
    if (time == NULL) {
        return (struct qn_asynq_time){.seconds = GO_ZERO_TIME_SECONDS};
    }
    return (struct qn_asynq_time){.seconds = time->seconds, .nanos = time->nanos};
}
