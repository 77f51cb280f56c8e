/* SPDX-License-Identifier: MIT */
/* test_recover.c - leases that ended without an outcome: the task comes back with a cause, is
 * charged only for runs that had started, and the dead are told from the living by their process.
 * The worker that dies here is a real process with a record of its own. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "broker/owner.h"

struct recoveries {
    size_t count;
    size_t charged;
    size_t archived;
    quern_cause cause;
};

static void note_recovery(const struct qn_recovery *recovery, void *user)
{
    struct recoveries *all = user;
    all->count++;
    all->charged += recovery->charged ? 1 : 0;
    all->archived += recovery->archived ? 1 : 0;
    all->cause = recovery->cause;
    assert_non_null(recovery->id);
    assert_string_equal(recovery->queue, "default");
}

static struct recoveries recover(struct contract *c, size_t limit)
{
    const char *queue = "default";
    struct recoveries all = {0};
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_recover(c->broker, &queue, 1, limit, note_recovery, &all, &count, &err),
              err);
    assert_int_equal(count, all.count);
    return all;
}

static void expired_lease_returns_task_to_queue(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.charged, 1);
    assert_int_equal(all.archived, 0);
    assert_int_equal(all.cause, QUERN_CAUSE_LEASE_EXPIRED);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 1);
    assert_int_equal(view.retry_count, 0);
    assert_string_equal(view.worker, "");
    contract_assert_counted(c, "default", 0, 0);
    qn_leased_free(run);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_LEASE_EXPIRED);
    assert_int_equal(run->crash_count, 1);
    contract_finish(c, run, QN_DONE);
}

static void unstarted_run_is_recovered_without_charge(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 0; i < 5; i++) {
        struct qn_leased *run = contract_fetch(c, "default");
        assert_non_null(run);
        assert_int_equal(run->crash_count, 0);
        contract_advance(c, CONTRACT_LEASE_MS + 1);
        struct recoveries all = recover(c, 10);
        assert_int_equal(all.count, 1);
        assert_int_equal(all.charged, 0);
        assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
        qn_leased_free(run);
    }
}

static void three_lost_leases_of_started_runs_make_poison(struct contract *c)
{
    qn_leased_free(contract_start(c, "a"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).charged, 1);
    qn_leased_free(contract_take_id(c, "default", "a"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).charged, 1);
    struct contract_view view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, qn_clock_wall_ms(&c->clock) + QN_CHARGED_MORE_MS);
    contract_advance(c, QN_CHARGED_MORE_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    qn_leased_free(contract_take_id(c, "default", "a"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.archived, 1);
    view = contract_see(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.crash_count, 3);
    assert_non_null(strstr(view.error, "poison"));
    contract_assert_counted(c, "default", 1, 1);
}

static void recovered_tasks_return_to_their_old_places(struct contract *c)
{
    struct qn_leased *runs[3];
    contract_put_many(c, "default", "a", 5);
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).count, 3);
    const char *expected[] = {"a0000", "a0001", "a0002", "a0003", "a0004"};
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        contract_finish(c, contract_take_id(c, "default", expected[i]), QN_DONE);
    }
    for (size_t i = 0; i < 3; i++) {
        qn_leased_free(runs[i]);
    }
}

static void recovery_is_bounded_by_its_limit(struct contract *c)
{
    struct qn_leased *runs[10];
    contract_put_many(c, "default", "a", 10);
    assert_int_equal(contract_lease(c, "default", 10, runs), 10);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 4).count, 4);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 6);
    assert_int_equal(recover(c, 4).count, 4);
    assert_int_equal(recover(c, 4).count, 2);
    assert_int_equal(recover(c, 4).count, 0);
    for (size_t i = 0; i < 10; i++) {
        qn_leased_free(runs[i]);
    }
}

static void recovery_touches_only_the_queues_it_is_given(struct contract *c)
{
    contract_put(c, "other", "a");
    qn_leased_free(contract_take_id(c, "other", "a"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).count, 0);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_recover(c, "other"), 1);
}

static void lapsed_leases_of_many_tasks_convict_none(struct contract *c)
{
    struct qn_leased *runs[30];
    contract_put_many(c, "default", "a", 30);
    for (int round = 0; round < 6; round++) {
        size_t count = contract_lease(c, "default", 30, runs);
        contract_advance(c, CONTRACT_LEASE_MS + 1);
        assert_int_equal(recover(c, 100).count, count);
        for (size_t i = 0; i < count; i++) {
            qn_leased_free(runs[i]);
        }
        contract_advance(c, QN_CHARGED_MORE_MS);
        (void)contract_forward(c, "default", NULL);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 30);
}

/* --- A worker that dies ------------------------------------------------------------- */

#define CHILD_LEASES 3

