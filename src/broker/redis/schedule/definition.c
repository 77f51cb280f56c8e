/* SPDX-License-Identifier: MIT */
/* definition.c - writes and reads the definition of an entry.
 *
 * Equal definitions are equal bytes: that is how the script knows that nothing has changed. */
#include "broker/redis/schedule/definition.h"

#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/schedule/template.h"

/* The last byte: without it a definition that was cut could be read all the same. */
#define END ","

/* --- Writing ------------------------------------------------------------------------ */

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static const char *when_of(struct qn_arena *arena, const struct qn_schedule_entry *entry)
{
    const char *cron = or_empty(entry->cron);
    const char *zone = or_empty(entry->zone);
    return qn_arena_printf(arena, "%d %zu:%s,%zu:%s,\n", entry->with_seconds ? 1 : 0, strlen(cron),
                           cron, strlen(zone), zone);
}

quern_status qn_definition_encode(struct qn_arena *arena, const struct qn_schedule_entry *entry,
                                  struct qn_definition *ret_definition, quern_error *err)
{
    struct qn_bytes when = {when_of(arena, entry), 0};
    const char *origin = or_empty(entry->origin);
    struct qn_buf buf;
    if (when.data == NULL) {
        return qn_error_nomem(err);
    }
    when.size = strlen(when.data);
    qn_buf_init(&buf, QN_ENTRY_SIZE_MAX - when.size);
    quern_status status = qn_buf_printf(&buf, "%d %u %lld %lld\n%zu:%s,\n", (int)entry->misfire,
                                        entry->misfire_max, (long long)entry->late_ms,
                                        (long long)entry->jitter_ms, strlen(origin), origin);
    if (status == QUERN_OK) {
        status = qn_template_encode(&buf, &entry->task, err);
        if (status == QUERN_OK && qn_buf_append(&buf, END, 1) != QUERN_OK) {
            status =
                qn_error_set(err, QUERN_E_INVALID, "it has more than %zu bytes", QN_ENTRY_SIZE_MAX);
        }
    } else {
        status = qn_error_nomem(err); /* these lines are far below the limit */
    }
    void *rest = status == QUERN_OK ? qn_arena_copy(arena, buf.data, buf.size) : NULL;
    if (status == QUERN_E_INVALID) {
        qn_error_prefix(err, "entry \"%s\"", entry->name);
    } else if (status == QUERN_OK && rest == NULL) {
        status = qn_error_nomem(err);
    } else if (status == QUERN_OK) {
        *ret_definition = (struct qn_definition){.when = when, .rest = {rest, buf.size}};
    }
    qn_buf_finish(&buf);
    return status;
}

/* --- Reading ------------------------------------------------------------------------ */

/* The text that is being read; the first fault ends it. */
struct reader {
    struct qn_arena *arena;
    struct qn_cursor cursor;
    bool is_bad;
    bool no_memory;
};

static int64_t next_number(struct reader *reader, int64_t min, int64_t max)
{
    uint64_t value = 0;
    bool is_negative = qn_number_take_char(&reader->cursor, '-');
    if (!qn_number_take(&reader->cursor, &value) || value > INT64_MAX) {
        reader->is_bad = true;
        return min;
    }
    int64_t number = is_negative ? -(int64_t)value : (int64_t)value;
    reader->is_bad = reader->is_bad || number < min || number > max;
    return reader->is_bad ? min : number;
}

static void next_char(struct reader *reader, char wanted)
{
    reader->is_bad = !qn_number_take_char(&reader->cursor, wanted) || reader->is_bad;
}

static const char *next_text(struct reader *reader)
{
    uint64_t size = 0;
    bool has_size = qn_number_take(&reader->cursor, &size);
    next_char(reader, ':');
    if (!has_size || reader->is_bad || size >= (uint64_t)(reader->cursor.end - reader->cursor.at)) {
        reader->is_bad = true;
        return "";
    }
    char *text = qn_arena_alloc(reader->arena, (size_t)size + 1);
    if (text == NULL) {
        reader->is_bad = reader->no_memory = true;
        return "";
    }
    memcpy(text, reader->cursor.at, (size_t)size);
    text[size] = '\0';
    reader->cursor.at += size;
    next_char(reader, ',');
    reader->is_bad = reader->is_bad || strlen(text) != size;
    return text;
}

