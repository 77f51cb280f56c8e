/* SPDX-License-Identifier: MIT */
/* test_alloc.c - memory runs out at the n-th allocation of a request to a Redis server, for every
 * n. Unlike a file a server may have executed the request when there is no memory for its answer:
 * then the call reports an unknown effect, and the same request again gets the answer. */
#include "lib_alloc.h"
#include "lib_store.h"

#include <stdatomic.h>
#include <string.h>

#include "broker/redis/redis.h"
#include "quern/quern.h"
#include "task/limits.h"

#define SWEEP_MAX 5000

/* A statement of a scene that is run with enough memory. */
#define WITH_MEMORY(statement)                                                                     \
    do {                                                                                           \
        long left = atomic_exchange(&test_alloc_until_failure, 0);                                 \
        statement;                                                                                 \
        atomic_store(&test_alloc_until_failure, left);                                             \
    } while (0)

static struct test_store store;
static struct qn_broker *broker;
static uint64_t sequence;

/* Lanes keep a piece of memory from one pipeline to the next: so that each scene needs it again. */
static void forget_memory(void)
{
    for (size_t i = 0; i < QN_CHANNEL_COUNT; i++) {
        qn_arena_finish(&qn_redis_of(broker)->channels[i].arena);
    }
}

static void sweep(quern_status (*scene)(void), bool for_good)
{
    size_t unknown = 0;
    size_t failed = 0;
    for (long n = 1; n < SWEEP_MAX; n++) {
        forget_memory();
        test_alloc_for_good = for_good;
        atomic_store(&test_alloc_until_failure, n);
        quern_status status = scene();
        long left = atomic_exchange(&test_alloc_until_failure, 0);
        if (status != QUERN_OK && status != QUERN_E_NOMEM && status != QUERN_E_UNKNOWN) {
            fail_msg("allocation %ld: %s", n, quern_status_name(status));
        }
        failed += status == QUERN_E_NOMEM ? 1 : 0;
        unknown += status == QUERN_E_UNKNOWN ? 1 : 0;
        if (left > 1) {
            print_message("%ld allocations, %zu calls failed, %zu unknown\n", n - 1, failed,
                          unknown);
            assert_true(failed > 0 || !for_good);
            return;
        }
    }
    fail_msg("the scene never came to an end");
}

static void sweep_both(quern_status (*scene)(void))
{
    sweep(scene, false);
    sweep(scene, true);
}

static void begin(void)
{
    quern_error err = {0};
    const struct qn_broker_options options = {.create = true};
    sequence = 0;
    test_store_open_at(&store, "redis", 0);
    assert_ok(qn_broker_open(store.url, &options, &broker, &err), err);
}

static void end(void)
{
    qn_broker_close(broker);
    test_store_close(&store);
}

static bool count_task(const quern_task_info *info, void *user)
{
    (void)info;
    (*(size_t *)user)++;
    return true;
}

static size_t tasks_in(quern_task_state state)
{
    const quern_task_filter filter = {.state = (int32_t)state, .limit = 10000};
    size_t count = 0;
    quern_error err = {0};
    WITH_MEMORY(assert_ok(qn_broker_tasks(broker, &filter, count_task, &count, &err), err));
    return count;
}

/* --- Opening ------------------------------------------------------------------------ */

static void ignore_fact(const char *name, const char *text, void *user)
{
    (void)name, (void)text, (void)user;
}

static quern_status open_scene(void)
{
    struct qn_broker *opened = NULL;
    quern_status status = qn_broker_open(store.url, NULL, &opened, NULL);
    if (status == QUERN_OK) {
        status = qn_broker_server_info(opened, ignore_fact, NULL, NULL);
    }
    assert_int_not_equal(status, QUERN_E_UNKNOWN);
    qn_broker_close(opened);
    return status;
}

static void opening_without_memory_is_reported(void **state)
{
    (void)state;
    begin();
    sweep_both(open_scene);
    end();
}

/* --- Enqueueing --------------------------------------------------------------------- */

static size_t stored;

static quern_status enqueue_with(struct qn_stamp stamp, const struct qn_task *tasks, size_t count)
{
    quern_status results[3] = {QUERN_E_INVALID, QUERN_E_INVALID, QUERN_E_INVALID};
    quern_status status =
        qn_broker_enqueue(broker, &(struct qn_enqueue){stamp, tasks, count, results}, NULL);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        assert_int_equal(results[i], QUERN_OK);
        stored++;
    }
    return status;
}

static quern_status enqueue_scene(void)
{
    static char ids[3][24];
    struct qn_task tasks[3];
    const struct qn_stamp stamp = {.session = 1, .sequence = ++sequence};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "n%d-%zu", (int)sequence, i);
        tasks[i] = (struct qn_task){.type = "t",
                                    .id = ids[i],
                                    .queue = "default",
                                    .payload = ids[i],
                                    .payload_size = strlen(ids[i]),
                                    .state = QUERN_TASK_PENDING,
                                    .retry_max = 25,
                                    .timeout_ms = 60000};
    }
    quern_status status = enqueue_with(stamp, tasks, 3);
    if (status == QUERN_E_UNKNOWN) {
        WITH_MEMORY(assert_int_equal(enqueue_with(stamp, tasks, 3), QUERN_OK));
    }
    assert_int_equal(tasks_in(QUERN_TASK_PENDING), stored);
    return status;
}

static void enqueue_without_memory_stores_all_or_nothing(void **state)
{
    (void)state;
    begin();
    stored = 0;
    sweep_both(enqueue_scene);
    assert_true(stored >= 3);
    end();
}

