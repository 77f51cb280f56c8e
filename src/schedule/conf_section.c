/* SPDX-License-Identifier: MIT */
/* conf_section.c - the keys of a section.
 *
 * Each key has a row in the table below. Names are those of the options of `quern enqueue`, with _
 * or - between words; times are written as there. An unknown key is refused with the nearest one,
 * since a misspelled option that is ignored shows only when a task fails. */
#include "schedule/conf_section.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "base/text/number.h"
#include "base/text/size.h"
#include "base/text/str.h"
#include "task/name.h"
#include "task/policy.h"

#define NEAR_MAX 2 /* letters by which a key may be misspelled to be suggested */

enum kind {
    KIND_TEXT,
    KIND_DURATION,
    KIND_LATE,  /* 0 is none */
    KIND_NEVER, /* a duration, or never */
    KIND_MOMENT,
    KIND_COUNT, /* or never */
    KIND_PRIORITY,
    KIND_SIZE,
    KIND_UNTIL,
    KIND_ON_DUPLICATE,
    KIND_HEADER,
    KIND_PAYLOAD,
    KIND_REFUSED
};

#define ENTRY(member) offsetof(struct qn_entry_given, member)
#define TASK(member) offsetof(struct qn_entry_given, task.member)

static const struct {
    const char *name;
    enum kind kind;
    size_t offset;   /* of the field */
    bool is_free;    /* any text: a ; behind a blank belongs to it */
    const char *why; /* refused */
} keys[] = {
    {"cron", KIND_TEXT, ENTRY(cron)},
    {"zone", KIND_TEXT, ENTRY(zone)},
    {"misfire", KIND_TEXT, ENTRY(misfire)},
    {"late", KIND_LATE, ENTRY(late_ms)},
    {"jitter", KIND_DURATION, ENTRY(jitter_ms)},
    {"type", KIND_TEXT, TASK(type)},
    {"payload", KIND_PAYLOAD, .is_free = true},
    {"queue", KIND_TEXT, TASK(queue)},
    {"retry_max", KIND_COUNT, TASK(retry_max)},
    {"timeout", KIND_NEVER, TASK(timeout_ms)},
    {"deadline", KIND_MOMENT, TASK(deadline_at_ms)},
    {"delay", KIND_DURATION, TASK(delay_ms)},
    {"start_within", KIND_DURATION, TASK(start_within_ms)},
    {"unique", KIND_DURATION, TASK(unique_ms)},
    {"unique_key", KIND_TEXT, TASK(unique_key), .is_free = true},
    {"unique_until", KIND_UNTIL, TASK(unique_until)},
    {"on_duplicate", KIND_ON_DUPLICATE, TASK(on_duplicate)},
    {"retention", KIND_DURATION, TASK(retention_ms)},
    {"group", KIND_TEXT, TASK(group), .is_free = true},
    {"limit_key", KIND_TEXT, TASK(limit_key), .is_free = true},
    {"priority", KIND_PRIORITY, TASK(priority)},
    {"kill_after", KIND_DURATION, TASK(kill_after_ms)},
    {"cpu", KIND_DURATION, TASK(cpu_ms)},
    {"memory", KIND_SIZE, TASK(memory_max)},
    {"header", KIND_HEADER, .is_free = true},
    {"id", KIND_REFUSED, .why = "each task gets its own, of the section's name and the tick"},
    {"process_at", KIND_REFUSED, .why = "cron decides, and a delay counts from there"},
};
#undef ENTRY
#undef TASK

#define KEY_COUNT (sizeof keys / sizeof *keys)
_Static_assert(KEY_COUNT <= QN_CONF_KEYS_MAX, "the lines of a section have room for each key");

void qn_conf_section_init(struct qn_conf_section *section, struct qn_arena *arena)
{
    *section = (struct qn_conf_section){.arena = arena};
    qn_buf_init(&section->payload, QN_ENTRY_SIZE_MAX);
}

void qn_conf_section_finish(struct qn_conf_section *section)
{
    qn_buf_finish(&section->payload);
}

/* --- Values --------------------------------------------------------------------------- */

static quern_status prefixed(quern_status status, const char *key, quern_error *err)
{
    if (status != QUERN_OK) {
        qn_error_prefix(err, "%s", key);
    }
    return status;
}

