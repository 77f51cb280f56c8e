/* SPDX-License-Identifier: MIT */
/* test_runs.c - how many tasks run at a time: by queue, type and key. */
#include "lib_limits.h"

#include <string.h>

#include "broker/inspect.h"
#include "broker/limit/limit.h"

/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

static void put(struct contract *c, const char *ids, const char *type, const char *key)
{
    char copy[256];
    char *at = NULL;
    (void)snprintf(copy, sizeof copy, "%s", ids);
    for (char *id = strtok_r(copy, " ", &at); id != NULL; id = strtok_r(NULL, " ", &at)) {
        limits_put(c, id, type, key);
    }
}

static void queue_runs_no_more_than_its_limit(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "2");
    put(c, "a b c d", NULL, NULL);
    limits_lease(c, 10, "a b");
    limits_lease(c, 10, "");
    assert_int_equal(contract_state(c, "default", "c"), QUERN_TASK_PENDING);
    assert_int_equal(limits_used(c, QUERN_LIMIT_QUEUE, "", false), 2);
    limits_done(c, "a");
    limits_lease(c, 10, "c");
    limits_lease(c, 10, "");
    limits_done(c, "b");
    limits_done(c, "c");
    limits_lease(c, 10, "d");
    limits_done(c, "d");
    assert_int_equal(limits_used(c, QUERN_LIMIT_QUEUE, "", false), 0);
    limits_finish();
}

static void limit_of_a_type_holds_up_no_other_type(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "1");
    put(c, "s1 s2 s3", "slow", NULL);
    put(c, "q1 q2", "quick", NULL);
    limits_lease(c, 10, "s1 q1 q2");
    limits_done(c, "s1");
    limits_lease(c, 10, "s2");
    limits_finish();
}

static void limit_set_while_tasks_wait_counts_those_that_run(struct contract *c)
{
    limits_begin(c);
    put(c, "s1 s2 s3 s4", "slow", NULL);
    limits_lease(c, 2, "s1 s2");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "3");
    assert_int_equal(limits_used(c, QUERN_LIMIT_TYPE, "slow", false), 2); /* before any lease */
    limits_lease(c, 10, "s3");
    assert_int_equal(limits_used(c, QUERN_LIMIT_TYPE, "slow", false), 3);
    limits_finish();
}

static void use_of_a_new_limit_is_known_where_nothing_waits(struct contract *c)
{
    limits_begin(c);
    put(c, "a1 a2", "slow", "a");
    put(c, "b1", "quick", "b");
    limits_lease(c, 10, "a1 b1 a2");
    limits_set(c, QUERN_LIMIT_KEY, "a", "1");
    limits_set(c, QUERN_LIMIT_KEY, "none", "1");
    limits_set(c, QUERN_LIMIT_TYPE, "quick", "5");
    assert_int_equal(limits_used(c, QUERN_LIMIT_KEY, "a", false), 2);
    assert_int_equal(limits_used(c, QUERN_LIMIT_KEY, "none", false), 0);
    assert_int_equal(limits_used(c, QUERN_LIMIT_TYPE, "quick", false), 1);
    limits_done(c, "a1");
    assert_int_equal(limits_used(c, QUERN_LIMIT_KEY, "a", false), 1);
    limits_finish();
}

static void each_key_has_its_limit_and_one_its_own(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "1");
    limits_set(c, QUERN_LIMIT_KEY, "big", "2");
    put(c, "b1 b2 b3", NULL, "big");
    put(c, "x1 x2", NULL, "x");
    put(c, "y1", NULL, "y");
    put(c, "n1 n2", NULL, NULL);
    limits_lease(c, 10, "b1 x1 y1 n1 b2 n2");
    assert_int_equal(limits_used(c, QUERN_LIMIT_KEY, "big", false), 2);
    limits_done(c, "b1");
    limits_done(c, "x1");
    limits_lease(c, 10, "b3 x2");
    assert_int_equal(limits_used(c, QUERN_LIMIT_KEY, "*", false), 0);
    limits_finish();
}

