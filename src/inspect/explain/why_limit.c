/* SPDX-License-Identifier: MIT */
/* why_limit.c - which limits a pending task waits for, and which tasks have the places.
 *
 * How much of the limit of each type or key ("*") is used by one of them is not kept: of tasks that
 * run it is counted here, of starts the limit may be the reason. The holders are looked for among
 * the first active tasks; those of a semaphore in all queues that have it. A handler of Go that
 * holds a token is found only while its task is active. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inspect/explain/case.h"
#include "inspect/explain/census.h"
#include "task/limit.h"

#define ACTIVE_LOOKED_AT 500

static const char *own_name(const quern_limit *limit, const quern_task_info *info)
{
    return limit->scope == QUERN_LIMIT_TYPE  ? quern_task_info_type(info)
           : limit->scope == QUERN_LIMIT_KEY ? quern_task_info_limit_key(info)
                                             : "";
}

static bool is_each(const quern_limit *limit)
{
    return limit->scope != QUERN_LIMIT_SEMAPHORE && strcmp(limit->name, QN_LIMIT_EACH) == 0;
}

static bool is_of_all(const quern_limit *limit)
{
    return strcmp(limit->queue, QUERN_ALL_QUEUES) == 0;
}

/* Of its queue, or of its type or key by name. */
static bool is_used_up(const quern_limit *limit, const quern_task_info *info)
{
    bool concerns =
        limit->scope == QUERN_LIMIT_SEMAPHORE || strcmp(limit->name, own_name(limit, info)) == 0;
    return !is_each(limit) && concerns &&
           limit->used >= (limit->burst > 0 ? limit->burst : limit->count);
}

/* "*", while the type or key of the task has no limit of its own. */
static bool is_its_each(const quern_limit *limit, const quern_task_info *info,
                        const quern_limit_list *limits)
{
    const char *name = own_name(limit, info);
    if (!is_each(limit) || name[0] == '\0') {
        return false;
    }
    for (size_t i = 0; i < quern_limit_list_size(limits); i++) {
        const quern_limit *other = quern_limit_list_at(limits, i);
        bool is_like =
            other->scope == limit->scope && (other->period_ms == 0) == (limit->period_ms == 0);
        if (is_like && strcmp(other->name, name) == 0) {
            return false;
        }
    }
    return true;
}

/* --- Who has the places ------------------------------------------------------------------ */

/* Whether it counts for the limit that the task waits for. */
static bool counts_for(const quern_limit *limit, const quern_task_info *info,
                       const quern_task_info *active)
{
    switch ((quern_limit_scope)limit->scope) {
    case QUERN_LIMIT_TYPE:
        return strcmp(quern_task_info_type(active), quern_task_info_type(info)) == 0;
    case QUERN_LIMIT_KEY:
        return strcmp(quern_task_info_limit_key(active), quern_task_info_limit_key(info)) == 0;
    case QUERN_LIMIT_QUEUE:
    case QUERN_LIMIT_SEMAPHORE:
        return true;
    }
    return true;
}

static void add_holder(const struct qn_case *one, const quern_task_info *active,
                       struct qn_reason *reason)
{
    char text[QN_REASON_HOLDER_SIZE];
    const quern_worker_list *workers = one->reading->workers;
    const quern_worker_info *worker = qn_census_worker(workers, quern_task_info_worker(active));
    if (worker == NULL) {
        worker =
            qn_census_runner(workers, quern_task_info_queue(active), quern_task_info_id(active));
    }
    if (worker != NULL) {
        (void)snprintf(text, sizeof text, "%s on %s:%" PRId64, quern_task_info_id(active),
                       worker->host, worker->pid);
    } else {
        (void)snprintf(text, sizeof text, "%s", quern_task_info_id(active));
    }
    qn_reasons_add_holder(reason, text);
}

/* Among the active tasks of a queue (NULL: of all); returns how many there are. */
static uint64_t find_holders(const struct qn_case *one, const quern_limit *limit, const char *queue,
                             struct qn_reason *reason)
{
    const quern_task_filter filter = {
        .queue = queue, .state = QUERN_TASK_ACTIVE, .limit = ACTIVE_LOOKED_AT};
    quern_task_list *list = NULL;
    uint64_t count = 0;
    if (quern_inspector_tasks(one->reading->inspector, &filter, &list, NULL) != QUERN_OK) {
        return 0; /* they are named only if they can be found */
    }
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        const quern_task_info *active = quern_task_list_at(list, i);
        if (counts_for(limit, one->info, active)) {
            count++;
            if (reason != NULL) {
                add_holder(one, active, reason);
            }
        }
    }
    quern_task_list_free(list);
    return count;
}

static void find_token_holders(const struct qn_case *one, const quern_limit *limit,
                               struct qn_reason *reason)
{
    quern_limit_list *all = NULL;
    if (quern_inspector_limits(one->reading->inspector, NULL, &all, NULL) != QUERN_OK) {
        return;
    }
    for (size_t i = 0; i < quern_limit_list_size(all); i++) {
        const quern_limit *other = quern_limit_list_at(all, i);
        if (other->scope == QUERN_LIMIT_SEMAPHORE && strcmp(other->name, limit->name) == 0) {
            (void)find_holders(one, other, other->queue, reason);
        }
    }
    quern_limit_list_free(all);
}

