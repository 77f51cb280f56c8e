/* SPDX-License-Identifier: MIT */
/* test_isolation.c - tasks whose worker died come back beside fewer and fewer others, and uncharged
 * tasks neither wait for them nor run with them. */
#include "lib_isolation.h"

static void charged_tasks_are_leased_while_there_is_room_for_them(struct contract *c)
{
    isolation_charge(c, "default", "once", 6, 1);
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, SLOTS / 2);
    isolation_give_back(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .held = {3, 0, 0}});
    assert_int_equal(got.count, 1);
    isolation_give_back(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .held = {4, 0, 0}});
    assert_int_equal(got.count, 0);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .slots = 1});
    assert_int_equal(got.count, 6);
    isolation_give_back(c, &got);
}

static void task_charged_twice_counts_among_those_charged_once(struct contract *c)
{
    isolation_charge(c, "default", "twice", 3, 2);
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, SLOTS / 4);
    isolation_give_back(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .held = {3, 0, 0}});
    assert_int_equal(got.count, 1);
    assert_int_equal(got.runs[0]->crash_count, 2);
    isolation_give_back(c, &got);
    isolation_charge(c, "other", "once", 3, 1);
    struct isolation_got other = isolation_lease(
        c, &(struct isolation_want){.queue = "other", .room = 8, .held = {2, 2, 0}});
    assert_int_equal(other.count, 2);
    isolation_give_back(c, &other);
}

static void charged_tasks_without_room_are_overtaken(struct contract *c)
{
    const char *const good[] = {"x0000", "x0001", "x0002"};
    isolation_charge(c, "default", "alone", 2, SOLO);
    struct isolation_got alone =
        isolation_lease(c, &(struct isolation_want){.room = 2, .slots = 1});
    isolation_charge(c, "default", "once", 3, 1);
    isolation_give_back(c, &alone);
    contract_put_many(c, "default", "x", 3);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .held = {4, 0, 0}});
    isolation_assert_runs(&got, good, TEST_COUNT(good));
    isolation_give_back(c, &got);
}

static void charged_tasks_with_room_keep_their_places(struct contract *c)
{
    const char *const order[] = {"s0000", "s0001", "x0000", "t0000", "y0000"};
    isolation_charge(c, "default", "s", 2, 1);
    contract_put(c, "default", "x0000");
    contract_put(c, "default", "t0000");
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, 4);
    assert_string_equal(got.runs[3]->task.id, "t0000");
    assert_int_equal(contract_die(c, got.runs[3]), QN_APPLIED);
    got.count = 3;
    isolation_give_back(c, &got);
    contract_put(c, "default", "y0000");
    got = isolation_lease(c, &(struct isolation_want){.room = 8});
    isolation_assert_runs(&got, order, TEST_COUNT(order));
    isolation_give_back(c, &got);
}

static void many_charged_tasks_hide_no_other(struct contract *c)
{
    const char *const good[] = {"x0000", "x0001"};
    isolation_charge(c, "default", "s", QN_BATCH_MAX - 1, 1);
    contract_put_many(c, "default", "x", 2);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 2, .held = {4, 0, 0}});
    isolation_assert_runs(&got, good, TEST_COUNT(good));
    isolation_give_back(c, &got);
}

static void charged_tasks_are_leased_only_to_be_started_at_once(struct contract *c)
{
    isolation_charge(c, "default", "s", 3, 1);
    contract_put_many(c, "default", "x", 3);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 4, .started = 2});
    const char *const order[] = {"s0000", "s0001", "x0000", "x0001"};
    isolation_assert_runs(&got, order, TEST_COUNT(order));
    assert_true(got.runs[0]->started);
    assert_true(got.runs[1]->started);
    assert_false(got.runs[2]->started);
    isolation_give_back(c, &got);
}

static void charged_run_is_started_before_those_that_stand_before_it(struct contract *c)
{
    contract_put(c, "default", "x0000");
    struct qn_leased *first = contract_take_id(c, "default", "x0000");
    isolation_charge(c, "default", "s", 1, 1);
    contract_finish(c, first, QN_GIVE_BACK);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 2, .started = 1});
    const char *const order[] = {"x0000", "s0000"};
    isolation_assert_runs(&got, order, TEST_COUNT(order));
    assert_false(got.runs[0]->started);
    assert_true(got.runs[1]->started);
    isolation_give_back(c, &got);
}

static void late_charged_task_takes_no_room(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .queue = "default",
                                      .id = "late",
                                      .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    contract_die(c, contract_take_id(c, "default", "late"));
    contract_advance(c, 1000);
    isolation_charge(c, "default", "s", 1, 1);
    struct isolation_got got =
        isolation_lease(c, &(struct isolation_want){.room = 8, .held = {3, 0, 0}});
    const char *const order[] = {"s0000"};
    isolation_assert_runs(&got, order, TEST_COUNT(order));
    isolation_give_back(c, &got);
    assert_int_equal(contract_state(c, "default", "late"), QUERN_TASK_ARCHIVED);
}

