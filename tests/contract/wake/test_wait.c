/* SPDX-License-Identifier: MIT */
/* test_wait.c - sleeping until there is work: the events that wake a worker, the reply before it
 * sleeps, and other ends of its sleep.
 *
 * A test arms, triggers an event, and only then waits: the wake-up must be there already, so the
 * wait may be shorter than the safety net and proves that it was a wake-up that ended it. */
#include "lib_contract.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

static const char *const queues[] = {"default", "other"};

/* Arms; there must be no work yet. Returns when a delayed task becomes due. */
static int64_t arm_idle(struct contract *c)
{
    bool work = true;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){queues, 2}, &work, &next_due_at_ms, &err),
              err);
    assert_false(work);
    return next_due_at_ms;
}

static bool work_now(struct contract *c)
{
    bool work = false;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){queues, 2}, &work, &next_due_at_ms, &err),
              err);
    return work;
}

static struct qn_wakeup wait_ms(struct contract *c, int64_t timeout_ms)
{
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_wait(c->broker, timeout_ms, &wakeup, &err), err);
    return wakeup;
}

static void assert_woken(struct contract *c)
{
    assert_true(wait_ms(c, BRIEFLY_MS).work);
}

/* Swallows wake-ups that earlier steps of a test have left behind. */
static void settle(struct contract *c)
{
    for (int i = 0; i < 100; i++) {
        struct qn_wakeup wakeup = wait_ms(c, 1);
        if (!wakeup.work && wakeup.cancel == QN_CANCEL_NONE) {
            return;
        }
    }
    fail_msg("the wake-ups do not end");
}

static void pause_queue(struct contract *c, bool pause)
{
    quern_error err = {0};
    assert_ok(qn_broker_pause(c->broker, "default", pause, &err), err);
}

static void nothing_happens_when_nothing_happens(struct contract *c)
{
    assert_true(arm_idle(c) == INT64_MAX);
    settle(c);
    struct qn_wakeup wakeup = wait_ms(c, 20);
    assert_false(wakeup.work);
    assert_int_equal(wakeup.cancel, QN_CANCEL_NONE);
}

static void pending_task_is_work_at_once(struct contract *c)
{
    contract_put(c, "other", "a");
    assert_true(work_now(c));
}

static void enqueue_wakes(struct contract *c)
{
    (void)arm_idle(c);
    contract_put(c, "default", "a");
    assert_woken(c);
    assert_true(work_now(c));
}

static void enqueue_through_another_connection_wakes(struct contract *c)
{
    struct qn_broker *mine = c->broker;
    (void)arm_idle(c);
    c->broker = contract_open(c);
    contract_put(c, "other", "a");
    qn_broker_close(c->broker);
    c->broker = mine;
    assert_woken(c);
}

static void work_of_foreign_queues_is_not_ours(struct contract *c)
{
    contract_put(c, "foreign", "a");
    assert_false(work_now(c));
}

static void backlog_of_a_paused_queue_is_no_work(struct contract *c)
{
    contract_put(c, "default", "a");
    pause_queue(c, true);
    assert_false(work_now(c));
}

static void resuming_a_queue_with_backlog_wakes(struct contract *c)
{
    contract_put(c, "default", "a");
    pause_queue(c, true);
    (void)arm_idle(c);
    settle(c);
    (void)arm_idle(c);
    pause_queue(c, false);
    assert_woken(c);
    assert_true(work_now(c));
}

static void arm_returns_when_the_next_task_is_due(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = 7000});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .queue = "other", .delay_ms = 5000});
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "c", .queue = "foreign", .delay_ms = 3000});
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 5000);
    contract_finish(c, contract_start(c, "d"), QN_RETRY);
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 5000);
}

static void earlier_delayed_task_wakes(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "later", .delay_ms = 60000});
    settle(c);
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 60000);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "earlier", .delay_ms = 5000});
    assert_woken(c);
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 5000);
}

static void first_delayed_task_wakes(struct contract *c)
{
    assert_true(arm_idle(c) == INT64_MAX);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = 5000});
    assert_woken(c);
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 5000);
}

static void retry_of_another_worker_wakes_as_a_delayed_task(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    settle(c);
    assert_true(arm_idle(c) == INT64_MAX);
    contract_finish(c, run, QN_RETRY);
    assert_woken(c);
    assert_int_equal(arm_idle(c), CONTRACT_NOW_MS + 60000);
}

