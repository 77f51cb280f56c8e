/* SPDX-License-Identifier: MIT */
/* lease_limits.c - whether the limits of a queue let a task run; only for queues that have any. */
#include "broker/sqlite/run/lease_batch.h"

static struct qn_metered metered_of(const struct qn_counted_queue *queue, const char *type,
                                    const char *key)
{
    return (struct qn_metered){
        .queue_no = queue->no, .limits = queue->limits, .type = type, .key = key};
}

void qn_lease_limits_note_wait(const struct qn_lease_source *source, int64_t wait_ms)
{
    struct qn_counted_queue *queue = source->queue;
    if (wait_ms > 0 && (queue->limit_wait_ms == 0 || wait_ms < queue->limit_wait_ms)) {
        queue->limit_wait_ms = wait_ms;
    }
}

quern_status qn_lease_limits_may(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                                 const struct qn_lease_kind *kind, bool *ret_may, quern_error *err)
{
    int64_t room = 0;
    int64_t wait_ms = 0;
    const struct qn_metered task = metered_of(source->queue, kind->type, kind->key);
    quern_status status = qn_meters_room(&batch->meters, &task, &room, &wait_ms, err);
    *ret_may = room > 0;
    if (status == QUERN_OK && room == 0) {
        qn_lease_limits_note_wait(source, wait_ms);
    }
    return status;
}

quern_status qn_lease_limits_room(struct qn_lease_batch *batch,
                                  const struct qn_lease_source *source, size_t want,
                                  size_t *ret_room, quern_error *err)
{
    int64_t room = 0;
    int64_t wait_ms = 0;
    const struct qn_metered task = metered_of(source->queue, NULL, NULL);
    quern_status status = qn_meters_room(&batch->meters, &task, &room, &wait_ms, err);
    *ret_room = (uint64_t)room < want ? (size_t)room : want;
    if (status == QUERN_OK && room == 0) {
        qn_lease_limits_note_wait(source, wait_ms);
    }
    return status;
}

quern_status qn_lease_limits_take(struct qn_lease_batch *batch,
                                  const struct qn_counted_queue *queue, const struct qn_leased *run,
                                  quern_error *err)
{
    const struct qn_metered task = metered_of(queue, run->task.type, run->task.limit_key);
    return qn_meters_take(&batch->meters, &task, err);
}
