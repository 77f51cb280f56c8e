/* SPDX-License-Identifier: MIT */
/* test_combine.c - concurrent callers of one client: transactions are shared, errors are
 * not, and a lost reply is resolved. */
#include "lib_client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"

/* --- Many threads ------------------------------------------------------------------------ */

#define THREADS 8
#define TASKS_EACH 500

static _Atomic size_t callers_left; /* threads that have not ended */

struct caller {
    quern_client *client;
    size_t number;
    size_t stored;
    pthread_t thread;
};

static void *enqueue_many(void *argument)
{
    struct caller *caller = argument;
    for (size_t i = 0; i < TASKS_EACH; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%zu-%zu", caller->number, i);
        const quern_task task = {.type = "t", .id = id};
        if (quern_client_enqueue(caller->client, &task, NULL, NULL) == QUERN_OK) {
            caller->stored++;
        }
    }
    atomic_fetch_sub(&callers_left, 1);
    return NULL;
}

static size_t count_waiting(quern_client *client)
{
    size_t count = 0;
    pthread_mutex_lock(&client->mutex);
    for (struct qn_list *node = client->waiting.next; node != &client->waiting; node = node->next) {
        count++;
    }
    pthread_mutex_unlock(&client->mutex);
    return count;
}

static struct client_test *held_test;
static size_t stored_now; /* requests in the present transaction */

static bool all_others_wait(void *user)
{
    return count_waiting(user) + stored_now >= atomic_load(&callers_left);
}

/* As a slow disk: meanwhile all the others arrive. */
static quern_status hold_until_all_wait(size_t turn, const struct qn_enqueue *enqueue,
                                        quern_error *err)
{
    (void)turn;
    stored_now = enqueue->count;
    TEST_REQUIRE(test_until(all_others_wait, held_test->client));
    return client_pass_on(enqueue, err);
}

static void eight_threads_lose_and_double_nothing(void **state)
{
    struct client_test *t = *state;
    struct caller callers[THREADS];
    held_test = t;
    atomic_store(&callers_left, THREADS);
    client_hook(t, hold_until_all_wait);
    for (size_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.client = t->client, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, enqueue_many, &callers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].stored, TASKS_EACH);
    }
    /* The ids differ, so as many as were stored is each of them once. */
    assert_int_equal(client_stored(t), THREADS * TASKS_EACH);
    assert_true(client_turns() < (size_t)THREADS * TASKS_EACH / 2);
}

/* --- One transaction for all that wait ------------------------------------------------------ */

#define WAITERS 7
static size_t held_for; /* the first turn waits until this many requests are in the list */

static bool enough_wait(void *user)
{
    return count_waiting(user) >= held_for;
}

static quern_status hold_first(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn == 0) {
        TEST_REQUIRE(test_until(enough_wait, held_test->client));
    }
    return client_pass_on(enqueue, err);
}

/* One call on its own thread. */
struct call {
    quern_client *client;
    quern_task task;
    quern_task_info *info;
    quern_status status;
    quern_error error;
    pthread_t thread;
};

static void *make_call(void *argument)
{
    struct call *call = argument;
    call->status = quern_client_enqueue(call->client, &call->task, &call->info, &call->error);
    return NULL;
}

static bool one_turn(void *user)
{
    (void)user;
    return client_turns() == 1;
}

/* Calls from WAITERS + 1 threads, all but calls[0] while that is being stored. */
static void call_together(struct client_test *t, struct call *calls, client_trick trick)
{
    held_test = t;
    held_for = WAITERS;
    client_hook(t, trick);
    for (size_t i = 0; i < WAITERS + 1; i++) {
        calls[i].client = t->client;
        assert_int_equal(pthread_create(&calls[i].thread, NULL, make_call, &calls[i]), 0);
        assert_true(i > 0 || test_until(one_turn, NULL));
    }
    for (size_t i = 0; i < WAITERS + 1; i++) {
        pthread_join(calls[i].thread, NULL);
    }
}

