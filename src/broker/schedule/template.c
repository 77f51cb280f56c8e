/* SPDX-License-Identifier: MIT */
/* template.c - the task of an entry as bytes.
 *
 * The bytes may have been written by any program, so each size is compared with what is left, names
 * are checked, and numbers are clamped. A tag that is not known is an error: a task without a field
 * that was set would be another task. */
#include "broker/schedule/template.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "task/limits.h"
#include "task/name.h"

#define VERSION 1
#define HEAD_SIZE 5 /* tag and size */
#define NUMBER_SIZE 8
#define RETRY_KIND_MAX 3

/* Stored: never renumber. */
enum tag {
    TAG_TYPE = 1,
    TAG_PAYLOAD = 2,
    TAG_RETRY_MAX = 3,
    TAG_RETRY_KIND = 4,
    TAG_RETRY_BASE = 5,
    TAG_RETRY_CAP = 6,
    TAG_PROCESS_AT = 7,
    TAG_DELAY = 8,
    TAG_TIMEOUT = 9,
    TAG_DEADLINE = 10,
    TAG_UNIQUE = 11,
    TAG_UNIQUE_KEY = 12,
    TAG_UNIQUE_UNTIL = 13,
    TAG_ON_DUPLICATE = 14,
    TAG_RETENTION = 15,
    TAG_GROUP = 16,
    TAG_LIMIT_KEY = 17,
    TAG_START_BY = 18,
    TAG_PRIORITY = 19,
    TAG_HEADER = 20, /* name NUL value; one for each */
    TAG_KILL_AFTER = 21,
    TAG_CPU = 22,
    TAG_MEMORY_MAX = 23
};

/* --- Writing ------------------------------------------------------------------------ */

/* Keeps its first failure. */
struct writer {
    struct qn_buf *buf;
    quern_status status;
};

static void put_head(struct writer *writer, enum tag tag, size_t size)
{
    unsigned char head[HEAD_SIZE] = {(unsigned char)tag};
    if (size > UINT32_MAX && writer->status == QUERN_OK) {
        writer->status = QUERN_E_FULL;
    }
    for (size_t i = 1; i < HEAD_SIZE; i++) {
        head[i] = (unsigned char)(size >> (8 * (i - 1)));
    }
    if (writer->status == QUERN_OK) {
        writer->status = qn_buf_append(writer->buf, head, sizeof head);
    }
}

static void put_raw(struct writer *writer, const void *data, size_t size)
{
    if (writer->status == QUERN_OK) {
        writer->status = qn_buf_append(writer->buf, data, size);
    }
}

static void put_bytes(struct writer *writer, enum tag tag, const void *data, size_t size)
{
    if (data != NULL && size > 0) {
        put_head(writer, tag, size);
        put_raw(writer, data, size);
    }
}

static void put_text(struct writer *writer, enum tag tag, const char *text)
{
    if (text != NULL) {
        put_bytes(writer, tag, text, strlen(text));
    }
}

static void put_number(struct writer *writer, enum tag tag, int64_t number)
{
    unsigned char bytes[NUMBER_SIZE];
    for (size_t i = 0; i < NUMBER_SIZE; i++) {
        bytes[i] = (unsigned char)((uint64_t)number >> (8 * i));
    }
    if (number != 0) {
        put_bytes(writer, tag, bytes, sizeof bytes);
    }
}

static void put_header(struct writer *writer, const quern_header *header)
{
    const char *value = header->value == NULL ? "" : header->value;
    size_t name_size = strlen(header->name) + 1;
    put_head(writer, TAG_HEADER, name_size + strlen(value));
    put_raw(writer, header->name, name_size);
    put_raw(writer, value, strlen(value));
}

