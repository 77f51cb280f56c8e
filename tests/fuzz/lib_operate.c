/* SPDX-License-Identifier: MIT */
/* lib_operate.c - every operation of a broker, chosen and filled in by the input.
 *
 * Statuses are ignored, because a hostile server or file may make any call fail; but all results of
 * an operation are read to their last byte, so that a sanitizer checks each. */
#include <stdio.h>
#include <string.h>

#include "lib_fuzz.h"

#define RUNS_MAX 16
#define ROOM_MAX 8
#define LEASE_MS 100 /* an extension waits for its answer for a part of it */

struct rig {
    struct qn_broker *broker;
    struct fuzz_input *input;
    struct qn_leased *runs[RUNS_MAX];
    size_t run_count;
    uint64_t sequence;
    quern_status status; /* of the last operation; ignored */
    quern_error err;
    volatile size_t sum; /* of what was read */
};

static const char *const queues[] = {"default", "q"};
static const char *const ids[] = {"id0", "id1", "id2", "id3"};
static const char worker_id[] = "host:1:worker";

static void read_bytes(struct rig *rig, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        rig->sum += bytes[i];
    }
}

static void read_text(struct rig *rig, const char *text)
{
    rig->sum += text == NULL ? 0 : strlen(text);
}

static void read_task(struct rig *rig, const struct qn_task *task)
{
    read_text(rig, task->id);
    read_text(rig, task->queue);
    read_text(rig, task->type);
    read_text(rig, task->unique_key);
    read_text(rig, task->group);
    read_bytes(rig, task->payload, task->payload_size);
    for (size_t i = 0; i < task->header_count; i++) {
        read_text(rig, task->headers[i].name);
        read_text(rig, task->headers[i].value);
    }
}

static const char *pick_queue(struct rig *rig)
{
    return queues[fuzz_byte(rig->input) % 2];
}

static const char *pick_id(struct rig *rig)
{
    return ids[fuzz_byte(rig->input) % 4];
}

/* --- Tasks in and out --------------------------------------------------------------- */

static void do_enqueue(struct rig *rig)
{
    static const quern_header header = {.name = "name", .value = "value"};
    char payload[64];
    uint8_t kind = fuzz_byte(rig->input);
    const char *id = pick_id(rig);
    const char *queue = pick_queue(rig);
    struct qn_task task = {.id = id,
                           .queue = queue,
                           .type = "type",
                           .payload = payload,
                           .retry_max = kind & 1 ? 25 : 0,
                           .timeout_ms = 60000,
                           .deadline_at_ms = kind & 2 ? INT64_C(1900000000000) : 0,
                           .retention_ms = kind & 4 ? 60000 : 0,
                           .unique_ms = kind & 8 ? 60000 : 0,
                           .unique_key = kind & 8 ? "asynq:{default}:unique:key" : NULL,
                           .headers = &header,
                           .header_count = kind & 16 ? 1 : 0,
                           .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_OK;
    task.payload_size = fuzz_text(rig->input, payload, sizeof payload);
    if (kind & 32) {
        task.process_at_ms = INT64_C(1800000000000);
        task.state = QUERN_TASK_SCHEDULED;
    }
    rig->status = qn_broker_enqueue(
        rig->broker, &(struct qn_enqueue){(struct qn_stamp){9, ++rig->sequence}, &task, 1, &result},
        &rig->err);
}

/* The outcomes of held runs, as many as the input chooses. */
static size_t make_outcomes(struct rig *rig, struct qn_outcome outcomes[RUNS_MAX])
{
    size_t count = fuzz_byte(rig->input) % (rig->run_count + 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(rig->input);
        outcomes[i] = (struct qn_outcome){.run = rig->runs[i],
                                          .kind = (enum qn_outcome_kind)(byte % (QN_CANCEL + 1)),
                                          .started = (byte & 0x80) != 0,
                                          .cause = QUERN_CAUSE_CHILD_DIED,
                                          .delay_ms = 1000,
                                          .error = "it failed",
                                          .result = "42",
                                          .result_size = 2,
                                          .has_result = (byte & 0x40) != 0};
    }
    return count;
}

static void drop_runs(struct rig *rig, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(rig->runs[i]);
    }
    memmove(rig->runs, rig->runs + count, (rig->run_count - count) * sizeof rig->runs[0]);
    rig->run_count -= count;
}

