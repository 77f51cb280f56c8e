/* SPDX-License-Identifier: MIT */
/* test_recover.c - leases that ended without an outcome: the task comes back with a cause, dead
 * workers are distinguished from live ones by their process or their heartbeat, and only their
 * started runs are charged. Some workers that die here are real processes, the others are records
 * of dead ones. */
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
    const struct qn_recovery_sink sink = {note_recovery, &all};
    size_t count = contract_recover_all(c, (struct qn_upkeep){{&queue, 1}, limit}, &sink);
    assert_int_equal(count, all.count);
    return all;
}

static const struct contract_worker far = {.id = "far", .is_far = true};
static const struct contract_worker dead = {.id = "dead", .is_dead = true};

/* Leases `count` tasks of the queue as this worker, all of them started. */
static void hold(struct contract *c, const struct contract_worker *worker, const char *queue,
                 size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    contract_heartbeat_as(c->broker, worker);
    assert_int_equal(contract_lease_as(c, worker, queue, (uint32_t)count, runs), count);
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static void lapse_far(struct contract *c)
{
    /* Leases of another kernel may be granted a grace for its clock, but not more than 2 s. */
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    contract_advance(c, 2000);
}

static void expired_lease_of_a_living_worker_charges_nobody(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.charged, 0);
    assert_int_equal(all.archived, 0);
    assert_int_equal(all.cause, QUERN_CAUSE_LEASE_EXPIRED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 0);
    assert_int_equal(view.retry_count, 0);
    assert_string_equal(view.worker, "");
    contract_assert_counted(c, "default", 0, 0);
    qn_leased_free(run);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->cause, QUERN_CAUSE_LEASE_EXPIRED);
    assert_int_equal(run->crash_count, 0);
    assert_int_equal(c->deaths, 0);
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

static void lapsed_leases_of_a_living_worker_convict_none(struct contract *c)
{
    struct qn_leased *runs[30];
    contract_put_many(c, "default", "a", 30);
    for (int round = 0; round < 12; round++) {
        assert_int_equal(contract_lease(c, "default", 30, runs), 30);
        contract_advance(c, CONTRACT_LEASE_MS + 1);
        assert_int_equal(recover(c, 100).count, 30);
        for (size_t i = 0; i < 30; i++) {
            qn_leased_free(runs[i]);
        }
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 30);
    assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, 0);
}

static void expired_lease_of_a_silent_worker_is_its_death(struct contract *c)
{
    contract_put_many(c, "default", "a", 2);
    hold(c, &far, "default", 2);
    assert_int_equal(recover(c, 10).count, 0);
    lapse_far(c);
    struct recoveries all = recover(c, 1);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.charged, 1);
    assert_int_equal(all.cause, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(recover(c, 10).charged, 1);
    assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, 1);
    assert_int_equal(contract_inspect(c, "default", "a0001").crash_count, 1);
    contract_finish(c, contract_take_id(c, "default", "a0000"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 1);
}

static void expired_lease_of_a_worker_with_a_recent_heartbeat_charges_nobody(struct contract *c)
{
    contract_put(c, "default", "a");
    hold(c, &far, "default", 1);
    lapse_far(c);
    contract_heartbeat_as(c->broker, &far);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.charged, 0);
    assert_int_equal(all.cause, QUERN_CAUSE_LEASE_EXPIRED);
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

/* --- A worker that dies ------------------------------------------------------------- */

#define CHILD_LEASES 3

/* argv: URL. Leases three tasks, two of them started, reports it, and waits to be killed. */
static int killed_worker(int argc, char **argv)
{
    struct qn_leased *runs[CHILD_LEASES];
    struct qn_exchange_reply reply = {.runs = runs};
    TEST_REQUIRE(argc == 1);
    struct qn_broker *broker = contract_open_child(argv[0]);
    contract_heartbeat(broker, "doomed");
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = CHILD_LEASES};
    struct qn_exchange exchange = {.stamp = {.session = 4711, .sequence = 1},
                                   .worker_id = "doomed",
                                   .lease_ms = 24 * 3600 *
                                               INT64_C(1000), /* on another clock than the test */
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = CHILD_LEASES,
                                   .start_count_now = 2};
    TEST_REQUIRE(qn_broker_exchange(broker, &exchange, &reply, NULL) == QUERN_OK);
    TEST_REQUIRE(reply.run_count == CHILD_LEASES);
    test_parent_send('L');
    (void)test_parent_receive();
    return 0;
}