static void given_back_task_wakes(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    settle(c);
    (void)arm_idle(c);
    contract_finish(c, run, QN_GIVE_BACK);
    assert_woken(c);
}

static void recovered_task_wakes(struct contract *c)
{
    qn_leased_free(contract_start(c, "a"));
    settle(c);
    (void)arm_idle(c);
    contract_expire(c, "default");
    assert_woken(c);
}

static void forwarded_task_wakes(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = 5000});
    settle(c);
    (void)arm_idle(c);
    contract_advance(c, 5000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_woken(c);
}

static void task_run_by_hand_wakes(struct contract *c)
{
    quern_error err = {0};
    contract_finish(c, contract_start(c, "a"), QN_ARCHIVE);
    settle(c);
    (void)arm_idle(c);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    assert_woken(c);
}

static void cancellation_names_its_run(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    settle(c);
    (void)arm_idle(c);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_CANCEL_ARCHIVE, NULL, "a", &err), err);
    struct qn_wakeup wakeup = wait_ms(c, BRIEFLY_MS);
    for (int i = 0; i < 10 && wakeup.cancel == QN_CANCEL_NONE; i++) {
        wakeup = wait_ms(c, BRIEFLY_MS);
    }
    assert_int_equal(wakeup.cancel, QN_CANCEL_ARCHIVE);
    assert_string_equal(wakeup.queue, "default");
    assert_string_equal(wakeup.id, "a");
    contract_finish(c, run, QN_CANCEL);
}

/* Go makes queues with names that are longer than ours. */
static void cancellation_names_its_run_in_a_queue_with_a_long_name(struct contract *c)
{
    char queue[QN_SERVED_NAME_SIZE_MAX + 1];
    const char *const served[] = {queue};
    struct qn_arena arena = {0};
    struct qn_task task = {0};
    quern_error err = {0};
    quern_status result = QUERN_OK;
    memset(queue, 'q', sizeof queue - 1);
    queue[sizeof queue - 1] = '\0';
    const struct qn_task_terms terms = contract_terms(c);
    assert_ok(qn_task_prepare(&(quern_task){.type = "t", .id = "a"}, &terms, &arena, &task, &err),
              err);
    task.queue = queue;
    assert_ok(qn_broker_enqueue(c->broker,
                                &(struct qn_enqueue){(struct qn_stamp){71, 1}, &task, 1, &result},
                                &err),
              err);
    qn_arena_finish(&arena);
    bool work = false;
    int64_t next_due_at_ms = 0;
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){served, 1}, &work, &next_due_at_ms, &err),
              err);
    struct qn_leased *run = contract_take_id(c, queue, "a");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_CANCEL_RETRY, queue, "a", &err), err);
    struct qn_wakeup wakeup = wait_ms(c, BRIEFLY_MS);
    for (int i = 0; i < 10 && wakeup.cancel == QN_CANCEL_NONE; i++) {
        wakeup = wait_ms(c, BRIEFLY_MS);
    }
    assert_int_equal(wakeup.cancel, QN_CANCEL_RETRY);
    assert_string_equal(wakeup.queue, queue);
    contract_finish(c, run, QN_DONE);
}

static void wake_wakes(struct contract *c)
{
    struct qn_broker *other = contract_open(c);
    (void)arm_idle(c);
    settle(c);
    (void)arm_idle(c);
    qn_broker_wake(other);
    assert_woken(c);
    qn_broker_close(other);
}

static void *interrupt_later(void *argument)
{
    struct contract *c = argument;
    test_pause_ms(20);
    qn_broker_interrupt(c->broker);
    return NULL;
}

static void interrupt_ends_a_wait(struct contract *c)
{
    pthread_t thread;
    (void)arm_idle(c);
    settle(c);
    int64_t start_ms = test_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, interrupt_later, c), 0);
    (void)wait_ms(c, TEST_PATIENCE_MS);
    assert_true(test_now_ms() - start_ms < TEST_PATIENCE_MS);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void interrupt_before_the_wait_is_not_lost(struct contract *c)
{
    (void)arm_idle(c);
    settle(c);
    int64_t start_ms = test_now_ms();
    qn_broker_interrupt(c->broker);
    (void)wait_ms(c, TEST_PATIENCE_MS);
    assert_true(test_now_ms() - start_ms < TEST_PATIENCE_MS);
}

