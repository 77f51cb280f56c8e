/* SPDX-License-Identifier: MIT */
/* test_forward.c - delayed tasks: never early, exact to the millisecond, in the order in which they
 * are due, and forward returns when to call it again. */
#include "lib_contract.h"

#include <pthread.h>
#include <sched.h>

static void put_due(struct contract *c, const char *queue, const char *id, int64_t delay_ms)
{
    contract_enqueue(c, &(quern_task){.type = "t", .queue = queue, .id = id, .delay_ms = delay_ms});
}

static void delayed_task_is_never_early(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    put_due(c, "default", "a", 1500);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 1500);
    contract_advance(c, 1499);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 1);
    assert_true(next_due_at_ms == INT64_MAX);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void delayed_task_is_not_leased_before_it_is_forwarded(struct contract *c)
{
    put_due(c, "default", "a", 1000);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 999);
    assert_null(contract_take(c, "default"));
}

static void due_tasks_come_in_the_order_they_are_due(struct contract *c)
{
    put_due(c, "default", "third", 3000);
    put_due(c, "default", "first", 1000);
    put_due(c, "default", "second", 2000);
    contract_advance(c, 5000);
    assert_int_equal(contract_forward(c, "default", NULL), 3);
    contract_finish(c, contract_take_id(c, "default", "first"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "second"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "third"), QN_DONE);
}

static void retry_and_scheduled_are_forwarded_alike(struct contract *c)
{
    contract_finish(c, contract_start(c, "failed"), QN_RETRY); /* due in 60 000 */
    contract_finish(c, contract_start(c, "snoozed"), QN_SNOOZE);
    put_due(c, "default", "before", 59999);
    put_due(c, "default", "after", 60001);
    contract_advance(c, 59999);
    int64_t next_due_at_ms = 0;
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 1);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 60000);
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 2);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 60001);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 3);
    contract_finish(c, contract_take_id(c, "default", "before"), QN_DONE);
}

static void due_task_goes_to_the_tail(struct contract *c)
{
    put_due(c, "default", "due", 1000);
    contract_put(c, "default", "early bird");
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    contract_put(c, "default", "late");
    contract_finish(c, contract_take_id(c, "default", "early bird"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "due"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "late"), QN_DONE);
}

static void run_knows_when_its_task_became_due(struct contract *c)
{
    put_due(c, "default", "a", 1000);
    contract_advance(c, 1700);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.process_at_ms, CONTRACT_NOW_MS + 1000);
    assert_int_equal(run->cause, QUERN_CAUSE_NONE);
    contract_finish(c, run, QN_DONE);
}

static void forwarding_is_bounded_by_its_limit(struct contract *c)
{
    const char *queue = "default";
    char id[16];
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "a%d", i);
        put_due(c, queue, id, 1000 + i);
    }
    contract_advance(c, 5000);
    assert_ok(qn_broker_forward(c->broker, (struct qn_upkeep){{&queue, 1}, 4}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 4);
    assert_int_equal(contract_count(c, queue, QUERN_TASK_PENDING), 4);
    /* The remaining tasks are due already, so the next call must not be later. */
    assert_true(next_due_at_ms <= qn_clock_wall_ms(&c->clock));
    assert_int_equal(contract_forward(c, queue, NULL), 6);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "a%d", i);
        contract_finish(c, contract_take_id(c, queue, id), QN_DONE);
    }
}

static void forwarding_touches_only_the_queues_it_is_given(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    put_due(c, "default", "a", 9000);
    put_due(c, "other", "b", 1000);
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 9000);
    assert_int_equal(contract_state(c, "other", "b"), QUERN_TASK_SCHEDULED);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
}

static void several_queues_are_forwarded_in_one_call(struct contract *c)
{
    const char *queues[] = {"default", "other"};
    size_t moved = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    put_due(c, "default", "a", 1000);
    put_due(c, "other", "b", 1000);
    put_due(c, "other", "c", 7000);
    put_due(c, "default", "d", 8000);
    contract_advance(c, 1000);
    assert_ok(qn_broker_forward(c->broker, (struct qn_upkeep){{queues, 2}, 100}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 2);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 7000);
}

