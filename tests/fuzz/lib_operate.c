/* SPDX-License-Identifier: MIT */
/* lib_operate.c - every operation of a broker, chosen and filled in by the input.
 *
 * Statuses are ignored, because a hostile server or file may make any call fail; but all results of
 * an operation are read to their last byte, so that a sanitizer checks each. Those of inspect.h and
 * schedule.h are in lib_inspect.c. */
#include "lib_operate.h"

#include <string.h>

#include "broker/group.h"

#define ROOM_MAX 8
#define LEASE_MS 100 /* an extension waits for its answer for a part of it */

static const char *const queues[] = {"default", "q"};
static const char *const ids[] = {"id0", "id1", "id2", "id3"};
static const char worker_id[] = "host:1:worker";

void fuzz_read(struct fuzz_rig *rig, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        rig->sum += bytes[i];
    }
}

void fuzz_read_text(struct fuzz_rig *rig, const char *text)
{
    rig->sum += text == NULL ? 0 : strlen(text);
}

void fuzz_read_task(struct fuzz_rig *rig, const struct qn_task *task)
{
    fuzz_read_text(rig, task->id);
    fuzz_read_text(rig, task->queue);
    fuzz_read_text(rig, task->type);
    fuzz_read_text(rig, task->unique_key);
    fuzz_read_text(rig, task->group);
    fuzz_read(rig, task->payload, task->payload_size);
    for (size_t i = 0; i < task->header_count; i++) {
        fuzz_read_text(rig, task->headers[i].name);
        fuzz_read_text(rig, task->headers[i].value);
    }
}

const char *fuzz_pick_queue(struct fuzz_rig *rig)
{
    return queues[fuzz_byte(rig->input) % 2];
}

const char *fuzz_pick_id(struct fuzz_rig *rig)
{
    return ids[fuzz_byte(rig->input) % 4];
}

/* --- Tasks in and out --------------------------------------------------------------- */