/* However many of them a broker reads at once. */
static void limits_of_many_keys_hold_beside_that_of_each(struct contract *c)
{
    static const int counts[] = {31, 32, 50};
    char key[16];
    int set = 0;
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "1");
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        for (; set < counts[i]; set++) {
            (void)snprintf(key, sizeof key, "own-%02d", set);
            limits_set(c, QUERN_LIMIT_KEY, key, "2");
        }
        put(c, "a1 a2 a3", NULL, "own-00");
        put(c, "b1 b2 b3", NULL, key);
        put(c, "x1 x2 x3", NULL, "x");
        limits_lease(c, 10, "a1 b1 x1 a2 b2");
        limits_done(c, "a1");
        limits_done(c, "x1");
        limits_lease(c, 10, "x2 a3");
        limits_done(c, "x2");
        limits_done(c, "b1");
        limits_lease(c, 10, "b3 x3");
        limits_done(c, "a2");
        limits_done(c, "a3");
        limits_done(c, "b2");
        limits_done(c, "b3");
        limits_done(c, "x3");
    }
    limits_finish();
}

static void tasks_of_a_key_whose_type_has_to_wait_let_others_of_it_pass(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "1");
    limits_set(c, QUERN_LIMIT_KEY, "k", "2");
    put(c, "s1 s2", "slow", "k");
    put(c, "q1 q2", "quick", "k");
    limits_lease(c, 10, "s1 q1");
    limits_done(c, "q1");
    limits_lease(c, 10, "q2");
    limits_done(c, "s1");
    limits_lease(c, 10, "s2");
    limits_finish();
}

static void task_that_waits_for_a_limit_costs_no_attempt(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "0");
    put(c, "a", NULL, NULL);
    for (int i = 0; i < 5; i++) {
        limits_lease(c, 10, "");
    }
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.cause, QUERN_CAUSE_NONE);
    limits_finish();
}

static void limits_change_while_tasks_run(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "k", "3");
    put(c, "a b c d e f", NULL, "k");
    limits_lease(c, 10, "a b c");
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    limits_done(c, "a");
    limits_done(c, "b");
    limits_lease(c, 10, "");
    limits_done(c, "c");
    limits_lease(c, 10, "d");
    limits_set(c, QUERN_LIMIT_KEY, "k", "2");
    limits_lease(c, 10, "e");
    limits_remove(c, QUERN_LIMIT_KEY, "k");
    limits_lease(c, 10, "f");
    limits_finish();
}

static void limit_that_is_not_there_cannot_be_removed(struct contract *c)
{
    limits_begin(c);
    quern_error err = {0};
    const struct qn_limit_owner owner = {.queue = "default", .scope = QUERN_LIMIT_KEY, .name = "k"};
    assert_int_equal(qn_broker_remove_limit(c->broker, &owner, &err), QUERN_E_NOT_FOUND);
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    limits_set(c, QUERN_LIMIT_KEY, "k", "1/s");
    limits_remove(c, QUERN_LIMIT_KEY, "k");
    assert_int_equal(qn_broker_remove_limit(c->broker, &owner, &err), QUERN_E_NOT_FOUND);
    limits_finish();
}

static void every_end_of_a_run_frees_its_place(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE,    QN_DROP,   QN_RETRY, QN_SNOOZE,
                                                 QN_ARCHIVE, QN_CANCEL, QN_ASIDE, QN_GIVE_BACK};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "1");
    limits_set(c, QUERN_LIMIT_KEY, "*", "1");
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        put(c, "a", NULL, "k");
        limits_lease(c, 10, "a");
        limits_end(c, "a", kinds[i]);
        assert_int_equal(limits_used(c, QUERN_LIMIT_QUEUE, "", false), 0);
        quern_error err = {0};
        put(c, "b", NULL, "k");
        limits_lease(c, 1, kinds[i] == QN_GIVE_BACK ? "a" : "b");
        limits_done(c, kinds[i] == QN_GIVE_BACK ? "a" : "b");
        assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
        limits_set(c, QUERN_LIMIT_QUEUE, "", "1");
        limits_set(c, QUERN_LIMIT_KEY, "*", "1");
    }
    limits_finish();
}

static void place_of_a_dead_worker_comes_back(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[4];
    limits_begin(c);
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "2");
    limits_set(c, QUERN_LIMIT_KEY, "k", "2");
    put(c, "a b c", NULL, "k");
    assert_int_equal(contract_lease_as(c, &dead, "default", 4, runs), 2);
    limits_lease(c, 10, "");
    assert_int_equal(contract_recover(c, "default"), 2);
    limits_lease(c, 10, "a b");
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    limits_finish();
}