static void do_exchange(struct rig *rig)
{
    struct qn_outcome outcomes[RUNS_MAX];
    enum qn_applied applied[RUNS_MAX];
    struct qn_leased *runs[ROOM_MAX] = {NULL};
    struct qn_queue_share shares[] = {{.name = "default", .weight = 3, .quota = 4},
                                      {.name = "q", .weight = 1, .quota = 4}};
    size_t outcome_count = make_outcomes(rig, outcomes);
    uint32_t room = fuzz_byte(rig->input) % (ROOM_MAX + 1);
    struct qn_exchange exchange = {.stamp = {7, ++rig->sequence},
                                   .outcomes = outcomes,
                                   .outcome_count = outcome_count,
                                   .worker_id = worker_id,
                                   .lease_ms = LEASE_MS,
                                   .queues = shares,
                                   .queue_count = 2,
                                   .room = room,
                                   .start_count_now = 2};
    struct qn_exchange_reply reply = {.applied = applied, .runs = runs};
    if (qn_broker_exchange(rig->broker, &exchange, &reply, &rig->err) != QUERN_OK) {
        return;
    }
    fuzz_require(reply.run_count <= room);
    drop_runs(rig, outcome_count);
    for (size_t i = 0; i < reply.run_count; i++) {
        fuzz_require(runs[i]->queue_index < 2);
        read_task(rig, &runs[i]->task);
        if (rig->run_count < RUNS_MAX) {
            rig->runs[rig->run_count++] = runs[i];
        } else {
            qn_leased_free(runs[i]);
        }
    }
}

static void do_extend(struct rig *rig)
{
    struct qn_extension extensions[RUNS_MAX] = {{0}};
    for (size_t i = 0; i < rig->run_count; i++) {
        extensions[i].run = rig->runs[i];
    }
    rig->status = qn_broker_extend(rig->broker, extensions, rig->run_count, LEASE_MS, &rig->err);
}

static void do_write_result(struct rig *rig)
{
    if (rig->run_count > 0) {
        rig->status = qn_broker_write_result(rig->broker, rig->runs[0], (struct qn_bytes){"42", 2},
                                             &rig->err);
    }
}

static void do_write_progress(struct rig *rig)
{
    if (rig->run_count > 0) {
        rig->status = qn_broker_write_progress(rig->broker, rig->runs[0], 50, "half", &rig->err);
    }
}

/* --- Upkeep ------------------------------------------------------------------------- */

static void do_forward(struct rig *rig)
{
    size_t moved = 0;
    int64_t next = 0;
    rig->status = qn_broker_forward(rig->broker, (struct qn_upkeep){{queues, 2}, 100}, &moved,
                                    &next, &rig->err);
}

static void on_recovery(const struct qn_recovery *recovery, void *user)
{
    read_text(user, recovery->queue);
    read_text(user, recovery->id);
}

static void do_recover(struct rig *rig)
{
    size_t count = 0;
    rig->status =
        qn_broker_recover(rig->broker, (struct qn_upkeep){{queues, 2}, 100},
                          &(struct qn_recovery_sink){on_recovery, rig}, &count, &rig->err);
}

static void do_prune(struct rig *rig)
{
    size_t count = 0;
    rig->status =
        qn_broker_prune(rig->broker, (struct qn_upkeep){{queues, 2}, 100}, &count, &rig->err);
}

static void do_arm(struct rig *rig)
{
    bool work = false;
    int64_t next = 0;
    rig->status = qn_broker_arm(rig->broker, (struct qn_names){queues, 2}, &work, &next, &rig->err);
}

static void do_wait(struct rig *rig)
{
    struct qn_wakeup wakeup = {0};
    if (qn_broker_wait(rig->broker, 1, &wakeup, &rig->err) == QUERN_OK) {
        read_text(rig, wakeup.queue);
        read_text(rig, wakeup.id);
    }
}

static void do_heartbeat(struct rig *rig)
{
    const struct qn_queue_share shares[] = {{.name = "default", .weight = 1}};
    const struct qn_heartbeat_run run = {.task_id = "id0",
                                         .task_type = "type",
                                         .payload = "payload",
                                         .payload_size = 7,
                                         .queue = "default",
                                         .started_at_ms = INT64_C(1800000000000)};
    const struct qn_heartbeat heartbeat = {.worker_id = worker_id,
                                           .owner = "00000000-0000-0000-0000-000000000000:1:1:1",
                                           .host = "host",
                                           .status = "active",
                                           .queues = "default=1",
                                           .pid = 1,
                                           .started_at_ms = INT64_C(1800000000000),
                                           .concurrency = 4,
                                           .queue_shares = shares,
                                           .queue_count = 1,
                                           .runs = &run,
                                           .run_count = 1};
    rig->status = qn_broker_heartbeat(rig->broker, &heartbeat, &rig->err);
}

static void do_deregister(struct rig *rig)
{
    rig->status = qn_broker_deregister(rig->broker, worker_id, &rig->err);
}

static void do_drained(struct rig *rig)
{
    bool drained = false;
    rig->status = qn_broker_drained(rig->broker, (struct qn_names){queues, 2}, QN_UNTIL_EMPTY,
                                    &drained, &rig->err);
}

/* --- Looking ------------------------------------------------------------------------ */

static bool on_queue(const quern_queue_info *info, void *user)
{
    read_text(user, info->name);
    return true;
}

