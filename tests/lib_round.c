/* SPDX-License-Identifier: MIT */
/* lib_round.c - every operation of a broker, and a check of each number that it returns. */
#include "lib_round.h"

#include <unistd.h>

#include "base/text/number.h"
#include "broker/group.h"
#include "broker/limit/limit.h"
#include "broker/reload.h"
#include "broker/schedule/schedule.h"
#include "broker/trash/trash.h"
#include "task/limit.h"
#include "task/limits.h"
#include "task/retry.h"

#define ROOM 8
#define HOST "host-a"
/* Of an empty payload (asynq:{queue}:unique:type:md5). */
#define LOCK "asynq:{default}:unique:t:d41d8cd98f00b204e9800998ecf8427e"

static const char *const queues[] = {"default"};

static void note(struct test_round *round, const char *what, int64_t number, int64_t max)
{
    if ((number < 0 || number > max) && round->strange == NULL) {
        round->strange = what;
        round->number = number;
    }
}

static void note_moment(struct test_round *round, const char *what, int64_t at_ms)
{
    note(round, what, at_ms, QN_MOMENT_MS_MAX);
}

static void note_task(struct test_round *round, const struct qn_task *task)
{
    note(round, "timeout_ms", task->timeout_ms, QN_DURATION_MS_MAX);
    note(round, "retention_ms", task->retention_ms, QN_DURATION_MS_MAX);
    note(round, "retry.base_ms", task->retry.base_ms, QN_DURATION_MS_MAX);
    note(round, "retry.cap_ms", task->retry.cap_ms, QN_DURATION_MS_MAX);
    note(round, "retry.kind", task->retry.kind, QN_BACKOFF_EXPONENTIAL);
    note(round, "retry_max", task->retry_max, INT32_MAX);
    note_moment(round, "deadline_at_ms", task->deadline_at_ms);
    note_moment(round, "process_at_ms", task->process_at_ms);
}

/* --- Looking ---------------------------------------------------------------------------- */

static bool check_task(const quern_task_info *info, void *user)
{
    note_task(user, &info->task);
    note(user, "retry_count", info->retry_count, INT32_MAX);
    note(user, "crash_count", info->crash_count, INT32_MAX);
    note(user, "progress", info->progress + 1, 101);
    note_moment(user, "failed_at_ms", info->failed_at_ms);
    note_moment(user, "at_ms", info->at_ms);
    note_moment(user, "enqueued_at_ms", info->enqueued_at_ms);
    note_moment(user, "started_at_ms", info->started_at_ms);
    note_moment(user, "completed_at_ms", info->completed_at_ms);
    return true;
}

static bool check_queue(const quern_queue_info *info, void *user)
{
    note(user, "latency_ms", info->latency_ms, QN_MOMENT_MS_MAX);
    note_moment(user, "paused_at_ms", info->paused_at_ms);
    note_moment(user, "probe_at_ms", info->probe_at_ms);
    note(user, "max_pending", info->max_pending, QUERN_MAX_PENDING_MAX);
    note(user, "memory_bytes", info->memory_bytes < 0 ? 0 : info->memory_bytes, INT64_MAX);
    return true;
}

static bool check_worker(const quern_worker_info *info, void *user)
{
    note_moment(user, "worker started_at_ms", info->started_at_ms);
    note_moment(user, "heartbeat_at_ms", info->heartbeat_at_ms);
    for (size_t i = 0; i < info->run_count; i++) {
        note_moment(user, "run started_at_ms", info->runs[i].started_at_ms);
        note_moment(user, "run deadline_at_ms", info->runs[i].deadline_at_ms);
    }
    return true;
}

static void forget_finding(const quern_finding *finding, void *user)
{
    (void)finding, (void)user;
}

static bool forget_id(const char *queue, const char *id, void *user)
{
    (void)queue, (void)id, (void)user;
    return true;
}

static void forget_fact(const char *name, const char *text, void *user)
{
    (void)name, (void)text, (void)user;
}