/* --- Exchanging --------------------------------------------------------------------- */

#define TASKS 4

/* Tells an outcome for each run and leases up to two into `next`. */
static quern_status exchange_two(struct qn_stamp stamp, struct qn_leased **runs, size_t count,
                                 struct qn_leased **next, size_t *ret_count)
{
    struct qn_outcome outcomes[2] = {0};
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_GIVE_BACK};
    }
    uint32_t room = next == NULL ? 0 : 2;
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = room};
    struct qn_exchange exchange = {.stamp = stamp,
                                   .outcomes = outcomes,
                                   .outcome_count = count,
                                   .worker_id = "w",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = room};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    quern_status status = qn_broker_exchange(broker, &exchange, &reply, NULL);
    *ret_count = status == QUERN_OK ? reply.run_count : 0;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
    }
    return status;
}

/* Leases two runs and gives them back. */
static quern_status exchange_scene(void)
{
    struct qn_leased *runs[2];
    size_t count = 0;
    size_t none = 0;
    struct qn_stamp stamp = {.session = 2, .sequence = ++sequence};
    quern_status status = exchange_two(stamp, NULL, 0, runs, &count);
    if (status == QUERN_E_UNKNOWN) {
        WITH_MEMORY(assert_int_equal(exchange_two(stamp, NULL, 0, runs, &count), QUERN_OK));
        assert_int_equal(count, 2);
    }
    assert_int_equal(tasks_in(QUERN_TASK_ACTIVE), count);
    if (count > 0) {
        stamp.sequence = ++sequence;
        quern_status given = exchange_two(stamp, runs, count, NULL, &none);
        if (given != QUERN_OK) {
            assert_true(given == QUERN_E_UNKNOWN || tasks_in(QUERN_TASK_ACTIVE) == count);
            WITH_MEMORY(assert_int_equal(exchange_two(stamp, runs, count, NULL, &none), QUERN_OK));
        }
        status = status == QUERN_OK ? given : status;
    }
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
    assert_int_equal(tasks_in(QUERN_TASK_PENDING), TASKS);
    return status;
}

static void fill(size_t count, size_t payload_size)
{
    static const char payload[5000];
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(store.url, NULL, &client, &err), err);
    for (size_t i = 0; i < count; i++) {
        const quern_task task = {.type = "t", .payload = payload, .payload_size = payload_size};
        assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    }
    quern_client_free(client);
}

static void exchange_without_memory_loses_no_task(void **state)
{
    (void)state;
    begin();
    fill(TASKS, 5000); /* so large that each run is a block of its own */
    sweep_both(exchange_scene);
    end();
}

/* Those of the connection and of its arena are counted, too. */
static void the_runs_of_a_batch_share_a_few_blocks_of_memory(void **state)
{
    (void)state;
    begin();
    fill(QN_BATCH_MAX, 100);
    struct qn_leased *runs[QN_BATCH_MAX];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = QN_BATCH_MAX};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .lease_ms = QN_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = QN_BATCH_MAX,
                                   .start_count_now = QN_BATCH_MAX};
    struct qn_exchange_reply reply = {.runs = runs};
    quern_error err = {0};
    atomic_store(&test_alloc_until_failure, SWEEP_MAX);
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    long count = SWEEP_MAX - atomic_exchange(&test_alloc_until_failure, 0);
    assert_int_equal(reply.run_count, QN_BATCH_MAX);
    print_message("%ld allocations for %d runs\n", count, QN_BATCH_MAX);
    assert_true(count < QN_BATCH_MAX / 4);
    while (reply.run_count > 1) {
        qn_leased_free(runs[--reply.run_count]);
    }
    assert_string_equal(runs[0]->task.queue, "default");
    assert_int_equal(runs[0]->task.payload_size, 100);
    qn_leased_free(runs[0]);
    end();
}

/* --- Inspecting --------------------------------------------------------------------- */

static quern_status inspect_scene(void)
{
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    quern_inspector *inspector = NULL;
    quern_queue_list *queues = NULL;
    quern_task_list *tasks = NULL;
    quern_worker_list *workers = NULL;
    quern_status status = quern_inspector_open(store.url, NULL, &inspector, NULL);
    if (status == QUERN_OK) {
        status = quern_inspector_queues(inspector, &queues, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(quern_queue_list_size(queues), 1);
        status = quern_inspector_tasks(inspector, &filter, &tasks, NULL);
    }
    if (status == QUERN_OK) {
        assert_int_equal(quern_task_list_size(tasks), TASKS);
        status = quern_inspector_workers(inspector, &workers, NULL);
    }
    assert_int_not_equal(status, QUERN_E_UNKNOWN);
    quern_worker_list_free(workers);
    quern_task_list_free(tasks);
    quern_queue_list_free(queues);
    quern_inspector_free(inspector);
    return status;
}

static void inspecting_without_memory_is_reported(void **state)
{
    (void)state;
    begin();
    fill(TASKS, 1);
    sweep_both(inspect_scene);
    end();
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", opening_without_memory_is_reported),
    TEST_ONLY_OVER("redis", enqueue_without_memory_stores_all_or_nothing),
    TEST_ONLY_OVER("redis", exchange_without_memory_loses_no_task),
    TEST_ONLY_OVER("redis", the_runs_of_a_batch_share_a_few_blocks_of_memory),
    TEST_ONLY_OVER("redis", inspecting_without_memory_is_reported),
};
TEST_MAIN_OVER_BROKERS(tests)