/* 0 would be the default in C and no limit elsewhere: here it is neither. */
static quern_status refuse_0(const char *key, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID,
                        "%s 0 is refused: write never, or leave it out for the default", key);
}

static quern_status read_count(const char *key, const char *value, int64_t *ret_count,
                               quern_error *err)
{
    struct qn_cursor cursor = {.at = value, .end = value + strlen(value)};
    uint64_t count = 0;
    if (strcmp(value, "never") == 0) {
        *ret_count = QUERN_RETRY_NEVER;
        return QUERN_OK;
    }
    if (!qn_number_take(&cursor, &count) || cursor.at != cursor.end || count > INT32_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s is a whole number from 1 to 2147483647, or never", key);
    }
    *ret_count = (int64_t)count;
    return count == 0 ? refuse_0(key, err) : QUERN_OK;
}

static quern_status read_never(const char *key, const char *value, int64_t *ret_ms,
                               quern_error *err)
{
    if (strcmp(value, "never") == 0) {
        *ret_ms = QUERN_TIMEOUT_NEVER;
        return QUERN_OK;
    }
    quern_status status = prefixed(qn_duration_parse(value, ret_ms, err), key, err);
    return status == QUERN_OK && *ret_ms == 0 ? refuse_0(key, err) : status;
}

static quern_status read_late(const char *key, const char *value, int64_t *ret_ms, quern_error *err)
{
    quern_status status = prefixed(qn_duration_parse(value, ret_ms, err), key, err);
    if (status == QUERN_OK && *ret_ms == 0) {
        *ret_ms = -1;
    }
    return status;
}

static quern_status read_priority(const char *key, const char *value, int32_t *ret_priority,
                                  quern_error *err)
{
    bool is_negative = value[0] == '-';
    struct qn_cursor cursor = {.at = value + (is_negative ? 1 : 0), .end = value + strlen(value)};
    uint64_t number = 0;
    if (!qn_number_take(&cursor, &number) || cursor.at != cursor.end || number > QN_PRIORITY_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "%s is a whole number from -%d to %d", key,
                            QN_PRIORITY_MAX, QN_PRIORITY_MAX);
    }
    *ret_priority = is_negative ? -(int32_t)number : (int32_t)number;
    return QUERN_OK;
}

static quern_status read_word(bool is_known, const char *key, const char *words, quern_error *err)
{
    return is_known ? QUERN_OK : qn_error_set(err, QUERN_E_INVALID, "%s is not %s", key, words);
}

static quern_status add_header(struct qn_conf_section *section, char *value, quern_error *err)
{
    quern_task *task = &section->given.task;
    char *equals = strchr(value, '=');
    if (equals == NULL || equals == value) {
        return qn_error_set(err, QUERN_E_INVALID, "header is not NAME=VALUE");
    }
    if (task->header_count == QN_HEADER_COUNT_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "header: at most %d", QN_HEADER_COUNT_MAX);
    }
    *equals = '\0';
    section->headers[task->header_count++] = (quern_header){.name = value, .value = equals + 1};
    return QUERN_OK;
}

static quern_status read_value(struct qn_conf_section *section, size_t key, char *value,
                               quern_error *err)
{
    void *field = (char *)&section->given + keys[key].offset;
    const char *name = keys[key].name;
    switch (keys[key].kind) {
    case KIND_TEXT:
        *(const char **)field = value;
        return QUERN_OK;
    case KIND_DURATION:
        return prefixed(qn_duration_parse(value, field, err), name, err);
    case KIND_LATE:
        return read_late(name, value, field, err);
    case KIND_NEVER:
        return read_never(name, value, field, err);
    case KIND_MOMENT:
        return prefixed(qn_moment_parse(value, field, err), name, err);
    case KIND_COUNT:
        return read_count(name, value, field, err);
    case KIND_PRIORITY:
        return read_priority(name, value, field, err);
    case KIND_SIZE:
        return prefixed(qn_size_parse(value, field, err), name, err);
    case KIND_UNTIL:
        return read_word(qn_policy_until(value, field), name, QN_POLICY_UNTIL, err);
    case KIND_ON_DUPLICATE:
        return read_word(qn_policy_on_duplicate(value, field), name, QN_POLICY_ON_DUPLICATE, err);
    case KIND_HEADER:
        return add_header(section, value, err);
    case KIND_PAYLOAD:
        section->has_payload = true;
        return qn_conf_section_continue(section, value, err);
    case KIND_REFUSED:
        return qn_error_set(err, QUERN_E_INVALID, "%s is not for an entry: %s", name,
                            keys[key].why);
    }
    return QUERN_OK;
}