/* Runs that were leased before the brake may still be there. */
static void probe_is_no_charged_task_without_room_for_it(struct contract *c)
{
    struct qn_leased *runs[QN_BRAKE_DEATHS];
    struct isolation_got got;
    contract_put_many(c, "default", "x", QN_BRAKE_DEATHS);
    assert_int_equal(contract_lease(c, "default", QN_BRAKE_DEATHS, runs), QN_BRAKE_DEATHS);
    isolation_charge(c, "default", "bad", 1, 1);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        contract_die(c, runs[i]);
    }
    assert_true(c->braked);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) { /* of the others none is left */
        char id[8];
        quern_error err = {0};
        (void)snprintf(id, sizeof id, "x%04zu", i);
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", id, &err), err);
    }
    contract_advance(c, QN_BRAKE_MS_MIN);
    got = isolation_lease(c, &(struct isolation_want){.room = 1, .held = {4}});
    assert_int_equal(got.count, 0);
    got = isolation_lease(c, &(struct isolation_want){.room = 1, .held = {3}});
    assert_int_equal(got.count, 1);
    isolation_give_back(c, &got);
}

/* --- Deaths of commands -------------------------------------------------------------------- */

static const struct isolation_want no_room = {.room = 8, .held = {4, 2, 1}};

static void put_crashed(struct contract *c, const char *prefix, size_t count, int times)
{
    contract_put_many(c, "default", prefix, count);
    for (int i = 0; i < times; i++) {
        struct isolation_got got = isolation_lease(c, &no_room);
        assert_int_equal(got.count, count);
        isolation_crash(c, &got);
    }
}

static void tasks_whose_commands_died_run_beside_all_others(struct contract *c)
{
    for (int times = 1; times <= 4; times++) {
        char prefix[16];
        (void)snprintf(prefix, sizeof prefix, "c%d", times);
        put_crashed(c, prefix, 2, times);
        struct isolation_want want = no_room;
        want.solo = QN_SOLO_ASK;
        struct isolation_got got = isolation_lease(c, &want);
        assert_false(got.locked);
        assert_int_equal(got.count, 2);
        assert_int_equal(got.runs[0]->crash_count, times);
        assert_int_equal(got.runs[0]->level, 0);
        assert_true(got.runs[1]->started);
        for (size_t i = 0; i < got.count; i++) {
            contract_finish(c, got.runs[i], QN_ARCHIVE);
        }
    }
}

static void tasks_whose_commands_died_keep_their_places(struct contract *c)
{
    const char *const order[] = {"c0000", "c0001", "x0000"};
    put_crashed(c, "c", 2, 1);
    contract_put(c, "default", "x0000");
    struct isolation_got got = isolation_lease(c, &no_room);
    isolation_assert_runs(&got, order, TEST_COUNT(order));
    isolation_give_back(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 3, .started = 1});
    assert_int_equal(got.count, 2);
    assert_string_equal(got.runs[0]->task.id, "c0000");
    assert_string_equal(got.runs[1]->task.id, "x0000");
    assert_false(got.runs[1]->started);
    isolation_give_back(c, &got);
}

static void worker_that_dies_with_them_costs_them_company(struct contract *c)
{
    put_crashed(c, "c", 2, 3);
    const struct contract_worker dead = {.id = "doomed", .is_dead = true};
    struct qn_leased *runs[2];
    contract_heartbeat_as(c->broker, &dead);
    assert_int_equal(contract_lease_as(c, &dead, "default", 2, runs), 2);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    assert_int_equal(contract_recover(c, "default"), 2);
    contract_advance(c, QN_CHARGED_WAIT_MS);
    (void)contract_forward(c, "default", NULL);
    struct isolation_got got = isolation_lease(c, &no_room);
    assert_int_equal(got.count, 0);
    got = isolation_lease(c, &(struct isolation_want){.room = 8, .held = {2}});
    assert_int_equal(got.count, 2);
    assert_string_equal(got.runs[0]->task.id, "c0000");
    assert_int_equal(got.runs[0]->crash_count, 4);
    assert_int_equal(got.runs[0]->level, 1);
    isolation_crash(c, &got);
    got = isolation_lease(c, &no_room);
    assert_int_equal(got.count, 0);
}

static void task_charged_otherwise_before_its_command_died_stays_apart(struct contract *c)
{
    isolation_charge(c, "default", "alone", 1, SOLO);
    struct isolation_got got = isolation_lease(c, &(struct isolation_want){.room = 1, .slots = 1});
    assert_int_equal(got.count, 1);
    isolation_crash(c, &got);
    got = isolation_lease(c, &(struct isolation_want){.room = 8});
    assert_int_equal(got.count, 0);
    assert_true(isolation_lease(c, &(struct isolation_want){.solo = QN_SOLO_ASK}).locked);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(charged_tasks_are_leased_while_there_is_room_for_them),
    CONTRACT_TEST(task_charged_twice_counts_among_those_charged_once),
    CONTRACT_TEST(charged_tasks_without_room_are_overtaken),
    CONTRACT_TEST(charged_tasks_with_room_keep_their_places),
    CONTRACT_TEST(many_charged_tasks_hide_no_other),
    CONTRACT_TEST(charged_tasks_are_leased_only_to_be_started_at_once),
    CONTRACT_TEST(charged_run_is_started_before_those_that_stand_before_it),
    CONTRACT_TEST(late_charged_task_takes_no_room),
    CONTRACT_TEST(probe_is_no_charged_task_without_room_for_it),
    CONTRACT_TEST(tasks_whose_commands_died_run_beside_all_others),
    CONTRACT_TEST(tasks_whose_commands_died_keep_their_places),
    CONTRACT_TEST(worker_that_dies_with_them_costs_them_company),
    CONTRACT_TEST(task_charged_otherwise_before_its_command_died_stays_apart),
};
CONTRACT_MAIN(tests)