static void read_lines(struct reader *reader, struct qn_schedule_entry *entry)
{
    entry->created_at_ms = next_number(reader, 0, QN_MOMENT_MS_MAX);
    next_char(reader, '\n');
    entry->with_seconds = next_number(reader, 0, 1) == 1;
    next_char(reader, ' ');
    entry->cron = next_text(reader);
    entry->zone = next_text(reader);
    next_char(reader, '\n');
    entry->misfire = (enum qn_misfire)next_number(reader, QN_MISFIRE_SKIP, QN_MISFIRE_ALL);
    next_char(reader, ' ');
    entry->misfire_max = (uint32_t)next_number(reader, 1, QN_MISFIRE_MAX);
    next_char(reader, ' ');
    entry->late_ms = next_number(reader, 0, QN_DURATION_MS_MAX);
    next_char(reader, ' ');
    entry->jitter_ms = next_number(reader, 0, QN_JITTER_MS_MAX);
    next_char(reader, '\n');
    entry->origin = next_text(reader);
    next_char(reader, '\n');
}

/* Damage is noted in the reader. */
static quern_status read_task(struct reader *reader, struct qn_schedule_entry *entry,
                              quern_error *err)
{
    const char *queue = entry->task.queue;
    const char *at = reader->cursor.at;
    if (reader->cursor.end == at || reader->cursor.end[-1] != END[0]) {
        reader->is_bad = true;
        return QUERN_OK;
    }
    const struct qn_bytes bytes = {at, (size_t)(reader->cursor.end - at) - 1};
    quern_status status = qn_template_decode(reader->arena, bytes, &entry->task, err);
    entry->task.queue = queue;
    reader->is_bad = reader->is_bad || status == QUERN_E_CORRUPT;
    return status == QUERN_E_CORRUPT ? QUERN_OK : status;
}

/* "revision last_s runs paused_at_ms" */
static bool read_row(const struct qn_reply *reply, struct qn_schedule_entry *entry)
{
    const char *text = qn_reply_text(reply);
    struct reader reader = {.cursor = {text, text + reply->size}};
    entry->revision = (uint64_t)next_number(&reader, 1, INT64_MAX);
    next_char(&reader, ' ');
    entry->last_s = next_number(&reader, 0, QN_MOMENT_MS_MAX);
    next_char(&reader, ' ');
    entry->runs = (uint64_t)next_number(&reader, 0, INT64_MAX);
    next_char(&reader, ' ');
    entry->paused_at_ms = next_number(&reader, 0, QN_MOMENT_MS_MAX);
    return !reader.is_bad && reader.cursor.at == reader.cursor.end;
}

quern_status qn_definition_decode(struct qn_arena *arena, const struct qn_stored_entry *stored,
                                  struct qn_schedule_entry *ret_entry, quern_error *err)
{
    const struct qn_reply *definition = stored->definition;
    const char *text = qn_reply_text(definition);
    struct reader reader = {.arena = arena, .cursor = {text, text + definition->size}};
    struct qn_schedule_entry entry = {.name = stored->name, .task = {.queue = stored->queue}};
    struct qn_schedule_entry bare = entry;
    quern_status status = QUERN_OK;
    bool has_row = stored->row->type == QN_REPLY_TEXT && read_row(stored->row, &bare);
    if (definition->type == QN_REPLY_TEXT) {
        read_lines(&reader, &entry);
        status = reader.is_bad ? QUERN_OK : read_task(&reader, &entry, err);
    }
    if (status != QUERN_OK || reader.no_memory) {
        return status != QUERN_OK ? status : qn_error_nomem(err);
    }
    const char *fault = NULL;
    if (definition->type != QN_REPLY_TEXT) {
        fault = "its definition is missing";
    } else if (!has_row) {
        fault = "its row in quern:ticks is missing or damaged";
    } else if (reader.is_bad) {
        fault = QN_FAULT_DEFINITION;
    }
    bare.fault = fault;
    bare.created_at_ms = fault == NULL || !reader.is_bad ? entry.created_at_ms : 0;
    if (fault == NULL) {
        entry.revision = bare.revision;
        entry.last_s = bare.last_s;
        entry.runs = bare.runs;
        entry.paused_at_ms = bare.paused_at_ms;
    }
    *ret_entry = fault == NULL ? entry : bare;
    return QUERN_OK;
}
