/* SPDX-License-Identifier: MIT */
/* entry_info.c - stored entries in the form that programs get. */
#include "schedule/entry_info.h"

#include <string.h>

#include "base/error.h"
#include "message/asynq/unique_key.h"

/* --- Copies --------------------------------------------------------------------------- */

/* Keeps whether memory ran out. */
struct copying {
    struct qn_arena *arena;
    bool failed;
};

static const char *copy_text(struct copying *copying, const char *text)
{
    const char *copy = text == NULL ? NULL : qn_arena_strdup(copying->arena, text);
    copying->failed = copying->failed || (text != NULL && copy == NULL);
    return copy;
}

static const quern_header *copy_headers(struct copying *copying, const struct qn_task *task)
{
    if (task->header_count == 0) {
        return NULL;
    }
    quern_header *headers = qn_arena_alloc(copying->arena, task->header_count * sizeof *headers);
    if (headers == NULL) {
        copying->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < task->header_count; i++) {
        headers[i] = (quern_header){.name = copy_text(copying, task->headers[i].name),
                                    .value = copy_text(copying, task->headers[i].value)};
    }
    return headers;
}

/* With a NUL behind it. */
static const void *copy_payload(struct copying *copying, const struct qn_task *task)
{
    char *copy = qn_arena_alloc(copying->arena, task->payload_size + 1);
    if (copy == NULL) {
        copying->failed = true;
        return NULL;
    }
    if (task->payload_size > 0) {
        memcpy(copy, task->payload, task->payload_size);
    }
    copy[task->payload_size] = '\0';
    return copy;
}

quern_status qn_entry_copy(struct qn_arena *arena, const struct qn_schedule_entry *entry,
                           struct qn_schedule_entry *ret_copy, quern_error *err)
{
    struct copying copying = {.arena = arena};
    struct qn_schedule_entry copy = *entry;
    copy.name = copy_text(&copying, entry->name);
    copy.origin = copy_text(&copying, entry->origin);
    copy.cron = copy_text(&copying, entry->cron);
    copy.zone = copy_text(&copying, entry->zone);
    copy.fault = copy_text(&copying, entry->fault);
    copy.task.queue = copy_text(&copying, entry->task.queue);
    if (entry->fault != NULL) {
        copy.task = (struct qn_task){.queue = copy.task.queue};
    } else {
        copy.task.id = NULL;
        copy.task.type = copy_text(&copying, entry->task.type);
        copy.task.unique_key = copy_text(&copying, entry->task.unique_key);
        copy.task.group = copy_text(&copying, entry->task.group);
        copy.task.limit_key = copy_text(&copying, entry->task.limit_key);
        copy.task.headers = copy_headers(&copying, &entry->task);
        copy.task.payload = copy_payload(&copying, &entry->task);
    }
    if (copying.failed) {
        return qn_error_nomem(err);
    }
    *ret_copy = copy;
    return QUERN_OK;
}

/* --- Ticks ---------------------------------------------------------------------------- */

bool qn_entry_next(const struct qn_plan_terms *terms, int64_t after_s, int64_t *ret_next_s)
{
    struct qn_plan_terms from = *terms;
    struct qn_plan plan;
    from.paused = false;
    from.last_s = after_s;
    qn_plan_make(&from, after_s * 1000, &plan);
    *ret_next_s = plan.has_next ? plan.next_s : 0;
    return plan.has_next;
}

/* --- What programs get ---------------------------------------------------------------- */

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

quern_status qn_entry_task(const struct qn_schedule_entry *entry, struct qn_arena *arena,
                           quern_task *ret_task, quern_error *err)
{
    const struct qn_task *own = &entry->task;
    quern_task task = qn_task_show(own);
    quern_status status = QUERN_OK;
    task.start_within_ms = own->start_by_at_ms;
    if (own->unique_key != NULL) {
        status = qn_unique_key_own(arena, own->queue, own->unique_key, &task.unique_key, err);
    }
    if (status == QUERN_OK) {
        *ret_task = task;
    }
    return status;
}

/* NULL: out of memory. */
static const char *misfire_text(const struct qn_schedule_entry *entry, struct qn_arena *arena)
{
    switch (entry->misfire) {
    case QN_MISFIRE_SKIP:
        return "skip";
    case QN_MISFIRE_ONCE:
        return "once";
    case QN_MISFIRE_ALL:
        return qn_arena_printf(arena, "all %u", (unsigned)entry->misfire_max);
    }
    return "";
}

/* The next tick, or why there will be none. */
static quern_status find_next(const struct qn_schedule_entry *entry, struct qn_zones *zones,
                              struct qn_arena *arena, quern_entry_info *info)
{
    struct qn_entry_clock clock;
    quern_error fault = {0};
    int64_t next_s = 0;
    if (qn_entry_read_clock(entry, zones, &clock, &fault) != QUERN_OK) {
        info->fault = qn_arena_strdup(arena, fault.text);
        return info->fault == NULL ? QUERN_E_NOMEM : QUERN_OK;
    }
    const struct qn_plan_terms terms = qn_entry_plan_terms(entry, &clock);
    if (entry->paused_at_ms == 0 && qn_entry_next(&terms, entry->last_s, &next_s)) {
        info->next_at_ms = next_s * 1000;
    }
    return QUERN_OK;
}

quern_status qn_entry_info_make(const struct qn_schedule_entry *entry, struct qn_zones *zones,
                                struct qn_arena *arena, quern_entry_info *ret_info,
                                quern_error *err)
{
    quern_task *task = qn_arena_alloc(arena, sizeof *task);
    const char *misfire = misfire_text(entry, arena);
    if (task == NULL || misfire == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_entry_task(entry, arena, task, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_entry_info info = {
        .name = entry->name,
        .queue = entry->task.queue,
        .type = task->type,
        .cron = text_or_empty(entry->cron),
        .zone = text_or_empty(entry->zone),
        .origin = text_or_empty(entry->origin),
        .fault = entry->fault,
        .created_at_ms = entry->created_at_ms,
        .paused_at_ms = entry->paused_at_ms,
        .last_at_ms = entry->last_s * 1000,
        .run_count = entry->runs,
        .misfire = misfire,
        .late_ms = entry->late_ms == 0 ? -1 : entry->late_ms, /* as in quern_entry */
        .jitter_ms = entry->jitter_ms,
        .task = task,
    };
    if (entry->fault == NULL && find_next(entry, zones, arena, &info) != QUERN_OK) {
        return qn_error_nomem(err);
    }
    *ret_info = info;
    return QUERN_OK;
}