static void do_queues(struct rig *rig)
{
    rig->status = qn_broker_queues(rig->broker, on_queue, rig, &rig->err);
}

static bool on_task(const quern_task_info *info, void *user)
{
    read_task(user, &info->task);
    read_bytes(user, info->result, info->result_size);
    read_text(user, info->error);
    read_text(user, info->worker);
    read_text(user, info->progress_note);
    quern_task_info *copy = qn_task_info_copy(info);
    quern_task_info_free(copy);
    return true;
}

static quern_task_filter make_filter(struct rig *rig, char text[16])
{
    uint8_t byte = fuzz_byte(rig->input);
    (void)fuzz_text(rig->input, text, 16);
    const char *queue = pick_queue(rig);
    const char *id = pick_id(rig);
    return (quern_task_filter){.queue = byte & 0x80 ? NULL : queue,
                               .state = byte % 8,
                               .text = byte & 0x40 ? text : NULL,
                               .type = byte & 0x20 ? "type*" : NULL,
                               .id = byte & 0x10 ? id : NULL,
                               .limit = 10};
}

static void do_tasks(struct rig *rig)
{
    char text[16];
    const quern_task_filter filter = make_filter(rig, text);
    rig->status = qn_broker_tasks(rig->broker, &filter, on_task, rig, &rig->err);
}

static bool on_worker(const quern_worker_info *info, void *user)
{
    read_text(user, info->id);
    read_text(user, info->host);
    read_text(user, quern_worker_status_name(info->status));
    read_text(user, info->queues);
    for (size_t i = 0; i < info->run_count; i++) {
        read_text(user, info->runs[i].id);
        read_text(user, info->runs[i].type);
        read_text(user, info->runs[i].queue);
    }
    return true;
}

static void do_workers(struct rig *rig)
{
    rig->status = qn_broker_workers(rig->broker, on_worker, rig, &rig->err);
}

static void do_history(struct rig *rig)
{
    quern_day days[3];
    rig->status = qn_broker_history(rig->broker, pick_queue(rig), 3, days, &rig->err);
}

static void on_fact(const char *name, const char *text, void *user)
{
    read_text(user, name);
    read_text(user, text);
}

static void do_facts(struct rig *rig)
{
    rig->status = qn_broker_server_info(rig->broker, on_fact, rig, &rig->err);
}

/* --- Steering ----------------------------------------------------------------------- */

static void do_act(struct rig *rig)
{
    quern_action action = (quern_action)(1 + fuzz_byte(rig->input) % 5);
    const char *queue = pick_queue(rig);
    rig->status = qn_broker_operate(rig->broker, action, queue, pick_id(rig), &rig->err);
}

static void do_act_all(struct rig *rig)
{
    char text[16];
    size_t count = 0;
    quern_action action = (quern_action)(1 + fuzz_byte(rig->input) % 5);
    quern_task_filter filter = make_filter(rig, text);
    filter.queue = filter.queue == NULL ? "q" : filter.queue;
    filter.state = filter.state == 0 ? QUERN_TASK_PENDING : filter.state;
    rig->status = qn_broker_operate_all(rig->broker, &(struct qn_bulk){action, &filter, 10}, &count,
                                        &rig->err);
}

static void do_pause(struct rig *rig)
{
    bool pause = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_pause(rig->broker, pick_queue(rig), pause, &rig->err);
}

static void do_remove_queue(struct rig *rig)
{
    bool force = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_remove_queue(rig->broker, pick_queue(rig), force, &rig->err);
}

static void on_finding(const quern_finding *finding, void *user)
{
    read_text(user, finding->invariant);
    read_text(user, finding->queue);
    read_text(user, finding->id);
    read_text(user, finding->text);
}

static void do_check(struct rig *rig)
{
    bool repair = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_doctor(rig->broker, repair, on_finding, rig, &rig->err);
}

void fuzz_operate(struct qn_broker *broker, struct fuzz_input *input, size_t count)
{
    static void (*const operations[])(struct rig * rig) = {
        do_exchange, do_enqueue, do_extend, do_write_result, do_write_progress, do_forward,
        do_recover,  do_prune,   do_arm,    do_wait,         do_heartbeat,      do_deregister,
        do_drained,  do_queues,  do_tasks,  do_workers,      do_history,        do_facts,
        do_act,      do_act_all, do_pause,  do_check,        do_remove_queue};
    _Static_assert(sizeof operations / sizeof operations[0] == FUZZ_OPERATIONS, "all are counted");
    struct rig rig = {.broker = broker, .input = input};
    for (size_t i = 0; i < count && input->size > 0; i++) {
        operations[fuzz_byte(input) % FUZZ_OPERATIONS](&rig);
        read_text(&rig, rig.err.text);
    }
    drop_runs(&rig, rig.run_count);
}
