/* SPDX-License-Identifier: MIT */
/* asynq_info.c - asynq's ServerInfo, WorkerInfo, SchedulerEntry and SchedulerEnqueueEvent to and
 * from plain structs.
 *
 * Their owner rewrites these each time, so unknown fields are not kept. */
#include "message/asynq/asynq.h"
#include "message/asynq/asynq_wire.h"

static void put_queues(struct qn_wire *wire, const struct qn_asynq_server *server,
                       Asynq__ServerInfo *message)
{
    message->queues = qn_wire_alloc(wire, server->queue_count, sizeof *message->queues);
    Asynq__QueueEntry *entries = qn_wire_alloc(wire, server->queue_count, sizeof *entries);
    if (entries == NULL) {
        return;
    }
    for (size_t i = 0; i < server->queue_count; i++) {
        asynq__queue_entry__init(&entries[i]);
        entries[i].has_key_case = ASYNQ__QUEUE_ENTRY__HAS_KEY_KEY;
        entries[i].key = qn_wire_put_text(wire, "queue", server->queues[i].name);
        entries[i].has_value_case = ASYNQ__QUEUE_ENTRY__HAS_VALUE_VALUE;
        entries[i].value = server->queues[i].weight;
        message->queues[i] = &entries[i];
    }
    message->n_queues = server->queue_count;
}

quern_status qn_asynq_server_encode(struct qn_arena *arena, const struct qn_asynq_server *server,
                                    struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "server", .err = err};
    Asynq__ServerInfo message;
    asynq__server_info__init(&message);
    message.host = qn_wire_put_text(&wire, "host", server->host);
    message.pid = server->pid;
    message.server_id = qn_wire_put_text(&wire, "id", server->id);
    message.concurrency = server->concurrency;
    put_queues(&wire, server, &message);
    message.strict_priority = server->strict;
    message.status = qn_wire_put_text(&wire, "status", server->status);
    message.start_time = qn_wire_put_time(&wire, server->started_at);
    message.active_worker_count = server->run_count;
    return qn_wire_pack(&wire, &message.base, ret_bytes);
}

static const struct qn_asynq_queue *get_queues(struct qn_wire *wire,
                                               const Asynq__ServerInfo *message)
{
    struct qn_asynq_queue *queues = qn_wire_alloc(wire, message->n_queues, sizeof *queues);
    for (size_t i = 0; queues != NULL && i < message->n_queues; i++) {
        const Asynq__QueueEntry *entry = message->queues[i];
        ProtobufCBinaryData nothing = {0};
        bool has_key = entry->has_key_case == ASYNQ__QUEUE_ENTRY__HAS_KEY_KEY;
        bool has_value = entry->has_value_case == ASYNQ__QUEUE_ENTRY__HAS_VALUE_VALUE;
        queues[i].name = qn_wire_get_text(wire, "queue", has_key ? entry->key : nothing);
        queues[i].weight = has_value ? entry->value : 0;
    }
    return queues;
}

quern_status qn_asynq_server_decode(struct qn_arena *arena, const void *data, size_t size,
                                    struct qn_asynq_server *ret_server, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "server", .err = err};
    const Asynq__ServerInfo *message =
        (Asynq__ServerInfo *)qn_wire_unpack(&wire, &asynq__server_info__descriptor, data, size);
    if (message == NULL) {
        return wire.status;
    }
    struct qn_asynq_server server = {
        .host = qn_wire_get_text(&wire, "host", message->host),
        .pid = message->pid,
        .id = qn_wire_get_text(&wire, "server_id", message->server_id),
        .concurrency = message->concurrency,
        .queues = get_queues(&wire, message),
        .queue_count = message->n_queues,
        .strict = message->strict_priority != 0,
        .status = qn_wire_get_text(&wire, "status", message->status),
        .started_at = qn_wire_get_time(message->start_time),
        .run_count = message->active_worker_count,
    };
    if (wire.status == QUERN_OK) {
        *ret_server = server;
    }
    return wire.status;
}

quern_status qn_asynq_run_encode(struct qn_arena *arena, const struct qn_asynq_run *run,
                                 struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "run", .err = err};
    Asynq__WorkerInfo message;
    asynq__worker_info__init(&message);
    message.host = qn_wire_put_text(&wire, "host", run->host);
    message.pid = run->pid;
    message.server_id = qn_wire_put_text(&wire, "server_id", run->server_id);
    message.task_id = qn_wire_put_text(&wire, "task_id", run->task_id);
    message.task_type = qn_wire_put_text(&wire, "task_type", run->task_type);
    message.task_payload = qn_wire_put_bytes(run->payload, run->payload_size);
    message.queue = qn_wire_put_text(&wire, "queue", run->queue);
    message.start_time = qn_wire_put_time(&wire, run->started_at);
    message.deadline = qn_wire_put_time(&wire, run->deadline_at);
    return qn_wire_pack(&wire, &message.base, ret_bytes);
}

