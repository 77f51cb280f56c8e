/* SPDX-License-Identifier: MIT */
/* tick_task.c - the task of a tick.
 *
 * Everything in it follows from the entry and the tick, but for what depends on how late it is: two
 * schedulers that send the same tick send the same task. */
#include "schedule/tick/tick_task.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/time/civil.h"
#include "schedule/entry_info.h"
#include "schedule/plan.h"
#include "task/limits.h"

#define HEADERS_OWN 2

static char *format_tick(struct qn_arena *arena, int64_t tick_s)
{
    struct qn_civil civil;
    qn_civil_from_seconds(tick_s, &civil);
    return qn_arena_printf(arena, "%04" PRId64 "-%02d-%02dT%02d:%02d:%02dZ", civil.year,
                           civil.month, civil.day, civil.hour, civil.minute, civil.second);
}

/* When it is due; 0: at once. */
static int64_t due_at_ms(const struct qn_tick_terms *terms, int64_t delay_ms)
{
    const struct qn_schedule_entry *entry = terms->entry;
    int64_t at_ms = terms->tick_s * 1000 + delay_ms +
                    qn_plan_jitter_ms(entry->name, terms->tick_s, entry->jitter_ms);
    return at_ms > terms->now_ms ? at_ms : 0;
}

static quern_status add_headers(const struct qn_tick_terms *terms, const char *tick,
                                struct qn_arena *arena, struct qn_task *task, quern_error *err)
{
    size_t count = task->header_count;
    quern_header *headers = qn_arena_alloc(arena, (count + HEADERS_OWN) * sizeof *headers);
    if (headers == NULL) {
        return qn_error_nomem(err);
    }
    if (count > 0) {
        memcpy(headers, task->headers, count * sizeof *headers);
    }
    headers[count] = (quern_header){.name = "quern-entry", .value = terms->entry->name};
    headers[count + 1] = (quern_header){.name = "quern-tick", .value = tick};
    task->headers = headers;
    task->header_count = count + HEADERS_OWN;
    return QUERN_OK;
}

/* The task is as the entry has it, with durations instead of moments. */
static quern_status complete(const struct qn_tick_terms *terms, struct qn_arena *arena,
                             struct qn_task *task, quern_error *err)
{
    const char *tick = format_tick(arena, terms->tick_s);
    char *id = tick == NULL ? NULL : qn_arena_printf(arena, "%s@%s", terms->entry->name, tick);
    if (id == NULL) {
        return qn_error_nomem(err);
    }
    task->id = id;
    task->process_at_ms = due_at_ms(terms, task->delay_ms);
    task->delay_ms = 0;
    task->state = task->process_at_ms != 0 ? QUERN_TASK_SCHEDULED
                  : task->group != NULL    ? QUERN_TASK_AGGREGATING
                                           : QUERN_TASK_PENDING;
    int64_t due_ms = task->process_at_ms != 0 ? task->process_at_ms : terms->now_ms;
    if (task->unique_ms != 0) {
        task->unique_ms += due_ms - terms->now_ms;
    }
    if (task->start_by_at_ms != 0) {
        task->start_by_at_ms += due_ms;
    }
    return add_headers(terms, tick, arena, task, err);
}

quern_status qn_tick_task_make(const struct qn_tick_terms *terms, struct qn_arena *arena,
                               struct qn_task *ret_task, quern_error *err)
{
    struct qn_task task = terms->entry->task;
    quern_status status = complete(terms, arena, &task, err);
    if (status == QUERN_OK) {
        *ret_task = task;
    }
    return status;
}

quern_status qn_tick_task_show(const struct qn_schedule_entry *entry, const struct qn_task *task,
                               struct qn_arena *arena, quern_task *ret_shown, quern_error *err)
{
    quern_task shown;
    quern_status status = qn_entry_task(entry, arena, &shown, err);
    if (status == QUERN_OK) {
        shown.id = task->id;
        *ret_shown = shown;
    }
    return status;
}

static bool is_same_content(const struct qn_task *own, const quern_task *given)
{
    return given->type != NULL && strcmp(own->type, given->type) == 0 &&
           own->payload_size == given->payload_size &&
           (own->payload == given->payload || own->payload_size == 0 ||
            memcmp(own->payload, given->payload, own->payload_size) == 0);
}

quern_status qn_tick_task_replace(const struct qn_tick_terms *terms, const quern_task *given,
                                  struct qn_arena *arena, struct qn_task *task, quern_error *err)
{
    const struct qn_task *own = &terms->entry->task;
    const struct qn_task_terms rules = {.now_wall_ms = terms->now_ms,
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX};
    struct qn_task made;
    quern_task in = *given;
    in.id = "tick";
    in.unique_key = in.unique_ms != 0 ? in.unique_key : NULL; /* a hook may end the uniqueness */
    if (in.process_at_ms != 0 || in.queue == NULL || strcmp(in.queue, own->queue) != 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "a hook may not change the queue or the moment of a task");
    }
    if (in.header_count > QN_HEADER_COUNT_MAX - HEADERS_OWN) {
        return qn_error_set(err, QUERN_E_INVALID, "%zu headers, at most %d are allowed",
                            in.header_count, QN_HEADER_COUNT_MAX - HEADERS_OWN);
    }
    quern_status status = qn_task_prepare(&in, &rules, arena, &made, err);
    if (status != QUERN_OK) {
        return status;
    }
    /* With the same content the lock of the entry: a payload that is NULL is shown as "". */
    made.unique_key = in.unique_key == NULL && is_same_content(own, given) &&
                              own->unique_key != NULL && in.unique_ms != 0
                          ? own->unique_key
                          : made.unique_key;
    made.unique_ms = in.unique_ms;
    made.unique_until = in.unique_until;
    made.on_duplicate = in.on_duplicate;
    made.start_by_at_ms = in.start_within_ms;
    status = complete(terms, arena, &made, err);
    if (status == QUERN_OK) {
        *task = made;
    }
    return status;
}
