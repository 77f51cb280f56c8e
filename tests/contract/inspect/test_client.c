/* SPDX-License-Identifier: MIT */
/* test_client.c - tasks as clients see them: looking one up, waiting for its end, and the one that
 * conflicts with another. */
#include <string.h>

#include "lib_contract.h"
#include "lib_waiter.h"
#include "quern/client.h"

#define MINUTE_MS INT64_C(60000)

static quern_client *open_client(struct contract *c)
{
    quern_client *client = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(c->url, &(quern_client_options){.clock = &c->clock}, &client, &err),
              err);
    return client;
}

static void client_finds_a_task_in_its_queue_or_in_all(struct contract *c)
{
    contract_put(c, "default", "one");
    contract_put(c, "default", "both");
    contract_put(c, "other", "both");
    quern_client *client = open_client(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_client_find(client, "default", "one", &info, &err), err);
    assert_string_equal(quern_task_info_id(info), "one");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    quern_task_info_free(info);
    assert_ok(quern_client_find(client, NULL, "one", &info, &err), err);
    quern_task_info_free(info);
    assert_int_equal(quern_client_find(client, "other", "one", &info, &err), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_client_find(client, NULL, "both", &info, &err), QUERN_E_STATE);
    assert_int_equal(quern_client_find(client, NULL, NULL, &info, &err), QUERN_E_INVALID);
    assert_int_equal(quern_client_find(client, NULL, "one", NULL, &err), QUERN_E_INVALID);
    assert_int_equal(quern_client_find(NULL, NULL, "one", &info, &err), QUERN_E_INVALID);
    quern_client_free(client);
}

static void wait_returns_a_task_that_is_over(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "done", .retention_ms = MINUTE_MS});
    contract_finish(c, contract_take_id(c, "default", "done"), QN_DONE);
    contract_finish(c, contract_start(c, "failed"), QN_ARCHIVE);
    quern_client *client = open_client(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_client_wait(client, "done", 0, &info, &err), err);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_COMPLETED);
    quern_task_info_free(info);
    assert_ok(quern_client_wait(client, "failed", QUERN_TIMEOUT_NEVER, &info, &err), err);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_ARCHIVED);
    quern_task_info_free(info);
    quern_client_free(client);
}

static void wait_ends_with_its_time(struct contract *c)
{
    contract_put(c, "default", "a");
    quern_client *client = open_client(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_int_equal(quern_client_wait(client, "a", 0, &info, &err), QUERN_E_TIMEOUT);
    assert_int_equal(quern_client_wait(client, "a", 20, &info, &err), QUERN_E_TIMEOUT);
    assert_int_equal(quern_client_wait(client, "none", 20, &info, &err), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_client_wait(client, "a", -2, &info, &err), QUERN_E_INVALID);
    assert_int_equal(quern_client_wait(client, NULL, 0, &info, &err), QUERN_E_INVALID);
    assert_int_equal(quern_client_wait(client, "a", 0, NULL, &err), QUERN_E_INVALID);
    assert_null(info);
    quern_client_free(client);
}

static void wait_sees_the_end_that_comes_meanwhile(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "kept", .retention_ms = MINUTE_MS});
    struct qn_leased *run = contract_take_id(c, "default", "kept");
    quern_client *client = open_client(c);
    struct test_waiter waiter;
    test_waiter_start(&waiter, client, "kept");
    contract_finish(c, run, QN_DONE);
    test_waiter_assert(&waiter, QUERN_TASK_COMPLETED);
    quern_client_free(client);
}

static void refusal_shows_the_task_that_is_there(struct contract *c)
{
    quern_client *client = open_client(c);
    const quern_task first = {.type = "a", .id = "first", .queue = "q", .unique_ms = MINUTE_MS};
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_client_enqueue(client, &first, NULL, &err), err);

    quern_task second = first;
    second.id = NULL;
    assert_int_equal(quern_client_enqueue(client, &second, &info, &err), QUERN_E_DUPLICATE);
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(info), "first");
    assert_string_equal(quern_task_info_queue(info), "q");
    assert_non_null(strstr(err.text, "first"));
    quern_task_info_free(info);

    info = NULL;
    second = (quern_task){.type = "b", .id = "first", .queue = "q"};
    assert_int_equal(quern_client_enqueue(client, &second, &info, &err), QUERN_E_CONFLICT);
    assert_non_null(info);
    assert_string_equal(quern_task_info_type(info), "a");
    quern_task_info_free(info);

    info = NULL;
    second.type = NULL; /* another refusal has nothing to show */
    assert_int_equal(quern_client_enqueue(client, &second, &info, &err), QUERN_E_INVALID);
    assert_null(info);
    quern_client_free(client);
}

static void task_that_is_left_out_shows_the_one_that_is_there(struct contract *c)
{
    quern_client *client = open_client(c);
    quern_task task = {.type = "a", .id = "first", .unique_ms = MINUTE_MS, .unique_key = "k"};
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_client_enqueue(client, &task, &info, &err), err);
    quern_task_info_free(info);
    task.id = NULL;
    task.type = "b";
    task.on_duplicate = QUERN_ON_DUPLICATE_IGNORE;
    assert_ok(quern_client_enqueue(client, &task, &info, &err), err);
    assert_string_equal(quern_task_info_id(info), "first");
    assert_string_equal(quern_task_info_type(info), "a");
    quern_task_info_free(info);

    task.on_duplicate = QUERN_ON_DUPLICATE_REPLACE;
    assert_ok(quern_client_enqueue(client, &task, &info, &err), err);
    assert_string_equal(quern_task_info_id(info), "first");
    assert_string_equal(quern_task_info_type(info), "b");
    quern_task_info_free(info);

    /* The holder is gone, and its lock is not: it is named all the same. */
    task = (quern_task){.type = "c", .id = "second", .unique_ms = MINUTE_MS};
    task.unique_until = QUERN_UNIQUE_UNTIL_EXPIRED;
    task.on_duplicate = QUERN_ON_DUPLICATE_IGNORE;
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "second", &err), err);
    task.id = NULL;
    assert_ok(quern_client_enqueue(client, &task, &info, &err), err);
    assert_string_equal(quern_task_info_id(info), "second");
    quern_task_info_free(info);
    quern_client_free(client);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(client_finds_a_task_in_its_queue_or_in_all),
    CONTRACT_TEST(wait_returns_a_task_that_is_over),
    CONTRACT_TEST(wait_ends_with_its_time),
    CONTRACT_TEST(wait_sees_the_end_that_comes_meanwhile),
    CONTRACT_TEST(refusal_shows_the_task_that_is_there),
    CONTRACT_TEST(task_that_is_left_out_shows_the_one_that_is_there),
};
CONTRACT_MAIN(tests)
