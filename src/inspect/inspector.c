/* SPDX-License-Identifier: MIT */
/* inspector.c - opens an inspector and forwards operations to the broker.
 *
 * Arguments are checked here, so that a broker receives only valid ones. Queues, tasks and workers
 * are copied into lists by the files of those names. */
#include "inspect/inspector.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "broker/reload.h"
#include "inspect/restore.h"
#include "task/limits.h"
#include "task/name.h"

#define ACT_FREE 50000 /* tasks, before a bulk action asks how many there are */

static quern_status check_options(const quern_inspector_options *options, quern_error *err)
{
    if (options->connect_timeout_ms < 0 || options->command_timeout_ms < 0) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: a timeout is negative");
    }
    if (!qn_sized_zero(options->reserved, sizeof options->reserved)) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: reserved is not 0");
    }
    return QUERN_OK;
}

quern_status quern_inspector_open_sized(const char *url, const quern_inspector_options *options,
                                        size_t options_size, quern_inspector **ret_inspector,
                                        quern_error *err)
{
    quern_inspector_options ours;
    if (url == NULL || ret_inspector == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            url == NULL ? "url" : "ret_inspector");
    }
    quern_status status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){options, options_size},
                                        "quern_inspector_options", err);
    if (status == QUERN_OK) {
        status = check_options(&ours, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    quern_inspector *inspector = qn_alloc_zero(1, sizeof *inspector);
    if (inspector == NULL) {
        return qn_error_nomem(err);
    }
    const struct qn_broker_options broker_options = {.clock = ours.clock,
                                                     .connect_timeout_ms = ours.connect_timeout_ms,
                                                     .command_timeout_ms = ours.command_timeout_ms,
                                                     .create = ours.create,
                                                     .init = ours.init};
    status = qn_broker_open(url, &broker_options, &inspector->broker, err);
    if (status != QUERN_OK) {
        qn_free(inspector);
        return status;
    }
    inspector->clock = ours.clock != NULL ? ours.clock : qn_clock_system();
    inspector->act_free = ACT_FREE;
    *ret_inspector = inspector;
    return QUERN_OK;
}

void quern_inspector_free(quern_inspector *inspector)
{
    if (inspector != NULL) {
        qn_broker_close(inspector->broker); /* does nothing in a fork */
        qn_free(inspector);
    }
}

quern_status qn_inspect_enter(const quern_inspector *inspector, quern_error *err)
{
    if (inspector == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: must not be NULL");
    }
    return qn_broker_check_fork(inspector->broker, err);
}

static quern_status enter_queue(const quern_inspector *inspector, const char *queue,
                                quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && queue == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "queue: must not be NULL");
    }
    return status;
}

quern_status quern_inspector_pause(quern_inspector *inspector, const char *queue, quern_error *err)
{
    quern_status status = enter_queue(inspector, queue, err);
    return status == QUERN_OK ? qn_broker_pause(inspector->broker, queue, true, err) : status;
}

quern_status quern_inspector_resume(quern_inspector *inspector, const char *queue, quern_error *err)
{
    quern_status status = enter_queue(inspector, queue, err);
    return status == QUERN_OK ? qn_broker_pause(inspector->broker, queue, false, err) : status;
}

quern_status quern_inspector_set_queue_sized(quern_inspector *inspector, const char *queue,
                                             const quern_queue_settings *settings,
                                             size_t settings_size, quern_error *err)
{
    quern_queue_settings ours;
    quern_status status = enter_queue(inspector, queue, err);
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){settings, settings_size},
                               "quern_queue_settings", err);
    }
    if (status == QUERN_OK) {
        status = qn_name_check_queue(queue, err);
    }
    if (status == QUERN_OK) {
        status = qn_name_check_new("queue", queue, err);
    }
    if (status == QUERN_OK &&
        (ours.max_pending < QUERN_MAX_PENDING_NONE || ours.max_pending > QUERN_MAX_PENDING_MAX)) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "max_pending must be from 1 to %lld, 0 or QUERN_MAX_PENDING_NONE, "
                              "not %lld",
                              (long long)QUERN_MAX_PENDING_MAX, (long long)ours.max_pending);
    }
    return status == QUERN_OK ? qn_broker_set_queue(inspector->broker, queue, &ours, err) : status;
}

quern_status quern_inspector_remove_queue(quern_inspector *inspector, const char *queue, bool force,
                                          quern_error *err)
{
    quern_status status = enter_queue(inspector, queue, err);
    return status == QUERN_OK ? qn_broker_remove_queue(inspector->broker, queue, force, err)
                              : status;
}

quern_status quern_inspector_reload_certificates(quern_inspector *inspector, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    return status == QUERN_OK ? qn_broker_reload(inspector->broker, err) : status;
}

quern_status quern_inspector_backup(quern_inspector *inspector, const char *path, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (path == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "path: must not be NULL");
    }
    return qn_broker_backup(inspector->broker, path, err);
}

