/* SPDX-License-Identifier: MIT */
/* test_brake.c - a queue whose runs die on one host, one after the other: there it is run one task
 * at a time until one ends otherwise, so that a broken deploy empties no queue into the archive. */
#include "lib_contract.h"

#include <string.h>

#define ELSEWHERE "host-b"
#define SECOND_MS 1000

/* So many deaths in a row, each of another task; they are charged once, and stay active elsewhere.
 */
static void die_many(struct contract *c, const char *prefix, size_t count)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    contract_put_many(c, "default", prefix, count);
    /* Leased together, else the first one would come back before the next. */
    assert_int_equal(contract_lease(c, "default", (uint32_t)count, runs), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(contract_die(c, runs[i]), QN_APPLIED);
    }
}

/* Brakes the queue, and removes those that did it. */
static void brake(struct contract *c)
{
    quern_error err = {0};
    size_t count = 0;
    die_many(c, "bad", QN_BRAKE_DEATHS);
    assert_true(c->braked);
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    assert_ok(qn_broker_operate_all(c->broker,
                                    &(struct qn_bulk){QUERN_ACTION_DELETE, &filter, QN_BATCH_MAX},
                                    &count, &err),
              err);
    assert_int_equal(count, QN_BRAKE_DEATHS);
}

static struct qn_leased *take_on(struct contract *c, const char *host)
{
    struct qn_leased *run = NULL;
    const struct contract_worker worker = {.id = "worker-2", .host = host};
    contract_heartbeat_as(c->broker, &worker);
    return contract_lease_as(c, &worker, "default", 1, &run) == 1 ? run : NULL;
}

static void deaths_in_a_row_are_counted(struct contract *c)
{
    die_many(c, "a", 4);
    assert_int_equal(c->deaths, 4);
    assert_false(c->braked);
    contract_die(c, contract_take_id(c, "default", "a0000"));
    assert_int_equal(c->deaths, 5);
}

static void any_other_outcome_ends_the_row(struct contract *c)
{
    const enum qn_outcome_kind kinds[] = {QN_DONE,   QN_DROP,    QN_RETRY,
                                          QN_SNOOZE, QN_ARCHIVE, QN_CANCEL};
    char id[8];
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        (void)snprintf(id, sizeof id, "ok%zu", i);
        contract_put(c, "default", id);
        struct qn_leased *good = contract_take_id(c, "default", id);
        (void)snprintf(id, sizeof id, "bad%zu-", i);
        die_many(c, id, 3);
        assert_int_equal(c->deaths, 3);
        contract_finish(c, good, kinds[i]);
        assert_int_equal(c->deaths, 0);
        for (size_t k = 0; k < 3; k++) {
            contract_finish(c, contract_take(c, "default"), QN_DROP);
        }
    }
}

/* Acknowledged early, its task has left long ago. */
static void run_whose_task_was_settled_before_ends_the_row(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "early");
    assert_int_equal(contract_report(c, run, QN_DONE), QN_APPLIED);
    die_many(c, "bad", 3);
    contract_put(c, "default", "early"); /* another task of this name is left alone */
    assert_int_equal(contract_finish(c, run, QN_ENDED), QN_APPLIED);
    assert_int_equal(c->deaths, 0);
    assert_int_equal(contract_state(c, "default", "early"), QUERN_TASK_PENDING);
    contract_assert_counted(c, "default", 1, 0);
}

static void given_back_run_leaves_the_row(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    die_many(c, "bad", 3);
    contract_finish(c, run, QN_GIVE_BACK);
    assert_int_equal(c->deaths, 3);
}

/* Its type is known to other workers only: that it is put aside proves nothing about the host. */
static void run_that_is_put_aside_leaves_the_row(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    die_many(c, "bad", 3);
    contract_finish(c, run, QN_ASIDE);
    assert_int_equal(c->deaths, 3);
}

/* Cancelled, or past its deadline, before its handler was called: that proves nothing about the
 * host. */
static void run_that_never_started_leaves_the_row(struct contract *c)
{
    const enum qn_outcome_kind kinds[] = {QN_SNOOZE, QN_ARCHIVE, QN_CANCEL};
    struct qn_leased *runs[TEST_COUNT(kinds)];
    contract_put_many(c, "default", "a", TEST_COUNT(kinds));
    assert_int_equal(contract_lease(c, "default", TEST_COUNT(kinds), runs), TEST_COUNT(kinds));
    die_many(c, "bad", 3);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        const struct qn_outcome outcome = {
            .run = runs[i], .kind = kinds[i], .delay_ms = 60000, .error = "cancelled"};
        assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
        assert_int_equal(c->deaths, 3);
        qn_leased_free(runs[i]);
    }
}

