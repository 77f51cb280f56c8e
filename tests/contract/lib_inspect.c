/* SPDX-License-Identifier: MIT */
/* lib_inspect.c - contract tests inspect one task or one queue: values that need no freeing. */
#include "lib_contract.h"

#include <string.h>

static void copy_text(char *out, size_t out_size, const char *text)
{
    (void)snprintf(out, out_size, "%s", text == NULL ? "" : text);
}

static bool keep_task(const quern_task_info *info, void *user)
{
    struct contract_view *view = user;
    *view = (struct contract_view){.found = true,
                                   .state = info->task.state,
                                   .result_size = info->result_size,
                                   .has_result = info->result != NULL,
                                   .payload_size = info->task.payload_size,
                                   .retry_count = info->retry_count,
                                   .crash_count = info->crash_count,
                                   .failed_at_ms = info->failed_at_ms,
                                   .at_ms = info->at_ms,
                                   .enqueued_at_ms = info->enqueued_at_ms,
                                   .started_at_ms = info->started_at_ms,
                                   .completed_at_ms = info->completed_at_ms,
                                   .cause = info->cause,
                                   .fence = info->fence,
                                   .progress = info->progress};
    copy_text(view->queue, sizeof view->queue, info->task.queue);
    copy_text(view->id, sizeof view->id, info->task.id);
    copy_text(view->type, sizeof view->type, info->task.type);
    copy_text(view->error, sizeof view->error, info->error);
    copy_text(view->worker, sizeof view->worker, info->worker);
    copy_text(view->note, sizeof view->note, info->progress_note);
    if (info->result != NULL) {
        size_t size =
            info->result_size < sizeof view->result ? info->result_size : sizeof view->result;
        memcpy(view->result, info->result, size);
    }
    return true;
}

struct contract_view contract_inspect(struct contract *c, const char *queue, const char *id)
{
    struct contract_view view = {0};
    quern_task_filter filter = {.queue = queue, .id = id};
    quern_error err = {0};
    assert_ok(qn_broker_tasks(c->broker, &filter, keep_task, &view, &err), err);
    return view;
}

int contract_state(struct contract *c, const char *queue, const char *id)
{
    struct contract_view view = contract_inspect(c, queue, id);
    return view.found ? (int)view.state : 0;
}

struct queue_search {
    const char *name;
    quern_queue_info info;
};

static bool keep_queue(const quern_queue_info *queue, void *user)
{
    struct queue_search *search = user;
    if (strcmp(queue->name, search->name) != 0) {
        return true;
    }
    search->info = *queue;
    search->info.name = "";
    return false;
}

quern_queue_info contract_queue(struct contract *c, const char *queue)
{
    struct queue_search search = {.name = queue};
    quern_error err = {0};
    assert_ok(qn_broker_queues(c->broker, NULL, keep_queue, &search, &err), err);
    return search.info;
}

uint64_t contract_count(struct contract *c, const char *queue, quern_task_state state)
{
    return contract_queue(c, queue).counts[state];
}

void contract_assert_counted(struct contract *c, const char *queue, uint64_t processed,
                             uint64_t failed)
{
    quern_queue_info info = contract_queue(c, queue);
    assert_int_equal(info.processed_total, processed);
    assert_int_equal(info.failed_total, failed);
    assert_int_equal(info.processed_today, processed);
    assert_int_equal(info.failed_today, failed);
}

quern_inspector *contract_open_inspector(struct contract *c)
{
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(c->url, &(quern_inspector_options){.clock = &c->clock},
                                   &inspector, &err),
              err);
    return inspector;
}