/* --- Another process ---------------------------------------------------------------- */

/* argv: URL. Enqueues one task and ends without closing anything, as a script might. */
static int enqueuer(int argc, char **argv)
{
    struct qn_task task = {
        .id = "from afar", .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_E_INVALID;
    TEST_REQUIRE(argc == 1);
    struct qn_broker *broker = contract_open_child(argv[0]);
    TEST_REQUIRE(qn_broker_enqueue(broker,
                                   &(struct qn_enqueue){(struct qn_stamp){0}, &task, 1, &result},
                                   NULL) == QUERN_OK);
    TEST_REQUIRE(result == QUERN_OK);
    qn_broker_close(broker);
    return 0;
}

static void enqueue_by_another_process_wakes(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    (void)arm_idle(c);
    struct test_child child = test_spawn("enqueuer", args);
    assert_int_equal(test_child_join(&child), 0);
    assert_woken(c);
    contract_finish(c, contract_take_id(c, "default", "from afar"), QN_DONE);
}

/* Arms, then stores task "a" in a transaction of the caller, which wakes no worker. A broker
 * without such transactions must say so; false then. */
static bool sleep_through_transaction(struct contract *c)
{
    const struct qn_task task = {
        .id = "a", .queue = "default", .type = "t", .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    (void)arm_idle(c);
    if (c->maker->begin == NULL) {
        assert_int_equal(qn_broker_enqueue_in(
                             c->broker, NULL,
                             &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result},
                             &err),
                         QUERN_E_UNSUPPORTED);
        return false;
    }
    void *tx = c->maker->begin(c);
    assert_ok(qn_broker_enqueue_in(
                  c->broker, tx,
                  &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result}, &err),
              err);
    c->maker->end(tx, true);
    return true;
}

static void transactional_enqueue_is_found_without_a_wake(struct contract *c)
{
    if (!sleep_through_transaction(c)) {
        return;
    }
    /* As a worker waits: never longer than the safety net, then it arms again. */
    bool found = false;
    for (int i = 0; i < 5 && !found; i++) {
        found = wait_ms(c, QN_SAFETY_NET_MS).work || work_now(c);
    }
    assert_true(found);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void transactional_enqueue_and_wake_wakes(struct contract *c)
{
    if (!sleep_through_transaction(c)) {
        return;
    }
    qn_broker_wake(c->broker);
    assert_woken(c);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(nothing_happens_when_nothing_happens),
    CONTRACT_TEST(pending_task_is_work_at_once),
    CONTRACT_TEST(enqueue_wakes),
    CONTRACT_TEST(enqueue_through_another_connection_wakes),
    CONTRACT_TEST(work_of_foreign_queues_is_not_ours),
    CONTRACT_TEST(backlog_of_a_paused_queue_is_no_work),
    CONTRACT_TEST(resuming_a_queue_with_backlog_wakes),
    CONTRACT_TEST(arm_returns_when_the_next_task_is_due),
    CONTRACT_TEST(earlier_delayed_task_wakes),
    CONTRACT_TEST(first_delayed_task_wakes),
    CONTRACT_TEST(retry_of_another_worker_wakes_as_a_delayed_task),
    CONTRACT_TEST(given_back_task_wakes),
    CONTRACT_TEST(recovered_task_wakes),
    CONTRACT_TEST(forwarded_task_wakes),
    CONTRACT_TEST(task_run_by_hand_wakes),
    CONTRACT_TEST(cancellation_names_its_run),
    CONTRACT_TEST_ONLY("redis", cancellation_names_its_run_in_a_queue_with_a_long_name),
    CONTRACT_TEST(wake_wakes),
    CONTRACT_TEST(interrupt_ends_a_wait),
    CONTRACT_TEST(interrupt_before_the_wait_is_not_lost),
    CONTRACT_TEST_SPAWNS(enqueue_by_another_process_wakes),
    CONTRACT_TEST(transactional_enqueue_is_found_without_a_wake),
    CONTRACT_TEST(transactional_enqueue_and_wake_wakes),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "enqueuer", .main = enqueuer}};
    const struct contract_suite suite = {tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return contract_main(argc, argv, &suite);
}
