/* SPDX-License-Identifier: MIT */
/* test_watch.c - news of the end of a task, for clients that wait for it.
 *
 * A test watches, lets something happen through another broker object, as another process would,
 * and only then awaits: so the news must be there already. At the end clients wait in threads. */
#include "lib_contract.h"

#include <pthread.h>
#include <stdio.h>

#include "quern/client.h"

#define BRIEFLY_MS 400 /* shorter than the look of a client each second */
#define MINUTE_MS INT64_C(60000)
#define WAITER_COUNT 12

/* The broker object of a client, on which no thread arms or waits for work. */
static struct qn_broker *watch(struct contract *c, const char *id)
{
    struct qn_broker *broker = contract_open(c);
    quern_error err = {0};
    assert_ok(qn_broker_watch(broker, "default", id, &err), err);
    return broker;
}

static bool comes(struct qn_broker *broker, int64_t timeout_ms)
{
    bool changed = false;
    quern_error err = {0};
    assert_ok(qn_broker_await(broker, timeout_ms, &changed, &err), err);
    return changed;
}

static void assert_news(struct qn_broker *broker)
{
    assert_true(comes(broker, BRIEFLY_MS));
    qn_broker_close(broker);
}

static void nothing_is_no_news(struct contract *c)
{
    contract_put(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    assert_false(comes(broker, 20));
    qn_broker_close(broker);
}

static void end_of_a_watched_task_is_news(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = MINUTE_MS});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_DONE);
    assert_news(broker);
}

static void end_of_a_task_without_retention_is_news(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_DONE);
    assert_news(broker);
}

static void archived_task_is_news(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_broker *broker = watch(c, "a");
    contract_finish(c, run, QN_ARCHIVE);
    assert_news(broker);
}

static void deed_of_an_operator_is_news(struct contract *c)
{
    static const quern_action actions[] = {QUERN_ACTION_ARCHIVE, QUERN_ACTION_DELETE};
    contract_put(c, "default", "a");
    for (size_t i = 0; i < TEST_COUNT(actions); i++) {
        quern_error err = {0};
        struct qn_broker *broker = watch(c, "a");
        assert_ok(qn_broker_operate(c->broker, actions[i], "default", "a", &err), err);
        assert_news(broker);
    }
}

static void removal_of_its_queue_is_news(struct contract *c)
{
    quern_error err = {0};
    contract_put(c, "default", "a");
    struct qn_broker *broker = watch(c, "a");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    assert_news(broker);
}

static void each_watched_task_is_news_once_more(struct contract *c)
{
    struct qn_leased *first = contract_start(c, "first");
    struct qn_leased *second = contract_start(c, "second");
    quern_error err = {0};
    struct qn_broker *broker = watch(c, "first");
    assert_ok(qn_broker_watch(broker, "default", "second", &err), err);
    contract_finish(c, first, QN_ARCHIVE);
    assert_true(comes(broker, BRIEFLY_MS));
    assert_false(comes(broker, 20));
    contract_finish(c, second, QN_ARCHIVE);
    assert_news(broker);
}

/* --- Clients ------------------------------------------------------------------------- */

struct waiter {
    pthread_t thread;
    quern_client *client;
    char id[16];
    quern_task_info *info;
    quern_status status;
    quern_error err;
};

static void *wait_long(void *user)
{
    struct waiter *waiter = user;
    waiter->status =
        quern_client_wait(waiter->client, waiter->id, MINUTE_MS, &waiter->info, &waiter->err);
    return NULL;
}

/* The first one leads the others, and ends first: another one has to take over. */
static void threads_that_wait_on_one_client_see_each_its_end(struct contract *c)
{
    struct waiter waiters[WAITER_COUNT] = {0};
    struct qn_leased *runs[WAITER_COUNT];
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(c->url, NULL, &client, &err), err);
    for (size_t i = 0; i < WAITER_COUNT; i++) {
        waiters[i].client = client;
        (void)snprintf(waiters[i].id, sizeof waiters[i].id, "task-%zu", i);
        contract_enqueue(
            c, &(quern_task){.type = "t", .id = waiters[i].id, .retention_ms = MINUTE_MS});
        runs[i] = contract_take_id(c, "default", waiters[i].id);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_long, &waiters[i]), 0);
    }
    for (size_t i = 0; i < WAITER_COUNT; i++) {
        contract_finish(c, runs[i], QN_DONE);
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_ok(waiters[i].status, waiters[i].err);
        assert_int_equal(quern_task_info_state(waiters[i].info), QUERN_TASK_COMPLETED);
        quern_task_info_free(waiters[i].info);
    }
    quern_client_free(client);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(nothing_is_no_news),
    CONTRACT_TEST(end_of_a_watched_task_is_news),
    CONTRACT_TEST(end_of_a_task_without_retention_is_news),
    CONTRACT_TEST(archived_task_is_news),
    CONTRACT_TEST(deed_of_an_operator_is_news),
    CONTRACT_TEST(removal_of_its_queue_is_news),
    CONTRACT_TEST(each_watched_task_is_news_once_more),
    CONTRACT_TEST(threads_that_wait_on_one_client_see_each_its_end),
};

CONTRACT_MAIN(tests)