static void probe_that_is_put_aside_makes_room_for_the_next(struct contract *c)
{
    brake(c);
    contract_put_many(c, "default", "a", 3);
    contract_advance(c, SECOND_MS);
    for (int i = 0; i < 3; i++) {
        struct qn_leased *probe = contract_take(c, "default");
        assert_non_null(probe);
        assert_null(contract_take(c, "default"));
        contract_finish(c, probe, QN_ASIDE);
        assert_true(c->braked);
    }
}

static void success_that_came_too_late_leaves_the_row(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    contract_expire(c, "default");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_ARCHIVE, "default", "a", &err), err);
    die_many(c, "bad", 3);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    assert_int_equal(c->deaths, 3);
}

static void salvaged_success_ends_the_row(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    die_many(c, "bad", 3);
    contract_expire(c, "default");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    assert_int_equal(c->deaths, 0);
}

static void tenth_death_in_a_row_brakes_the_queue_on_that_host_only(struct contract *c)
{
    contract_put_many(c, "other", "o", 2);
    brake(c);
    contract_put_many(c, "default", "a", 2);
    assert_null(contract_take(c, "default"));
    assert_true(c->braked);
    struct qn_leased *run = take_on(c, ELSEWHERE);
    assert_non_null(run);
    contract_finish(c, run, QN_GIVE_BACK);
    struct qn_leased *runs[2];
    assert_int_equal(contract_lease(c, "other", 2, runs), 2);
    assert_false(c->braked);
    contract_finish(c, runs[0], QN_DONE);
    contract_finish(c, runs[1], QN_DONE);
}

static void success_elsewhere_leaves_the_brake(struct contract *c)
{
    brake(c);
    contract_put_many(c, "default", "a", 2);
    struct qn_leased *run = take_on(c, ELSEWHERE);
    struct qn_outcome outcome = {.run = run, .kind = QN_DONE, .started = true};
    struct qn_exchange exchange = {.outcomes = &outcome, .outcome_count = 1, .host = ELSEWHERE};
    enum qn_applied applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(run);
    assert_null(contract_take(c, "default"));
    assert_true(c->braked);
}

static void braked_queue_gives_one_probe_a_second_after_the_last_death(struct contract *c)
{
    struct qn_leased *runs[4];
    brake(c);
    contract_put_many(c, "default", "a", 4);
    assert_int_equal(contract_lease(c, "default", 4, runs), 0);
    assert_int_equal(c->wait_ms, SECOND_MS);
    contract_advance(c, SECOND_MS - 1);
    assert_int_equal(contract_lease(c, "default", 4, runs), 0);
    assert_int_equal(c->wait_ms, 1);
    contract_advance(c, 1);
    assert_int_equal(contract_lease(c, "default", 4, runs), 1);
    assert_true(runs[0]->started);
    struct qn_leased *probe = runs[0];
    contract_advance(c, 10 * SECOND_MS);
    assert_int_equal(contract_lease(c, "default", 4, runs), 0);
    assert_null(take_on(c, CONTRACT_HOST));
    contract_finish(c, probe, QN_GIVE_BACK);
}

static void braked_queue_without_tasks_waits_for_nothing(struct contract *c)
{
    brake(c);
    assert_null(contract_take(c, "default"));
    assert_true(c->braked);
    assert_int_equal(c->wait_ms, 0);
}

static void probe_that_ends_otherwise_releases_the_brake(struct contract *c)
{
    struct qn_leased *runs[4];
    brake(c);
    contract_put_many(c, "default", "a", 4);
    contract_advance(c, SECOND_MS);
    contract_finish(c, contract_take(c, "default"), QN_RETRY);
    assert_false(c->braked);
    assert_int_equal(c->deaths, 0);
    assert_int_equal(contract_lease(c, "default", 4, runs), 3);
    for (size_t i = 0; i < 3; i++) {
        contract_finish(c, runs[i], QN_DONE);
    }
}