static void paused_queue_is_forwarded_but_not_leased(struct contract *c)
{
    quern_error err = {0};
    put_due(c, "default", "a", 1000);
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_null(contract_take(c, "default"));
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

static void aggregating_task_is_not_forwarded(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .group = "g"});
    contract_advance(c, 1000000);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_AGGREGATING);
}

/* Every worker calls this each second. */
static void keep_up(struct contract *c)
{
    (void)contract_recover(c, "default");
}

enum { HOUR_MS = 3600000 };
static _Atomic bool set_enough;
static _Atomic int set_count;

static void delay_stored_while_the_wall_clock_was_ahead_is_not_longer(struct contract *c)
{
    struct qn_leased *failed = contract_start(c, "failed");
    struct qn_leased *snoozed = contract_start(c, "snoozed");
    contract_jump(c, HOUR_MS);
    contract_finish(c, failed, QN_RETRY); /* due in 60 000 */
    contract_finish(c, snoozed, QN_SNOOZE);
    put_due(c, "default", "delayed", 60000);
    contract_jump(c, -HOUR_MS);
    contract_advance(c, 59000);
    keep_up(c);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    contract_advance(c, 1000);
    int64_t next_due_at_ms = 0;
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 3);
    assert_true(next_due_at_ms == INT64_MAX);
}

static void delay_is_not_shorter_when_the_wall_clock_is_set(struct contract *c)
{
    contract_finish(c, contract_start(c, "failed"), QN_RETRY);
    put_due(c, "default", "delayed", 60000);
    contract_jump(c, HOUR_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    contract_jump(c, -2 * HOUR_MS);
    contract_advance(c, 59999);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", NULL), 2);
}

/* The other worker, which looked at the clock before, need not look again so soon. */
static void delay_is_not_shorter_because_another_worker_saw_the_clock_behind(struct contract *c)
{
    struct qn_broker *other = contract_open(c);
    const char *queue = "default";
    int64_t next_due_at_ms = 0;
    size_t moved = 0;
    quern_error err = {0};
    contract_finish(c, contract_start(c, "failed"), QN_RETRY); /* due in 60 000 */
    put_due(c, queue, "delayed", 60000);
    assert_ok(qn_broker_forward(other, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                &next_due_at_ms, &err),
              err);
    contract_jump(c, -HOUR_MS);
    keep_up(c);
    contract_jump(c, HOUR_MS);
    for (int i = 0; i < 3; i++) {
        contract_advance(c, 19000);
        assert_ok(qn_broker_forward(other, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                    &next_due_at_ms, &err),
                  err);
        assert_int_equal(moved, 0);
    }
    contract_advance(c, 3000);
    assert_ok(qn_broker_forward(other, (struct qn_upkeep){{&queue, 1}, 100}, &moved,
                                &next_due_at_ms, &err),
              err);
    assert_int_equal(moved, 2);
    qn_broker_close(other);
}

static void *set_clock(void *argument)
{
    struct contract *c = argument;
    while (!atomic_load(&set_enough)) {
        contract_jump(c, -HOUR_MS);
        contract_jump(c, HOUR_MS);
        atomic_fetch_add(&set_count, 1);
    }
    return NULL;
}

static void delays_are_right_however_often_the_clock_is_set_meanwhile(struct contract *c)
{
    enum { COUNT = 100 };
    pthread_t thread;
    char id[16];
    size_t moved = 0;
    atomic_store(&set_enough, false);
    assert_int_equal(pthread_create(&thread, NULL, set_clock, c), 0);
    for (int i = 0; i < COUNT; i++) {
        int before = atomic_load(&set_count);
        while (atomic_load(&set_count) == before) {
            (void)sched_yield();
        }
        (void)snprintf(id, sizeof id, "f%d", i);
        contract_finish(c, contract_start(c, id), QN_RETRY);
        (void)snprintf(id, sizeof id, "d%d", i);
        put_due(c, "default", id, 60000);
    }
    atomic_store(&set_enough, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    contract_advance(c, 59000);
    for (int i = 0; i < 4; i++) {
        keep_up(c);
        assert_int_equal(contract_forward(c, "default", NULL), 0);
    }
    contract_advance(c, 2000);
    for (int i = 0; i < 10; i++) {
        moved += contract_forward(c, "default", NULL);
    }
    assert_int_equal(moved, 2 * COUNT);
}

static void sleepers_are_notified_that_a_delay_ends_earlier(struct contract *c)
{
    const char *queue = "default";
    int64_t next_due_at_ms = 0;
    bool work = false;
    quern_error err = {0};
    struct qn_wakeup wakeup = {0};
    contract_jump(c, HOUR_MS);
    put_due(c, queue, "delayed", 60000);
    contract_jump(c, -HOUR_MS);
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &next_due_at_ms, &err),
              err);
    keep_up(c);
    assert_ok(qn_broker_wait(c->broker, 500, &wakeup, &err), err);
    assert_true(wakeup.work);
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &next_due_at_ms, &err),
              err);
    assert_int_equal(next_due_at_ms, qn_clock_wall_ms(&c->clock) + 60000);
}

