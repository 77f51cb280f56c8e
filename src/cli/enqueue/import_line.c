/* SPDX-License-Identifier: MIT */
/* import_line.c - one line of JSON becomes one task.
 *
 * The line is an object; each key has a row in the table below. A key that is not there is refused
 * with the nearest one, because a misspelled "retry_max" that is silently ignored shows only when
 * the task fails. Durations and moments are numbers of seconds or texts as on the command line.
 * A payload that is a string is stored as its bytes, any other value as its compact JSON text.
 * Every failure is QUERN_E_INVALID with one line of text; nothing of the line is kept then. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "base/text/number.h"
#include "base/text/size.h"
#include "base/text/str.h"
#include "cli/enqueue/import.h"
#include "cli/memory.h"
#include "cli/output/base64.h"
#include "task/limits.h"
#include "task/policy.h"
#include "task/trace/trace_headers.h"

#define MS_PER_S 1000.0

/* Reads the value of a key that needs more than its field. */
typedef quern_status read_value(struct qn_import_line *line, const char *key, json_t *value,
                                quern_error *err);

static quern_status refuse_kind(const char *key, const char *what, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID, "\"%s\" is not %s", key, what);
}

static quern_status read_text(const char *key, json_t *value, const char **ret_text,
                              quern_error *err)
{
    const char *text = json_string_value(value);
    if (text == NULL) {
        return refuse_kind(key, "a string", err);
    }
    if (strlen(text) != json_string_length(value)) {
        return refuse_kind(key, "free of NUL characters", err);
    }
    *ret_text = text;
    return QUERN_OK;
}

/* --- Payloads ------------------------------------------------------------------------- */

static bool has_real(json_t *value)
{
    json_t *member = NULL;
    size_t index = 0;
    if (json_is_real(value)) {
        return true;
    }
    json_array_foreach(value, index, member)
    {
        if (has_real(member)) {
            return true;
        }
    }
    void *iterator = json_object_iter(value);
    for (; iterator != NULL; iterator = json_object_iter_next(value, iterator)) {
        if (has_real(json_object_iter_value(iterator))) {
            return true;
        }
    }
    return false;
}

/* The compact text with as few digits as give the same numbers back: 1.1 stays 1.1. */
static char *compact_text(json_t *value)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY;
    if (!has_real(value)) {
        return json_dumps(value, flags);
    }
    for (size_t digits = 15; digits < 17; digits++) {
        char *text = json_dumps(value, flags | JSON_REAL_PRECISION(digits));
        json_t *again = text == NULL ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
        bool same = again != NULL && json_equal(again, value) == 1;
        json_decref(again);
        if (same) {
            return text;
        }
        free(text);
    }
    return json_dumps(value, flags | JSON_REAL_PRECISION(17));
}

static quern_status refuse_second_payload(struct qn_import_line *line, quern_error *err)
{
    if (line->payload == NULL && line->task.payload == NULL) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID, "\"payload\" and \"payload_base64\" both given");
}

static quern_status read_payload(struct qn_import_line *line, const char *key, json_t *value,
                                 quern_error *err)
{
    (void)key;
    quern_status status = refuse_second_payload(line, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (json_is_string(value)) {
        line->task.payload = json_string_value(value);
        line->task.payload_size = json_string_length(value);
        return QUERN_OK;
    }
    char *text = qn_memory_must(compact_text(value));
    line->task.payload_size = strlen(text);
    line->payload = qn_str_dup(text);
    free(text);
    line->task.payload = qn_memory_must(line->payload);
    return QUERN_OK;
}

static quern_status read_base64(struct qn_import_line *line, const char *key, json_t *value,
                                quern_error *err)
{
    quern_status status = refuse_second_payload(line, err);
    if (status != QUERN_OK) {
        return status;
    }
    size_t size = json_string_length(value);
    line->payload = qn_memory_must(qn_alloc(size / 4 * 3 + 4));
    line->task.payload = line->payload;
    if (!json_is_string(value) || !qn_base64_decode(json_string_value(value), size, line->payload,
                                                    &line->task.payload_size)) {
        return refuse_kind(key, "base64", err);
    }
    return QUERN_OK;
}

/* --- Numbers and times ---------------------------------------------------------------- */

static quern_status read_duration(const char *key, json_t *value, int64_t *ret_ms, quern_error *err)
{
    if (json_is_string(value)) {
        quern_status status = qn_duration_parse(json_string_value(value), ret_ms, err);
        if (status != QUERN_OK) {
            qn_error_prefix(err, "\"%s\"", key);
        }
        return status;
    }
    double ms = json_number_value(value) * MS_PER_S;
    if (!json_is_number(value) || ms < 0 || ms > (double)QN_DURATION_MS_MAX) {
        return refuse_kind(key, "a duration: seconds, or a text such as \"1m30s\"", err);
    }
    *ret_ms = (int64_t)(ms + 0.5);
    return QUERN_OK;
}

static quern_status read_moment(const char *key, json_t *value, int64_t *ret_at_ms,
                                quern_error *err)
{
    if (json_is_string(value)) {
        quern_status status = qn_moment_parse(json_string_value(value), ret_at_ms, err);
        if (status != QUERN_OK) {
            qn_error_prefix(err, "\"%s\"", key);
        }
        return status;
    }
    double ms = json_number_value(value) * MS_PER_S;
    if (!json_is_number(value) || ms < 0 || ms > 2.0 * (double)QN_DURATION_MS_MAX) {
        return refuse_kind(key, "a moment: seconds since 1970, or a text as 2026-11-20T12:00:00Z",
                           err);
    }
    *ret_at_ms = (int64_t)(ms + 0.5);
    return QUERN_OK;
}

static bool is_never(const json_t *value)
{
    return json_is_string(value) ? strcmp(json_string_value(value), "never") == 0
                                 : json_is_number(value) && json_number_value(value) == -1;
}

/* 0 would be the default in C and no limit elsewhere: here it is neither. */
static quern_status refuse_0(const char *key, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID,
                        "\"%s\" 0 is refused: use -1 for never, or leave it out for the default",
                        key);
}