static void run_that_was_leased_before_the_brake_releases_it(struct contract *c)
{
    struct qn_leased *old = contract_start(c, "old");
    brake(c);
    contract_put(c, "default", "a");
    assert_null(contract_take(c, "default"));
    contract_finish(c, old, QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void run_of_a_leaving_worker_leaves_the_brake(struct contract *c)
{
    struct qn_leased *old = contract_start(c, "old");
    brake(c);
    struct qn_outcome outcome = {.run = old, .kind = QN_DONE, .started = true};
    struct qn_exchange exchange = {.outcomes = &outcome, .outcome_count = 1, .is_leaving = true};
    enum qn_applied applied = QN_STALE;
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    assert_int_equal(applied, QN_APPLIED);
    qn_leased_free(old);
    contract_put(c, "default", "a");
    assert_null(contract_take(c, "default"));
    assert_true(c->braked);
}

static void probe_that_was_given_back_makes_room_for_another(struct contract *c)
{
    brake(c);
    contract_put(c, "default", "a");
    contract_advance(c, SECOND_MS);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_GIVE_BACK);
    assert_true(c->braked);
    struct qn_leased *probe = contract_take_id(c, "default", "a");
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover(c, "default"), 1);
    qn_leased_free(probe);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_false(c->braked);
}

static void probes_take_the_newest_the_oldest_and_the_charged_in_turns(struct contract *c)
{
    const char *expected[] = {"a0002", "a0000", "a0002", "a0001", "a0000"};
    brake(c);
    contract_put_many(c, "default", "a", 3);
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        contract_advance(c, SECOND_MS);
        (void)contract_forward(c, "default", NULL);
        contract_die(c, contract_take_id(c, "default", expected[i]));
    }
}

static void task_that_died_as_a_probe_goes_behind(struct contract *c)
{
    brake(c);
    contract_put_many(c, "default", "a", 3);
    contract_advance(c, SECOND_MS);
    contract_die(c, contract_take_id(c, "default", "a0002"));
    contract_advance(c, SECOND_MS);
    contract_die(c, contract_take_id(c, "default", "a0000"));
    contract_advance(c, SECOND_MS);
    contract_put(c, "default", "z");
    struct qn_leased *good = take_on(c, ELSEWHERE); /* not braked: by place */
    assert_string_equal(good->task.id, "a0001");
    contract_finish(c, good, QN_DONE); /* this was reported on CONTRACT_HOST */
    const char *order[] = {"a0002", "a0000", "z"};
    for (size_t i = 0; i < TEST_COUNT(order); i++) {
        contract_finish(c, contract_take_id(c, "default", order[i]), QN_DONE);
    }
}

static void probes_come_each_second_then_ever_more_slowly(struct contract *c)
{
    int64_t waits_ms[30];
    brake(c);
    contract_put_many(c, "default", "a", 40);
    for (size_t i = 0; i < TEST_COUNT(waits_ms); i++) {
        assert_null(contract_take(c, "default"));
        waits_ms[i] = c->wait_ms;
        contract_advance(c, c->wait_ms);
        contract_die(c, contract_take(c, "default"));
    }
    for (size_t i = 0; i <= QN_BRAKE_EVEN_PROBES; i++) {
        assert_int_equal(waits_ms[i], 1000);
    }
    const int64_t slow_ms[] = {2000, 4000, 8000, 16000, 32000, 60000, 60000};
    for (size_t i = 0; i < TEST_COUNT(slow_ms); i++) {
        assert_int_equal(waits_ms[QN_BRAKE_EVEN_PROBES + 1 + i], slow_ms[i]);
    }
}