static void thousands_of_delays_are_put_right_in_steps(struct contract *c)
{
    enum { COUNT = 1200 };
    char id[16];
    contract_jump(c, HOUR_MS);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(id, sizeof id, "a%d", i);
        put_due(c, "default", id, 60000);
    }
    contract_jump(c, -HOUR_MS);
    contract_advance(c, 60000);
    size_t moved = 0;
    for (int i = 0; i < 40 && moved < COUNT; i++) {
        int64_t next_due_at_ms = 0;
        moved += contract_forward(c, "default", &next_due_at_ms);
        assert_true(moved == COUNT || next_due_at_ms <= qn_clock_wall_ms(&c->clock));
    }
    assert_int_equal(moved, COUNT);
}

static void moment_of_the_day_follows_the_wall_clock(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .process_at_ms = CONTRACT_NOW_MS + HOUR_MS});
    contract_jump(c, HOUR_MS - 1);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    contract_jump(c, 1);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(delayed_task_is_never_early),
    CONTRACT_TEST(delayed_task_is_not_leased_before_it_is_forwarded),
    CONTRACT_TEST(due_tasks_come_in_the_order_they_are_due),
    CONTRACT_TEST(retry_and_scheduled_are_forwarded_alike),
    CONTRACT_TEST(due_task_goes_to_the_tail),
    CONTRACT_TEST(run_knows_when_its_task_became_due),
    CONTRACT_TEST(forwarding_is_bounded_by_its_limit),
    CONTRACT_TEST(forwarding_touches_only_the_queues_it_is_given),
    CONTRACT_TEST(several_queues_are_forwarded_in_one_call),
    CONTRACT_TEST(paused_queue_is_forwarded_but_not_leased),
    CONTRACT_TEST(aggregating_task_is_not_forwarded),
    CONTRACT_TEST_ONLY("sqlite", delay_stored_while_the_wall_clock_was_ahead_is_not_longer),
    CONTRACT_TEST_ONLY("sqlite", delay_is_not_shorter_when_the_wall_clock_is_set),
    CONTRACT_TEST_ONLY("sqlite", delay_is_not_shorter_because_another_worker_saw_the_clock_behind),
    CONTRACT_TEST_ONLY("sqlite", delays_are_right_however_often_the_clock_is_set_meanwhile),
    CONTRACT_TEST_ONLY("sqlite", sleepers_are_notified_that_a_delay_ends_earlier),
    CONTRACT_TEST_ONLY("sqlite", thousands_of_delays_are_put_right_in_steps),
    CONTRACT_TEST_ONLY("sqlite", moment_of_the_day_follows_the_wall_clock),
};
CONTRACT_MAIN(tests)
