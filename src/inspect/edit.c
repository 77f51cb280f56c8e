/* SPDX-License-Identifier: MIT */
/* edit.c - edits one task: checks what is given, finds its queue, and lets the broker write. */
#include "inspect/edit.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "broker/edit/edit.h"
#include "broker/find.h"
#include "quern/search.h"
#include "task/limits.h"
#include "task/retry.h"

static quern_status refuse(const char *field, const char *rule, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID, "edit: %s must be %s", field, rule);
}

static quern_status check_moments(const quern_task_edit *edit, quern_error *err)
{
    if (edit->delay_ms != 0 && edit->process_at_ms != 0) {
        return refuse("delay_ms", "0 if process_at_ms is given", err);
    }
    if (edit->delay_ms < 0 || edit->delay_ms > QN_DURATION_MS_MAX) {
        return refuse("delay_ms", "from 0 to 100 years", err);
    }
    if (edit->process_at_ms < 0 || edit->process_at_ms > QN_MOMENT_MS_MAX) {
        return refuse("process_at_ms", "a moment after 1970", err);
    }
    if (edit->deadline_at_ms < QUERN_DEADLINE_NONE || edit->deadline_at_ms > QN_MOMENT_MS_MAX) {
        return refuse("deadline_at_ms", "a moment after 1970, or QUERN_DEADLINE_NONE", err);
    }
    return QUERN_OK;
}

static quern_status check_numbers(const quern_task_edit *edit, quern_error *err)
{
    if (edit->retry_max < QUERN_RETRY_NEVER || edit->retry_max > INT32_MAX) {
        return refuse("retry_max", "at most 2147483647, or QUERN_RETRY_NEVER", err);
    }
    if (edit->timeout_ms < QUERN_TIMEOUT_NEVER || edit->timeout_ms > QN_DURATION_MS_MAX) {
        return refuse("timeout_ms", "from 0 to 100 years, or QUERN_TIMEOUT_NEVER", err);
    }
    if (edit->retention_ms < QUERN_RETENTION_NONE || edit->retention_ms > QN_DURATION_MS_MAX) {
        return refuse("retention_ms", "from 0 to 100 years, or QUERN_RETENTION_NONE", err);
    }
    if (edit->priority < -QN_PRIORITY_MAX || edit->priority > QN_PRIORITY_MAX ||
        (edit->set_priority == 0 && edit->priority != 0)) {
        return refuse("priority", "from -100 to 100, and 0 without set_priority", err);
    }
    return QUERN_OK;
}

static bool is_limit(int64_t ms)
{
    return ms >= QUERN_RUN_LIMIT_NONE && ms <= QN_DURATION_MS_MAX;
}

static quern_status check_limits(const quern_task_edit *edit, quern_error *err)
{
    if (!is_limit(edit->kill_after_ms) || !is_limit(edit->cpu_ms)) {
        return refuse("kill_after_ms and cpu_ms", "from 0 to 100 years, or QUERN_RUN_LIMIT_NONE",
                      err);
    }
    if (edit->memory_max < QUERN_RUN_LIMIT_NONE ||
        (edit->memory_max > 0 && edit->memory_max < QN_MEMORY_MAX_MIN)) {
        return refuse("memory_max", "at least 1048576 (1 MiB), or QUERN_RUN_LIMIT_NONE", err);
    }
    if (edit->set_retry == 0 && edit->retry.kind != 0) {
        return refuse("set_retry", "1 if a policy is given", err);
    }
    return qn_retry_policy_check(&edit->retry, err);
}

static quern_status check_payload(const quern_task_edit *edit, quern_error *err)
{
    if (edit->payload_size > QN_PAYLOAD_SIZE_LIMIT) {
        return refuse("payload_size", "at most 512 MiB", err);
    }
    if (edit->set_payload != 0 && edit->payload == NULL && edit->payload_size > 0) {
        return refuse("payload", "given", err);
    }
    if (edit->set_payload == 0 && (edit->payload != NULL || edit->payload_size > 0)) {
        return refuse("set_payload", "1 if a payload is given", err);
    }
    return QUERN_OK;
}