static void clock_that_went_back_stops_no_probe(struct contract *c)
{
    brake(c);
    contract_put(c, "default", "a");
    if (c->maker->has_clock) {
        contract_advance(c, SECOND_MS);
    } else {
        contract_jump(c, -2 * QN_BRAKE_MS_MAX);
    }
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void brake_outlives_the_workers(struct contract *c)
{
    brake(c);
    contract_put(c, "default", "a");
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    contract_heartbeat(c->broker, "worker-3");
    struct qn_leased *run = NULL;
    const struct contract_worker worker = {.id = "worker-3"};
    assert_int_equal(contract_lease_as(c, &worker, "default", 1, &run), 0);
    contract_advance(c, SECOND_MS);
    assert_int_equal(contract_lease_as(c, &worker, "default", 1, &run), 1);
    contract_finish(c, run, QN_DONE);
}

static void queue_reports_on_how_many_hosts_it_is_braked(struct contract *c)
{
    assert_int_equal(contract_queue(c, "default").braked_hosts, 0);
    brake(c);
    quern_queue_info info = contract_queue(c, "default");
    assert_int_equal(info.braked_hosts, 1);
    assert_int_equal(info.probe_at_ms, CONTRACT_NOW_MS + SECOND_MS);
    assert_int_equal(contract_queue(c, "other").braked_hosts, 0);
    contract_put(c, "default", "a");
    contract_advance(c, SECOND_MS);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    info = contract_queue(c, "default");
    assert_int_equal(info.braked_hosts, 0);
    assert_int_equal(info.probe_at_ms, 0);
}

static void brake_of_a_host_that_is_gone_is_forgotten(struct contract *c)
{
    const char *queue = "default";
    size_t removed = 0;
    quern_error err = {0};
    brake(c);
    contract_advance(c, QN_CHARGE_WINDOW_MS - SECOND_MS);
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, &removed, &err),
              err);
    assert_int_equal(contract_queue(c, "default").braked_hosts, 1);
    contract_advance(c, 3 * SECOND_MS);
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{&queue, 1}, 100}, &removed, &err),
              err);
    assert_int_equal(contract_queue(c, "default").braked_hosts, 0);
}

static void broken_deploy_empties_no_queue_into_the_archive(struct contract *c)
{
    enum { TASKS = 200, SECONDS = 600 };
    struct qn_leased *runs[8];
    contract_put_many(c, "default", "a", TASKS);
    for (int i = 0; i < SECONDS; i++) {
        size_t count = contract_lease(c, "default", 8, runs);
        for (size_t k = 0; k < count; k++) {
            contract_die(c, runs[k]);
        }
        contract_advance(c, SECOND_MS);
        (void)contract_forward(c, "default", NULL);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 0);
    contract_advance(c, QN_BRAKE_MS_MAX);
    (void)contract_forward(c, "default", NULL);
    for (size_t done = 0; done < TASKS;) {
        size_t count = contract_lease(c, "default", 8, runs);
        assert_true(count > 0);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(contract_finish(c, runs[k], QN_DONE), QN_APPLIED);
        }
        done += count;
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(deaths_in_a_row_are_counted),
    CONTRACT_TEST(any_other_outcome_ends_the_row),
    CONTRACT_TEST(run_whose_task_was_settled_before_ends_the_row),
    CONTRACT_TEST(given_back_run_leaves_the_row),
    CONTRACT_TEST(run_that_is_put_aside_leaves_the_row),
    CONTRACT_TEST(run_that_never_started_leaves_the_row),
    CONTRACT_TEST(probe_that_is_put_aside_makes_room_for_the_next),
    CONTRACT_TEST(success_that_came_too_late_leaves_the_row),
    CONTRACT_TEST(salvaged_success_ends_the_row),
    CONTRACT_TEST(tenth_death_in_a_row_brakes_the_queue_on_that_host_only),
    CONTRACT_TEST(success_elsewhere_leaves_the_brake),
    CONTRACT_TEST(braked_queue_gives_one_probe_a_second_after_the_last_death),
    CONTRACT_TEST(braked_queue_without_tasks_waits_for_nothing),
    CONTRACT_TEST(probe_that_ends_otherwise_releases_the_brake),
    CONTRACT_TEST(run_that_was_leased_before_the_brake_releases_it),
    CONTRACT_TEST(run_of_a_leaving_worker_leaves_the_brake),
    CONTRACT_TEST(probe_that_was_given_back_makes_room_for_another),
    CONTRACT_TEST(probes_take_the_newest_the_oldest_and_the_charged_in_turns),
    CONTRACT_TEST(task_that_died_as_a_probe_goes_behind),
    CONTRACT_TEST(probes_come_each_second_then_ever_more_slowly),
    CONTRACT_TEST(clock_that_went_back_stops_no_probe),
    CONTRACT_TEST(brake_outlives_the_workers),
    CONTRACT_TEST(queue_reports_on_how_many_hosts_it_is_braked),
    CONTRACT_TEST(brake_of_a_host_that_is_gone_is_forgotten),
    CONTRACT_TEST(broken_deploy_empties_no_queue_into_the_archive),
};
CONTRACT_MAIN(tests)
