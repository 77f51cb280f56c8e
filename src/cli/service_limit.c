/* SPDX-License-Identifier: MIT */
/* service_limit.c - which limit a pending task waits for.
 *
 * How much of "*" is used by one type or key is not known: such a limit may be the reason. */
#include "cli/service_limit.h"

#include <stdio.h>
#include <string.h>

#include "task/limit.h"

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

/* Of its queue, or of its type or key by name. */
static bool is_used_up(const quern_limit *limit, const quern_task_info *info)
{
    bool concerns =
        limit->scope == QUERN_LIMIT_SEMAPHORE || strcmp(limit->name, own_name(limit, info)) == 0;
    return !is_each(limit) && concerns &&
           limit->used >= (limit->burst > 0 ? limit->burst : limit->count);
}

/* "*", while the type or key of the task has no limit of its own. */
static bool may_be_used_up(const quern_limit *limit, const quern_task_info *info,
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

static void describe_limit(const quern_limit *limit, struct qn_reason *reason)
{
    char text[QN_LIMIT_TEXT_SIZE];
    const struct qn_limit numbers = {
        .count = limit->count, .period_ms = limit->period_ms, .burst = limit->burst};
    bool of_all = strcmp(limit->queue, QUERN_ALL_QUEUES) == 0;
    bool of_queue = limit->scope == QUERN_LIMIT_QUEUE;
    const char *noun = limit->scope == QUERN_LIMIT_TYPE  ? "type"
                       : limit->scope == QUERN_LIMIT_KEY ? "key"
                                                         : "semaphore";
    qn_limit_format(&numbers, text);
    if (is_each(limit)) {
        (void)snprintf(reason->because, sizeof reason->because,
                       "the limit %s of each %s in %s%.256s may be used up", text, noun,
                       of_all ? "all queues" : "queue ", of_all ? "" : limit->queue);
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

bool qn_service_limit_why(const quern_limit_list *limits, const quern_task_info *info, bool each,
                          struct qn_reason *ret_reason)
{
    for (size_t i = 0; i < quern_limit_list_size(limits); i++) {
        const quern_limit *limit = quern_limit_list_at(limits, i);
        if (each ? may_be_used_up(limit, info, limits) : is_used_up(limit, info)) {
            describe_limit(limit, ret_reason);
            return true;
        }
    }
    return false;
}