static void find(struct test_round *round)
{
    char id[QN_NAME_SIZE_MAX + 1];
    quern_error err;
    (void)!qn_broker_find_queue(round->broker, "default", &err);
    (void)!qn_broker_lock_holder(round->broker, LOCK, id, &err);
    (void)!qn_broker_match_id(round->broker, "0123", forget_id, NULL, &err);
    (void)qn_broker_is_gone(round->broker, &err);
    (void)!qn_broker_reload(round->broker, &err);
    if (qn_broker_backup(round->broker, round->copy_path, &err) == QUERN_OK) {
        (void)unlink(round->copy_path);
    }
}

static bool check_limit(const quern_limit *limit, void *user)
{
    struct test_round *round = user;
    note(round, "count of a limit", limit->count, QN_LIMIT_COUNT_MAX);
    note(round, "used of a limit", limit->used, INT64_MAX);
    return true;
}

/* Brokers without such limits refuse them. */
static void limit(struct test_round *round)
{
    static const quern_limit limits[] = {
        {.queue = "default", .scope = QUERN_LIMIT_TYPE, .name = "other", .count = 1},
        {.queue = "default", .scope = QUERN_LIMIT_SEMAPHORE, .name = "other", .count = 1},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_QUEUE, .name = "", .count = 1},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_KEY, .name = "*", .count = 1},
        {.queue = QUERN_ALL_QUEUES,
         .scope = QUERN_LIMIT_QUEUE,
         .name = "",
         .count = 1,
         .period_ms = 1000},
    };
    quern_error err;
    (void)!qn_broker_limits(round->broker, NULL, check_limit, round, &err);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct qn_limit_owner owner = {.queue = limits[i].queue,
                                             .scope = (quern_limit_scope)limits[i].scope,
                                             .name = limits[i].name};
        (void)!qn_broker_set_limit(round->broker, &limits[i], &err);
        (void)!qn_broker_remove_limit(round->broker, &owner, &err);
    }
}

/* Every state, with a query that looks at everything. */
static void search(struct test_round *round)
{
    static const struct qn_found found[] = {{"a", ""}, {"none", LOCK}};
    struct qn_condition *condition = NULL;
    (void)!qn_condition_parse("text ~ x or age > 1s or due > 1s or header.a ~ b", &condition, NULL);
    size_t done = 0;
    for (int state = 1; condition != NULL && state <= QUERN_TASK_AGGREGATING; state++) {
        const struct qn_search what = {
            condition,  "default", (quern_task_state)state, false, 0, {0}, 10, 100,
            check_task, round};
        struct qn_found_list list = {
            QUERN_ACTION_CANCEL_RETRY, "default", (quern_task_state)state, found, 2, 0};
        const struct qn_trash_list trash = {QUERN_ACTION_RESTORE, state == 1, "default", found, 2};
        struct qn_search_end end;
        (void)!qn_broker_search(round->broker, &what, &end, NULL);
        (void)!qn_broker_search_act(round->broker, &list, &done, NULL);
        list.action = QUERN_ACTION_TRASH;
        (void)!qn_broker_search_act(round->broker, &list, &done, NULL);
        (void)!qn_broker_trash_search(round->broker, &what, &end, NULL);
        (void)!qn_broker_trash_act(round->broker, &trash, (enum qn_trash_result[2]){0}, NULL);
        (void)!qn_broker_trash_use(round->broker, "default", &(struct qn_trash_use){0}, NULL);
    }
    qn_condition_free(condition);
}

static void inspect(struct test_round *round)
{
    quern_day days[QN_HISTORY_DAYS];
    quern_error err;
    (void)!qn_broker_queues(round->broker, NULL, check_queue, round, &err);
    search(round);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const quern_task_filter filter = {.queue = "default", .state = state};
        (void)!qn_broker_tasks(round->broker, &filter, check_task, round, &err);
    }
    const quern_task_filter one = {.id = "t1"};
    (void)!qn_broker_tasks(round->broker, &one, check_task, round, &err);
    test_round_stand(round);
    (void)!qn_broker_workers(round->broker, check_worker, round, &err);
    (void)!qn_broker_history(round->broker, "default", QN_HISTORY_DAYS, days, &err);
    limit(round);
    (void)!qn_broker_server_info(round->broker, forget_fact, round, &err);
    (void)!qn_broker_doctor(round->broker, false, forget_finding, NULL, &err);
}

/* --- Running ---------------------------------------------------------------------------- */