static void tasks_of_a_dead_worker_return_before_their_lease_ends(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    contract_put_many(c, "default", "a", CHILD_LEASES);
    struct test_child child = test_spawn("killed_worker", args);
    assert_int_equal(test_child_receive(&child), 'L');
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), CHILD_LEASES);
    assert_int_equal(recover(c, 10).count, 0);
    test_child_kill(&child);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.count, CHILD_LEASES);
    assert_int_equal(all.cause, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(all.charged, 2);
    assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, 1);
    assert_int_equal(contract_inspect(c, "default", "a0001").crash_count, 1);
    assert_int_equal(contract_inspect(c, "default", "a0002").crash_count, 0);
    struct qn_leased *run = contract_take_id(c, "default", "a0000");
    assert_int_equal(run->cause, QUERN_CAUSE_WORKER_DIED);
    contract_finish(c, run, QN_DONE);
}

static void end_one_well(struct contract *c)
{
    contract_put(c, "default", "good");
    contract_finish(c, contract_take_id(c, "default", "good"), QN_DONE);
    contract_advance(c, 1);
}

/* All that waits for its moment is pending again. */
static void wait_for_all(struct contract *c)
{
    contract_advance(c, QN_CHARGED_WAIT_MS);
    (void)contract_forward(c, "default", NULL);
}

static void deaths_that_were_shared_convict_nobody(struct contract *c)
{
    contract_put_many(c, "default", "a", 2);
    for (int64_t i = 1; i <= 6; i++) {
        hold(c, &dead, "default", 2);
        contract_advance(c, 1);
        end_one_well(c);
        struct recoveries all = recover(c, 10);
        assert_int_equal(all.charged, 2);
        assert_int_equal(all.archived, 0);
        assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, i);
        wait_for_all(c);
    }
}

static void lone_deaths_of_workers_make_poison(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 1; i <= 3; i++) {
        hold(c, &dead, "default", 1);
        contract_advance(c, 1);
        end_one_well(c);
        struct recoveries all = recover(c, 10);
        assert_int_equal(all.charged, 1);
        assert_int_equal(all.archived, i == 3 ? 1 : 0);
        wait_for_all(c);
    }
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "poison: 3 deaths, 3 of them alone; the last: worker died");
}

static void death_is_shared_however_many_calls_its_leases_take(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put_many(c, "other", "b", 2);
    for (int64_t i = 1; i <= 6; i++) {
        hold(c, &dead, "other", 1);
        hold(c, &dead, "default", 1);
        contract_advance(c, 1);
        end_one_well(c);
        assert_int_equal(contract_recover(c, "other"), 1);
        assert_int_equal(recover(c, 1).charged, 1);
        assert_int_equal(contract_state(c, "default", "a") == QUERN_TASK_ARCHIVED, false);
        assert_int_equal(contract_inspect(c, "default", "a").crash_count, i);
        wait_for_all(c);
        (void)contract_forward(c, "other", NULL);
    }
}

/* A call that may end no more leases has read one of a worker whose death was not yet noted. */
static void death_that_a_full_call_met_is_not_forgotten(struct contract *c)
{
    contract_put_many(c, "default", "a", 3);
    hold(c, &(struct contract_worker){.id = "late"}, "default", 1);
    hold(c, &dead, "default", 2);
    assert_int_equal(recover(c, 1).count, 1);
    contract_heartbeat_as(c->broker, &(struct contract_worker){.id = "late", .is_dead = true});
    for (int i = 0; i < 2; i++) {
        struct recoveries all = recover(c, 1);
        assert_int_equal(all.count, 1);
        assert_int_equal(all.charged, 1);
        assert_int_equal(all.cause, QUERN_CAUSE_WORKER_DIED);
    }
    assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, 1);
}