static quern_status read_timeout(struct qn_import_line *line, const char *key, json_t *value,
                                 quern_error *err)
{
    if (is_never(value)) {
        line->task.timeout_ms = QUERN_TIMEOUT_NEVER;
        return QUERN_OK;
    }
    quern_status status = read_duration(key, value, &line->task.timeout_ms, err);
    return status == QUERN_OK && line->task.timeout_ms == 0 ? refuse_0(key, err) : status;
}

static quern_status read_retry_max(struct qn_import_line *line, const char *key, json_t *value,
                                   quern_error *err)
{
    if (is_never(value)) {
        line->task.retry_max = QUERN_RETRY_NEVER;
        return QUERN_OK;
    }
    json_int_t count = json_integer_value(value);
    if (!json_is_integer(value) || count < 0 || count > INT32_MAX) {
        return refuse_kind(key, "a whole number from 1 on, or -1 for never", err);
    }
    line->task.retry_max = count;
    return count == 0 ? refuse_0(key, err) : QUERN_OK;
}

static quern_status read_priority(struct qn_import_line *line, const char *key, json_t *value,
                                  quern_error *err)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < -QN_PRIORITY_MAX || number > QN_PRIORITY_MAX) {
        return refuse_kind(key, "a whole number from -100 to 100", err);
    }
    line->task.priority = (int32_t)number;
    return QUERN_OK;
}

static quern_status read_memory(struct qn_import_line *line, const char *key, json_t *value,
                                quern_error *err)
{
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        line->task.memory_max = json_integer_value(value);
        return QUERN_OK;
    }
    if (!json_is_string(value)) {
        return refuse_kind(key, "a number of bytes or a size such as 512M", err);
    }
    quern_status status = qn_size_parse(json_string_value(value), &line->task.memory_max, err);
    if (status != QUERN_OK) {
        qn_error_prefix(err, "%s", key);
    }
    return status;
}

static quern_status read_unique_until(struct qn_import_line *line, const char *key, json_t *value,
                                      quern_error *err)
{
    bool known = json_is_string(value) &&
                 qn_policy_until(json_string_value(value), &line->task.unique_until);
    return known ? QUERN_OK : refuse_kind(key, QN_POLICY_UNTIL, err);
}

static quern_status read_on_duplicate(struct qn_import_line *line, const char *key, json_t *value,
                                      quern_error *err)
{
    bool known = json_is_string(value) &&
                 qn_policy_on_duplicate(json_string_value(value), &line->task.on_duplicate);
    return known ? QUERN_OK : refuse_kind(key, QN_POLICY_ON_DUPLICATE, err);
}

static quern_status read_headers(struct qn_import_line *line, const char *key, json_t *value,
                                 quern_error *err)
{
    size_t count = json_object_size(value);
    if (!json_is_object(value) || count > QN_HEADER_COUNT_MAX) {
        return refuse_kind(key, "an object of at most 64 strings", err);
    }
    line->headers = qn_memory_must(qn_alloc_zero(count + 1, sizeof *line->headers));
    size_t index = 0;
    for (void *iterator = json_object_iter(value); iterator != NULL;
         iterator = json_object_iter_next(value, iterator)) {
        quern_header *header = &line->headers[index++];
        header->name = json_object_iter_key(iterator);
        quern_status status =
            read_text(header->name, json_object_iter_value(iterator), &header->value, err);
        if (status != QUERN_OK) {
            qn_error_prefix(err, "headers");
            return status;
        }
    }
    line->task.headers = line->headers;
    line->task.header_count = count;
    if (qn_trace_headers_parent((struct qn_trace_headers){line->headers, count}) != NULL) {
        line->task.traceparent = NULL; /* of this program: the task has its own */
        line->task.tracestate = NULL;
    }
    return QUERN_OK;
}

