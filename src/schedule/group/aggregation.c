/* SPDX-License-Identifier: MIT */
/* aggregation.c - one call of an aggregator, as the aggregator sees it: facts, cancellation, store.
 *
 * A request that ends the set is repeated under the same stamp while its answer is missing, so it
 * takes effect once. If no answer comes before the call is cancelled, the set is either gone or
 * still held; then it is given back, which the broker refuses in the first case. */
#include "schedule/group/aggregation.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/text/utf8.h"
#include "broker/limit/limit.h"

enum { AGAIN_MS_MIN = 50, AGAIN_MS_MAX = 1000 };

quern_status qn_aggregation_init(struct quern_aggregation *aggregation,
                                 struct qn_group_set *take_set, const struct qn_group_entry *entry,
                                 quern_error *err)
{
    aggregation->set = take_set;
    aggregation->entry = *entry;
    aggregation->cancel_fd = -1;
    (void)pthread_mutex_init(&aggregation->cancel_mutex, NULL);
    aggregation->tasks = qn_alloc_zero(take_set->count, sizeof *aggregation->tasks);
    aggregation->members = qn_alloc_zero(take_set->count, sizeof(const quern_task *));
    if (aggregation->tasks == NULL || aggregation->members == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < take_set->count; i++) {
        aggregation->tasks[i] = qn_task_show(&take_set->members[i]->task);
        aggregation->members[i] = &aggregation->tasks[i];
    }
    return QUERN_OK;
}

void qn_aggregation_finish(struct quern_aggregation *aggregation)
{
    if (aggregation->cancel_fd >= 0) {
        (void)close(aggregation->cancel_fd);
    }
    (void)pthread_mutex_destroy(&aggregation->cancel_mutex);
    qn_free(aggregation->tasks);
    qn_free(aggregation->members);
    qn_group_set_free(aggregation->set);
}

const char *quern_aggregation_queue(const quern_aggregation *aggregation)
{
    return aggregation->set->queue;
}

const char *quern_aggregation_group(const quern_aggregation *aggregation)
{
    return aggregation->set->group;
}

enum qn_aggregation_cancel qn_aggregation_cancel_reason(const struct quern_aggregation *aggregation)
{
    return (enum qn_aggregation_cancel)atomic_load(&aggregation->cancel_reason);
}

bool quern_aggregation_cancelled(const quern_aggregation *aggregation)
{
    return qn_aggregation_cancel_reason(aggregation) != QN_AGGREGATION_GOES_ON;
}

void qn_aggregation_cancel(struct quern_aggregation *aggregation, enum qn_aggregation_cancel reason)
{
    int before = QN_AGGREGATION_GOES_ON;
    if (!atomic_compare_exchange_strong(&aggregation->cancel_reason, &before, (int)reason)) {
        return;
    }
    (void)pthread_mutex_lock(&aggregation->cancel_mutex);
    if (aggregation->cancel_fd >= 0) {
        ssize_t written = write(aggregation->cancel_fd, &(uint64_t){1}, sizeof(uint64_t));
        (void)written; /* it was 0, so there is room */
    }
    (void)pthread_mutex_unlock(&aggregation->cancel_mutex);
}

int quern_aggregation_cancel_fd(quern_aggregation *aggregation)
{
    (void)pthread_mutex_lock(&aggregation->cancel_mutex);
    if (aggregation->cancel_fd < 0) {
        bool cancelled = quern_aggregation_cancelled(aggregation);
        aggregation->cancel_fd = eventfd(cancelled ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    int fd = aggregation->cancel_fd;
    (void)pthread_mutex_unlock(&aggregation->cancel_mutex);
    return fd;
}

quern_outcome quern_aggregation_fail(quern_aggregation *aggregation, quern_outcome outcome,
                                     const char *format, ...)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        (void)qn_utf8_sanitize(text, size, aggregation->error, sizeof aggregation->error);
    }
    return outcome;
}

/* --- The end of the set ---------------------------------------------------------------- */

/* False: the call was cancelled. */
static bool wait_a_little(struct quern_aggregation *aggregation, int64_t ms)
{
    struct pollfd cancel = {.fd = quern_aggregation_cancel_fd(aggregation), .events = POLLIN};
    (void)poll(&cancel, cancel.fd < 0 ? 0 : 1, (int)ms);
    return !quern_aggregation_cancelled(aggregation);
}

quern_status qn_aggregation_end(struct quern_aggregation *aggregation, const struct qn_task *task,
                                quern_error *err)
{
    struct qn_broker *broker = aggregation->broker;
    aggregation->stamp->sequence++;
    const struct qn_finish_set finish = {
        .stamp = *aggregation->stamp, .set = aggregation->set, .task = task};
    atomic_store(&aggregation->ends, true);
    int64_t again_ms = AGAIN_MS_MIN;
    quern_status status;
    bool again;
    do {
        if (atomic_load(&aggregation->abandoned)) {
            return qn_error_set(err, QUERN_E_STALE, "the set was given back: the worker ends");
        }
        status = qn_broker_finish_set(broker, &finish, err);
        again = (status == QUERN_E_UNKNOWN || status == QUERN_E_TIMEOUT ||
                 qn_broker_may_recover(broker, status)) &&
                wait_a_little(aggregation, again_ms);
        again_ms = again_ms * 2 < AGAIN_MS_MAX ? again_ms * 2 : AGAIN_MS_MAX;
    } while (again);
    bool refused = status == QUERN_E_DUPLICATE || status == QUERN_E_CONFLICT ||
                   status == QUERN_E_FULL || status == QUERN_E_UNSUPPORTED;
    if (refused) {
        atomic_store(&aggregation->ends, false);
    }
    return status;
}

static quern_status check_task(const struct quern_aggregation *aggregation, const quern_task *task,
                               quern_error *err)
{
    const struct qn_group_set *set = aggregation->set;
    if (task->queue != NULL && strcmp(task->queue, set->queue) != 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "queue: the task made of a group of queue %.80s cannot be in queue "
                            "%.80s",
                            set->queue, task->queue);
    }
    if (task->group != NULL && strcmp(task->group, set->group) == 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "group: the task would be a member of the group it was made of");
    }
    if (task->on_duplicate != QUERN_ON_DUPLICATE_FAIL) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "on_duplicate: not for a task made of a group");
    }
    return task->limit_key == NULL ? QUERN_OK : qn_limit_check_key(aggregation->broker, err);
}

quern_status quern_aggregation_store_sized(quern_aggregation *aggregation, const quern_task *task,
                                           size_t task_size, quern_error *err)
{
    if (aggregation == NULL || task == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            aggregation == NULL ? "aggregation" : "task");
    }
    if (aggregation->stored) {
        return qn_error_set(err, QUERN_E_STATE, "a task was stored for these members already");
    }
    quern_task in;
    struct qn_task prepared;
    struct qn_arena arena = {0};
    quern_status status =
        qn_sized_copy(QN_ROOM_OF(in), (struct qn_bytes){task, task_size}, "quern_task", err);
    if (status == QUERN_OK) {
        status = check_task(aggregation, &in, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    in.queue = aggregation->set->queue;
    const struct qn_task_terms terms = {.now_wall_ms = qn_clock_wall_ms(aggregation->clock),
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                        .ids = aggregation->ids};
    status = qn_task_prepare(&in, &terms, &arena, &prepared, err);
    if (status == QUERN_OK) {
        status = qn_aggregation_end(aggregation, &prepared, err);
    }
    aggregation->stored = status == QUERN_OK;
    qn_arena_finish(&arena);
    return status;
}
