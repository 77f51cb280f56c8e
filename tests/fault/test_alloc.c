/* SPDX-License-Identifier: MIT */
/* test_alloc.c - memory runs out at the n-th allocation, for every n: the call says so, nothing
 * crashes or leaks, what was not stored is not half stored, and no task is lost. */
#include "lib_alloc.h"
#include "lib_test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "broker/group.h"
#include "broker/inspect.h"
#include "broker/limit/limit.h"
#include "quern/quern.h"
#include "task/limits.h"

#define SWEEP_MAX 5000

/* n grows by so much: by 1, but for scenes that take long. */
static long stride = 1;

struct place {
    char dir[TEST_DIR_SIZE];
    char path[128];
};

static void place_make(struct place *place)
{
    test_dir_make(place->dir);
    (void)snprintf(place->path, sizeof place->path, "%s/tasks.db", place->dir);
}

/* Runs the scene once for each n, until it needs fewer than n allocations. Only "out of memory" may
 * come of it. Returns how many runs failed. */
static int sweep(quern_status (*scene)(struct place *place, long n), struct place *place, bool good)
{
    int failures = 0;
    for (long n = 1; n < SWEEP_MAX; n += stride) {
        test_alloc_for_good = good;
        atomic_store(&test_alloc_until_failure, n);
        quern_status status = scene(place, n);
        long left = atomic_exchange(&test_alloc_until_failure, 0);
        if (status != QUERN_OK) {
            if (status != QUERN_E_NOMEM) {
                print_error("allocation %ld: %s\n", n, quern_status_name(status));
            }
            assert_int_equal(status, QUERN_E_NOMEM);
            failures++;
        }
        if (left > 1) {
            print_message("%ld allocations, %d calls failed\n", n - 1, failures);
            return failures;
        }
    }
    fail_msg("the scene never came to an end");
    return failures;
}

/* Opens the broker with memory enough. */
static struct qn_broker *open_safely(const struct place *place)
{
    const struct qn_broker_options options = {.create = true};
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    assert_ok(qn_broker_open(place->path, &options, &broker, &err), err);
    atomic_store(&test_alloc_until_failure, left);
    return broker;
}

static void close_safely(struct qn_broker *broker)
{
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    qn_broker_close(broker);
    atomic_store(&test_alloc_until_failure, left);
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    (*(size_t *)user)++;
    return true;
}

static size_t tasks_in(struct qn_broker *broker, quern_task_state state)
{
    const quern_task_filter filter = {.state = (int32_t)state, .limit = 10000};
    size_t count = 0;
    quern_error err = {0};
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    assert_ok(qn_broker_tasks(broker, &filter, count_task, &count, &err), err);
    atomic_store(&test_alloc_until_failure, left);
    return count;
}

/* --- Opening and enqueueing --------------------------------------------------------- */

static size_t stored_tasks;

static quern_status enqueue_scene(struct place *place, long n)
{
    const quern_header header = {.name = "a", .value = "b"};
    quern_task tasks[3];
    char ids[3][24];
    quern_enqueue_result results[3];
    quern_client *client = NULL;
    quern_status status = quern_client_open(place->path, NULL, &client, NULL);
    if (status == QUERN_OK) {
        for (int i = 0; i < 3; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "n%ld-%d-%d", n, i, (int)test_alloc_for_good);
            results[i].status = QUERN_E_INVALID;
            tasks[i] = (quern_task){.type = "t",
                                    .id = ids[i],
                                    .payload = ids[i],
                                    .payload_size = strlen(ids[i]),
                                    .unique_ms = 60000,
                                    .headers = &header,
                                    .header_count = 1};
        }
        status = quern_client_enqueue_batch(client, tasks, 3, results, NULL);
        for (size_t i = 0; i < 3; i++) {
            stored_tasks += results[i].status == QUERN_OK ? 1 : 0;
        }
    }
    quern_client_free(client);
    struct qn_broker *broker = open_safely(place);
    assert_int_equal(tasks_in(broker, QUERN_TASK_PENDING), stored_tasks);
    close_safely(broker);
    return status;
}

