/* SPDX-License-Identifier: MIT */
/* entry.c - the checks of an entry's definition.
 *
 * They are made where a definition comes in (from a program, the command line or a file), so that a
 * fault is reported to its author, and not by the scheduler at night. Each field has one function;
 * the first broken rule ends the check. What the broker compares to see whether an entry has
 * changed must not depend on the moment of the check: no id and no moment is generated. */
#include "schedule/entry.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "broker/schedule/template.h"
#include "quern/entry.h"
#include "task/limits.h"
#include "task/name.h"

#define SIZE_RESERVED 1024 /* for the numbers and marks that a broker stores beside the texts */

struct making {
    const struct qn_entry_given *given;
    const struct qn_entry_terms *terms;
    struct qn_arena *arena;
    struct qn_schedule_entry entry;
    quern_error *err;
};

static bool is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static quern_status refuse(struct making *m, const char *text)
{
    return qn_error_set(m->err, QUERN_E_INVALID, "%s", text);
}

quern_status qn_entry_read_given(struct qn_bytes entry, struct qn_bytes task,
                                 struct qn_entry_given *given, quern_error *err)
{
    quern_entry ours;
    quern_status status = qn_sized_copy(QN_ROOM_OF(ours), entry, "quern_entry", err);
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(given->task), task, "quern_task", err);
    }
    if (status == QUERN_OK) {
        given->name = ours.name;
        given->cron = ours.cron;
        given->zone = ours.zone;
        given->misfire = ours.misfire;
        given->late_ms = ours.late_ms;
        given->jitter_ms = ours.jitter_ms;
    }
    return status;
}

/* --- The clock ------------------------------------------------------------------------ */

/* Five fields or six. Of a text that is neither the error is that of its number of fields. */
static quern_status parse_cron(const char *text, bool *ret_with_seconds, struct qn_cron *ret_cron,
                               quern_error *err)
{
    quern_error six = {0};
    quern_status status = qn_cron_parse(text, 0, ret_cron, err);
    *ret_with_seconds = false;
    if (status == QUERN_OK) {
        return status;
    }
    if (qn_cron_parse(text, QN_CRON_SECONDS, ret_cron, &six) == QUERN_OK) {
        *ret_with_seconds = true;
        return QUERN_OK;
    }
    if (err != NULL && strncmp(err->text, "6 fields", strlen("6 fields")) == 0) {
        *err = six;
    }
    qn_error_prefix(err, "cron");
    return status;
}

static quern_status find_zone(struct qn_zones *zones, const char *name,
                              const struct qn_zone **ret_zone, quern_error *err)
{
    quern_status status = qn_zones_get(zones, is_empty(name) ? "UTC" : name, ret_zone, err);
    if (status != QUERN_OK) {
        qn_error_prefix(err, "zone");
    }
    return status;
}

static quern_status make_clock(struct making *m)
{
    const struct qn_entry_given *given = m->given;
    struct qn_schedule_entry *entry = &m->entry;
    struct qn_cron cron;
    const struct qn_zone *zone;
    if (is_empty(given->cron)) {
        return refuse(m, "cron is missing: write for example 0 6 * * *");
    }
    quern_status status = parse_cron(given->cron, &entry->with_seconds, &cron, m->err);
    if (status != QUERN_OK) {
        return status;
    }
    if (!is_empty(given->zone) && cron.zone[0] != '\0' && strcmp(given->zone, cron.zone) != 0) {
        return refuse(m, "zone differs from the one in cron: leave one of them out");
    }
    entry->cron = given->cron;
    entry->zone = is_empty(given->zone) ? "" : given->zone;
    if (entry->zone[0] == '\0' && cron.zone[0] == '\0' && !is_empty(given->default_zone)) {
        entry->zone = given->default_zone;
    }
    return find_zone(m->terms->zones, entry->zone[0] == '\0' ? cron.zone : entry->zone, &zone,
                     m->err);
}

/* --- The policy ----------------------------------------------------------------------- */

static quern_status make_misfire(struct making *m)
{
    const char *text = m->given->misfire;
    struct qn_schedule_entry *entry = &m->entry;
    struct qn_cursor cursor = {0};
    uint64_t count = 0;
    entry->misfire_max = 1;
    if (is_empty(text) || strcmp(text, "once") == 0) {
        entry->misfire = QN_MISFIRE_ONCE;
        return QUERN_OK;
    }
    if (strcmp(text, "skip") == 0) {
        entry->misfire = QN_MISFIRE_SKIP;
        return QUERN_OK;
    }
    if (strncmp(text, "all ", 4) == 0) {
        cursor = (struct qn_cursor){.at = text + 4, .end = text + strlen(text)};
        if (qn_number_take(&cursor, &count) && cursor.at == cursor.end && count >= 1 &&
            count <= QN_MISFIRE_MAX) {
            entry->misfire = QN_MISFIRE_ALL;
            entry->misfire_max = (uint32_t)count;
            return QUERN_OK;
        }
    }
    char shown[QN_NAME_SHOWN_SIZE];
    return qn_error_set(m->err, QUERN_E_INVALID,
                        "misfire \"%s\": allowed are skip, once, and all N with N from 1 to %d",
                        qn_name_show(text, shown), QN_MISFIRE_MAX);
}

static quern_status make_times(struct making *m)
{
    const struct qn_entry_given *given = m->given;
    if (given->jitter_ms < 0 || given->jitter_ms > QN_JITTER_MS_MAX) {
        return refuse(m, "jitter must be at most a day; for more, give the task a delay");
    }
    if (given->late_ms > QN_DURATION_MS_MAX) {
        return refuse(m, "late must be at most 100 years");
    }
    m->entry.jitter_ms = given->jitter_ms;
    m->entry.late_ms = given->late_ms == 0 ? QN_ENTRY_LATE_MS : given->late_ms;
    if (given->late_ms < 0) {
        m->entry.late_ms = 0;
    }
    return QUERN_OK;
}