static void death_of_a_worker_is_one_for_the_brake_of_each_queue(struct contract *c)
{
    contract_put_many(c, "default", "a", 4);
    contract_put_many(c, "other", "b", 3);
    hold(c, &dead, "default", 4);
    hold(c, &dead, "other", 3);
    assert_int_equal(recover(c, 3).count, 3);
    assert_int_equal(recover(c, 3).count, 1);
    assert_int_equal(contract_recover(c, "other"), 3);
    contract_finish(c, contract_take(c, "default"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 1);
    contract_finish(c, contract_take(c, "other"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 1);
}

/* Prefetched runs of another queue prove nothing about that queue. */
static void death_before_the_start_is_none_for_the_brake(struct contract *c)
{
    const struct contract_worker ahead = {.id = "dead", .is_dead = true, .is_ahead = true};
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    hold(c, &ahead, "default", 1);
    hold(c, &dead, "other", 1);
    assert_int_equal(recover(c, 10).charged, 0);
    assert_int_equal(contract_recover(c, "other"), 1);
    contract_finish(c, contract_take(c, "default"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 0);
    contract_finish(c, contract_take(c, "other"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 1);
}

static void death_is_counted_on_the_host_of_the_dead(struct contract *c)
{
    const struct contract_worker elsewhere = {.id = "dead", .host = "host-b", .is_dead = true};
    contract_put(c, "default", "a");
    hold(c, &elsewhere, "default", 1);
    assert_int_equal(recover(c, 10).charged, 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 0);
}

static void end_of_a_leaving_worker_charges_nobody(struct contract *c)
{
    const char *const statuses[] = {"draining", "quiet"};
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        const struct contract_worker leaving = {
            .id = "leaving", .status = statuses[i], .is_dead = true};
        contract_put_many(c, "default", "a", 2);
        hold(c, &leaving, "default", 2);
        struct recoveries all = recover(c, 10);
        assert_int_equal(all.count, 2);
        assert_int_equal(all.charged, 0);
        assert_int_equal(all.cause, QUERN_CAUSE_WORKER_DIED);
        assert_int_equal(contract_inspect(c, "default", "a0000").crash_count, 0);
        contract_finish(c, contract_take_id(c, "default", "a0000"), QN_DROP);
        contract_finish(c, contract_take_id(c, "default", "a0001"), QN_DROP);
    }
    contract_put(c, "default", "b");
    contract_finish(c, contract_take(c, "default"), QN_GIVE_BACK);
    assert_int_equal(c->deaths, 0);
}

static void put_spent(struct contract *c, const char *id)
{
    contract_enqueue(
        c,
        &(quern_task){.type = "t", .queue = "default", .id = id, .retry_max = QUERN_RETRY_NEVER});
}

static void task_without_attempts_left_is_archived_whatever_ended_its_run(struct contract *c)
{
    const struct contract_worker leaving = {.id = "gone", .status = "draining", .is_dead = true};
    put_spent(c, "a");
    hold(c, &leaving, "default", 1);
    struct recoveries all = recover(c, 10);
    assert_int_equal(all.archived, 1);
    assert_int_equal(all.charged, 0);
    assert_string_equal(contract_inspect(c, "default", "a").error, "no attempts left: worker died");
    put_spent(c, "b");
    qn_leased_free(contract_take_id(c, "default", "b"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).archived, 1);
    assert_string_equal(contract_inspect(c, "default", "b").error,
                        "no attempts left: lease expired");
    put_spent(c, "c");
    hold(c, &dead, "default", 1);
    all = recover(c, 10);
    assert_int_equal(all.archived, 1);
    assert_int_equal(all.charged, 1);
    assert_string_equal(contract_inspect(c, "default", "c").error, "no attempts left: worker died");
    contract_assert_counted(c, "default", 3, 3);
}

static void probe_of_a_dead_worker_goes_behind(struct contract *c)
{
    struct qn_leased *runs[QN_BRAKE_DEATHS];
    contract_put_many(c, "default", "bad", QN_BRAKE_DEATHS);
    assert_int_equal(contract_lease(c, "default", QN_BRAKE_DEATHS, runs), QN_BRAKE_DEATHS);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        contract_die(c, runs[i]);
    }
    const struct contract_worker elsewhere = {.id = "elsewhere", .host = "host-b"};
    contract_heartbeat_as(c->broker, &elsewhere);
    assert_int_equal(contract_lease_as(c, &elsewhere, "default", QN_BRAKE_DEATHS, runs),
                     QN_BRAKE_DEATHS);
    contract_put_many(c, "default", "a", 2);
    contract_advance(c, QN_BRAKE_MS_MIN);
    hold(c, &dead, "default", 1); /* the newest */
    contract_advance(c, QN_BRAKE_MS_MIN);
    contract_put(c, "default", "z");
    assert_int_equal(recover(c, 10).charged, 1);
    assert_int_equal(contract_state(c, "default", "a0001"), QUERN_TASK_PENDING);
    contract_finish(c, runs[0], QN_DONE); /* on CONTRACT_HOST: releases */
    contract_finish(c, contract_take_id(c, "default", "a0000"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "z"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "a0001"), QN_DONE);
    for (size_t i = 1; i < QN_BRAKE_DEATHS; i++) {
        qn_leased_free(runs[i]);
    }
}

static void leases_of_a_living_worker_are_left_alone(struct contract *c)
{
    const char *args[] = {c->url, NULL};
    contract_put_many(c, "default", "a", CHILD_LEASES);
    struct test_child child = test_spawn("killed_worker", args);
    assert_int_equal(test_child_receive(&child), 'L');
    contract_put(c, "default", "mine");
    struct qn_leased *run = contract_take_id(c, "default", "mine");
    test_child_kill(&child);
    assert_int_equal(recover(c, 10).count, CHILD_LEASES);
    assert_int_equal(contract_state(c, "default", "mine"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

static void worker_that_left_in_peace_leaves_no_lease(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    assert_ok(qn_broker_deregister(c->broker, CONTRACT_WORKER, &err), err);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(recover(c, 10).count, 1);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 0);
    qn_leased_free(run);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(expired_lease_of_a_living_worker_charges_nobody),
    CONTRACT_TEST(unstarted_run_is_recovered_without_charge),
    CONTRACT_TEST(lapsed_leases_of_a_living_worker_convict_none),
    CONTRACT_TEST(expired_lease_of_a_silent_worker_is_its_death),
    CONTRACT_TEST(expired_lease_of_a_worker_with_a_recent_heartbeat_charges_nobody),
    CONTRACT_TEST(recovered_tasks_return_to_their_old_places),
    CONTRACT_TEST(recovery_is_bounded_by_its_limit),
    CONTRACT_TEST(recovery_touches_only_the_queues_it_is_given),
    CONTRACT_TEST_SPAWNS(tasks_of_a_dead_worker_return_before_their_lease_ends),
    CONTRACT_TEST(deaths_that_were_shared_convict_nobody),
    CONTRACT_TEST(lone_deaths_of_workers_make_poison),
    CONTRACT_TEST(death_is_shared_however_many_calls_its_leases_take),
    CONTRACT_TEST_ONLY("redis", death_that_a_full_call_met_is_not_forgotten),
    CONTRACT_TEST(death_of_a_worker_is_one_for_the_brake_of_each_queue),
    CONTRACT_TEST(death_before_the_start_is_none_for_the_brake),
    CONTRACT_TEST(death_is_counted_on_the_host_of_the_dead),
    CONTRACT_TEST(end_of_a_leaving_worker_charges_nobody),
    CONTRACT_TEST(task_without_attempts_left_is_archived_whatever_ended_its_run),
    CONTRACT_TEST(probe_of_a_dead_worker_goes_behind),
    CONTRACT_TEST_SPAWNS(leases_of_a_living_worker_are_left_alone),
    CONTRACT_TEST(worker_that_left_in_peace_leaves_no_lease),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "killed_worker", .main = killed_worker}};
    const struct contract_suite suite = {tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return contract_main(argc, argv, &suite);
}