quern_status qn_asynq_run_decode(struct qn_arena *arena, const void *data, size_t size,
                                 struct qn_asynq_run *ret_run, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "run", .err = err};
    const Asynq__WorkerInfo *message =
        (Asynq__WorkerInfo *)qn_wire_unpack(&wire, &asynq__worker_info__descriptor, data, size);
    if (message == NULL) {
        return wire.status;
    }
    struct qn_asynq_run run = {
        .host = qn_wire_get_text(&wire, "host", message->host),
        .pid = message->pid,
        .server_id = qn_wire_get_text(&wire, "server_id", message->server_id),
        .task_id = qn_wire_get_text(&wire, "task_id", message->task_id),
        .task_type = qn_wire_get_text(&wire, "task_type", message->task_type),
        .payload = message->task_payload.data,
        .payload_size = message->task_payload.len,
        .queue = qn_wire_get_text(&wire, "queue", message->queue),
        .started_at = qn_wire_get_time(message->start_time),
        .deadline_at = qn_wire_get_time(message->deadline),
    };
    if (wire.status == QUERN_OK) {
        *ret_run = run;
    }
    return wire.status;
}

static void put_options(struct qn_wire *wire, const struct qn_asynq_schedule *schedule,
                        Asynq__SchedulerEntry *message)
{
    ProtobufCBinaryData *options = qn_wire_alloc(wire, schedule->option_count, sizeof *options);
    if (options == NULL) {
        return;
    }
    for (size_t i = 0; i < schedule->option_count; i++) {
        options[i] = qn_wire_put_text(wire, "option", schedule->options[i]);
    }
    message->enqueue_options = options;
    message->n_enqueue_options = schedule->option_count;
}

quern_status qn_asynq_schedule_encode(struct qn_arena *arena,
                                      const struct qn_asynq_schedule *schedule,
                                      struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "schedule", .err = err};
    Asynq__SchedulerEntry message;
    asynq__scheduler_entry__init(&message);
    message.id = qn_wire_put_text(&wire, "id", schedule->id);
    message.spec = qn_wire_put_text(&wire, "spec", schedule->spec);
    message.task_type = qn_wire_put_text(&wire, "task_type", schedule->task_type);
    message.task_payload = qn_wire_put_bytes(schedule->payload, schedule->payload_size);
    put_options(&wire, schedule, &message);
    message.next_enqueue_time = qn_wire_put_time(&wire, schedule->next_at);
    message.prev_enqueue_time = qn_wire_put_time(&wire, schedule->previous_at);
    return qn_wire_pack(&wire, &message.base, ret_bytes);
}

quern_status qn_asynq_schedule_decode(struct qn_arena *arena, const void *data, size_t size,
                                      struct qn_asynq_schedule *ret_schedule, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "schedule", .err = err};
    const Asynq__SchedulerEntry *message = (Asynq__SchedulerEntry *)qn_wire_unpack(
        &wire, &asynq__scheduler_entry__descriptor, data, size);
    if (message == NULL) {
        return wire.status;
    }
    const char **options = qn_wire_alloc(&wire, message->n_enqueue_options, sizeof *options);
    for (size_t i = 0; options != NULL && i < message->n_enqueue_options; i++) {
        options[i] = qn_wire_get_text(&wire, "option", message->enqueue_options[i]);
    }
    struct qn_asynq_schedule schedule = {
        .id = qn_wire_get_text(&wire, "id", message->id),
        .spec = qn_wire_get_text(&wire, "spec", message->spec),
        .task_type = qn_wire_get_text(&wire, "task_type", message->task_type),
        .payload = message->task_payload.data,
        .payload_size = message->task_payload.len,
        .options = options,
        .option_count = message->n_enqueue_options,
        .next_at = qn_wire_get_time(message->next_enqueue_time),
        .previous_at = qn_wire_get_time(message->prev_enqueue_time),
    };
    if (wire.status == QUERN_OK) {
        *ret_schedule = schedule;
    }
    return wire.status;
}

quern_status qn_asynq_event_encode(struct qn_arena *arena, const struct qn_asynq_event *event,
                                   struct qn_bytes *ret_bytes, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "event", .err = err};
    Asynq__SchedulerEnqueueEvent message;
    asynq__scheduler_enqueue_event__init(&message);
    message.task_id = qn_wire_put_text(&wire, "task_id", event->task_id);
    message.enqueue_time = qn_wire_put_time(&wire, event->enqueued_at);
    return qn_wire_pack(&wire, &message.base, ret_bytes);
}

quern_status qn_asynq_event_decode(struct qn_arena *arena, const void *data, size_t size,
                                   struct qn_asynq_event *ret_event, quern_error *err)
{
    struct qn_wire wire = {.arena = arena, .message = "event", .err = err};
    const Asynq__SchedulerEnqueueEvent *message = (Asynq__SchedulerEnqueueEvent *)qn_wire_unpack(
        &wire, &asynq__scheduler_enqueue_event__descriptor, data, size);
    if (message == NULL) {
        return wire.status;
    }
    struct qn_asynq_event event = {
        .task_id = qn_wire_get_text(&wire, "task_id", message->task_id),
        .enqueued_at = qn_wire_get_time(message->enqueue_time),
    };
    if (wire.status == QUERN_OK) {
        *ret_event = event;
    }
    return wire.status;
}
