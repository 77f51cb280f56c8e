/* SPDX-License-Identifier: MIT */
/* test_room.c - what a client finds when it has waited for room in a full queue. */
#include "lib_client.h"

#include <string.h>

#define ROOM_WAIT_MS 60000

/* The queue is full at first; when it has room, an equal task has come before this one. */
static quern_status full_then_taken(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn == 0) {
        enqueue->results[0] = QUERN_E_FULL;
        *enqueue->ret_limited = true;
        return QUERN_OK;
    }
    struct qn_task equal = enqueue->tasks[0];
    quern_status result = QUERN_E_INVALID;
    const char *holder = NULL;
    equal.id = "first";
    const struct qn_enqueue first = {.tasks = &equal,
                                     .count = 1,
                                     .results = &result,
                                     .holders = &holder,
                                     .arena = enqueue->arena};
    assert_ok(client_pass_on(&first, err), *err);
    assert_int_equal(result, QUERN_OK);
    return client_pass_on(enqueue, err);
}

static quern_task unique_task(int32_t on_duplicate)
{
    return (quern_task){
        .type = "t", .id = "second", .unique_ms = 60000, .on_duplicate = on_duplicate};
}

static void task_that_came_meanwhile_stands_for_one_that_is_ignored(void **state)
{
    struct client_test *t = *state;
    const quern_task task = unique_task(QUERN_ON_DUPLICATE_IGNORE);
    quern_task_info *info = NULL;
    quern_error err = {0};
    client_reopen(t, &(quern_client_options){.room_wait_ms = ROOM_WAIT_MS});
    client_hook(t, full_then_taken);
    assert_ok(quern_client_enqueue(t->client, &task, &info, &err), err);
    assert_int_equal(client_turns(), 2);
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(info), "first");
    quern_task_info_free(info);
    assert_int_equal(client_stored(t), 1);
}

static void task_that_came_meanwhile_is_named_by_a_refusal(void **state)
{
    struct client_test *t = *state;
    const quern_task task = unique_task(QUERN_ON_DUPLICATE_FAIL);
    quern_task_info *info = NULL;
    quern_error err = {0};
    client_reopen(t, &(quern_client_options){.room_wait_ms = ROOM_WAIT_MS});
    client_hook(t, full_then_taken);
    assert_int_equal(quern_client_enqueue(t->client, &task, &info, &err), QUERN_E_DUPLICATE);
    assert_non_null(info);
    assert_string_equal(quern_task_info_id(info), "first");
    assert_non_null(strstr(err.text, ": first"));
    quern_task_info_free(info);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(task_that_came_meanwhile_stands_for_one_that_is_ignored),
    CLIENT_TEST(task_that_came_meanwhile_is_named_by_a_refusal),
};
TEST_MAIN(tests)