static void do_enqueue(struct fuzz_rig *rig)
{
    static const quern_header header = {.name = "name", .value = "value"};
    char payload[64];
    uint8_t kind = fuzz_byte(rig->input);
    const char *id = fuzz_pick_id(rig);
    const char *queue = fuzz_pick_queue(rig);
    struct qn_task task = {.id = id,
                           .queue = queue,
                           .type = "type",
                           .payload = payload,
                           .retry_max = kind & 1 ? 25 : 0,
                           .timeout_ms = 60000,
                           .deadline_at_ms = kind & 2 ? INT64_C(1900000000000) : 0,
                           .retention_ms = kind & 4 ? 60000 : 0,
                           .unique_ms = kind & 8 ? 60000 : 0,
                           .unique_key = kind & 8 ? FUZZ_LOCK : NULL,
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
static size_t make_outcomes(struct fuzz_rig *rig, struct qn_outcome outcomes[FUZZ_RUNS_MAX])
{
    size_t count = fuzz_byte(rig->input) % (rig->run_count + 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(rig->input);
        outcomes[i] =
            (struct qn_outcome){.run = rig->runs[i],
                                .kind = (enum qn_outcome_kind)((byte & 0x3f) % QN_OUTCOME_KINDS),
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

static void drop_runs(struct fuzz_rig *rig, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(rig->runs[i]);
    }
    memmove(rig->runs, rig->runs + count, (rig->run_count - count) * sizeof rig->runs[0]);
    rig->run_count -= count;
}

static void do_exchange(struct fuzz_rig *rig)
{
    struct qn_outcome outcomes[FUZZ_RUNS_MAX];
    enum qn_applied applied[FUZZ_RUNS_MAX];
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
        fuzz_read_task(rig, &runs[i]->task);
        if (rig->run_count < FUZZ_RUNS_MAX) {
            rig->runs[rig->run_count++] = runs[i];
        } else {
            qn_leased_free(runs[i]);
        }
    }
}

static void do_extend(struct fuzz_rig *rig)
{
    struct qn_extension extensions[FUZZ_RUNS_MAX] = {{0}};
    for (size_t i = 0; i < rig->run_count; i++) {
        extensions[i].run = rig->runs[i];
    }
    rig->status = qn_broker_extend(rig->broker, extensions, rig->run_count, LEASE_MS, &rig->err);
}

static void do_write_result(struct fuzz_rig *rig)
{
    if (rig->run_count > 0) {
        rig->status = qn_broker_write_result(rig->broker, rig->runs[0], (struct qn_bytes){"42", 2},
                                             &rig->err);
    }
}

static void do_write_progress(struct fuzz_rig *rig)
{
    if (rig->run_count > 0) {
        rig->status = qn_broker_write_progress(rig->broker, rig->runs[0], 50, "half", &rig->err);
    }
}

/* --- Upkeep ------------------------------------------------------------------------- */

static void do_forward(struct fuzz_rig *rig)
{
    size_t moved = 0;
    int64_t next = 0;
    rig->status = qn_broker_forward(rig->broker, (struct qn_upkeep){{queues, 2}, 100}, &moved,
                                    &next, &rig->err);
}

static void on_recovery(const struct qn_recovery *recovery, void *user)
{
    fuzz_read_text(user, recovery->queue);
    fuzz_read_text(user, recovery->id);
}

static void do_recover(struct fuzz_rig *rig)
{
    size_t count = 0;
    rig->status =
        qn_broker_recover(rig->broker, (struct qn_upkeep){{queues, 2}, 100},
                          &(struct qn_recovery_sink){on_recovery, rig}, &count, &rig->err);
}

static void do_prune(struct fuzz_rig *rig)
{
    size_t count = 0;
    rig->status =
        qn_broker_prune(rig->broker, (struct qn_upkeep){{queues, 2}, 100}, &count, &rig->err);
}

static void do_arm(struct fuzz_rig *rig)
{
    bool work = false;
    int64_t next = 0;
    if (rig->watches) {
        return;
    }
    rig->waits = true;
    rig->status = qn_broker_arm(rig->broker, (struct qn_names){queues, 2}, &work, &next, &rig->err);
}

static void do_wait(struct fuzz_rig *rig)
{
    struct qn_wakeup wakeup = {0};
    if (rig->watches) {
        return;
    }
    rig->waits = true;
    if (qn_broker_wait(rig->broker, 1, &wakeup, &rig->err) == QUERN_OK) {
        fuzz_read_text(rig, wakeup.queue);
        fuzz_read_text(rig, wakeup.id);
    }
}

static void do_wake(struct fuzz_rig *rig)
{
    qn_broker_wake(rig->broker);
}

static void do_interrupt(struct fuzz_rig *rig)
{
    qn_broker_interrupt(rig->broker);
}

static void do_watch(struct fuzz_rig *rig)
{
    const char *queue = fuzz_pick_queue(rig);
    const char *id = fuzz_pick_id(rig);
    if (!rig->waits) {
        rig->watches = true;
        rig->status = qn_broker_watch(rig->broker, queue, id, &rig->err);
    }
}

static void do_await(struct fuzz_rig *rig)
{
    struct qn_notices notices;
    if (!rig->waits) {
        rig->watches = true;
        rig->status = qn_broker_await(rig->broker, 1, &notices, &rig->err);
    }
}

static void do_heartbeat(struct fuzz_rig *rig)
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

static void do_deregister(struct fuzz_rig *rig)
{
    rig->status = qn_broker_deregister(rig->broker, worker_id, &rig->err);
}

static void do_drained(struct fuzz_rig *rig)
{
    bool drained = false;
    rig->status = qn_broker_drained(rig->broker, (struct qn_names){queues, 2}, QN_UNTIL_EMPTY,
                                    &drained, &rig->err);
}

static bool aggregate_all(const char *queue, const char *group,
                          struct qn_group_settings *ret_settings, void *user)
{
    fuzz_read_text(user, queue);
    fuzz_read_text(user, group);
    *ret_settings = (struct qn_group_settings){.max_size = 2};
    return true;
}

static void read_unusable(const struct qn_unusable *unusable, void *user)
{
    fuzz_read_text(user, unusable->id);
    fuzz_read_text(user, unusable->why);
}

/* Once, and what follows for its set: all of it is chosen by one byte. */
static void do_aggregate(struct fuzz_rig *rig)
{
    struct qn_group_cursor cursor = {0};
    const struct qn_aggregate aggregate = {.queue = fuzz_pick_queue(rig),
                                           .worker_id = worker_id,
                                           .lease_ms = 60000,
                                           .cursor = &cursor,
                                           .settings = aggregate_all,
                                           .on_unusable = read_unusable,
                                           .user = rig};
    struct qn_aggregate_reply reply = {0};
    rig->status = qn_broker_aggregate(rig->broker, &aggregate, &reply, &rig->err);
    if (rig->status != QUERN_OK || reply.set == NULL) {
        return;
    }
    for (size_t i = 0; i < reply.set->count; i++) {
        fuzz_read_task(rig, &reply.set->members[i]->task);
    }
    uint8_t kind = fuzz_byte(rig->input);
    struct qn_set_extension extension = {.set = reply.set};
    const struct qn_finish_set finish = {.set = reply.set};
    if (kind & 1) {
        rig->status = qn_broker_extend_sets(rig->broker, &extension, 1, LEASE_MS, &rig->err);
    }
    if (kind & 2) {
        rig->status = qn_broker_return_set(rig->broker, reply.set, &rig->err);
    }
    if (kind & 4) {
        rig->status = qn_broker_finish_set(rig->broker, &finish, &rig->err);
    }
    qn_group_set_free(reply.set);
}

static void do_reclaim_sets(struct fuzz_rig *rig)
{
    size_t reclaimed = 0;
    rig->status = qn_broker_reclaim_sets(
        rig->broker, (struct qn_upkeep){{queues, 2}, fuzz_byte(rig->input)}, &reclaimed, &rig->err);
}

static void (*const operations[FUZZ_OPERATION_COUNT])(struct fuzz_rig *rig) = {
    [FUZZ_EXCHANGE] = do_exchange,
    [FUZZ_ENQUEUE] = do_enqueue,
    [FUZZ_EXTEND] = do_extend,
    [FUZZ_WRITE_RESULT] = do_write_result,
    [FUZZ_WRITE_PROGRESS] = do_write_progress,
    [FUZZ_FORWARD] = do_forward,
    [FUZZ_RECOVER] = do_recover,
    [FUZZ_PRUNE] = do_prune,
    [FUZZ_ARM] = do_arm,
    [FUZZ_WAIT] = do_wait,
    [FUZZ_HEARTBEAT] = do_heartbeat,
    [FUZZ_DEREGISTER] = do_deregister,
    [FUZZ_DRAINED] = do_drained,
    [FUZZ_QUEUES] = fuzz_do_queues,
    [FUZZ_TASKS] = fuzz_do_tasks,
    [FUZZ_WORKERS] = fuzz_do_workers,
    [FUZZ_HISTORY] = fuzz_do_history,
    [FUZZ_SERVER_INFO] = fuzz_do_server_info,
    [FUZZ_OPERATE] = fuzz_do_operate,
    [FUZZ_OPERATE_ALL] = fuzz_do_operate_all,
    [FUZZ_PAUSE] = fuzz_do_pause,
    [FUZZ_DOCTOR] = fuzz_do_doctor,
    [FUZZ_REMOVE_QUEUE] = fuzz_do_remove_queue,
    [FUZZ_FIND_QUEUE] = fuzz_do_find_queue,
    [FUZZ_LOCK_HOLDER] = fuzz_do_lock_holder,
    [FUZZ_MATCH_ID] = fuzz_do_match_id,
    [FUZZ_WATCH] = do_watch,
    [FUZZ_AWAIT] = do_await,
    [FUZZ_WAKE] = do_wake,
    [FUZZ_INTERRUPT] = do_interrupt,
    [FUZZ_IS_GONE] = fuzz_do_is_gone,
    [FUZZ_BACKUP] = fuzz_do_backup,
    [FUZZ_SCHEDULE] = fuzz_do_schedule,
    [FUZZ_AGGREGATE] = do_aggregate,
    [FUZZ_RECLAIM_SETS] = do_reclaim_sets,
    [FUZZ_SETTINGS] = fuzz_do_settings,
    [FUZZ_RELOAD] = fuzz_do_reload,
    [FUZZ_SEARCH] = fuzz_do_search,
    [FUZZ_SEARCH_ACT] = fuzz_do_search_act,
    [FUZZ_TRASH] = fuzz_do_trash,
    [FUZZ_STANDING] = fuzz_do_standing,
    [FUZZ_COMMAND] = fuzz_do_command,
};

void fuzz_operate(struct qn_broker *broker, struct fuzz_input *input, size_t count)
{
    struct fuzz_rig rig = {.broker = broker, .input = input};
    for (size_t i = 0; i < count && input->size > 0; i++) {
        operations[fuzz_byte(input) % FUZZ_OPERATION_COUNT](&rig);
        fuzz_read_text(&rig, rig.err.text);
    }
    drop_runs(&rig, rig.run_count);
}
