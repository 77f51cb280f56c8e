/* SPDX-License-Identifier: MIT */
/* bulk.c - an operation by hand on all tasks that match a filter.
 *
 * Ids are found here, page by page and oldest first, and passed to the script (operate.lua), which
 * checks each again before it acts: tasks that moved meanwhile are left alone. Tasks are read only
 * for a filter on their contents. When a pass has found something it is followed by another, since
 * in a moving queue pages may pass over a task.
 *
 * A script walks from the head of `pending` to each task that it takes out, so a call takes fewer
 * tasks the deeper they are. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "broker/redis/operate/operate.h"
#include "task/lifecycle.h"
#include "task/limits.h"

struct operation {
    struct qn_redis *self;
    quern_action action;
    const quern_task_filter *filter;
    bool reads; /* the tasks must be read */
    size_t limit;
    size_t done;
    size_t pass_done; /* in this pass */
    struct qn_task_cursor cursor;
    struct qn_arena arena; /* the size of tasks */
    struct qn_operate_task tasks[QN_BULK_MAX];
    uint64_t ranks[QN_BULK_MAX]; /* how far the script will walk for each */
    size_t count;
    bool nomem;
};

/* --- Acting ----------------------------------------------------------------------------- */

/* The answer for `count` tasks. */
static quern_status take_answer(struct operation *operation, const struct qn_reply *reply,
                                size_t count, quern_error *err)
{
    bool cancel = operation->action == QUERN_ACTION_CANCEL_RETRY ||
                  operation->action == QUERN_ACTION_CANCEL_ARCHIVE;
    if (qn_operate_is_full(reply)) {
        return qn_operate_refuse_full(operation->filter->queue, reply, err);
    }
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        done += strcmp(qn_reply_text(qn_reply_at(reply, i)), "done") == 0;
    }
    operation->done += done;
    operation->pass_done += done;
    if (!cancel) {
        qn_task_cursor_removed(&operation->cursor, done);
    }
    return QUERN_OK;
}

static quern_status operate_some(struct operation *operation, size_t first, size_t count,
                                 quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, operation->self, QN_CHANNEL_REST, QN_PIPELINE_WRITES);
    const struct qn_operate_tasks tasks = {
        .queue = operation->filter->queue,
        .state = quern_task_state_name((quern_task_state)operation->filter->state),
        .items = operation->tasks + first,
        .count = count};
    qn_operate_add(&pipeline, operation->action, &tasks);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        status = take_answer(operation, reply, count, err);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* Operates on the gathered tasks, in one script, or in several when they are deep in the list. */
static quern_status operate_gathered(struct operation *operation, quern_error *err)
{
    bool list = operation->filter->state == QUERN_TASK_PENDING;
    quern_status status = QUERN_OK;
    for (size_t first = 0; status == QUERN_OK && first < operation->count;) {
        size_t count = 1;
        uint64_t walk = operation->ranks[first];
        while (first + count < operation->count &&
               (!list || walk + operation->ranks[first + count] <= QN_OPERATE_WALK_MAX)) {
            walk += operation->ranks[first + count++];
        }
        status = operate_some(operation, first, count, err);
        first += count;
    }
    operation->count = 0;
    qn_arena_reset(&operation->arena);
    return status;
}

/* --- Gathering -------------------------------------------------------------------------- */

static bool gather_task(struct operation *operation, const struct qn_task_entry *entry,
                        const char *unique_key)
{
    struct qn_operate_task *task = &operation->tasks[operation->count];
    task->id = qn_arena_copy(&operation->arena, entry->id, entry->id_size + 1);
    task->id_size = entry->id_size;
    task->unique_key = unique_key == NULL ? "" : qn_arena_strdup(&operation->arena, unique_key);
    if (task->id == NULL || task->unique_key == NULL) {
        operation->nomem = true;
        return false;
    }
    /* Those before it will be gone by then. */
    operation->ranks[operation->count] =
        entry->rank > operation->count ? entry->rank - operation->count : 0;
    operation->count++;
    return true;
}

