/* SPDX-License-Identifier: MIT */
/* explain.c - why a task does not run, or what became of it.
 *
 * The task is read first, then all that it may wait for; between two reads a busy queue moves on,
 * so that a task may be explained that has started meanwhile. What may not be read is left out. */
#include "inspect/explain/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/find.h"
#include "broker/task_info.h"
#include "inspect/explain/case.h"
#include "inspect/inspector.h"
#include "task/limits.h"

struct quern_explanation {
    quern_task_info *info;
    struct qn_reasons found;
    quern_reason reasons[QN_REASONS_MAX];
};

/* The lock of an equal task is no reason to wait, but the two may run beside each other. */
static void find_lock(struct qn_case *one)
{
    char holder[QN_NAME_SIZE_MAX + 1] = "";
    const char *key = one->info->task.unique_key;
    bool has_ended = one->info->task.state == QUERN_TASK_ARCHIVED ||
                     one->info->task.state == QUERN_TASK_COMPLETED;
    if (key == NULL || key[0] == '\0' || has_ended ||
        qn_broker_lock_holder(one->reading->inspector->broker, key, holder, NULL) != QUERN_OK ||
        strcmp(holder, one->info->task.id) == 0) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_LOCK_OF_OTHER, false);
    qn_reasons_add_holder(reason, holder);
    (void)snprintf(reason->because, sizeof reason->because,
                   "task %.256s holds the lock of this unique task, so that both may run", holder);
}

/* The first worker that takes it archives it. */
static void find_damage(struct qn_case *one)
{
    const quern_task_info *info = one->info;
    const char *error = quern_task_info_error(info);
    if (quern_task_info_type(info)[0] != '\0' || info->task.state == QUERN_TASK_ARCHIVED) {
        return;
    }
    struct qn_reason *reason = qn_reasons_add(one->reasons, QUERN_WHY_DAMAGED, true);
    (void)snprintf(reason->because, sizeof reason->because, "its message cannot be used: %.300s",
                   error);
    (void)snprintf(reason->advice, sizeof reason->advice,
                   "nothing: a worker archives it; or delete it: quern task delete %.256s",
                   quern_task_info_id(info));
}

static void find_reasons(struct qn_case *one)
{
    find_damage(one);
    switch (quern_task_info_state(one->info)) {
    case QUERN_TASK_PENDING:
        qn_why_waiting_pending(one);
        break;
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
        qn_why_waiting_later(one);
        break;
    case QUERN_TASK_AGGREGATING:
        qn_why_waiting_group(one);
        break;
    case QUERN_TASK_ACTIVE:
        qn_why_active(one);
        break;
    case QUERN_TASK_ARCHIVED:
        qn_why_ended_archived(one);
        break;
    case QUERN_TASK_COMPLETED:
        qn_why_ended_completed(one);
        break;
    }
    find_lock(one);
}

static void publish(quern_explanation *explanation)
{
    for (size_t i = 0; i < explanation->found.count; i++) {
        const struct qn_reason *found = &explanation->found.items[i];
        explanation->reasons[i] = (quern_reason){.why = (int32_t)found->why,
                                                 .holds_up = found->holds_up,
                                                 .text = found->because,
                                                 .advice = found->advice,
                                                 .holder = found->holder,
                                                 .until_at_ms = found->until_at_ms,
                                                 .ahead = found->ahead};
    }
}

quern_status qn_explain_task(quern_inspector *inspector, const quern_task_info *info,
                             struct qn_reasons *ret_reasons, quern_error *err)
{
    struct qn_reading reading;
    struct qn_case one = {.reading = &reading,
                          .info = info,
                          .now_ms = qn_clock_wall_ms(inspector->clock),
                          .reasons = ret_reasons};
    ret_reasons->count = 0;
    quern_status status = qn_broker_standing(inspector->broker, info, &one.standing, err);
    if (status == QUERN_OK) {
        status = qn_reading_read(inspector, quern_task_info_queue(info), &reading, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    find_reasons(&one);
    qn_reading_finish(&reading);
    return QUERN_OK;
}

static quern_status enter(quern_inspector *inspector, const char *id,
                          quern_explanation **ret_explanation, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && (id == NULL || ret_explanation == NULL)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              id == NULL ? "id" : "ret_explanation");
    }
    return status;
}

quern_status quern_inspector_explain(quern_inspector *inspector, const char *queue, const char *id,
                                     quern_explanation **ret_explanation, quern_error *err)
{
    quern_status status = enter(inspector, id, ret_explanation, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_explanation *explanation = qn_alloc_zero(1, sizeof *explanation);
    if (explanation == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_find_short(inspector->broker, queue, id, &explanation->info, err);
    if (status == QUERN_OK) {
        status = qn_explain_task(inspector, explanation->info, &explanation->found, err);
    }
    if (status != QUERN_OK) {
        quern_explanation_free(explanation);
        return status;
    }
    publish(explanation);
    *ret_explanation = explanation;
    return QUERN_OK;
}

size_t quern_explanation_size(const quern_explanation *explanation)
{
    return explanation->found.count;
}

const quern_reason *quern_explanation_at(const quern_explanation *explanation, size_t index)
{
    return index < explanation->found.count ? &explanation->reasons[index] : NULL;
}

const quern_task_info *quern_explanation_task(const quern_explanation *explanation)
{
    return explanation->info;
}

void quern_explanation_free(quern_explanation *explanation)
{
    if (explanation != NULL) {
        quern_task_info_free(explanation->info);
        qn_free(explanation);
    }
}

bool qn_explain_queue(const struct qn_reading *reading, const char *queue, const char *type,
                      struct qn_reason *ret_reason)
{
    struct qn_reasons reasons = {.count = 0};
    const struct qn_why_scope scope = {.reading = reading,
                                       .queue = queue,
                                       .type = type,
                                       .now_ms = qn_clock_wall_ms(reading->inspector->clock)};
    qn_why_queue_held(&scope, &reasons);
    qn_why_queue_slow(&scope, &reasons);
    if (reasons.count == 0) {
        return false;
    }
    *ret_reason = reasons.items[0];
    return true;
}
