/* SPDX-License-Identifier: MIT */
/* test_max_pending.c - queues with a limit of tasks that wait for a run. */
#include "lib_contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "quern/client.h"

static void set_limit(struct contract *c, const char *queue, int64_t max_pending)
{
    quern_error err = {0};
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_queue_settings settings = {.max_pending = max_pending};
    assert_ok(quern_inspector_set_queue(inspector, queue, &settings, &err), err);
    quern_inspector_free(inspector);
}

static quern_status try_put(struct contract *c, const char *id)
{
    return contract_try(c, &(quern_task){.type = "t", .id = id});
}

static void queue_takes_no_more_than_its_limit(struct contract *c)
{
    set_limit(c, "default", 3);
    contract_put(c, "default", "a");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .delay_ms = 60000});
    contract_put(c, "default", "c");
    assert_int_equal(try_put(c, "d"), QUERN_E_FULL);
    assert_int_equal(contract_try(c, &(quern_task){.type = "t", .id = "e", .delay_ms = 60000}),
                     QUERN_E_FULL);
    assert_int_equal(contract_state(c, "default", "d"), 0);
    contract_put(c, "other", "d");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    contract_put(c, "default", "d");
    assert_int_equal(try_put(c, "e"), QUERN_E_FULL);
    assert_int_equal(contract_queue(c, "default").size, 3);
}

/* One enqueue stores as many of its tasks as there is room for, the first ones. */
static void batch_fills_its_queue_in_order(struct contract *c)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    const struct qn_task_terms terms = contract_terms(c);
    struct qn_arena arena = {0};
    struct qn_task tasks[5];
    quern_status results[5];
    quern_error err = {0};
    bool limited = false;
    set_limit(c, "default", 2);
    for (size_t i = 0; i < 5; i++) {
        const quern_task task = {
            .type = "t", .id = ids[i], .queue = i == 3 ? "other" : NULL, .delay_ms = i == 1};
        assert_ok(qn_task_prepare(&task, &terms, &arena, &tasks[i], &err), err);
    }
    const struct qn_enqueue enqueue = {.stamp = {.session = 7, .sequence = 1},
                                       .tasks = tasks,
                                       .count = 5,
                                       .results = results,
                                       .ret_limited = &limited};
    for (int i = 0; i < 2; i++) { /* the same answer for a request that is sent again */
        limited = false;
        assert_ok(qn_broker_enqueue(c->broker, &enqueue, &err), err);
        assert_int_equal(results[0], QUERN_OK);
        assert_int_equal(results[1], QUERN_OK);
        assert_int_equal(results[2], QUERN_E_FULL);
        assert_int_equal(results[3], QUERN_OK);
        assert_int_equal(results[4], QUERN_E_FULL);
        assert_true(limited);
    }
    assert_int_equal(contract_queue(c, "default").size, 2);
    assert_int_equal(contract_state(c, "default", "c"), 0);
    qn_arena_finish(&arena);
}

static void task_that_comes_back_is_never_refused(struct contract *c)
{
    set_limit(c, "default", 2);
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY);
    struct qn_leased *run = contract_take_id(c, "default", "b");
    contract_put(c, "default", "c");
    contract_put(c, "default", "d");
    contract_finish(c, run, QN_GIVE_BACK);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_PENDING);
    contract_advance(c, 10 * 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 4);
    assert_int_equal(try_put(c, "e"), QUERN_E_FULL);
}

static void members_of_groups_and_retries_are_not_counted(struct contract *c)
{
    set_limit(c, "default", 1);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "g1", .group = "g"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "g2", .group = "g"});
    contract_put(c, "default", "a");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "g3", .group = "g"});
    contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY);
    contract_put(c, "default", "b");
    assert_int_equal(try_put(c, "c"), QUERN_E_FULL);
}