static bool changes_anything(const quern_task_edit *edit)
{
    int64_t limits = edit->kill_after_ms | edit->cpu_ms | edit->memory_max;
    return edit->set_payload != 0 || edit->set_priority != 0 || edit->set_retry != 0 ||
           limits != 0 || edit->delay_ms != 0 || edit->process_at_ms != 0 || edit->retry_max != 0 ||
           edit->timeout_ms != 0 || edit->deadline_at_ms != 0 || edit->retention_ms != 0;
}

static bool is_flag(int32_t number)
{
    return number == 0 || number == 1;
}

static quern_status check_edit(const quern_task_edit *edit, quern_error *err)
{
    if (!is_flag(edit->set_payload) || !is_flag(edit->set_priority) || !is_flag(edit->set_retry)) {
        return refuse("set_payload, set_priority and set_retry", "0 or 1", err);
    }
    quern_status status = check_payload(edit, err);
    if (status == QUERN_OK) {
        status = check_moments(edit, err);
    }
    if (status == QUERN_OK) {
        status = check_numbers(edit, err);
    }
    if (status == QUERN_OK) {
        status = check_limits(edit, err);
    }
    return status == QUERN_OK && !changes_anything(edit)
               ? qn_error_set(err, QUERN_E_INVALID, "edit: nothing is to be changed")
               : status;
}

quern_status qn_edit_take(struct qn_bytes given, quern_task_edit *ret_edit, quern_error *err)
{
    quern_status status = given.data == NULL
                              ? qn_error_set(err, QUERN_E_INVALID, "edit: must not be NULL")
                              : qn_sized_copy(QN_ROOM_OF(*ret_edit), given, "quern_task_edit", err);
    if (status == QUERN_OK) {
        status = check_edit(ret_edit, err);
    }
    if (status == QUERN_OK && ret_edit->payload == NULL) {
        ret_edit->payload = "";
    }
    if (status == QUERN_OK && ret_edit->retry.kind != QN_BACKOFF_DEFAULT) {
        ret_edit->retry = qn_retry_policy_resolve(&ret_edit->retry, NULL, NULL);
    }
    return status;
}

/* --- One task ----------------------------------------------------------------------------- */

static quern_status edit_in(struct qn_broker *broker, const char *queue, const char *id,
                            const quern_task_edit *edit, quern_error *err)
{
    const struct qn_edit_item item = {.id = id};
    const struct qn_edit_list list = {.edit = edit, .queue = queue, .items = &item, .count = 1};
    struct qn_edit_answer answer = {.result = QN_EDIT_MISSING};
    quern_status status = qn_broker_edit(broker, &list, &answer, err);
    return status == QUERN_OK ? qn_edit_refuse(answer, queue, id, err) : status;
}

static quern_status edit_anywhere(struct qn_broker *broker, const char *id,
                                  const quern_task_edit *edit, quern_error *err)
{
    quern_task_info *info = NULL;
    quern_status status = qn_find_task(broker, NULL, id, &info, err);
    if (status == QUERN_OK) {
        status = edit_in(broker, quern_task_info_queue(info), id, edit, err);
    }
    quern_task_info_free(info);
    return status;
}

quern_status quern_inspector_task_edit_sized(quern_inspector *inspector, const char *queue,
                                             const char *id, const quern_task_edit *edit,
                                             size_t edit_size, quern_error *err)
{
    quern_task_edit ours;
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && id == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "id: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_edit_take((struct qn_bytes){edit, edit_size}, &ours, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    return queue == NULL ? edit_anywhere(inspector->broker, id, &ours, err)
                         : edit_in(inspector->broker, queue, id, &ours, err);
}