static void send_heartbeat(struct test_round *round)
{
    const struct qn_queue_share share = {.name = "default", .weight = 1};
    const struct qn_heartbeat heartbeat = {.worker_id = round->worker_id,
                                           .owner = "nowhere",
                                           .host = HOST,
                                           .status = "active",
                                           .queues = "default=1",
                                           .concurrency = ROOM,
                                           .queue_shares = &share,
                                           .queue_count = 1};
    quern_error err;
    (void)!qn_broker_heartbeat(round->broker, &heartbeat, &err);
}

static size_t lease(struct test_round *round, enum qn_solo solo, struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = ROOM};
    struct qn_exchange exchange = {.stamp = {3, ++round->sequence},
                                   .worker_id = round->worker_id,
                                   .host = HOST,
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = ROOM,
                                   .start_count_now = ROOM,
                                   .isolation = {.slots = ROOM},
                                   .solo = solo};
    struct qn_exchange_reply reply = {.runs = runs};
    quern_error err;
    if (qn_broker_exchange(round->broker, &exchange, &reply, &err) != QUERN_OK) {
        return 0;
    }
    note(round, "wait_ms", share.wait_ms, QN_DURATION_MS_MAX);
    for (size_t i = 0; i < reply.run_count; i++) {
        note_task(round, &runs[i]->task);
        note(round, "life_ms", runs[i]->life_ms, QN_DURATION_MS_MAX);
        note(round, "leased retry_count", runs[i]->retry_count, INT32_MAX);
        note(round, "leased crash_count", runs[i]->crash_count, INT32_MAX);
    }
    return reply.run_count;
}

static void hold(struct test_round *round, struct qn_leased **runs, size_t count)
{
    struct qn_extension extensions[ROOM];
    quern_error err;
    for (size_t i = 0; i < count; i++) {
        extensions[i] = (struct qn_extension){.run = runs[i]};
        (void)!qn_broker_write_progress(round->broker, runs[i], 50, "half", &err);
        (void)!qn_broker_write_result(round->broker, runs[i], (struct qn_bytes){"42", 2}, &err);
    }
    if (count > 0) {
        (void)!qn_broker_extend(round->broker, extensions, count, QN_LEASE_MS, &err);
    }
}

/* Each in another way, and frees them. */
static void end(struct test_round *round, struct qn_leased **runs, size_t count)
{
    struct qn_outcome outcomes[ROOM];
    enum qn_applied applied[ROOM];
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){
            .run = runs[i],
            .kind = (enum qn_outcome_kind)((round->sequence + i) % QN_OUTCOME_KINDS),
            .started = true,
            .cause = QUERN_CAUSE_CHILD_DIED,
            .delay_ms = 1500,
            .error = "broken"};
    }
    struct qn_exchange exchange = {.stamp = {3, ++round->sequence},
                                   .worker_id = round->worker_id,
                                   .host = HOST,
                                   .lease_ms = QN_LEASE_MS,
                                   .outcomes = outcomes,
                                   .outcome_count = count};
    struct qn_exchange_reply reply = {.applied = applied};
    quern_error err;
    if (count > 0) {
        (void)!qn_broker_exchange(round->broker, &exchange, &reply, &err);
    }
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static void keep_up(struct test_round *round)
{
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    bool yes = false;
    struct qn_wakeup wakeup;
    quern_error err;
    quern_status status = qn_broker_forward(round->broker, (struct qn_upkeep){{queues, 1}, 100},
                                            &count, &next_due_at_ms, &err);
    if (status == QUERN_OK && next_due_at_ms != INT64_MAX) {
        note_moment(round, "next_due_at_ms of forward", next_due_at_ms);
    }
    (void)!qn_broker_recover(round->broker, (struct qn_upkeep){{queues, 1}, 100}, NULL, &count,
                             &err);
    (void)!qn_broker_prune(round->broker, (struct qn_upkeep){{queues, 1}, 100}, &count, &err);
    (void)!qn_broker_drained(round->broker, (struct qn_names){queues, 1}, QN_UNTIL_EMPTY, &yes,
                             &err);
    status =
        qn_broker_arm(round->broker, (struct qn_names){queues, 1}, &yes, &next_due_at_ms, &err);
    if (status == QUERN_OK && next_due_at_ms != INT64_MAX) {
        note_moment(round, "next_due_at_ms of arm", next_due_at_ms);
    }
    qn_broker_interrupt(round->broker); /* ends the first wait, and the second one reads */
    (void)!qn_broker_wait(round->broker, 0, &wakeup, &err);
    (void)!qn_broker_wait(round->broker, 0, &wakeup, &err);
}