/* The rest of a task that `quern task save` wrote; it is no part of the new one. */
static quern_status skip_saved(struct qn_import_line *line, const char *key, json_t *value,
                               quern_error *err)
{
    (void)line;
    return json_is_object(value) ? QUERN_OK : refuse_kind(key, "an object", err);
}

/* --- The line ------------------------------------------------------------------------- */

enum kind {
    KIND_OTHER, /* `read` does it */
    KIND_TEXT,
    KIND_DURATION,
    KIND_MOMENT
};

#define FIELD(member) offsetof(struct qn_import_line, task.member)

/* The keys of a line; documented in docs/guide/cli.md and man/quern.1. */
static const struct {
    const char *name;
    enum kind kind;
    size_t offset; /* of the field, unless `read` does it */
    read_value *read;
} keys[] = {
    {"type", KIND_TEXT, FIELD(type)},
    {"payload", .read = read_payload},
    {"payload_base64", .read = read_base64},
    {"queue", KIND_TEXT, FIELD(queue)},
    {"id", KIND_TEXT, FIELD(id)},
    {"retry_max", .read = read_retry_max},
    {"delay", KIND_DURATION, FIELD(delay_ms)},
    {"process_at", KIND_MOMENT, FIELD(process_at_ms)},
    {"timeout", .read = read_timeout},
    {"deadline", KIND_MOMENT, FIELD(deadline_at_ms)},
    {"priority", .read = read_priority},
    {"start_within", KIND_DURATION, FIELD(start_within_ms)},
    {"unique", KIND_DURATION, FIELD(unique_ms)},
    {"unique_key", KIND_TEXT, FIELD(unique_key)},
    {"unique_until", .read = read_unique_until},
    {"on_duplicate", .read = read_on_duplicate},
    {"retention", KIND_DURATION, FIELD(retention_ms)},
    {"group", KIND_TEXT, FIELD(group)},
    {"limit_key", KIND_TEXT, FIELD(limit_key)},
    {"kill_after", KIND_DURATION, FIELD(kill_after_ms)},
    {"cpu", KIND_DURATION, FIELD(cpu_ms)},
    {"memory", .read = read_memory},
    {"headers", .read = read_headers},
    {"saved", .read = skip_saved},
};
#undef FIELD

static quern_status refuse_key(const char *key, quern_error *err)
{
    const char *names[QN_COUNT_OF(keys)];
    for (size_t i = 0; i < QN_COUNT_OF(keys); i++) {
        names[i] = keys[i].name;
    }
    const char *nearest = qn_cli_nearest(key, names, QN_COUNT_OF(keys));
    if (nearest == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "unknown key \"%s\"", key);
    }
    return qn_error_set(err, QUERN_E_INVALID, "unknown key \"%s\"; did you mean \"%s\"?", key,
                        nearest);
}

static quern_status read_key(struct qn_import_line *line, const char *key, json_t *value,
                             quern_error *err)
{
    for (size_t i = 0; i < QN_COUNT_OF(keys); i++) {
        if (strcmp(keys[i].name, key) != 0) {
            continue;
        }
        void *field = (char *)line + keys[i].offset;
        switch (keys[i].kind) {
        case KIND_OTHER:
            return keys[i].read(line, key, value, err);
        case KIND_TEXT:
            return read_text(key, value, field, err);
        case KIND_DURATION:
            return read_duration(key, value, field, err);
        case KIND_MOMENT:
            return read_moment(key, value, field, err);
        }
    }
    return refuse_key(key, err);
}

quern_status qn_import_line_parse(const char *text, size_t size, const quern_task *defaults,
                                  struct qn_import_line *ret_line, quern_error *err)
{
    json_error_t reason;
    struct qn_import_line line = {.task = *defaults};
    line.json = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (line.json == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "not JSON: %s", reason.text);
    }
    quern_status status = QUERN_OK;
    if (!json_is_object(line.json)) {
        status = qn_error_set(err, QUERN_E_INVALID, "not a JSON object");
    }
    /* The moment of the run may come from the options, but not a part from each. */
    if (json_object_get(line.json, "delay") != NULL) {
        line.task.process_at_ms = 0;
    } else if (json_object_get(line.json, "process_at") != NULL) {
        line.task.delay_ms = 0;
    }
    for (void *iterator = json_object_iter(line.json); iterator != NULL && status == QUERN_OK;
         iterator = json_object_iter_next(line.json, iterator)) {
        status =
            read_key(&line, json_object_iter_key(iterator), json_object_iter_value(iterator), err);
    }
    if (status == QUERN_OK && line.task.type == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "no \"type\"");
    }
    if (status != QUERN_OK) {
        qn_import_line_finish(&line);
        return status;
    }
    *ret_line = line;
    return QUERN_OK;
}

void qn_import_line_finish(struct qn_import_line *line)
{
    json_decref(line->json);
    qn_free(line->payload);
    qn_free(line->headers);
    *line = (struct qn_import_line){0};
}
