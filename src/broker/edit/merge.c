/* SPDX-License-Identifier: MIT */
/* merge.c - what becomes of a task that is edited: the same for all brokers. */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/text/number.h"
#include "broker/edit/edit.h"
#include "task/limits.h"

static bool same_bytes(const void *left, size_t left_size, const void *right, size_t right_size)
{
    return left_size == right_size && (left_size == 0 || memcmp(left, right, left_size) == 0);
}

/* On Redis a list shows a pending task that waits in a lane as scheduled, without a moment. */
static quern_task_state state_of(const quern_task_info *info)
{
    bool is_aside = info->task.state == QUERN_TASK_SCHEDULED && info->at_ms == 0;
    return is_aside ? QUERN_TASK_PENDING : info->task.state;
}

static bool same_limits(const struct qn_task *before, const struct qn_task *now)
{
    return before->kill_after_ms == now->kill_after_ms && before->cpu_ms == now->cpu_ms &&
           before->memory_max == now->memory_max && before->retry.kind == now->retry.kind &&
           before->retry.base_ms == now->retry.base_ms && before->retry.cap_ms == now->retry.cap_ms;
}

/* In all that an edit may change, or that decides whether it makes sense. */
static bool is_as_seen(const quern_task_info *seen, const quern_task_info *info)
{
    const struct qn_task *before = &seen->task;
    const struct qn_task *now = &info->task;
    return state_of(seen) == state_of(info) && seen->at_ms == info->at_ms &&
           seen->retry_count == info->retry_count && before->retry_max == now->retry_max &&
           before->timeout_ms == now->timeout_ms && before->retention_ms == now->retention_ms &&
           before->deadline_at_ms == now->deadline_at_ms && before->priority == now->priority &&
           same_limits(before, now) && strcmp(before->type, now->type) == 0 &&
           same_bytes(before->payload, before->payload_size, now->payload, now->payload_size);
}

static bool is_dated(quern_task_state state)
{
    return state == QUERN_TASK_SCHEDULED || state == QUERN_TASK_RETRY;
}

static bool dates(const quern_task_edit *edit)
{
    return edit->process_at_ms != 0 || edit->delay_ms != 0;
}

static bool waits(quern_task_state state)
{
    return state != QUERN_TASK_ACTIVE && state != QUERN_TASK_COMPLETED;
}

bool qn_edit_allows(const quern_task_edit *edit, quern_task_state state)
{
    return waits(state) && (is_dated(state) || !dates(edit));
}

static enum qn_edit_result examine(const struct qn_edit_list *list, const quern_task_info *info)
{
    bool is_other =
        list->edit->seen != NULL && !is_as_seen(list->edit->seen, info) && !QN_BUG(SEEN_IGNORED);
    if (info->task.type[0] == '\0') {
        return QN_EDIT_DAMAGED;
    }
    is_other = is_other || (list->state != 0 && list->state != info->task.state);
    if (is_other ||
        (list->condition != NULL && !qn_search_fits(list->condition, info, list->now_ms))) {
        return QN_EDIT_CHANGED;
    }
    if (!waits(info->task.state)) {
        return QN_EDIT_STATE;
    }
    return qn_edit_allows(list->edit, state_of(info)) ? QN_EDIT_DONE : QN_EDIT_UNDATED;
}

static int64_t merge_number(int64_t old, int64_t edited)
{
    int64_t none = -1; /* QUERN_TIMEOUT_NEVER and all others */
    return edited == 0 ? old : edited == none ? 0 : edited;
}

static void merge_options(const quern_task_edit *edit, const quern_task_info *info,
                          struct qn_task *task)
{
    if (edit->set_payload != 0) {
        task->payload = edit->payload;
        task->payload_size = edit->payload_size;
    }
    if (edit->set_priority != 0) {
        task->priority = edit->priority;
    }
    task->retry_max = merge_number(task->retry_max, edit->retry_max);
    task->retry_max = task->retry_max < info->retry_count ? info->retry_count : task->retry_max;
    task->timeout_ms = merge_number(task->timeout_ms, edit->timeout_ms);
    task->deadline_at_ms = merge_number(task->deadline_at_ms, edit->deadline_at_ms);
    task->retention_ms = merge_number(task->retention_ms, edit->retention_ms);
    task->kill_after_ms = merge_number(task->kill_after_ms, edit->kill_after_ms);
    task->cpu_ms = merge_number(task->cpu_ms, edit->cpu_ms);
    task->memory_max = merge_number(task->memory_max, edit->memory_max);
    if (edit->set_retry != 0) {
        task->retry = edit->retry;
    }
}

/* The moment by which it must have started moves along. */
static void merge_moment(const quern_task_edit *edit, const quern_task_info *info, int64_t now_ms,
                         struct qn_edited *edited)
{
    struct qn_task *task = &edited->task;
    edited->is_delay = edit->delay_ms != 0;
    edited->at_ms = edited->is_delay ? now_ms + edit->delay_ms : edit->process_at_ms;
    if (edited->at_ms != 0 && task->start_by_at_ms > 0) {
        task->start_by_at_ms = qn_number_clamp(task->start_by_at_ms + (edited->at_ms - info->at_ms),
                                               1, QN_MOMENT_MS_MAX);
    }
}

struct qn_edit_answer qn_edit_merge(const struct qn_edit_list *list, const quern_task_info *info,
                                    int64_t now_ms, struct qn_edited *ret_edited)
{
    const struct qn_edit_answer answer = {examine(list, info), state_of(info)};
    if (answer.result == QN_EDIT_DONE) {
        struct qn_edited edited = {.task = info->task};
        merge_options(list->edit, info, &edited.task);
        merge_moment(list->edit, info, now_ms, &edited);
        *ret_edited = edited;
    }
    return answer;
}

quern_status qn_edit_refuse(struct qn_edit_answer answer, const char *queue, const char *id,
                            quern_error *err)
{
    switch (answer.result) {
    case QN_EDIT_DONE:
        return QUERN_OK;
    case QN_EDIT_MISSING:
        break;
    case QN_EDIT_CHANGED:
        return qn_error_set(err, QUERN_E_CONFLICT,
                            "task %s has changed since it was read: nothing was written", id);
    case QN_EDIT_STATE:
        return qn_error_set(err, QUERN_E_STATE, "cannot edit task %s: it is %s", id,
                            quern_task_state_name(answer.state));
    case QN_EDIT_UNDATED:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot edit the moment of task %s: it is %s, and has none", id,
                            quern_task_state_name(answer.state));
    case QN_EDIT_MEMBER:
        return qn_error_set(err, QUERN_E_STATE,
                            "cannot edit task %s: it is being aggregated with its group", id);
    case QN_EDIT_DAMAGED:
        return qn_error_set(err, QUERN_E_CORRUPT,
                            "cannot edit task %s: its data are damaged; delete it instead", id);
    }
    return qn_error_set(err, QUERN_E_NOT_FOUND, "no task %s in queue %s", id, queue);
}