static bool aggregate_all(const char *queue, const char *group,
                          struct qn_group_settings *ret_settings, void *user)
{
    (void)queue;
    (void)group;
    (void)user;
    *ret_settings = (struct qn_group_settings){.max_size = 2};
    return true;
}

/* One set of each kind of end. */
static void aggregate(struct test_round *round)
{
    struct qn_group_cursor cursor = {0};
    const struct qn_aggregate request = {.queue = "default",
                                         .worker_id = round->worker_id,
                                         .lease_ms = QN_LEASE_MS,
                                         .cursor = &cursor,
                                         .settings = aggregate_all};
    size_t count = 0;
    quern_error err;
    for (int i = 0; i < 3; i++) {
        struct qn_aggregate_reply reply = {0};
        (void)!qn_broker_aggregate(round->broker, &request, &reply, &err);
        if (reply.set != NULL && i == 0) {
            struct qn_set_extension extension = {.set = reply.set};
            (void)!qn_broker_extend_sets(round->broker, &extension, 1, QN_LEASE_MS, &err);
            (void)!qn_broker_return_set(round->broker, reply.set, &err);
        } else if (reply.set != NULL && i == 1) {
            const struct qn_finish_set finish = {{3, ++round->sequence}, reply.set, NULL};
            (void)!qn_broker_finish_set(round->broker, &finish, &err);
        }
        qn_group_set_free(reply.set);
    }
    (void)!qn_broker_reclaim_sets(round->broker, (struct qn_upkeep){{queues, 1}, 100}, &count,
                                  &err);
}

static void watch(struct test_round *round)
{
    struct qn_notices notices;
    quern_error err;
    (void)!qn_broker_watch(round->watcher, "default", "t1", &err);
    qn_broker_wake(round->broker);
    (void)!qn_broker_await(round->watcher, 0, &notices, &err);
}

static void enqueue(struct test_round *round)
{
    static const char *const ids[] = {"t1", "t7"};
    struct qn_task tasks[2];
    quern_status results[2];
    quern_error err;
    for (size_t i = 0; i < 2; i++) {
        tasks[i] = (struct qn_task){.id = ids[i],
                                    .queue = "default",
                                    .type = "t",
                                    .payload = "",
                                    .timeout_ms = 1500,
                                    .unique_ms = i == 1 ? 60000 : 0,
                                    .unique_key = i == 1 ? LOCK : NULL,
                                    .state = QUERN_TASK_PENDING};
    }
    (void)!qn_broker_enqueue(round->broker,
                             &(struct qn_enqueue){{3, ++round->sequence}, tasks, 2, results}, &err);
}

static void steer(struct test_round *round)
{
    static const char *const ids[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    size_t count = 0;
    quern_error err;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        quern_action action = (quern_action)(1 + (round->sequence + i) % 5);
        (void)!qn_broker_operate(round->broker, action, i % 2 == 0 ? "default" : NULL, ids[i],
                                 &err);
    }
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const quern_task_filter filter = {.queue = "default", .state = state};
        quern_action action = (quern_action)(1 + (round->sequence + (size_t)state) % 2);
        (void)!qn_broker_operate_all(round->broker, &(struct qn_bulk){action, &filter, 100}, &count,
                                     &err);
    }
    (void)!qn_broker_pause(round->broker, "default", true, &err);
    (void)!qn_broker_pause(round->broker, "default", false, &err);
    (void)!qn_broker_set_queue(round->broker, "default",
                               &(quern_queue_settings){.max_pending = QUERN_MAX_PENDING_MAX}, &err);
    (void)!qn_broker_doctor(round->broker, true, forget_finding, NULL, &err);
}

/* --- Schedules -------------------------------------------------------------------------- */

