/* SPDX-License-Identifier: MIT */
/* lib_operate.c - every operation of a broker, chosen and filled in by the input.
 *
 * Statuses are not looked at, because a hostile server or file may make anything fail; but what an
 * operation gives back is read to its last byte, so that a sanitizer sees each. */
#include <stdio.h>
#include <string.h>

#include "lib_fuzz.h"

#define RUNS_MAX 16
#define ROOM_MAX 8
#define LEASE_MS 100 /* who prolongs it waits for the answer for a part of it */

struct stage {
    struct qn_broker *broker;
    struct fuzz_input *input;
    struct qn_leased *runs[RUNS_MAX];
    size_t run_count;
    uint64_t sequence;
    quern_status status; /* of the last operation; nobody looks at it */
    quern_error err;
    volatile size_t sum; /* of what was read */
};

static const char *const queues[] = {"default", "q"};
static const char *const ids[] = {"id0", "id1", "id2", "id3"};
static const char worker_id[] = "host:1:worker";

static void read_bytes(struct stage *stage, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        stage->sum += bytes[i];
    }
}

static void read_text(struct stage *stage, const char *text)
{
    stage->sum += text == NULL ? 0 : strlen(text);
}

static void read_task(struct stage *stage, const struct qn_task *task)
{
    read_text(stage, task->id);
    read_text(stage, task->queue);
    read_text(stage, task->type);
    read_text(stage, task->unique_key);
    read_text(stage, task->group);
    read_bytes(stage, task->payload, task->payload_size);
    for (size_t i = 0; i < task->header_count; i++) {
        read_text(stage, task->headers[i].name);
        read_text(stage, task->headers[i].value);
    }
}

static const char *pick_queue(struct stage *stage)
{
    return queues[fuzz_byte(stage->input) % 2];
}

static const char *pick_id(struct stage *stage)
{
    return ids[fuzz_byte(stage->input) % 4];
}

/* --- Tasks in and out --------------------------------------------------------------- */

static void do_enqueue(struct stage *stage)
{
    static const quern_header header = {.name = "name", .value = "value"};
    char payload[64];
    uint8_t kind = fuzz_byte(stage->input);
    const char *id = pick_id(stage);
    const char *queue = pick_queue(stage);
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
    task.payload_size = fuzz_text(stage->input, payload, sizeof payload);
    if (kind & 32) {
        task.process_at_ms = INT64_C(1800000000000);
        task.state = QUERN_TASK_SCHEDULED;
    }
    stage->status = qn_broker_enqueue(stage->broker, (struct qn_stamp){9, ++stage->sequence}, &task,
                                      1, &result, &stage->err);
}