quern_status qn_template_encode(struct qn_buf *buf, const struct qn_task *task, quern_error *err)
{
    const unsigned char version = VERSION;
    struct writer writer = {.buf = buf};
    put_raw(&writer, &version, 1);
    put_text(&writer, TAG_TYPE, task->type);
    put_bytes(&writer, TAG_PAYLOAD, task->payload, task->payload_size);
    put_number(&writer, TAG_RETRY_MAX, task->retry_max);
    put_number(&writer, TAG_RETRY_KIND, task->retry.kind);
    put_number(&writer, TAG_RETRY_BASE, task->retry.base_ms);
    put_number(&writer, TAG_RETRY_CAP, task->retry.cap_ms);
    put_number(&writer, TAG_PROCESS_AT, task->process_at_ms);
    put_number(&writer, TAG_DELAY, task->delay_ms);
    put_number(&writer, TAG_TIMEOUT, task->timeout_ms);
    put_number(&writer, TAG_DEADLINE, task->deadline_at_ms);
    put_number(&writer, TAG_UNIQUE, task->unique_ms);
    put_text(&writer, TAG_UNIQUE_KEY, task->unique_key);
    put_number(&writer, TAG_UNIQUE_UNTIL, task->unique_until);
    put_number(&writer, TAG_ON_DUPLICATE, task->on_duplicate);
    put_number(&writer, TAG_RETENTION, task->retention_ms);
    put_text(&writer, TAG_GROUP, task->group);
    put_text(&writer, TAG_LIMIT_KEY, task->limit_key);
    put_number(&writer, TAG_START_BY, task->start_by_at_ms);
    put_number(&writer, TAG_PRIORITY, task->priority);
    for (size_t i = 0; i < task->header_count; i++) {
        put_header(&writer, &task->headers[i]);
    }
    put_number(&writer, TAG_KILL_AFTER, task->kill_after_ms);
    put_number(&writer, TAG_CPU, task->cpu_ms);
    put_number(&writer, TAG_MEMORY_MAX, task->memory_max);
    if (writer.status == QUERN_E_FULL) {
        return qn_error_set(err, QUERN_E_INVALID, "the task of the entry has more than %zu bytes",
                            buf->size_max);
    }
    return writer.status == QUERN_OK ? QUERN_OK : qn_error_nomem(err);
}

/* --- Reading ------------------------------------------------------------------------ */

/* Keeps its first failure. */
struct reader {
    struct qn_arena *arena;
    quern_error *err;
    quern_status status;
    quern_header *headers;
    size_t header_count;
};

struct field {
    unsigned tag;
    const unsigned char *data;
    size_t size;
};

static void fail(struct reader *reader, const char *why)
{
    if (reader->status == QUERN_OK) {
        reader->status =
            qn_error_set(reader->err, QUERN_E_CORRUPT, "the task of the entry: %s", why);
    }
}

/* Takes the next field; false: there is none, or it is cut. */
static bool take_field(struct reader *reader, struct qn_bytes *rest, struct field *ret_field)
{
    const unsigned char *at = rest->data;
    if (reader->status != QUERN_OK || rest->size == 0) {
        return false;
    }
    if (rest->size < HEAD_SIZE) {
        fail(reader, "it is cut");
        return false;
    }
    size_t size = 0;
    for (size_t i = HEAD_SIZE - 1; i > 0; i--) {
        size = size << 8 | at[i];
    }
    if (size > rest->size - HEAD_SIZE) {
        fail(reader, "it is cut");
        return false;
    }
    *ret_field = (struct field){.tag = at[0], .data = at + HEAD_SIZE, .size = size};
    *rest = (struct qn_bytes){.data = at + HEAD_SIZE + size, .size = rest->size - HEAD_SIZE - size};
    return true;
}

/* A copy with a NUL behind it. */
static char *get_bytes(struct reader *reader, const struct field *field)
{
    char *copy = qn_arena_alloc(reader->arena, field->size + 1);
    if (copy == NULL) {
        reader->status = qn_error_nomem(reader->err);
        return NULL;
    }
    if (field->size > 0) {
        memcpy(copy, field->data, field->size);
    }
    copy[field->size] = '\0';
    return copy;
}

static const char *get_name(struct reader *reader, const struct field *field, const char *what)
{
    const char *text = get_bytes(reader, field);
    bool is_whole = text != NULL && strlen(text) == field->size;
    if (text != NULL && (!is_whole || qn_name_check(what, text, NULL) != QUERN_OK)) {
        fail(reader, "a name that is none");
    }
    return text;
}

/* The key of a lock is longer than a name, as it has the queue in it. */
static const char *get_text(struct reader *reader, const struct field *field)
{
    const char *text = get_bytes(reader, field);
    if (text != NULL && strlen(text) != field->size) {
        fail(reader, "a NUL in a text");
    }
    return text;
}

static int64_t get_signed(struct reader *reader, const struct field *field)
{
    uint64_t number = 0;
    if (field->size != NUMBER_SIZE) {
        fail(reader, "a number of a wrong size");
        return 0;
    }
    for (size_t i = NUMBER_SIZE; i > 0; i--) {
        number = number << 8 | field->data[i - 1];
    }
    return (int64_t)number;
}

static int64_t get_number(struct reader *reader, const struct field *field, int64_t max)
{
    return qn_number_clamp(get_signed(reader, field), 0, max);
}