static void place_of_an_expired_lease_comes_back(struct contract *c)
{
    limits_begin(c);
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    limits_set(c, QUERN_LIMIT_TYPE, "t", "1");
    put(c, "a b", NULL, NULL);
    struct qn_leased *run = contract_fetch(c, "default");
    assert_string_equal(run->task.id, "a");
    limits_lease(c, 10, "");
    contract_expire(c, "default");
    limits_lease(c, 10, "a");
    qn_leased_free(run);
    limits_finish();
}

static void charged_task_is_bound_by_limits_too(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    put(c, "a b", NULL, "k");
    put(c, "z", NULL, "other");
    limits_lease(c, 10, "a z");
    limits_end(c, "a", QN_CRASH);
    limits_done(c, "z");
    put(c, "y", NULL, "other");
    limits_lease(c, 1, "a"); /* charged, and first of its key */
    put(c, "x", NULL, "k");
    limits_lease(c, 10, "y");
    limits_finish();
}

static void charged_tasks_of_a_key_share_its_limit(struct contract *c)
{
    struct qn_leased *runs[4];
    limits_begin(c);
    put(c, "a b c", NULL, "k");
    limits_lease(c, 3, "a b c");
    limits_end(c, "a", QN_CRASH);
    limits_end(c, "b", QN_CRASH);
    limits_end(c, "c", QN_CRASH);
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(contract_lease(c, "default", 4, runs), 1);
        contract_finish(c, runs[0], QN_DONE);
    }
    limits_finish();
}

static void end_of_a_run_wakes_those_that_wait_for_its_place(struct contract *c)
{
    const char *const queue = "default";
    struct qn_wakeup wakeup = {0};
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "1");
    put(c, "a b", NULL, NULL);
    limits_lease(c, 10, "a");
    struct qn_broker *sleeper = contract_open(c);
    for (int i = 0; i < 2; i++) { /* the first wait takes what came before */
        assert_ok(qn_broker_arm(sleeper, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                  err);
        if (i == 1) {
            limits_done(c, "a");
        }
        wakeup = (struct qn_wakeup){0};
        assert_ok(qn_broker_wait(sleeper, i == 0 ? 1 : BRIEFLY_MS, &wakeup, &err), err);
    }
    assert_true(wakeup.work);
    qn_broker_close(sleeper);
    limits_finish();
}

static void removed_queue_has_no_limits(struct contract *c)
{
    quern_error err = {0};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "1");
    limits_set(c, QUERN_LIMIT_KEY, "*", "1/1h");
    put(c, "a", NULL, "k");
    limits_lease(c, 10, "a");
    limits_done(c, "a");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    put(c, "b c d", NULL, "k");
    limits_lease(c, 10, "b c d");
    limits_finish();
}

static void key_of_a_task_is_listed_and_kept(struct contract *c)
{
    quern_error err = {0};
    quern_task_info *info = NULL;
    limits_begin(c);
    put(c, "a", NULL, "acme");
    put(c, "b", NULL, NULL);
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ok(quern_inspector_task(inspector, "default", "a", &info, &err), err);
    assert_string_equal(quern_task_info_limit_key(info), "acme");
    quern_task_info_free(info);
    assert_ok(quern_inspector_task(inspector, "default", "b", &info, &err), err);
    assert_string_equal(quern_task_info_limit_key(info), "");
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    struct qn_leased *run = contract_take(c, "default");
    assert_string_equal(run->task.limit_key, "acme");
    qn_leased_free(run);
    run = contract_take(c, "default");
    assert_null(run->task.limit_key);
    qn_leased_free(run);
    limits_finish();
}

/* A unique task of type t with key a; the replacement has another type and another key. */
static void put_and_replace(struct contract *c)
{
    quern_task task = {.type = "t",
                       .id = "holder",
                       .unique_ms = 3600000,
                       .unique_key = "u",
                       .limit_key = "a",
                       .on_duplicate = QUERN_ON_DUPLICATE_REPLACE};
    contract_enqueue(c, &task);
    task.id = "new";
    task.type = "slow";
    task.limit_key = "b";
    contract_enqueue(c, &task);
    assert_int_equal(contract_state(c, "default", "new"), 0);
}