static void finish_calls(struct call *calls)
{
    for (size_t i = 0; i < WAITERS + 1; i++) {
        quern_task_info_free(calls[i].info);
    }
}

static void callers_that_wait_share_one_transaction(void **state)
{
    struct client_test *t = *state;
    struct call calls[WAITERS + 1] = {0};
    for (size_t i = 0; i < WAITERS + 1; i++) {
        calls[i].task.type = "t";
    }
    call_together(t, calls, hold_first);
    assert_int_equal(client_turns(), 2);
    assert_int_equal(client_count(0), 1);
    assert_int_equal(client_count(1), WAITERS);
    for (size_t i = 0; i < WAITERS + 1; i++) {
        assert_int_equal(calls[i].status, QUERN_OK);
        quern_task_info *info = client_find(t, NULL, quern_task_info_id(calls[i].info));
        assert_non_null(info);
        quern_task_info_free(info);
    }
    assert_int_equal(client_stored(t), WAITERS + 1);
    finish_calls(calls);
}

static void each_caller_sees_only_its_own_error(void **state)
{
    struct client_test *t = *state;
    struct call calls[WAITERS + 1] = {0};
    for (size_t i = 0; i < WAITERS + 1; i++) {
        calls[i].task.type = "t";
        calls[i].task.payload = "x";
        calls[i].task.payload_size = 1;
    }
    const quern_task taken = {.type = "t", .id = "taken"};
    assert_int_equal(quern_client_enqueue(t->client, &taken, NULL, NULL), QUERN_OK);
    calls[0].task.id = "free";
    calls[0].task.delay_ms = 5;
    calls[1].task.type = "";
    calls[2].task.id = "taken";
    calls[3].task.delay_ms = -1;
    call_together(t, calls, hold_first);
    for (size_t i = 0; i < WAITERS + 1; i++) {
        quern_status wanted = i == 2             ? QUERN_E_CONFLICT
                              : i == 1 || i == 3 ? QUERN_E_INVALID
                                                 : QUERN_OK;
        assert_int_equal(calls[i].status, wanted);
        assert_int_equal(calls[i].info != NULL, wanted != QUERN_E_INVALID);
    }
    assert_non_null(strstr(calls[1].error.text, "type"));
    assert_non_null(strstr(calls[2].error.text, "taken"));
    assert_string_equal(quern_task_info_id(calls[2].info), "taken"); /* the one that is there */
    assert_non_null(strstr(calls[3].error.text, "delay_ms"));
    assert_int_equal(client_stored(t), 1 + WAITERS + 1 - 3);
    finish_calls(calls);
}

static quern_status hold_then_refuse_big_ones(size_t turn, const struct qn_enqueue *enqueue,
                                              quern_error *err)
{
    if (turn == 0) {
        return hold_first(turn, enqueue, err);
    }
    for (size_t i = 0; i < enqueue->count; i++) {
        if (enqueue->tasks[i].payload_size == 3) {
            return qn_error_set(err, QUERN_E_FULL, "no room for big ones");
        }
    }
    return client_pass_on(enqueue, err);
}

static void a_task_that_the_broker_cannot_take_fails_alone(void **state)
{
    struct client_test *t = *state;
    struct call calls[WAITERS + 1] = {0};
    for (size_t i = 0; i < WAITERS + 1; i++) {
        calls[i].task.type = "t";
    }
    calls[4].task.payload = "big";
    calls[4].task.payload_size = 3;
    call_together(t, calls, hold_then_refuse_big_ones);
    for (size_t i = 0; i < WAITERS + 1; i++) {
        if (i == 4) {
            assert_int_equal(calls[i].status, QUERN_E_FULL);
            assert_non_null(strstr(calls[i].error.text, "no room"));
            continue;
        }
        assert_int_equal(calls[i].status, QUERN_OK);
        quern_task_info *info = client_find(t, NULL, quern_task_info_id(calls[i].info));
        assert_non_null(info);
        quern_task_info_free(info);
    }
    finish_calls(calls);
}