/* --- Words -------------------------------------------------------------------------------- */

static const char *noun_of(const quern_limit *limit)
{
    return limit->scope == QUERN_LIMIT_TYPE  ? "type"
           : limit->scope == QUERN_LIMIT_KEY ? "key"
                                             : "semaphore";
}

static void describe(const quern_limit *limit, bool is_sure, struct qn_reason *reason)
{
    char text[QN_LIMIT_TEXT_SIZE];
    const struct qn_limit numbers = {
        .count = limit->count, .period_ms = limit->period_ms, .burst = limit->burst};
    bool of_all = is_of_all(limit);
    bool of_queue = limit->scope == QUERN_LIMIT_QUEUE;
    const char *noun = noun_of(limit);
    qn_limit_format(&numbers, text);
    if (is_each(limit)) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the limit %s of each %s in %s%.256s %s used up", text, noun,
                       of_all ? "all queues" : "queue ", of_all ? "" : limit->queue,
                       is_sure ? "is" : "may be");
    } else if (of_all) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the limit %s of %s%s%.256s%s is used up", text, of_queue ? "" : noun,
                       of_queue ? "" : " ", limit->name,
                       of_queue ? "all queues" : " in all queues");
    } else {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the limit %s of %s %.256s is used up", text, of_queue ? "queue" : noun,
                       of_queue ? limit->queue : limit->name);
    }
    int used =
        snprintf(reason->advice, sizeof reason->advice, "%sraise it: quern limit set %.200s LIMIT",
                 limit->count > 0 ? "nothing, or " : "", of_all ? "--all-queues" : limit->queue);
    if (!of_queue) {
        (void)snprintf(reason->advice + used, sizeof reason->advice - (size_t)used,
                       " --%s '%.200s'", noun, limit->name);
    }
}

static quern_why why_of(const quern_limit *limit)
{
    return limit->scope == QUERN_LIMIT_SEMAPHORE ? QUERN_WHY_SEMAPHORE
           : limit->period_ms > 0                ? QUERN_WHY_LIMIT_STARTS
                                                 : QUERN_WHY_LIMIT_RUNS;
}

/* --- Finding them -------------------------------------------------------------------------- */

static void add_used_up(struct qn_case *one, const quern_limit *limit)
{
    struct qn_reason *reason = qn_reasons_add(one->reasons, why_of(limit), true);
    describe(limit, true, reason);
    if (limit->scope == QUERN_LIMIT_SEMAPHORE) {
        find_token_holders(one, limit, reason);
    } else if (limit->period_ms == 0) {
        (void)find_holders(one, limit, is_of_all(limit) ? NULL : limit->queue, reason);
    }
}

/* How many run is counted; what starts have used is not known. */
static void add_each(struct qn_case *one, const quern_limit *limit)
{
    bool is_sure = limit->period_ms == 0;
    const char *queue = is_of_all(limit) ? NULL : limit->queue;
    if (is_sure && find_holders(one, limit, queue, NULL) < (uint64_t)limit->count) {
        return;
    }
    struct qn_reason *reason =
        qn_reasons_add(one->reasons, is_sure ? why_of(limit) : QUERN_WHY_LIMIT_MAYBE, true);
    describe(limit, is_sure, reason);
    if (is_sure) {
        (void)find_holders(one, limit, queue, reason);
    }
}

static void find_in(struct qn_case *one, const quern_limit_list *limits, bool surely)
{
    size_t count = limits == NULL ? 0 : quern_limit_list_size(limits);
    for (size_t i = 0; i < count; i++) {
        const quern_limit *limit = quern_limit_list_at(limits, i);
        bool is_known = limit->period_ms == 0; /* of "*" */
        if (surely && is_used_up(limit, one->info)) {
            add_used_up(one, limit);
        } else if (surely == is_known && is_its_each(limit, one->info, limits)) {
            add_each(one, limit);
        }
    }
}

void qn_why_limit_find(struct qn_case *one, const struct qn_why_limits *limits, bool surely)
{
    find_in(one, limits->own, surely);
    find_in(one, limits->of_all, surely);
}

/* Without the right to read them, or without limits at all: none is named. */
void qn_why_limit_read(const struct qn_case *one, struct qn_why_limits *ret_limits)
{
    quern_inspector *inspector = one->reading->inspector;
    const char *queue = quern_task_info_queue(one->info);
    *ret_limits = (struct qn_why_limits){.own = NULL};
    if (quern_inspector_limits(inspector, queue, &ret_limits->own, NULL) != QUERN_OK) {
        ret_limits->own = NULL;
    }
    if (quern_inspector_limits(inspector, QUERN_ALL_QUEUES, &ret_limits->of_all, NULL) !=
        QUERN_OK) {
        ret_limits->of_all = NULL;
    }
}

void qn_why_limit_finish(struct qn_why_limits *limits)
{
    quern_limit_list_free(limits->own);
    quern_limit_list_free(limits->of_all);
}