/* argv: URL. Leases three tasks, two of them started, says so, and waits to be killed. */
static int doomed_worker(int argc, char **argv)
{
    struct qn_leased *runs[CHILD_LEASES];
    struct qn_exchange_reply reply = {.runs = runs};
    TEST_REQUIRE(argc == 1);
    struct qn_broker *broker = contract_open_child(argv[0]);
    contract_announce(broker, "doomed");
    struct qn_queue_turn turn = {.name = "default", .weight = 1, .quota = CHILD_LEASES};
    struct qn_exchange exchange = {.stamp = {.session = 4711, .sequence = 1},
                                   .worker_id = "doomed",
                                   .lease_ms = 24 * 3600 *
                                               INT64_C(1000), /* on another clock than the test */
                                   .queues = &turn,
                                   .queue_count = 1,
                                   .room = CHILD_LEASES,
                                   .start_count_now = 2};
    TEST_REQUIRE(qn_broker_exchange(broker, &exchange, &reply, NULL) == QUERN_OK);
    TEST_REQUIRE(reply.run_count == CHILD_LEASES);
    test_parent_say('L');
    (void)test_parent_hear();
    return 0;
}

static void tasks_of_a_dead_worker_return_before_their_lease_ends(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    contract_put_many(c, "default", "a", CHILD_LEASES);
    struct test_child child = test_spawn("doomed_worker", args);
    assert_int_equal(test_child_hear(&child), 'L');
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), CHILD_LEASES);
    assert_int_equal(recover(c, 10).count, 0);
    test_child_kill(&child);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, CHILD_LEASES);
    assert_int_equal(all.cause, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(all.charged, 2);
    assert_int_equal(contract_see(c, "default", "a0000").crash_count, 1);
    assert_int_equal(contract_see(c, "default", "a0001").crash_count, 1);
    assert_int_equal(contract_see(c, "default", "a0002").crash_count, 0);
    struct qn_leased *run = contract_take_id(c, "default", "a0000");
    assert_int_equal(run->cause, QUERN_CAUSE_WORKER_DIED);
    contract_finish(c, run, QN_DONE);
}

static void death_is_counted_where_its_runs_were_whoever_saw_it_first(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    contract_put_many(c, "default", "a", CHILD_LEASES);
    contract_put(c, "other", "b");
    struct test_child child = test_spawn("doomed_worker", args);
    assert_int_equal(test_child_hear(&child), 'L');
    test_child_kill(&child);
    assert_int_equal(contract_recover(c, "other"), 0);
    assert_int_equal(recover(c, 10).count, CHILD_LEASES);
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    assert_int_equal(c->crash_streak, 1);
    contract_finish(c, run, QN_DONE);
}

static void leases_of_a_living_worker_are_left_alone(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    contract_put_many(c, "default", "a", CHILD_LEASES);
    struct test_child child = test_spawn("doomed_worker", args);
    assert_int_equal(test_child_hear(&child), 'L');
    contract_put(c, "default", "mine");
    struct qn_leased *run = contract_take_id(c, "default", "mine");
    test_child_kill(&child);
    assert_int_equal(recover(c, 10).count, CHILD_LEASES);
    assert_int_equal(contract_state(c, "default", "mine"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

static void owner_of_another_machine_is_judged_by_its_lease_only(struct contract *c)
{
    struct qn_announcement announcement = {
        .worker_id = "far away",
        .owner = "01234567-89ab-cdef-0123-456789abcdef:4026531836:1:1",
        .host = "elsewhere",
        .status = "active",
        .queues = "default=1",
        .pid = 1,
        .started_at_ms = CONTRACT_NOW_MS,
        .concurrency = 1};
    struct qn_leased *runs[1];
    struct qn_queue_turn turn = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.worker_id = "far away",
                                   .queues = &turn,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    quern_error err = {0};
    assert_ok(qn_broker_announce(c->broker, &announcement, &err), err);
    contract_put(c, "default", "a");
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 1);
    assert_int_equal(recover(c, 10).count, 0);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    /* Leases of another kernel may be granted a grace for its clock, but not more than 2 s. */
    contract_advance(c, 2000);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.cause, QUERN_CAUSE_LEASE_EXPIRED);
    qn_leased_free(runs[0]);
}

static void worker_that_left_in_peace_leaves_no_lease(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    assert_ok(qn_broker_withdraw(c->broker, CONTRACT_WORKER, &err), err);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).count, 1);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    qn_leased_free(run);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(expired_lease_returns_task_to_queue),
    CONTRACT_TEST(unstarted_run_is_recovered_without_charge),
    CONTRACT_TEST(three_lost_leases_of_started_runs_make_poison),
    CONTRACT_TEST(recovered_tasks_return_to_their_old_places),
    CONTRACT_TEST(recovery_is_bounded_by_its_limit),
    CONTRACT_TEST(recovery_touches_only_the_queues_it_is_given),
    CONTRACT_TEST(lapsed_leases_of_many_tasks_convict_none),
    CONTRACT_TEST(tasks_of_a_dead_worker_return_before_their_lease_ends),
    CONTRACT_TEST(death_is_counted_where_its_runs_were_whoever_saw_it_first),
    CONTRACT_TEST(leases_of_a_living_worker_are_left_alone),
    CONTRACT_TEST(owner_of_another_machine_is_judged_by_its_lease_only),
    CONTRACT_TEST(worker_that_left_in_peace_leaves_no_lease),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "doomed_worker", .main = doomed_worker}};
    return contract_main(argc, argv, tests, TEST_COUNT(tests), roles, TEST_COUNT(roles));
}