static void enqueue_without_memory_stores_all_or_nothing(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    stored_tasks = 0;
    assert_true(sweep(enqueue_scene, &place, false) > 0);
    assert_true(sweep(enqueue_scene, &place, true) > 0);
    assert_true(stored_tasks >= 3);
    test_dir_remove(place.dir);
}

/* --- Exchanging --------------------------------------------------------------------- */

#define EXCHANGE_TASKS 6

static struct qn_broker *exchange_broker;

static void free_runs(struct qn_leased **runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

/* Tells an outcome for each run and leases up to two new ones into `next`. */
static quern_status exchange_two(struct qn_leased **runs, size_t count, enum qn_outcome_kind kind,
                                 struct qn_leased **next, size_t *ret_count)
{
    struct qn_outcome outcomes[2] = {0};
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = kind, .error = "because"};
    }
    uint32_t room = next == NULL ? 0 : 2;
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = room};
    struct qn_exchange exchange = {.outcomes = outcomes,
                                   .outcome_count = count,
                                   .worker_id = "w",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = room};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    quern_status status = qn_broker_exchange(exchange_broker, &exchange, &reply, NULL);
    *ret_count = status == QUERN_OK ? reply.run_count : 0;
    return status;
}

/* Leases two runs, extends them, gives them back; failed calls are repeated with enough memory. */
static quern_status exchange_scene(struct place *place, long n)
{
    struct qn_leased *runs[2];
    struct qn_extension extensions[2] = {0};
    size_t count = 0;
    size_t none = 0;
    (void)place;
    (void)n;
    quern_status status = exchange_two(NULL, 0, QN_GIVE_BACK, runs, &count);
    assert_int_equal(tasks_in(exchange_broker, QUERN_TASK_ACTIVE), count);
    for (size_t i = 0; i < count; i++) {
        extensions[i].run = runs[i];
    }
    if (status == QUERN_OK) {
        status = qn_broker_extend(exchange_broker, extensions, count, QN_LEASE_MS, NULL);
    }
    if (status == QUERN_OK) {
        status = exchange_two(runs, count, QN_GIVE_BACK, NULL, &none);
        assert_int_equal(tasks_in(exchange_broker, QUERN_TASK_ACTIVE),
                         status == QUERN_OK ? 0 : count);
    }
    if (status != QUERN_OK && count > 0) {
        long left = atomic_exchange(&test_alloc_until_failure, 0);
        assert_int_equal(exchange_two(runs, count, QN_GIVE_BACK, NULL, &none), QUERN_OK);
        atomic_store(&test_alloc_until_failure, left);
    }
    free_runs(runs, count);
    assert_int_equal(tasks_in(exchange_broker, QUERN_TASK_PENDING), EXCHANGE_TASKS);
    return status;
}

/* So large that each run is a block of its own. */
static void fill(struct place *place, size_t count)
{
    static const char payload[5000];
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(place->path, NULL, &client, &err), err);
    for (size_t i = 0; i < count; i++) {
        const quern_task task = {.type = "t", .payload = payload, .payload_size = sizeof payload};
        assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    }
    quern_client_free(client);
}

static void exchange_without_memory_loses_no_task(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    fill(&place, EXCHANGE_TASKS);
    exchange_broker = open_safely(&place);
    assert_true(sweep(exchange_scene, &place, false) > 0);
    assert_true(sweep(exchange_scene, &place, true) > 0);
    qn_broker_close(exchange_broker);
    test_dir_remove(place.dir);
}

/* --- Inspecting --------------------------------------------------------------------- */

static void ignore_finding(const quern_finding *finding, void *user)
{
    (void)finding;
    (void)user;
}