static bool check_entry(const struct qn_schedule_entry *entry, void *user)
{
    note_moment(user, "created_at_ms", entry->created_at_ms);
    note_moment(user, "entry paused_at_ms", entry->paused_at_ms);
    note(user, "last_s", entry->last_s, QN_MOMENT_MS_MAX / 1000);
    if (entry->fault == NULL) {
        note(user, "late_ms", entry->late_ms, QN_DURATION_MS_MAX);
        note(user, "jitter_ms", entry->jitter_ms, QN_JITTER_MS_MAX);
        note(user, "misfire_max", entry->misfire_max, QN_MISFIRE_MAX);
        note_task(user, &entry->task);
    }
    return true;
}

static bool check_event(const struct qn_tick_event *event, void *user)
{
    note(user, "tick_s", event->tick_s, QN_MOMENT_MS_MAX / 1000);
    note_moment(user, "event at_ms", event->at_ms);
    return true;
}

static void send_tick(struct test_round *round, uint64_t epoch)
{
    struct qn_task task = {
        .id = "tick", .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    struct qn_tick tick = {.queue = "default",
                           .name = "e",
                           .revision = 1,
                           .known_s = 1,
                           .tick_s = 2,
                           .what = QN_TICK_ENQUEUE,
                           .task = &task};
    struct qn_ticks ticks = {
        .stamp = {3, ++round->sequence}, .epoch = epoch, .ticks = &tick, .count = 1};
    quern_error err;
    if (qn_schedule_tick(round->broker, &ticks, &err) == QUERN_OK) {
        note(round, "stored_s", tick.stored_s, QN_MOMENT_MS_MAX / 1000);
    }
    const struct qn_trigger trigger = {.stamp = {3, ++round->sequence}, .name = "e", .task = &task};
    (void)!qn_schedule_trigger(round->broker, &trigger, &err);
}

static void schedule(struct test_round *round)
{
    struct qn_schedule_entry entry = {
        .name = "e",
        .task = {.queue = "default", .type = "t", .state = QUERN_TASK_PENDING},
        .origin = "cli",
        .cron = "* * * * *",
        .zone = "",
        .misfire = QN_MISFIRE_ONCE,
        .misfire_max = 1};
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_ANY};
    const struct qn_entry_key key = {.queue = "default", .name = "e", .revision = QN_REVISION_ANY};
    const struct qn_lead lead = {
        .what = QN_LEAD_TAKE, .owner = "nowhere", .id = "host:1:id", .lease_ms = 10000};
    struct qn_lead_reply reply = {0};
    quern_error err;
    (void)!qn_schedule_list(round->broker, &(struct qn_entry_filter){0}, check_entry, round, &err);
    if (qn_schedule_lead(round->broker, &lead, &reply, &err) == QUERN_OK) {
        note(round, "lease_left_ms", reply.lease_left_ms, QN_LEAD_MS_MAX);
    }
    (void)!qn_schedule_claim(round->broker, reply.epoch, &err);
    send_tick(round, reply.epoch);
    (void)!qn_schedule_put(round->broker, &put, 1, &err);
    (void)!qn_schedule_pause(round->broker, &key, QN_ENTRY_PAUSE, &err);
    (void)!qn_schedule_pause(round->broker, &key, QN_ENTRY_RESUME, &err);
    (void)!qn_schedule_history(round->broker, &key, check_event, round, &err);
    (void)!qn_schedule_record(round->broker, &(struct qn_record){.id = "host:1:id"}, &err);
    (void)!qn_schedule_remove(round->broker, &key, &err);
}

void test_round(struct test_round *round)
{
    static const enum qn_solo solos[] = {QN_SOLO_ASK, QN_SOLO_RUN, QN_SOLO_END, QN_SOLO_NONE};
    struct qn_leased *runs[ROOM];
    quern_error err;
    inspect(round);
    find(round);
    watch(round);
    send_heartbeat(round);
    size_t count = lease(round, QN_SOLO_NONE, runs);
    hold(round, runs, count);
    inspect(round);
    end(round, runs, count);
    keep_up(round);
    aggregate(round);
    enqueue(round);
    steer(round);
    for (size_t i = 0; i < sizeof solos / sizeof *solos; i++) {
        count = lease(round, solos[i], runs);
        end(round, runs, count);
    }
    inspect(round);
    schedule(round);
    (void)!qn_broker_deregister(round->broker, round->worker_id, &err);
    (void)!qn_broker_remove_queue(round->broker, "default", true, &err);
}