static void task_that_exists_is_said_to_exist(struct contract *c)
{
    set_limit(c, "default", 1);
    const quern_task task = {.type = "t", .id = "a", .unique_ms = 60000};
    contract_enqueue(c, &task);
    assert_int_equal(try_put(c, "a"), QUERN_E_CONFLICT);
    assert_int_equal(contract_try(c, &(quern_task){.type = "t", .id = "b", .unique_ms = 60000}),
                     QUERN_E_DUPLICATE);
    /* No lock is left behind by a task that found no room. */
    const quern_task other = {.type = "u", .id = "c", .unique_ms = 60000};
    assert_int_equal(contract_try(c, &other), QUERN_E_FULL);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    contract_enqueue(c, &other);
}

static void limit_is_shown_changed_and_removed(struct contract *c)
{
    quern_error err = {0};
    set_limit(c, "default", 1); /* before the queue exists */
    assert_int_equal(contract_queue(c, "default").max_pending, 1);
    contract_put(c, "default", "a");
    set_limit(c, "default", 0); /* as it is */
    assert_int_equal(try_put(c, "b"), QUERN_E_FULL);
    set_limit(c, "default", 2);
    contract_put(c, "default", "b");
    set_limit(c, "default", QUERN_MAX_PENDING_NONE);
    assert_int_equal(contract_queue(c, "default").max_pending, 0);
    contract_put(c, "default", "c");
    set_limit(c, "default", 1); /* below what is there */
    assert_int_equal(try_put(c, "d"), QUERN_E_FULL);
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    contract_put_many(c, "default", "n", 3);
    assert_int_equal(contract_queue(c, "default").max_pending, 0);
}

static void settings_that_are_wrong_are_refused(struct contract *c)
{
    quern_error err = {0};
    quern_inspector *inspector = contract_open_inspector(c);
    const quern_queue_settings bad[] = {{.max_pending = -2},
                                        {.max_pending = QUERN_MAX_PENDING_MAX + 1}};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(quern_inspector_set_queue(inspector, "default", &bad[i], &err),
                         QUERN_E_INVALID);
        assert_non_null(strstr(err.text, "max_pending must be"));
    }
    const quern_queue_settings good = {.max_pending = 5};
    assert_int_equal(quern_inspector_set_queue(inspector, "a{b", &good, &err), QUERN_E_INVALID);
    assert_int_equal(quern_inspector_set_queue(inspector, NULL, &good, &err), QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

/* --- Many at once --------------------------------------------------------------------------- */

#define PRODUCERS 4
#define EACH 40
#define LIMIT 70

struct producer {
    const char *url;
    atomic_size_t *stored;
};

static void *produce(void *user)
{
    struct producer *producer = user;
    quern_client *client = NULL;
    TEST_REQUIRE(quern_client_open(producer->url, NULL, &client, NULL) == QUERN_OK);
    for (int i = 0; i < EACH; i++) {
        quern_status status = quern_client_enqueue(client, &(quern_task){.type = "t"}, NULL, NULL);
        TEST_REQUIRE(status == QUERN_OK || status == QUERN_E_FULL);
        atomic_fetch_add(producer->stored, status == QUERN_OK ? 1 : 0);
    }
    quern_client_free(client);
    return NULL;
}

static void limit_is_exact_however_many_enqueue(struct contract *c)
{
    pthread_t threads[PRODUCERS];
    atomic_size_t stored = 0;
    struct producer producer = {c->url, &stored};
    set_limit(c, "default", LIMIT);
    for (size_t i = 0; i < PRODUCERS; i++) {
        TEST_REQUIRE(pthread_create(&threads[i], NULL, produce, &producer) == 0);
    }
    for (size_t i = 0; i < PRODUCERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&stored), LIMIT);
    assert_int_equal(contract_queue(c, "default").size, LIMIT);
}

/* --- Clients that wait ---------------------------------------------------------------------- */

#define BATCH 12

struct waiter {
    quern_client *client;
    quern_status status;
    quern_error err;
    quern_enqueue_result results[BATCH];
    atomic_bool ended;
};