/* The outcomes of the runs that are held, as many as the input says. */
static size_t make_outcomes(struct stage *stage, struct qn_outcome outcomes[RUNS_MAX])
{
    size_t count = fuzz_byte(stage->input) % (stage->run_count + 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(stage->input);
        outcomes[i] = (struct qn_outcome){.run = stage->runs[i],
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

static void drop_runs(struct stage *stage, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(stage->runs[i]);
    }
    memmove(stage->runs, stage->runs + count, (stage->run_count - count) * sizeof stage->runs[0]);
    stage->run_count -= count;
}

static void do_exchange(struct stage *stage)
{
    struct qn_outcome outcomes[RUNS_MAX];
    enum qn_applied applied[RUNS_MAX];
    struct qn_leased *runs[ROOM_MAX] = {NULL};
    struct qn_queue_share shares[] = {{.name = "default", .weight = 3, .quota = 4},
                                      {.name = "q", .weight = 1, .quota = 4}};
    size_t outcome_count = make_outcomes(stage, outcomes);
    uint32_t room = fuzz_byte(stage->input) % (ROOM_MAX + 1);
    struct qn_exchange exchange = {.stamp = {7, ++stage->sequence},
                                   .outcomes = outcomes,
                                   .outcome_count = outcome_count,
                                   .worker_id = worker_id,
                                   .lease_ms = LEASE_MS,
                                   .queues = shares,
                                   .queue_count = 2,
                                   .room = room,
                                   .start_count_now = 2};
    struct qn_exchange_reply reply = {.applied = applied, .runs = runs};
    if (qn_broker_exchange(stage->broker, &exchange, &reply, &stage->err) != QUERN_OK) {
        return;
    }
    fuzz_require(reply.run_count <= room);
    drop_runs(stage, outcome_count);
    for (size_t i = 0; i < reply.run_count; i++) {
        fuzz_require(runs[i]->queue_index < 2);
        read_task(stage, &runs[i]->task);
        if (stage->run_count < RUNS_MAX) {
            stage->runs[stage->run_count++] = runs[i];
        } else {
            qn_leased_free(runs[i]);
        }
    }
}

static void do_extend(struct stage *stage)
{
    struct qn_extension extensions[RUNS_MAX] = {{0}};
    for (size_t i = 0; i < stage->run_count; i++) {
        extensions[i].run = stage->runs[i];
    }
    stage->status =
        qn_broker_extend(stage->broker, extensions, stage->run_count, LEASE_MS, &stage->err);
}

static void do_write_result(struct stage *stage)
{
    if (stage->run_count > 0) {
        stage->status = qn_broker_write_result(stage->broker, stage->runs[0], "42", 2, &stage->err);
    }
}

static void do_write_progress(struct stage *stage)
{
    if (stage->run_count > 0) {
        stage->status =
            qn_broker_write_progress(stage->broker, stage->runs[0], 50, "half", &stage->err);
    }
}

/* --- Upkeep ------------------------------------------------------------------------- */

static void do_forward(struct stage *stage)
{
    size_t moved = 0;
    int64_t next = 0;
    stage->status = qn_broker_forward(stage->broker, queues, 2, 100, &moved, &next, &stage->err);
}

static void on_recovery(const struct qn_recovery *recovery, void *user)
{
    read_text(user, recovery->queue);
    read_text(user, recovery->id);
}

static void do_recover(struct stage *stage)
{
    size_t count = 0;
    stage->status =
        qn_broker_recover(stage->broker, queues, 2, 100, on_recovery, stage, &count, &stage->err);
}

static void do_prune(struct stage *stage)
{
    size_t count = 0;
    stage->status = qn_broker_prune(stage->broker, queues, 2, 100, &count, &stage->err);
}

static void do_arm(struct stage *stage)
{
    bool work = false;
    int64_t next = 0;
    stage->status = qn_broker_arm(stage->broker, queues, 2, &work, &next, &stage->err);
}

static void do_wait(struct stage *stage)
{
    struct qn_wakeup wakeup = {0};
    if (qn_broker_wait(stage->broker, 1, &wakeup, &stage->err) == QUERN_OK) {
        read_text(stage, wakeup.queue);
        read_text(stage, wakeup.id);
    }
}

static void do_announce(struct stage *stage)
{
    const struct qn_queue_share shares[] = {{.name = "default", .weight = 1}};
    const struct qn_announced_run run = {.task_id = "id0",
                                         .task_type = "type",
                                         .payload = "payload",
                                         .payload_size = 7,
                                         .queue = "default",
                                         .started_at_ms = INT64_C(1800000000000)};
    const struct qn_heartbeat announcement = {.worker_id = worker_id,
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
    stage->status = qn_broker_heartbeat(stage->broker, &announcement, &stage->err);
}

static void do_withdraw(struct stage *stage)
{
    stage->status = qn_broker_deregister(stage->broker, worker_id, &stage->err);
}

static void do_drained(struct stage *stage)
{
    bool drained = false;
    stage->status = qn_broker_drained(stage->broker, queues, 2, &drained, &stage->err);
}

/* --- Looking ------------------------------------------------------------------------ */

static bool on_queue(const quern_queue_info *info, void *user)
{
    read_text(user, info->name);
    return true;
}

static void do_queues(struct stage *stage)
{
    stage->status = qn_broker_queues(stage->broker, on_queue, stage, &stage->err);
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

static quern_task_filter make_filter(struct stage *stage, char text[16])
{
    uint8_t byte = fuzz_byte(stage->input);
    (void)fuzz_text(stage->input, text, 16);
    const char *queue = pick_queue(stage);
    const char *id = pick_id(stage);
    return (quern_task_filter){.queue = byte & 0x80 ? NULL : queue,
                               .state = byte % 8,
                               .text = byte & 0x40 ? text : NULL,
                               .type = byte & 0x20 ? "type*" : NULL,
                               .id = byte & 0x10 ? id : NULL,
                               .limit = 10};
}

static void do_tasks(struct stage *stage)
{
    char text[16];
    const quern_task_filter filter = make_filter(stage, text);
    stage->status = qn_broker_tasks(stage->broker, &filter, on_task, stage, &stage->err);
}

static bool on_worker(const quern_worker_info *info, void *user)
{
    read_text(user, info->id);
    read_text(user, info->host);
    read_text(user, info->status);
    read_text(user, info->queues);
    for (size_t i = 0; i < info->run_count; i++) {
        read_text(user, info->runs[i].task_id);
        read_text(user, info->runs[i].task_type);
        read_text(user, info->runs[i].queue);
    }
    return true;
}

static void do_workers(struct stage *stage)
{
    stage->status = qn_broker_workers(stage->broker, on_worker, stage, &stage->err);
}

static void do_history(struct stage *stage)
{
    quern_day days[3];
    stage->status = qn_broker_history(stage->broker, pick_queue(stage), 3, days, &stage->err);
}

static void on_fact(const char *name, const char *text, void *user)
{
    read_text(user, name);
    read_text(user, text);
}

static void do_facts(struct stage *stage)
{
    stage->status = qn_broker_facts(stage->broker, on_fact, stage, &stage->err);
}

/* --- Steering ----------------------------------------------------------------------- */

static void do_act(struct stage *stage)
{
    quern_action action = (quern_action)(1 + fuzz_byte(stage->input) % 5);
    const char *queue = pick_queue(stage);
    stage->status = qn_broker_act(stage->broker, action, queue, pick_id(stage), &stage->err);
}

static void do_act_all(struct stage *stage)
{
    char text[16];
    size_t count = 0;
    quern_action action = (quern_action)(1 + fuzz_byte(stage->input) % 5);
    quern_task_filter filter = make_filter(stage, text);
    filter.queue = filter.queue == NULL ? "q" : filter.queue;
    filter.state = filter.state == 0 ? QUERN_TASK_PENDING : filter.state;
    stage->status = qn_broker_act_all(stage->broker, action, &filter, 10, &count, &stage->err);
}

static void do_pause(struct stage *stage)
{
    bool pause = fuzz_byte(stage->input) % 2 == 0;
    stage->status = qn_broker_pause(stage->broker, pick_queue(stage), pause, &stage->err);
}

static void do_remove_queue(struct stage *stage)
{
    bool force = fuzz_byte(stage->input) % 2 == 0;
    stage->status = qn_broker_remove_queue(stage->broker, pick_queue(stage), force, &stage->err);
}

static void on_finding(const quern_finding *finding, void *user)
{
    read_text(user, finding->invariant);
    read_text(user, finding->queue);
    read_text(user, finding->id);
    read_text(user, finding->text);
}

static void do_check(struct stage *stage)
{
    bool repair = fuzz_byte(stage->input) % 2 == 0;
    stage->status = qn_broker_check(stage->broker, repair, on_finding, stage, &stage->err);
}

void fuzz_operate(struct qn_broker *broker, struct fuzz_input *input, size_t count)
{
    static void (*const operations[])(struct stage * stage) = {
        do_exchange, do_enqueue, do_extend, do_write_result, do_write_progress, do_forward,
        do_recover,  do_prune,   do_arm,    do_wait,         do_announce,       do_withdraw,
        do_drained,  do_queues,  do_tasks,  do_workers,      do_history,        do_facts,
        do_act,      do_act_all, do_pause,  do_check,        do_remove_queue};
    _Static_assert(sizeof operations / sizeof operations[0] == FUZZ_OPERATIONS, "all are counted");
    struct stage stage = {.broker = broker, .input = input};
    for (size_t i = 0; i < count && input->size > 0; i++) {
        operations[fuzz_byte(input) % FUZZ_OPERATIONS](&stage);
        read_text(&stage, stage.err.text);
    }
    drop_runs(&stage, stage.run_count);
}