static quern_status inspect_scene(struct place *place, long n)
{
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    quern_inspector *inspector = NULL;
    quern_queue_list *queues = NULL;
    quern_task_list *tasks = NULL;
    quern_worker_list *workers = NULL;
    uint64_t count = 0;
    (void)n;
    quern_status status = quern_inspector_open(place->path, NULL, &inspector, NULL);
    if (status == QUERN_OK) {
        status = quern_inspector_queues(inspector, &queues, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(quern_queue_list_size(queues), 1);
        status = quern_inspector_tasks(inspector, &filter, &tasks, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(quern_task_list_size(tasks), 3);
        status = quern_inspector_workers(inspector, &workers, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_inspector_act_all(inspector, QUERN_ACTION_ARCHIVE, &filter, &count, NULL);
    }
    if (status == QUERN_OK) {
        const quern_task_filter archived = {.queue = "default", .state = QUERN_TASK_ARCHIVED};
        status = quern_inspector_act_all(inspector, QUERN_ACTION_RUN, &archived, &count, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_inspector_check(inspector, true, ignore_finding, NULL, NULL);
    }
    quern_worker_list_free(workers);
    quern_task_list_free(tasks);
    quern_queue_list_free(queues);
    quern_inspector_free(inspector);
    struct qn_broker *broker = open_safely(place);
    assert_int_equal(tasks_in(broker, 0), 3);
    if (tasks_in(broker, QUERN_TASK_ARCHIVED) > 0) {
        size_t moved = 0;
        const quern_task_filter archived = {.queue = "default", .state = QUERN_TASK_ARCHIVED};
        long left = atomic_exchange(&test_alloc_until_failure, 0);
        assert_int_equal(qn_broker_operate_all(broker,
                                               &(struct qn_bulk){QUERN_ACTION_RUN, &archived, 100},
                                               &moved, NULL),
                         QUERN_OK);
        atomic_store(&test_alloc_until_failure, left);
    }
    close_safely(broker);
    return status;
}

static void inspecting_without_memory_changes_nothing_by_half(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    fill(&place, 3);
    assert_true(sweep(inspect_scene, &place, false) > 0);
    assert_true(sweep(inspect_scene, &place, true) > 0);
    test_dir_remove(place.dir);
}

/* --- Working ------------------------------------------------------------------------ */

#define WORK_TASKS 4

static _Atomic int runs_ended;

static quern_outcome work(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    (void)!quern_run_write_progress(run, 50, "half", NULL);
    (void)!quern_run_write_result(run, task->payload, task->payload_size, NULL);
    atomic_fetch_add(&runs_ended, 1);
    return QUERN_DONE;
}

static quern_status run_worker(const struct place *place)
{
    const quern_queue queue = {.name = "default", .weight = 1};
    const quern_worker_options options = {
        .queues = &queue, .queue_count = 1, .concurrency = 2, .drain = true, .lease_ms = 1000};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_status status = quern_mux_new(&mux, NULL);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "t", work, NULL, NULL, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(place->path, mux, &options, &worker, NULL);
    }
    if (status == QUERN_OK) {
        status = quern_worker_run(worker, NULL);
    }
    quern_worker_free(worker);
    quern_mux_free(mux);
    return status;
}

/* One worker that runs out of memory, and one after it that does not: no task is left over, in the
 * archive neither. */
static quern_status work_scene(struct place *place, long n)
{
    (void)n;
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    fill(place, WORK_TASKS);
    atomic_store(&test_alloc_until_failure, left);
    quern_status status = run_worker(place);
    left = atomic_exchange(&test_alloc_until_failure, 0);
    assert_int_equal(run_worker(place), QUERN_OK);
    struct qn_broker *broker = open_safely(place);
    assert_int_equal(tasks_in(broker, 0), 0);
    close_safely(broker);
    atomic_store(&test_alloc_until_failure, left);
    return status;
}

static void worker_without_memory_loses_no_task(void **state)
{
    (void)state;
    struct place place;
    stride = test_full() ? 1 : 5;
    place_make(&place);
    atomic_store(&runs_ended, 0);
    (void)sweep(work_scene, &place, false);
    assert_true(atomic_load(&runs_ended) >= WORK_TASKS);
    stride = 1;
    test_dir_remove(place.dir);
}

/* --- Groups and settings -------------------------------------------------------------- */

static bool take_pairs(const char *queue, const char *group, struct qn_group_settings *ret_settings,
                       void *user)
{
    (void)queue, (void)group, (void)user;
    *ret_settings = (struct qn_group_settings){.max_size = 2};
    return true;
}

static size_t members_in;

static void put_pair(struct qn_broker *broker, long n)
{
    const struct qn_heartbeat heartbeat = {
        .worker_id = "w", .owner = "nowhere", .host = "h", .status = "active", .queues = "q=1"};
    char ids[2][24];
    struct qn_task tasks[2];
    quern_status results[2];
    quern_error err = {0};
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "n%ld-%d-%d", n, i, (int)test_alloc_for_good);
        tasks[i] = (struct qn_task){.id = ids[i],
                                    .queue = "q",
                                    .type = "t",
                                    .payload = "",
                                    .group = "g",
                                    .state = QUERN_TASK_AGGREGATING};
    }
    assert_ok(qn_broker_heartbeat(broker, &heartbeat, &err), err);
    const struct qn_enqueue enqueue = {.tasks = tasks, .count = 2, .results = results};
    assert_ok(qn_broker_enqueue(broker, &enqueue, &err), err);
    members_in += 2;
    atomic_store(&test_alloc_until_failure, left);
}

/* Each member is in its group, in a set, or in a task that was made of two. */
static quern_status group_scene(struct place *place, long n)
{
    char id[24];
    struct qn_group_cursor cursor = {0};
    const struct qn_aggregate aggregate = {.queue = "q",
                                           .worker_id = "w",
                                           .lease_ms = 60000,
                                           .cursor = &cursor,
                                           .settings = take_pairs};
    struct qn_aggregate_reply reply = {0};
    quern_error err = {0};
    struct qn_broker *broker = open_safely(place);
    put_pair(broker, n);
    (void)snprintf(id, sizeof id, "made%ld-%d", n, (int)test_alloc_for_good);
    const struct qn_task task = {
        .id = id, .queue = "q", .type = "made", .payload = "", .state = QUERN_TASK_PENDING};
    quern_status status = qn_broker_aggregate(broker, &aggregate, &reply, &err);
    if (status == QUERN_OK) {
        assert_non_null(reply.set);
        const struct qn_finish_set finish = {.set = reply.set, .task = &task};
        status = qn_broker_finish_set(broker, &finish, &err);
    }
    qn_group_set_free(reply.set);
    assert_int_equal(tasks_in(broker, QUERN_TASK_AGGREGATING) +
                         2 * tasks_in(broker, QUERN_TASK_PENDING),
                     members_in);
    close_safely(broker);
    return status;
}

static bool pass_limit(const quern_limit *limit, void *user)
{
    (void)limit, (void)user;
    return true;
}

static quern_status settings_scene(struct place *place, long n)
{
    const quern_queue_settings settings = {.max_pending = 1 + n};
    const quern_limit limit = {.queue = "q", .scope = QUERN_LIMIT_TYPE, .name = "t", .count = 1};
    const struct qn_limit_owner owner = {.queue = "q", .scope = QUERN_LIMIT_TYPE, .name = "t"};
    quern_error err = {0};
    struct qn_broker *broker = open_safely(place);
    quern_status status = qn_broker_set_queue(broker, "q", &settings, &err);
    if (status == QUERN_OK) {
        status = qn_broker_set_limit(broker, &limit, &err);
    }
    if (status == QUERN_OK) {
        status = qn_broker_limits(broker, NULL, pass_limit, NULL, &err);
    }
    if (status == QUERN_OK) {
        status = qn_broker_remove_limit(broker, &owner, &err);
    }
    close_safely(broker);
    return status;
}

static void groups_and_settings_without_memory_lose_nothing(void **state)
{
    (void)state;
    struct place place;
    place_make(&place);
    members_in = 0;
    assert_true(sweep(group_scene, &place, false) > 0);
    assert_true(sweep(group_scene, &place, true) > 0);
    assert_true(sweep(settings_scene, &place, false) > 0);
    test_dir_remove(place.dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(enqueue_without_memory_stores_all_or_nothing),
    cmocka_unit_test(exchange_without_memory_loses_no_task),
    cmocka_unit_test(inspecting_without_memory_changes_nothing_by_half),
    cmocka_unit_test(worker_without_memory_loses_no_task),
    cmocka_unit_test(groups_and_settings_without_memory_lose_nothing),
};
TEST_MAIN(tests)
