/* SPDX-License-Identifier: MIT */
/* batch.c - many tasks with one call.
 *
 * The tasks are cut into requests that the broker takes at once; these go through the same queue of
 * callers as single tasks (combine.c, room.c), one after the other, so their order is kept. A task
 * that is invalid or refused does not affect the others. When the broker itself fails, the rest is
 * not tried: it would fail too, each request after its own timeout, and later tasks must not be
 * stored before earlier ones. */
#include "client/room.h"

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/sized.h"

/* How many of the tasks fit into one request, at least one; their payload in *ret_bytes. A struct
 * that cannot be read counts as a task, and is refused in its turn. */
static size_t measure(const void *tasks, size_t task_size, size_t count, size_t *ret_bytes)
{
    size_t bytes = 0;
    size_t taken = 0;
    while (taken < count) {
        quern_task task;
        const struct qn_bytes theirs = {(const char *)tasks + taken * task_size, task_size};
        if (qn_sized_copy(QN_ROOM_OF(task), theirs, "quern_task", NULL) != QUERN_OK) {
            task.payload_size = 0;
        }
        bool fits = task.payload_size <= QN_BATCH_BYTES_MAX - bytes;
        if (taken > 0 && !fits) {
            break;
        }
        bytes = fits ? bytes + task.payload_size : QN_BATCH_BYTES_MAX;
        taken++;
    }
    *ret_bytes = bytes;
    return taken;
}

/* The tasks behind a failed part were not tried. Of the part the fate may be unknown; of these it
 * is not: they are not stored. */
static void mark_untried(quern_enqueue_result *results, size_t first, size_t count,
                         quern_status status)
{
    quern_status untried = status == QUERN_E_UNKNOWN ? QUERN_E_TIMEOUT : status;
    for (size_t i = first; i < count; i++) {
        qn_request_set_result(results, i, untried, NULL);
    }
}

/* A task with a priority where there is none refuses all of them, also those of earlier parts. */
static quern_status check_priorities(quern_client *client, const struct qn_request *all,
                                     quern_error *err)
{
    const size_t first = offsetof(quern_task, priority);
    if (qn_broker_has_priorities(client->broker) || all->task_size < first + sizeof(int32_t)) {
        return QUERN_OK;
    }
    for (size_t i = 0; i < all->count; i++) {
        int32_t priority = 0;
        memcpy(&priority, (const char *)all->tasks + i * all->task_size + first, sizeof priority);
        if (priority != 0) {
            quern_status status = qn_broker_refuse_priority(err);
            qn_error_prefix(err, "task %zu", i);
            for (size_t k = 0; k < all->count; k++) {
                qn_request_set_result(all->results, k, status, NULL);
            }
            return status;
        }
    }
    return QUERN_OK;
}

quern_status quern_client_enqueue_batch_sized(quern_client *client, const quern_task *tasks,
                                              size_t task_size, size_t count,
                                              quern_enqueue_result *results, quern_error *err)
{
    if (tasks == NULL && count > 0) {
        return qn_error_set(err, QUERN_E_INVALID, "tasks: must not be NULL");
    }
    quern_status first_failure = qn_client_enter(client, err);
    if (first_failure != QUERN_OK) {
        return first_failure;
    }
    const struct qn_request all = {
        .tasks = tasks, .task_size = task_size, .count = count, .results = results};
    first_failure = check_priorities(client, &all, err);
    count = first_failure == QUERN_OK ? count : 0;
    size_t most = qn_broker_enqueue_max(client->broker);
    int64_t until_mono_ns = qn_room_until_mono_ns(client);
    for (size_t first = 0; first < count;) {
        size_t left = count - first;
        struct qn_request request = {
            .tasks = (const char *)tasks + first * task_size,
            .task_size = task_size,
            .results = results == NULL ? NULL : results + first,
            .began = qn_request_begin(client),
        };
        request.count =
            measure(request.tasks, task_size, left < most ? left : most, &request.payload_bytes);
        qn_room_request(client, &request, until_mono_ns);
        if (request.failed && first_failure == QUERN_OK) {
            first_failure = request.error.code;
            qn_error_set(err, first_failure, "task %zu: %s", first + request.failed_index,
                         request.error.text);
        }
        first += request.count;
        if (request.broker_status != QUERN_OK) {
            mark_untried(results, first, count, request.broker_status);
            break;
        }
    }
    qn_client_leave(client);
    return first_failure;
}