/* --- The task ------------------------------------------------------------------------- */

static quern_status check_headers(struct making *m)
{
    const quern_task *task = &m->given->task;
    if (task->header_count > QN_HEADER_COUNT_MAX - QN_ENTRY_HEADERS_OWN) {
        return qn_error_set(m->err, QUERN_E_INVALID, "%zu headers, at most %d are allowed",
                            task->header_count, QN_HEADER_COUNT_MAX - QN_ENTRY_HEADERS_OWN);
    }
    for (size_t i = 0; i < m->entry.task.header_count; i++) {
        const char *name = m->entry.task.headers[i].name;
        if (strcmp(name, "quern-entry") == 0 || strcmp(name, "quern-tick") == 0) {
            return qn_error_set(m->err, QUERN_E_INVALID, "header %s is the scheduler's", name);
        }
    }
    return QUERN_OK;
}

/* All that makes it one of a certain tick is left out. */
static quern_status make_task(struct making *m)
{
    quern_task task = m->given->task;
    struct qn_task *made = &m->entry.task;
    const struct qn_task_terms terms = {.now_wall_ms = m->terms->now_ms,
                                        .payload_size_max = QN_ENTRY_SIZE_MAX};
    if (task.id != NULL) {
        return refuse(m, "an entry has no id: each task gets its own, of the name and the tick");
    }
    if (task.process_at_ms != 0) {
        return refuse(m, "an entry has no process_at: cron decides, and a delay counts from there");
    }
    task.id = "entry";
    quern_status status = qn_task_prepare(&task, &terms, m->arena, made, m->err);
    if (status != QUERN_OK) {
        return status;
    }
    made->id = NULL;
    made->process_at_ms = 0;
    made->unique_ms = task.unique_ms;
    made->start_by_at_ms = task.start_within_ms; /* a duration until there is a tick */
    made->state = made->group == NULL ? QUERN_TASK_PENDING : QUERN_TASK_AGGREGATING;
    status = check_headers(m);
    return status == QUERN_OK && m->terms->broker != NULL
               ? qn_schedule_check_offered(m->terms->broker, made, m->err)
               : status;
}

static quern_status check_size(struct making *m)
{
    const struct qn_schedule_entry *entry = &m->entry;
    size_t texts = strlen(entry->cron) + strlen(entry->zone) + strlen(entry->origin);
    struct qn_buf buf;
    qn_buf_init(&buf, QN_ENTRY_SIZE_MAX - SIZE_RESERVED - texts);
    quern_status status = qn_template_encode(&buf, &entry->task, m->err);
    qn_buf_finish(&buf);
    return status;
}

quern_status qn_entry_make(const struct qn_entry_given *given, const struct qn_entry_terms *terms,
                           struct qn_arena *arena, struct qn_schedule_entry *ret_entry,
                           quern_error *err)
{
    struct making m = {.given = given, .terms = terms, .arena = arena, .err = err};
    m.entry.name = given->name == NULL ? "" : given->name;
    m.entry.origin = is_empty(given->origin) ? "cli" : given->origin;
    if (strlen(m.entry.origin) > QN_ORIGIN_SIZE_MAX) {
        return refuse(&m, "the origin is too long");
    }
    quern_status status = qn_schedule_check_name(m.entry.name, err);
    if (status == QUERN_OK) {
        status = make_clock(&m);
    }
    if (status == QUERN_OK) {
        status = make_misfire(&m);
    }
    if (status == QUERN_OK) {
        status = make_times(&m);
    }
    if (status == QUERN_OK) {
        status = make_task(&m);
    }
    if (status == QUERN_OK) {
        status = check_size(&m);
    }
    if (status == QUERN_OK) {
        *ret_entry = m.entry;
    }
    return status;
}

/* --- Stored entries ------------------------------------------------------------------- */

quern_status qn_entry_read_clock(const struct qn_schedule_entry *entry, struct qn_zones *zones,
                                 struct qn_entry_clock *ret_clock, quern_error *err)
{
    struct qn_entry_clock clock;
    unsigned flags = entry->with_seconds ? QN_CRON_SECONDS : 0;
    quern_status status = qn_cron_parse(entry->cron, flags, &clock.cron, err);
    if (status != QUERN_OK) {
        qn_error_prefix(err, "cron");
        return status;
    }
    status =
        find_zone(zones, is_empty(entry->zone) ? clock.cron.zone : entry->zone, &clock.zone, err);
    if (status == QUERN_OK) {
        *ret_clock = clock;
    }
    return status;
}

static int64_t catch_up(const struct qn_schedule_entry *entry)
{
    switch (entry->misfire) {
    case QN_MISFIRE_SKIP:
        return 0;
    case QN_MISFIRE_ONCE:
        return 1;
    case QN_MISFIRE_ALL:
        return entry->misfire_max;
    }
    return 0;
}

struct qn_plan_terms qn_entry_plan_terms(const struct qn_schedule_entry *entry,
                                         const struct qn_entry_clock *clock)
{
    return (struct qn_plan_terms){.cron = &clock->cron,
                                  .zone = clock->zone,
                                  .created_s = entry->created_at_ms / 1000,
                                  .late_ms = entry->late_ms,
                                  .catch_up = catch_up(entry),
                                  .paused = entry->paused_at_ms != 0,
                                  .last_s = entry->last_s};
}