quern_status quern_inspector_history(quern_inspector *inspector, const char *queue, size_t days,
                                     quern_day *ret_days, quern_error *err)
{
    quern_status status = enter_queue(inspector, queue, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (ret_days == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "ret_days: must not be NULL");
    }
    if (days < 1 || days > QN_HISTORY_DAYS) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: history covers 1 to %d days",
                            QN_HISTORY_DAYS);
    }
    return qn_broker_history(inspector->broker, queue, days, ret_days, err);
}

quern_status quern_inspector_broker(quern_inspector *inspector,
                                    void (*on_fact)(const char *name, const char *text, void *user),
                                    void *user, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && on_fact == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "on_fact: must not be NULL");
    }
    return status == QUERN_OK ? qn_broker_server_info(inspector->broker, on_fact, user, err)
                              : status;
}

quern_status quern_inspector_check(quern_inspector *inspector, bool repair,
                                   void (*on_finding)(const quern_finding *finding, void *user),
                                   void *user, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && on_finding == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "on_finding: must not be NULL");
    }
    return status == QUERN_OK ? qn_broker_doctor(inspector->broker, repair, on_finding, user, err)
                              : status;
}

/* --- Acting on tasks ------------------------------------------------------------------------ */

quern_status qn_inspect_check_action(quern_action action, quern_error *err)
{
    if ((int)action < QUERN_ACTION_RUN || (int)action > QUERN_ACTION_RESTORE) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: %d is not an action", (int)action);
    }
    return QUERN_OK;
}

quern_status quern_inspector_act(quern_inspector *inspector, quern_action action, const char *queue,
                                 const char *id, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK) {
        status = qn_inspect_check_action(action, err);
    }
    if (status == QUERN_OK && id == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "id: must not be NULL");
    }
    if (status != QUERN_OK) {
        return status;
    }
    return action == QUERN_ACTION_RESTORE
               ? qn_restore_task(inspector->broker, queue, id, err)
               : qn_broker_operate(inspector->broker, action, queue, id, err);
}

static quern_status check_bulk(const quern_task_filter *filter, quern_error *err)
{
    if (filter->queue == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: the filter must name a queue");
    }
    if (quern_task_state_name((quern_task_state)filter->state) == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "inspector: the filter must name a state");
    }
    return QUERN_OK;
}

struct stock {
    const quern_task_filter *filter;
    uint64_t count;
};

static bool note_stock(const quern_queue_info *queue, void *user)
{
    struct stock *stock = user;
    bool is_it = strcmp(queue->name, stock->filter->queue) == 0;
    stock->count = is_it ? queue->counts[stock->filter->state] : stock->count;
    return !is_it;
}

/* Where tasks come as fast as they are taken (archived ones that fail again as soon as they are
 * made pending), this would never end: it handles twice the number of tasks that matched at first,
 * and reports that there are more. */
static quern_status act_on_all(quern_inspector *inspector, quern_action action,
                               const quern_task_filter *filter, uint64_t *count, quern_error *err)
{
    uint64_t most = inspector->act_free;
    bool is_known = false;
    size_t step = QN_BULK_MAX;
    const struct qn_bulk bulk = {.action = action, .filter = filter, .limit = QN_BULK_MAX};
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && step == QN_BULK_MAX) {
        if (*count >= most && is_known) {
            return qn_error_set(err, QUERN_E_BUSY,
                                "queue \"%s\": stopped after %llu tasks, since others that match "
                                "arrived meanwhile; repeat the call to continue",
                                filter->queue, (unsigned long long)*count);
        }
        if (*count >= most) {
            struct stock stock = {.filter = filter};
            status = qn_broker_queues(inspector->broker, NULL, note_stock, &stock, err);
            most = *count + 2 * stock.count + QN_BULK_MAX;
            is_known = true;
        }
        if (status == QUERN_OK) {
            status = qn_broker_operate_all(inspector->broker, &bulk, &step, err);
        }
        *count += status == QUERN_OK ? step : 0;
    }
    return status;
}

quern_status quern_inspector_act_all_sized(quern_inspector *inspector, quern_action action,
                                           const quern_task_filter *filter, size_t filter_size,
                                           uint64_t *ret_count, quern_error *err)
{
    quern_task_filter ours;
    uint64_t count = 0;
    if (ret_count != NULL) {
        *ret_count = 0;
    }
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK) {
        status = qn_inspect_check_action(action, err);
    }
    if (status == QUERN_OK && filter == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "filter: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(ours), (struct qn_bytes){filter, filter_size},
                               "quern_task_filter", err);
    }
    if (status == QUERN_OK) {
        status = check_bulk(&ours, err);
    }
    if (status == QUERN_OK) {
        status = act_on_all(inspector, action, &ours, &count, err);
    }
    if (ret_count != NULL) {
        *ret_count = count;
    }
    return status;
}