static quern_status hold_then_refuse_all(size_t turn, const struct qn_enqueue *enqueue,
                                         quern_error *err)
{
    if (turn == 0) {
        return hold_first(turn, enqueue, err);
    }
    return qn_error_set(err, QUERN_E_CONNECT, "the broker is gone");
}

static void when_the_broker_fails_every_caller_gets_the_error(void **state)
{
    struct client_test *t = *state;
    struct call calls[WAITERS + 1] = {0};
    for (size_t i = 0; i < WAITERS + 1; i++) {
        calls[i].task.type = "t";
    }
    call_together(t, calls, hold_then_refuse_all);
    assert_int_equal(calls[0].status, QUERN_OK);
    for (size_t i = 1; i < WAITERS + 1; i++) {
        assert_int_equal(calls[i].status, QUERN_E_CONNECT);
        assert_non_null(strstr(calls[i].error.text, "the broker is gone"));
    }
    assert_int_equal(client_turns(), 2);
    finish_calls(calls);
}

/* --- Lost replies ------------------------------------------------------------------------------
 */

static quern_status lose_two_replies(size_t turn, const struct qn_enqueue *enqueue,
                                     quern_error *err)
{
    quern_status status = client_pass_on(enqueue, err);
    if (turn < 2) {
        for (size_t i = 0; i < enqueue->count; i++) {
            enqueue->results[i] = QUERN_E_CORRUPT; /* whatever was there must not be believed */
        }
        return qn_error_set(err, QUERN_E_UNKNOWN, "reply lost");
    }
    return status;
}

static void a_lost_reply_is_resolved_with_the_same_stamp(void **state)
{
    struct client_test *t = *state;
    client_hook(t, lose_two_replies);
    const quern_task task = {.type = "t", .id = "mine", .unique_ms = 60000};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_turns(), 3);
    assert_int_equal(client_stamp(1).session, client_stamp(0).session);
    assert_int_equal(client_stamp(1).sequence, client_stamp(0).sequence);
    assert_int_equal(client_stamp(2).sequence, client_stamp(0).sequence);
    assert_int_equal(client_stored(t), 1);

    client_hook(t, NULL);
    const quern_task next = {.type = "t", .id = "next"};
    assert_ok(quern_client_enqueue(t->client, &next, NULL, &err), err);
    assert_true(client_stamp(0).session != 0);
    assert_true(client_stamp(0).sequence > 1);
}

static quern_status lose_before(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn == 0) {
        return qn_error_set(err, QUERN_E_UNKNOWN, "request lost");
    }
    return client_pass_on(enqueue, err);
}

static void a_lost_request_is_sent_again(void **state)
{
    struct client_test *t = *state;
    client_hook(t, lose_before);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_turns(), 2);
    assert_int_equal(client_stored(t), 1);
}

static quern_status busy_at_first(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    if (turn < 3) {
        return qn_error_set(err, QUERN_E_BUSY, "locked");
    }
    return client_pass_on(enqueue, err);
}

static void a_locked_file_is_tried_again(void **state)
{
    struct client_test *t = *state;
    client_hook(t, busy_at_first);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_turns(), 4);
    assert_int_equal(client_stored(t), 1);
}

static quern_status away_at_first(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    static const quern_status ways[] = {QUERN_E_CONNECT, QUERN_E_TIMEOUT, QUERN_E_BUSY};
    if (turn < TEST_COUNT(ways)) {
        return qn_error_set(err, ways[turn], "away");
    }
    return client_pass_on(enqueue, err);
}

static void a_server_that_is_away_is_tried_again(void **state)
{
    struct client_test *t = *state;
    client_hook_remote(t, away_at_first);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    assert_int_equal(client_turns(), 4);
    assert_int_equal(client_stored(t), 1);
}