static bool gather_fitting(const struct qn_task_entry *entry, const quern_task_info *info,
                           void *user)
{
    struct operation *operation = user;
    return !qn_filter_fits(operation->filter, info) ||
           gather_task(operation, entry, info->task.unique_key);
}

static quern_status gather_page(struct operation *operation, struct qn_task_entries page,
                                quern_error *err)
{
    if (operation->reads) {
        struct qn_place place = {.queue = operation->filter->queue,
                                 .state = (quern_task_state)operation->filter->state,
                                 .key = qn_task_cursor_key(&operation->cursor)};
        const struct qn_task_sink sink = {.on_info = gather_fitting, .user = operation};
        quern_status status = qn_read_task_all(operation->self, &place, page, &sink, err);
        bool nomem = status == QUERN_OK && operation->nomem;
        return nomem ? qn_error_nomem(err) : status;
    }
    for (size_t i = 0; i < page.count; i++) {
        const struct qn_task_entry *entry = &page.items[i];
        bool wanted =
            operation->filter->id == NULL || strcmp(operation->filter->id, entry->id) == 0;
        if (wanted && !gather_task(operation, entry, NULL)) {
            return qn_error_nomem(err);
        }
    }
    return QUERN_OK;
}

/* As many entries as one script can act on if all of them fit, and no more than are wanted. */
static size_t page_room(const struct operation *operation)
{
    size_t left = operation->limit - operation->done - operation->count;
    size_t most = operation->reads ? QN_INSPECT_BATCH : QN_BULK_MAX;
    return left < most ? left : most;
}

static quern_status run_pass(struct operation *operation, quern_error *err)
{
    const struct qn_place place = {.queue = operation->filter->queue,
                                   .state = (quern_task_state)operation->filter->state};
    struct qn_task_entries page = {.count = 1};
    quern_status status = qn_task_cursor_init(&operation->cursor, operation->self, &place,
                                              operation->filter->group, err);
    operation->cursor.oldest_first = true;
    operation->pass_done = 0;
    while (status == QUERN_OK && page.count > 0 && operation->done < operation->limit) {
        status = qn_task_cursor_next(&operation->cursor, page_room(operation), &page, err);
        if (status == QUERN_OK && page.count > 0) {
            status = gather_page(operation, page, err);
        }
        bool enough = page.count == 0 || page_room(operation) == 0 ||
                      operation->count + QN_INSPECT_BATCH > QN_BULK_MAX;
        if (status == QUERN_OK && enough) {
            status = operate_gathered(operation, err);
        }
    }
    qn_task_cursor_finish(&operation->cursor);
    return status;
}

static quern_status run_passes(struct operation *operation, quern_error *err)
{
    quern_status status = QUERN_OK;
    do {
        status = run_pass(operation, err);
    } while (status == QUERN_OK && operation->pass_done > 0 && operation->done < operation->limit);
    return status;
}

quern_status qn_redis_operate_all(struct qn_broker *broker, const struct qn_bulk *bulk,
                                  size_t *ret_count, quern_error *err)
{
    const quern_task_filter *filter = bulk->filter;
    quern_task_state state = (quern_task_state)filter->state;
    QN_ASSERT(bulk->limit <= QN_BULK_MAX && filter->queue != NULL);
    if (!qn_lifecycle_allows(state, bulk->action)) {
        return qn_lifecycle_refuse(bulk->action, state, NULL, err);
    }
    struct qn_redis *self = qn_redis_of(broker);
    quern_status status = qn_redis_find_queue(broker, filter->queue, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool deletes = bulk->action == QUERN_ACTION_DELETE || bulk->action == QUERN_ACTION_TRASH;
    bool by_lock = state == QUERN_TASK_AGGREGATING && deletes;
    struct operation operation = {.self = self,
                                  .action = bulk->action,
                                  .filter = filter,
                                  .reads = qn_filter_reads(filter) || by_lock,
                                  .limit = bulk->limit};
    status = run_passes(&operation, err);
    qn_arena_finish(&operation.arena);
    if (status == QUERN_OK) {
        *ret_count = operation.done;
    }
    return status;
}
