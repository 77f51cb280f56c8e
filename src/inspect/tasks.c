/* SPDX-License-Identifier: MIT */
/* tasks.c - pages of tasks, and one task, as an inspector hands them out. */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "broker/find.h"
#include "inspect/inspector.h"
#include "inspect/task_list.h"

#define LIMIT_MAX 10000

static quern_status read_list(quern_inspector *inspector, const quern_task_filter *filter,
                              quern_task_list **ret_list, quern_error *err)
{
    quern_task_list *list = qn_alloc_zero(1, sizeof *list);
    if (list == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_broker_tasks(inspector->broker, filter, qn_task_list_add, list, err);
    if (status == QUERN_OK && list->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        quern_task_list_free(list);
        return status;
    }
    *ret_list = list;
    return QUERN_OK;
}

static quern_status check_filter(const quern_task_filter *filter, quern_error *err)
{
    if (filter->state != 0 && quern_task_state_name((quern_task_state)filter->state) == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: %d is not a state",
                            (int)filter->state);
    }
    if (filter->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: reserved is not 0");
    }
    if (filter->limit > LIMIT_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: a page is at most %d tasks",
                            LIMIT_MAX);
    }
    return QUERN_OK;
}

quern_status quern_inspector_tasks_sized(quern_inspector *inspector,
                                         const quern_task_filter *filter, size_t filter_size,
                                         quern_task_list **ret_list, quern_error *err)
{
    quern_task_filter ours;
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){filter, filter_size},
                               "quern_task_filter", err);
    }
    if (status == QUERN_OK) {
        status = check_filter(&ours, err);
    }
    return status == QUERN_OK ? read_list(inspector, &ours, ret_list, err) : status;
}

static quern_status enter_task(quern_inspector *inspector, const char *id,
                               quern_task_info **ret_info, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && (id == NULL || ret_info == NULL)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                              id == NULL ? "id" : "ret_info");
    }
    return status;
}

quern_status quern_inspector_task(quern_inspector *inspector, const char *queue, const char *id,
                                  quern_task_info **ret_info, quern_error *err)
{
    quern_status status = enter_task(inspector, id, ret_info, err);
    return status == QUERN_OK ? qn_find_task(inspector->broker, queue, id, ret_info, err) : status;
}

quern_status quern_inspector_task_short(quern_inspector *inspector, const char *queue,
                                        const char *id, quern_task_info **ret_info,
                                        quern_error *err)
{
    quern_status status = enter_task(inspector, id, ret_info, err);
    return status == QUERN_OK ? qn_find_short(inspector->broker, queue, id, ret_info, err) : status;
}
