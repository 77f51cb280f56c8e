/* SPDX-License-Identifier: MIT */
/* test_crash.c - runs whose own process died, a child or a command: whether it is charged, the
 * task's next state, and when it is poison. Deaths of whole workers are in test_recover.c, effects
 * of deaths on the queue in test_brake.c, on the other runs of a worker in test_isolation.c. */
#include "lib_contract.h"

#include <string.h>

#define HOUR_MS (3600 * INT64_C(1000))
#define ELSEWHERE "host-b"

static enum qn_applied crash(struct contract *c, struct qn_leased *run, bool started)
{
    struct qn_outcome outcome = {
        .run = run, .kind = QN_CRASH, .started = started, .cause = QUERN_CAUSE_CHILD_DIED};
    enum qn_applied applied = contract_end(c, &outcome);
    qn_leased_free(run);
    return applied;
}

/* Takes the task after the wait of its second or a later death. */
static struct qn_leased *take_after_wait(struct contract *c, const char *id)
{
    contract_advance(c, QN_CHARGED_WAIT_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    return contract_take_id(c, "default", id);
}

/* A run of another task ends well, on CONTRACT_HOST or elsewhere. */
static void end_one_well(struct contract *c, const char *host)
{
    struct qn_leased *run = NULL;
    const struct contract_worker worker = {.id = "good", .host = host};
    enum qn_applied applied = QN_STALE;
    contract_heartbeat_as(c->broker, &worker);
    contract_put(c, "default", "good");
    assert_int_equal(contract_lease_as(c, &worker, "default", 1, &run), 1);
    assert_string_equal(run->task.id, "good");
    struct qn_outcome outcome = {.run = run, .kind = QN_DONE, .started = true};
    struct qn_exchange exchange = {
        .outcomes = &outcome, .outcome_count = 1, .worker_id = worker.id, .host = host};
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(run);
}

/* As where a service manager signals all processes of a worker that it stops. */
static void command_that_dies_while_its_worker_leaves_charges_nobody(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    struct qn_outcome outcome = {
        .run = run, .kind = QN_CRASH, .started = true, .cause = QUERN_CAUSE_CHILD_DIED};
    struct qn_exchange exchange = {.outcomes = &outcome, .outcome_count = 1, .is_leaving = true};
    enum qn_applied applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(run);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 0);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void first_death_returns_the_task_at_once(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 1);
    assert_int_equal(view.retry_count, 0);
    contract_assert_counted(c, "default", 0, 0);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->crash_count, 1);
    assert_int_equal(run->retry_count, 0);
    assert_int_equal(run->cause, QUERN_CAUSE_CHILD_DIED);
    contract_finish(c, run, QN_DONE);
}

static void crash_before_the_start_is_not_charged(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 0; i < 12; i++) {
        struct qn_leased *run = contract_fetch(c, "default");
        assert_non_null(run);
        assert_int_equal(crash(c, run, false), QN_APPLIED);
        struct contract_view view = contract_inspect(c, "default", "a");
        assert_int_equal(view.state, QUERN_TASK_PENDING);
        assert_int_equal(view.crash_count, 0);
        assert_int_equal(c->deaths, 0);
    }
    contract_assert_counted(c, "default", 0, 0);
}

static void second_death_and_later_ones_wait_two_seconds(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    crash(c, contract_start(c, "a"), true);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.crash_count, 2);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 2000);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 1999);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(next_due_at_ms, CONTRACT_NOW_MS + 2000);
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 2000 + 2000);
    struct qn_leased *run = take_after_wait(c, "a");
    assert_int_equal(run->cause, QUERN_CAUSE_CHILD_DIED);
    assert_int_equal(run->crash_count, 3);
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, "default", 1, 0);
}

static void task_remembers_how_long_it_lived_at_most(struct contract *c)
{
    const int64_t lives_ms[] = {700, 4000, 30};
    const int64_t longest_ms[] = {700, 4000, 4000};
    contract_put(c, "default", "a");
    for (size_t i = 0; i < TEST_COUNT(lives_ms); i++) {
        struct qn_leased *run = contract_take_id(c, "default", "a");
        struct qn_outcome outcome = {.run = run,
                                     .kind = QN_CRASH,
                                     .started = true,
                                     .cause = QUERN_CAUSE_CHILD_DIED,
                                     .lived_ms = lives_ms[i]};
        assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
        qn_leased_free(run);
        contract_advance(c, QN_CHARGED_WAIT_MS);
        (void)contract_forward(c, "default", NULL);
        run = contract_take_id(c, "default", "a");
        assert_int_equal(run->life_ms, longest_ms[i]);
        contract_finish(c, run, QN_GIVE_BACK);
    }
}

/* --- Conviction ----------------------------------------------------------------------- */

static void third_lone_death_is_poison_where_a_run_has_ended_well_since(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 1);
    end_one_well(c, CONTRACT_HOST);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_int_equal(view.crash_count, 3);
    assert_int_equal(view.retry_count, 0);
    assert_string_equal(view.error, "poison: 3 deaths, 3 of them alone; the last: child died");
    contract_assert_counted(c, "default", 2, 1);
}

static void where_nothing_has_ended_well_no_task_is_poison(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    for (int64_t i = 3; i < 8; i++) {
        assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
        assert_int_equal(contract_inspect(c, "default", "a").crash_count, i);
    }
    struct qn_leased *run = take_after_wait(c, "a");
    end_one_well(c, CONTRACT_HOST);
    assert_int_equal(crash(c, run, true), QN_ARCHIVED);
}