/* --- Keys ----------------------------------------------------------------------------- */

bool qn_conf_section_is_key(const char *key, const char *name)
{
    for (; *key != '\0'; key++, name++) {
        if (*key != *name && !(*key == '-' && *name == '_')) {
            return false;
        }
    }
    return *name == '\0';
}

static size_t find_key(const char *given)
{
    size_t key = 0;
    while (key < KEY_COUNT && !qn_conf_section_is_key(given, keys[key].name)) {
        key++;
    }
    return key;
}

bool qn_conf_section_is_free(const char *key)
{
    size_t index = find_key(key);
    return index < KEY_COUNT && keys[index].is_free;
}

static quern_status refuse_key(const char *given, quern_error *err)
{
    size_t nearest = KEY_COUNT;
    size_t distance_min = NEAR_MAX + 1;
    char shown[QN_NAME_SHOWN_SIZE];
    for (size_t i = 0; i < KEY_COUNT; i++) {
        size_t distance = qn_str_distance(given, keys[i].name);
        if (distance < distance_min && keys[i].kind != KIND_REFUSED) {
            distance_min = distance;
            nearest = i;
        }
    }
    return qn_error_set(err, QUERN_E_INVALID, "unknown key \"%s\"%s%s%s",
                        qn_name_show(given, shown), nearest == KEY_COUNT ? "" : "; did you mean ",
                        nearest == KEY_COUNT ? "" : keys[nearest].name,
                        nearest == KEY_COUNT ? "" : "?");
}

quern_status qn_conf_section_set(struct qn_conf_section *section, const char *key,
                                 const char *value, size_t line, quern_error *err)
{
    size_t index = find_key(key);
    if (index == KEY_COUNT) {
        return refuse_key(key, err);
    }
    if (section->lines[index] != 0 && keys[index].kind != KIND_HEADER) {
        return qn_error_set(err, QUERN_E_INVALID, "%s is given twice, first in line %zu",
                            keys[index].name, section->lines[index]);
    }
    /* In C "" is none; in a file it is a mistake. */
    if (value[0] == '\0' && keys[index].kind != KIND_PAYLOAD) {
        return qn_error_set(err, QUERN_E_INVALID, "%s is empty", keys[index].name);
    }
    char *copy = qn_arena_strdup(section->arena, value);
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    section->lines[index] = line;
    return read_value(section, index, copy, err);
}

quern_status qn_conf_section_continue(struct qn_conf_section *section, const char *value,
                                      quern_error *err)
{
    struct qn_buf *payload = &section->payload;
    quern_status status = QUERN_OK;
    if (payload->size > 0) {
        status = qn_buf_append(payload, "\n", 1);
    }
    if (status == QUERN_OK) {
        status = qn_buf_append_text(payload, value);
    }
    if (status == QUERN_E_FULL) {
        return qn_error_set(err, QUERN_E_INVALID, "payload has more than %zu bytes",
                            payload->size_max);
    }
    return status == QUERN_OK ? status : qn_error_nomem(err);
}

quern_status qn_conf_section_given(struct qn_conf_section *section,
                                   struct qn_entry_given *ret_given, quern_error *err)
{
    struct qn_entry_given given = section->given;
    quern_task *task = &given.task;
    task->headers = task->header_count > 0 ? section->headers : NULL;
    if (section->has_payload) {
        task->payload_size = section->payload.size;
        task->payload =
            qn_arena_copy(section->arena, qn_buf_text(&section->payload), task->payload_size);
        if (task->payload == NULL) {
            return qn_error_nomem(err);
        }
    }
    *ret_given = given;
    return QUERN_OK;
}

size_t qn_conf_section_line_of(const struct qn_conf_section *section, const char *text)
{
    size_t line = 0;
    size_t longest = 0; /* a text about unique_key begins with unique, too */
    for (size_t i = 0; i < KEY_COUNT; i++) {
        size_t size = strlen(keys[i].name);
        if (section->lines[i] != 0 && size > longest && qn_str_starts_with(text, keys[i].name)) {
            line = section->lines[i];
            longest = size;
        }
    }
    return line;
}