static void get_header(struct reader *reader, const struct field *field)
{
    if (reader->headers == NULL) {
        reader->headers =
            qn_arena_alloc(reader->arena, QN_HEADER_COUNT_MAX * sizeof *reader->headers);
    }
    const char *text = get_bytes(reader, field);
    if (reader->headers == NULL || text == NULL) {
        reader->status = qn_error_nomem(reader->err);
        return;
    }
    size_t name_size = strlen(text);
    if (reader->header_count == QN_HEADER_COUNT_MAX || name_size == field->size ||
        qn_name_check("header", text, NULL) != QUERN_OK ||
        name_size + 1 + strlen(text + name_size + 1) != field->size) {
        fail(reader, "a header that is none");
        return;
    }
    reader->headers[reader->header_count++] =
        (quern_header){.name = text, .value = text + name_size + 1};
}

/* False: it is not a text. */
static bool get_texts(struct reader *reader, const struct field *field, struct qn_task *task)
{
    switch (field->tag) {
    case TAG_TYPE:
        task->type = get_name(reader, field, "type");
        return true;
    case TAG_PAYLOAD:
        task->payload = get_bytes(reader, field);
        task->payload_size = field->size;
        return true;
    case TAG_UNIQUE_KEY:
        task->unique_key = get_text(reader, field);
        return true;
    case TAG_GROUP:
        task->group = get_name(reader, field, "group");
        return true;
    case TAG_LIMIT_KEY:
        task->limit_key = get_name(reader, field, "limit key");
        return true;
    case TAG_HEADER:
        get_header(reader, field);
        return true;
    default:
        return false;
    }
}

static void get_numbers(struct reader *reader, const struct field *field, struct qn_task *task)
{
    switch (field->tag) {
    case TAG_RETRY_MAX:
        task->retry_max = get_number(reader, field, INT32_MAX);
        break;
    case TAG_RETRY_KIND:
        task->retry.kind = (int32_t)get_number(reader, field, RETRY_KIND_MAX);
        break;
    case TAG_RETRY_BASE:
        task->retry.base_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_RETRY_CAP:
        task->retry.cap_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_PROCESS_AT:
        task->process_at_ms = get_number(reader, field, QN_MOMENT_MS_MAX);
        break;
    case TAG_DELAY:
        task->delay_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_TIMEOUT:
        task->timeout_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_DEADLINE:
        task->deadline_at_ms = get_number(reader, field, QN_MOMENT_MS_MAX);
        break;
    case TAG_UNIQUE:
        task->unique_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_UNIQUE_UNTIL:
        task->unique_until = (int32_t)get_number(reader, field, QUERN_UNIQUE_UNTIL_EXPIRED);
        break;
    case TAG_ON_DUPLICATE:
        task->on_duplicate = (int32_t)get_number(reader, field, QUERN_ON_DUPLICATE_DEBOUNCE);
        break;
    case TAG_RETENTION:
        task->retention_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_START_BY:
        task->start_by_at_ms = get_number(reader, field, QN_MOMENT_MS_MAX);
        break;
    case TAG_PRIORITY: /* the only one that may be negative */
        task->priority =
            (int32_t)qn_number_clamp(get_signed(reader, field), -QN_PRIORITY_MAX, QN_PRIORITY_MAX);
        break;
    case TAG_KILL_AFTER:
        task->kill_after_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_CPU:
        task->cpu_ms = get_number(reader, field, QN_DURATION_MS_MAX);
        break;
    case TAG_MEMORY_MAX:
        task->memory_max = get_number(reader, field, INT64_MAX);
        break;
    default:
        fail(reader, "a field that this version does not know");
    }
}

quern_status qn_template_decode(struct qn_arena *arena, struct qn_bytes bytes,
                                struct qn_task *ret_task, quern_error *err)
{
    struct reader reader = {.arena = arena, .err = err};
    struct qn_task task = {0};
    struct field field;
    const unsigned char *start = bytes.data;
    if (bytes.size == 0 || start[0] != VERSION) {
        fail(&reader, "a version that this one does not know");
    } else {
        bytes = (struct qn_bytes){.data = start + 1, .size = bytes.size - 1};
    }
    while (take_field(&reader, &bytes, &field)) {
        if (!get_texts(&reader, &field, &task)) {
            get_numbers(&reader, &field, &task);
        }
    }
    if (task.type == NULL) {
        fail(&reader, "it has no type");
    }
    if (reader.status != QUERN_OK) {
        return reader.status;
    }
    task.unique_span_ms = task.unique_ms;
    task.headers = reader.headers;
    task.header_count = reader.header_count;
    task.state = task.group != NULL ? QUERN_TASK_AGGREGATING : QUERN_TASK_PENDING;
    *ret_task = task;
    return QUERN_OK;
}
