/* SPDX-License-Identifier: MIT */
/* request.c - the parts of a request that all functions for storing tasks share.
 *
 * A caller's struct is checked and copied into an arena, and the result is written to the caller's
 * result and error. Nothing here calls the broker. */
#include "client/request.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/sized.h"
#include "broker/limit/limit.h"
#include "client/client.h"
#include "task/trace/trace_headers.h"
#include "trace/tracer.h"

quern_status qn_request_prepare(quern_client *client, struct qn_bytes task, struct qn_arena *arena,
                                struct qn_task *ret_task, quern_error *err)
{
    quern_task in;
    quern_status status = qn_sized_copy(QN_ROOM_OF(in), task, "quern_task", err);
    if (status != QUERN_OK) {
        return status;
    }
    pthread_mutex_lock(&client->ids_mutex);
    const struct qn_task_terms terms = {
        .now_wall_ms = qn_clock_wall_ms(client->clock),
        .payload_size_max = client->payload_size_max,
        .ids = &client->ids,
        .traces = client->tracer != NULL ? qn_tracer_source(client->tracer) : NULL};
    status = qn_task_prepare(&in, &terms, arena, ret_task, err);
    pthread_mutex_unlock(&client->ids_mutex);
    return status == QUERN_OK && ret_task->limit_key != NULL
               ? qn_limit_check_key(client->broker, err)
               : status;
}

struct qn_began qn_request_begin(const quern_client *client)
{
    if (client->tracer == NULL) {
        return (struct qn_began){0};
    }
    return (struct qn_began){qn_clock_wall_ms(client->clock), qn_clock_mono_ns()};
}

void qn_request_trace(const quern_client *client, struct qn_began began, const struct qn_task *task,
                      quern_status status)
{
    const struct qn_trace_headers headers = {task->headers, task->header_count};
    struct qn_span span = {.kind = QN_SPAN_ENQUEUE};
    if (client->tracer == NULL || !qn_trace_headers_find(headers, &span.context)) {
        return;
    }
    span.parent = task->trace_parent;
    span.started_at_ns = began.wall_ms * QN_NS_PER_MS;
    span.ended_at_ns = span.started_at_ns + qn_clock_mono_ns() - began.mono_ns;
    span.state = qn_trace_headers_state(headers);
    span.queue = task->queue;
    span.type = task->type;
    span.id = task->id;
    span.payload_size = task->payload_size;
    span.outcome = quern_status_name(status);
    if (status != QUERN_OK && status != QUERN_E_NOT_REPLICATED) {
        span.error = quern_status_name(status);
        span.error_class = span.error;
    }
    qn_tracer_add(client->tracer, &span);
}

quern_status qn_request_refuse(const struct qn_task *task, quern_status status, quern_error *err)
{
    if (status == QUERN_E_DUPLICATE) {
        return qn_error_set(err, status, "queue %s: an equal task of type %s already exists",
                            task->queue, task->type);
    }
    if (status == QUERN_E_CONFLICT) {
        return qn_error_set(err, status, "queue %s: a task with id %s already exists", task->queue,
                            task->id);
    }
    return qn_error_set(err, status, "queue %s: task %s was not stored: %s", task->queue, task->id,
                        quern_status_name(status));
}

quern_status qn_request_refuse_limited(const struct qn_task *task, quern_error *err)
{
    return qn_error_set(err, QUERN_E_FULL,
                        "queue %s is full: as many tasks wait in it as its max_pending allows",
                        task->queue);
}

quern_status qn_request_refuse_replicas(const struct qn_task *task, const quern_error *why,
                                        quern_error *err)
{
    return qn_error_set(err, QUERN_E_NOT_REPLICATED,
                        "queue %s: task %s is stored, do not enqueue it again: %s", task->queue,
                        task->id, why->text);
}

void qn_request_fail(struct qn_request *request, size_t index, const quern_error *error)
{
    if (!request->failed || index < request->failed_index) {
        request->failed = true;
        request->failed_index = index;
        request->error = *error;
    }
}

void qn_request_set_holder(struct qn_request *request, const char *id)
{
    size_t size = id == NULL ? 0 : strlen(id);
    QN_ASSERT(size < sizeof request->holder);
    memcpy(request->holder, id == NULL ? "" : id, size + 1);
}

void qn_request_set_result(quern_enqueue_result *results, size_t index, quern_status status,
                           const char *id)
{
    if (results == NULL) {
        return;
    }
    size_t size = id == NULL ? 0 : strlen(id);
    QN_ASSERT(size < sizeof results[index].id);
    results[index].status = status;
    results[index].existing = false;
    if (size > 0) {
        memcpy(results[index].id, id, size);
    }
    results[index].id[size] = '\0';
}

void qn_request_set_stored(quern_enqueue_result *results, size_t index, quern_status status,
                           struct qn_stored_ids ids)
{
    qn_request_set_result(results, index, status, ids.holder != NULL ? ids.holder : ids.own);
    if (results != NULL && status == QUERN_OK && ids.holder != NULL) {
        results[index].existing = true;
    }
}