static void replaced_task_is_bound_by_the_limit_of_its_new_type(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "1");
    limits_set(c, QUERN_LIMIT_TYPE, "t", "1");
    limits_put(c, "slow0", "slow", "a");
    limits_put(c, "t0", "t", "a");
    limits_lease(c, 2, "slow0 t0");
    put_and_replace(c);
    limits_done(c, "t0");
    limits_lease(c, 1, "");
    limits_done(c, "slow0");
    limits_put(c, "t1", "t", "a");
    limits_lease(c, 1, "holder");
    limits_lease(c, 1, "t1"); /* holder counts for slow only */
    limits_finish();
}

static void replaced_task_keeps_its_own_key(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "a", "1");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "9");
    limits_put(c, "a0", NULL, "a");
    limits_lease(c, 1, "a0");
    put_and_replace(c);
    limits_lease(c, 1, "");
    limits_put(c, "b0", NULL, "b");
    limits_lease(c, 1, "b0");
    limits_done(c, "a0");
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_string_equal(run->task.limit_key, "a");
    assert_string_equal(run->task.type, "slow");
    qn_leased_free(run);
    limits_finish();
}

/* One that waits for its turn is pending: it stays where it is. */
static void waiting_task_cannot_be_run_by_hand(struct contract *c)
{
    quern_error err = {0};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    put(c, "a b c", NULL, "k");
    limits_lease(c, 10, "a");
    limits_lease(c, 10, "");
    assert_int_equal(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "b", &err),
                     QUERN_E_STATE);
    assert_non_null(strstr(err.text, "pending"));
    limits_done(c, "a");
    limits_lease(c, 10, "b");
    limits_done(c, "b");
    limits_lease(c, 10, "c");
    limits_finish();
}

static void task_that_is_run_by_hand_is_the_last_of_its_key_and_bound_by_its_limit(
    struct contract *c)
{
    quern_error err = {0};
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "k", "1");
    put(c, "old", NULL, "k");
    limits_lease(c, 10, "old");
    limits_end(c, "old", QN_ARCHIVE);
    put(c, "a b", NULL, "k");
    limits_lease(c, 10, "a");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "old", &err), err);
    limits_lease(c, 10, "");
    limits_done(c, "a");
    limits_lease(c, 10, "b");
    limits_lease(c, 10, "");
    limits_done(c, "b");
    limits_lease(c, 10, "old");
    limits_finish();
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(queue_runs_no_more_than_its_limit),
    CONTRACT_TEST(limit_of_a_type_holds_up_no_other_type),
    CONTRACT_TEST(limit_set_while_tasks_wait_counts_those_that_run),
    CONTRACT_TEST(use_of_a_new_limit_is_known_where_nothing_waits),
    CONTRACT_TEST(each_key_has_its_limit_and_one_its_own),
    CONTRACT_TEST(limits_of_many_keys_hold_beside_that_of_each),
    CONTRACT_TEST(tasks_of_a_key_whose_type_has_to_wait_let_others_of_it_pass),
    CONTRACT_TEST(task_that_waits_for_a_limit_costs_no_attempt),
    CONTRACT_TEST(limits_change_while_tasks_run),
    CONTRACT_TEST(limit_that_is_not_there_cannot_be_removed),
    CONTRACT_TEST(every_end_of_a_run_frees_its_place),
    CONTRACT_TEST(place_of_a_dead_worker_comes_back),
    CONTRACT_TEST(place_of_an_expired_lease_comes_back),
    CONTRACT_TEST(charged_task_is_bound_by_limits_too),
    CONTRACT_TEST(charged_tasks_of_a_key_share_its_limit),
    CONTRACT_TEST(end_of_a_run_wakes_those_that_wait_for_its_place),
    CONTRACT_TEST(removed_queue_has_no_limits),
    CONTRACT_TEST(key_of_a_task_is_listed_and_kept),
    CONTRACT_TEST(replaced_task_is_bound_by_the_limit_of_its_new_type),
    CONTRACT_TEST(replaced_task_keeps_its_own_key),
    CONTRACT_TEST(waiting_task_cannot_be_run_by_hand),
    CONTRACT_TEST(task_that_is_run_by_hand_is_the_last_of_its_key_and_bound_by_its_limit),
};

CONTRACT_MAIN(tests)