static void *store_batch(void *user)
{
    static const char *const ids[BATCH] = {"a", "b", "c", "d", "e", "f",
                                           "g", "h", "i", "j", "k", "l"};
    struct waiter *waiter = user;
    quern_task tasks[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        tasks[i] = (quern_task){.type = "t", .id = ids[i], .queue = i == 5 ? "other" : NULL};
    }
    waiter->status =
        quern_client_enqueue_batch(waiter->client, tasks, BATCH, waiter->results, &waiter->err);
    atomic_store(&waiter->ended, true);
    return NULL;
}

static quern_client *open_client(struct contract *c, int64_t room_wait_ms)
{
    quern_error err = {0};
    quern_client *client = NULL;
    const quern_client_options options = {.room_wait_ms = room_wait_ms};
    assert_ok(quern_client_open(c->url, &options, &client, &err), err);
    return client;
}

static void client_stores_a_batch_as_room_appears(struct contract *c)
{
    struct waiter waiter = {.client = open_client(c, 60000)};
    pthread_t thread;
    char order[BATCH + 1] = "";
    size_t count = 0;
    set_limit(c, "default", 2);
    TEST_REQUIRE(pthread_create(&thread, NULL, store_batch, &waiter) == 0);
    while (count < BATCH - 1) {
        assert_true(contract_queue(c, "default").size <= 2);
        struct qn_leased *run = contract_take(c, "default");
        if (run != NULL) {
            order[count++] = run->task.id[0];
            contract_finish(c, run, QN_DONE);
        }
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(waiter.status, QUERN_OK);
    assert_string_equal(order, "abcdeghijkl");
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(waiter.results[i].status, QUERN_OK);
    }
    assert_int_equal(contract_state(c, "other", "f"), QUERN_TASK_PENDING);
    quern_client_free(waiter.client);
}

static void client_gives_up_when_its_time_is_over(struct contract *c)
{
    struct waiter waiter = {.client = open_client(c, 50)};
    quern_task_info *info = NULL;
    quern_error err = {0};
    set_limit(c, "default", 3);
    (void)store_batch(&waiter);
    assert_int_equal(waiter.status, QUERN_E_FULL);
    assert_non_null(strstr(waiter.err.text, "task 3: queue default is full"));
    for (size_t i = 0; i < BATCH; i++) {
        bool stored = i < 3 || i == 5;
        assert_int_equal(waiter.results[i].status, stored ? QUERN_OK : QUERN_E_FULL);
    }
    int64_t before_ns = qn_clock_mono_ns();
    assert_int_equal(quern_client_enqueue(waiter.client, &(quern_task){.type = "t"}, &info, &err),
                     QUERN_E_FULL);
    assert_true(qn_clock_mono_ns() - before_ns >= 45 * QN_NS_PER_MS);
    assert_null(info);
    quern_client_free(waiter.client);
    waiter.client = open_client(c, 0);
    assert_int_equal(quern_client_enqueue(waiter.client, &(quern_task){.type = "t"}, NULL, &err),
                     QUERN_E_FULL);
    quern_client_free(waiter.client);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(queue_takes_no_more_than_its_limit),
    CONTRACT_TEST(batch_fills_its_queue_in_order),
    CONTRACT_TEST(task_that_comes_back_is_never_refused),
    CONTRACT_TEST(members_of_groups_and_retries_are_not_counted),
    CONTRACT_TEST(task_that_exists_is_said_to_exist),
    CONTRACT_TEST(limit_is_shown_changed_and_removed),
    CONTRACT_TEST(settings_that_are_wrong_are_refused),
    CONTRACT_TEST(limit_is_exact_however_many_enqueue),
    CONTRACT_TEST(client_stores_a_batch_as_room_appears),
    CONTRACT_TEST(client_gives_up_when_its_time_is_over),
};
CONTRACT_MAIN(tests)
