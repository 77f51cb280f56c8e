/* SPDX-License-Identifier: MIT */
/* groups.c - reads failed tasks page by page, and counts them by the fingerprint of their error.
 *
 * Memory is bounded by the number of groups. While tasks move, one may be left out or be counted
 * twice, as in any list of a queue in use. */
#include "cli/verbs/error/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "quern/search.h"

enum { PAGE_SIZE = 1000 };

struct reading {
    quern_inspector *inspector;
    const struct qn_error_scope *scope;
    struct qn_error_groups *groups; /* NULL: not wanted */
    bool is_over;                   /* on_task has enough */
};

static struct qn_error_group *find(struct qn_error_groups *groups, uint64_t fingerprint)
{
    for (size_t i = 0; i < groups->count; i++) {
        if (groups->items[i].fingerprint == fingerprint) {
            return &groups->items[i];
        }
    }
    return NULL;
}

/* NULL: there is no room. */
static struct qn_error_group *add(struct qn_error_groups *groups, const quern_task_info *info,
                                  uint64_t fingerprint, const char *text)
{
    if (groups->count == QN_GROUPS_MAX) {
        groups->others++;
        return NULL;
    }
    struct qn_error_group *group = &groups->items[groups->count++];
    *group =
        (struct qn_error_group){.fingerprint = fingerprint,
                                .first_at_ms = INT64_MAX,
                                .type = qn_memory_must(qn_str_dup(quern_task_info_type(info))),
                                .queue = qn_memory_must(qn_str_dup(quern_task_info_queue(info))),
                                .id = qn_memory_must(qn_str_dup(quern_task_info_id(info)))};
    (void)memcpy(group->text, text, strlen(text) + 1);
    return group;
}

static void count_task(struct qn_error_groups *groups, const quern_task_info *info,
                       uint64_t fingerprint, const char *text)
{
    int64_t at_ms = quern_task_info_failed_at_ms(info);
    struct qn_error_group *group = find(groups, fingerprint);
    group = group != NULL ? group : add(groups, info, fingerprint, text);
    if (group != NULL) {
        bool waits = quern_task_info_state(info) == QUERN_TASK_RETRY;
        group->retry += waits ? 1 : 0;
        group->archived += waits ? 0 : 1;
        group->last_at_ms = at_ms > group->last_at_ms ? at_ms : group->last_at_ms;
        group->first_at_ms = at_ms > 0 && at_ms < group->first_at_ms ? at_ms : group->first_at_ms;
    }
}

static void take_page(struct reading *reading, const quern_task_list *list)
{
    const struct qn_error_scope *scope = reading->scope;
    for (size_t i = 0; i < quern_task_list_size(list) && !reading->is_over; i++) {
        const quern_task_info *info = quern_task_list_at(list, i);
        const char *error = quern_task_info_error(info);
        char text[QN_FINGERPRINT_TEXT_SIZE];
        if (error == NULL || error[0] == '\0') {
            continue; /* archived by hand, or snoozed */
        }
        uint64_t fingerprint = qn_fingerprint(error, text);
        if (reading->groups != NULL) {
            count_task(reading->groups, info, fingerprint, text);
        }
        reading->is_over =
            scope->on_task != NULL && !scope->on_task(info, fingerprint, scope->user);
    }
}

static quern_status read_state(struct reading *reading, quern_task_state state, quern_error *err)
{
    quern_status status = QUERN_OK;
    char *cursor = NULL;
    bool goes_on = true;
    while (status == QUERN_OK && goes_on) {
        quern_task_list *list = NULL;
        const quern_search search = {.match = reading->scope->match,
                                     .queue = reading->scope->queue,
                                     .state = (int32_t)state,
                                     .cursor = cursor,
                                     .limit = PAGE_SIZE,
                                     .scan_max = PAGE_SIZE};
        status = quern_inspector_search(reading->inspector, &search, &list, err);
        if (status != QUERN_OK) {
            break;
        }
        const char *next = quern_task_list_cursor(list);
        uint64_t searched = quern_task_list_searched(list);
        take_page(reading, list);
        goes_on = next != NULL && searched < reading->scope->scan_max && !reading->is_over;
        if (reading->groups != NULL && !goes_on) {
            reading->groups->searched += searched;
            reading->groups->total += quern_task_list_total(list);
        }
        qn_free(cursor);
        cursor = goes_on ? qn_memory_must(qn_str_dup(next)) : NULL;
        quern_task_list_free(list);
    }
    qn_free(cursor);
    return status;
}

quern_status qn_error_groups_read(quern_inspector *inspector, const struct qn_error_scope *scope,
                                  struct qn_error_groups *groups, quern_error *err)
{
    struct reading reading = {.inspector = inspector, .scope = scope, .groups = groups};
    if (groups != NULL) {
        *groups = (struct qn_error_groups){
            .items = qn_memory_must(qn_alloc_zero(QN_GROUPS_MAX, sizeof *groups->items))};
    }
    quern_status status = read_state(&reading, QUERN_TASK_ARCHIVED, err);
    return status == QUERN_OK ? read_state(&reading, QUERN_TASK_RETRY, err) : status;
}

static int compare(const void *left, const void *right)
{
    const struct qn_error_group *a = left;
    const struct qn_error_group *b = right;
    uint64_t a_count = a->retry + a->archived;
    uint64_t b_count = b->retry + b->archived;
    return a_count != b_count
               ? (a_count < b_count) - (a_count > b_count)
               : (a->fingerprint > b->fingerprint) - (a->fingerprint < b->fingerprint);
}

void qn_error_groups_sort(struct qn_error_groups *groups)
{
    qsort(groups->items, groups->count, sizeof *groups->items, compare);
}

void qn_error_groups_finish(struct qn_error_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        qn_free(groups->items[i].type);
        qn_free(groups->items[i].queue);
        qn_free(groups->items[i].id);
    }
    qn_free(groups->items);
}