static void success_on_another_host_convicts_nobody(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 1);
    end_one_well(c, ELSEWHERE);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
}

/* It was noted an hour ahead, and so seems to have come after every death of the next hour. */
static void success_while_the_clock_was_ahead_convicts_nobody(struct contract *c)
{
    contract_jump(c, HOUR_MS);
    end_one_well(c, CONTRACT_HOST);
    contract_jump(c, -HOUR_MS);
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
}

static void success_in_another_queue_convicts_nobody(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 1);
    contract_put(c, "other", "good");
    contract_finish(c, contract_take_id(c, "other", "good"), QN_DONE);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
}

static void success_before_the_first_charged_run_convicts_nobody(struct contract *c)
{
    end_one_well(c, CONTRACT_HOST);
    contract_advance(c, 1);
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
}

static void success_of_a_leaving_worker_convicts_nobody(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 1);
    struct qn_leased *good = contract_start(c, "good");
    struct qn_outcome outcome = {.run = good, .kind = QN_DONE, .started = true};
    struct qn_exchange exchange = {.outcomes = &outcome, .outcome_count = 1, .is_leaving = true};
    enum qn_applied applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(good);
    assert_int_equal(crash(c, take_after_wait(c, "a"), true), QN_APPLIED);
}

static void deaths_older_than_the_window_are_forgotten(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    end_one_well(c, CONTRACT_HOST);
    struct qn_leased *run = take_after_wait(c, "a");
    contract_advance(c, 73 * HOUR_MS);
    assert_int_equal(crash(c, run, true), QN_APPLIED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.crash_count, 1);
    assert_int_equal(view.state, QUERN_TASK_PENDING);
}

static void deaths_within_the_window_are_remembered(struct contract *c)
{
    crash(c, contract_start(c, "a"), true);
    contract_advance(c, 35 * HOUR_MS);
    crash(c, contract_take_id(c, "default", "a"), true);
    contract_advance(c, 36 * HOUR_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    contract_put(c, "default", "good");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_finish(c, contract_take_id(c, "default", "good"), QN_DONE);
    assert_int_equal(crash(c, run, true), QN_ARCHIVED);
}

static void failures_do_not_make_poison(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY),
                         QN_APPLIED);
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "default", NULL), 1);
    }
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 0);
}

static void task_without_attempts_left_is_archived_when_it_dies(struct contract *c)
{
    contract_enqueue(
        c,
        &(quern_task){.type = "t", .queue = "default", .id = "a", .retry_max = QUERN_RETRY_NEVER});
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), false), QN_APPLIED);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "no attempts left: child died");
    assert_int_equal(view.crash_count, 1);
    contract_assert_counted(c, "default", 1, 1);
}

/* A worker lowers retry_max of the runs that it has leased by the options of the handler. */
static void attempts_that_the_handler_allows_hold_for_deaths_too(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    run->task.retry_max = 1;
    assert_int_equal(crash(c, run, true), QN_APPLIED);
    run = contract_take_id(c, "default", "a");
    run->task.retry_max = 1;
    assert_int_equal(contract_finish(c, run, QN_RETRY), QN_APPLIED);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->retry_count, 1);
    run->task.retry_max = 1;
    assert_int_equal(crash(c, run, false), QN_APPLIED); /* it has not begun */
    run = contract_take_id(c, "default", "a");
    run->task.retry_max = 1;
    assert_int_equal(crash(c, run, true), QN_ARCHIVED);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "no attempts left: child died");
    assert_int_equal(view.crash_count, 2);
}

static void task_run_by_an_operator_begins_anew(struct contract *c)
{
    quern_error err = {0};
    crash(c, contract_start(c, "a"), true);
    crash(c, contract_take_id(c, "default", "a"), true);
    end_one_well(c, CONTRACT_HOST);
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 0);
    assert_int_equal(crash(c, contract_take_id(c, "default", "a"), true), QN_APPLIED);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 1);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(command_that_dies_while_its_worker_leaves_charges_nobody),
    CONTRACT_TEST(first_death_returns_the_task_at_once),
    CONTRACT_TEST(crash_before_the_start_is_not_charged),
    CONTRACT_TEST(second_death_and_later_ones_wait_two_seconds),
    CONTRACT_TEST(task_remembers_how_long_it_lived_at_most),
    CONTRACT_TEST(third_lone_death_is_poison_where_a_run_has_ended_well_since),
    CONTRACT_TEST(where_nothing_has_ended_well_no_task_is_poison),
    CONTRACT_TEST(success_on_another_host_convicts_nobody),
    CONTRACT_TEST(success_while_the_clock_was_ahead_convicts_nobody),
    CONTRACT_TEST(success_in_another_queue_convicts_nobody),
    CONTRACT_TEST(success_before_the_first_charged_run_convicts_nobody),
    CONTRACT_TEST(success_of_a_leaving_worker_convicts_nobody),
    CONTRACT_TEST(deaths_older_than_the_window_are_forgotten),
    CONTRACT_TEST(deaths_within_the_window_are_remembered),
    CONTRACT_TEST(failures_do_not_make_poison),
    CONTRACT_TEST(task_without_attempts_left_is_archived_when_it_dies),
    CONTRACT_TEST(attempts_that_the_handler_allows_hold_for_deaths_too),
    CONTRACT_TEST(task_run_by_an_operator_begins_anew),
};
CONTRACT_MAIN(tests)