static void a_file_that_is_away_stays_away(void **state)
{
    struct client_test *t = *state;
    client_hook(t, away_at_first);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_CONNECT);
    assert_int_equal(client_turns(), 1);
}

static quern_status full(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    (void)enqueue;
    (void)turn;
    return qn_error_set(err, QUERN_E_FULL, "no memory left");
}

static void a_full_server_is_not_tried_again(void **state)
{
    struct client_test *t = *state;
    client_hook_remote(t, full);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_FULL);
    assert_int_equal(client_turns(), 1);
}

static quern_status never_answer(size_t turn, const struct qn_enqueue *enqueue, quern_error *err)
{
    (void)enqueue;
    /* Doubt, once there, is not removed by a later definite failure. */
    return turn == 0 ? qn_error_set(err, QUERN_E_UNKNOWN, "reply lost")
                     : qn_error_set(err, QUERN_E_BUSY, "locked");
}

static void what_cannot_be_resolved_in_time_is_reported_with_the_id(void **state)
{
    struct client_test *t = *state;
    client_reopen(t, &(quern_client_options){.command_timeout_ms = 30});
    client_hook(t, never_answer);
    const quern_task task = {.type = "t", .id = "letter 9"};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_UNKNOWN);
    assert_int_equal(err.code, QUERN_E_UNKNOWN);
    assert_non_null(strstr(err.text, "letter 9"));
    assert_true(client_turns() >= 2);
}

/* --- Waiting has an end -------------------------------------------------------------------------
 */

static _Atomic int release_first;

static bool released(void *user)
{
    (void)user;
    return atomic_load(&release_first) != 0;
}

static quern_status hold_until_released(size_t turn, const struct qn_enqueue *enqueue,
                                        quern_error *err)
{
    if (turn == 0) {
        TEST_REQUIRE(test_until(released, NULL));
    }
    return client_pass_on(enqueue, err);
}

static void a_caller_behind_a_slow_one_gives_up_in_time(void **state)
{
    struct client_test *t = *state;
    client_reopen(t, &(quern_client_options){.command_timeout_ms = 20});
    atomic_store(&release_first, 0);
    client_hook(t, hold_until_released);
    struct call slow = {.client = t->client, .task = {.type = "t", .id = "slow"}};
    assert_int_equal(pthread_create(&slow.thread, NULL, make_call, &slow), 0);
    assert_true(test_until(one_turn, NULL));

    const quern_task task = {.type = "t", .id = "behind"};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue(t->client, &task, NULL, &err), QUERN_E_TIMEOUT);
    atomic_store(&release_first, 1);
    pthread_join(slow.thread, NULL);
    assert_int_equal(slow.status, QUERN_OK);
    quern_task_info_free(slow.info);
    assert_null(client_find(t, NULL, "behind"));
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(eight_threads_lose_and_double_nothing),
    CLIENT_TEST(callers_that_wait_share_one_transaction),
    CLIENT_TEST(each_caller_sees_only_its_own_error),
    CLIENT_TEST(a_task_that_the_broker_cannot_take_fails_alone),
    CLIENT_TEST(when_the_broker_fails_every_caller_gets_the_error),
    CLIENT_TEST(a_lost_reply_is_resolved_with_the_same_stamp),
    CLIENT_TEST(a_lost_request_is_sent_again),
    CLIENT_TEST(a_locked_file_is_tried_again),
    CLIENT_TEST(a_server_that_is_away_is_tried_again),
    CLIENT_TEST(a_file_that_is_away_stays_away),
    CLIENT_TEST(a_full_server_is_not_tried_again),
    CLIENT_TEST(what_cannot_be_resolved_in_time_is_reported_with_the_id),
    CLIENT_TEST(a_caller_behind_a_slow_one_gives_up_in_time),
};
TEST_MAIN(tests)
