/* SPDX-License-Identifier: MIT */
/* test_lanes.c - tasks that wait for a limit of their type or key on Redis: how Go sees and takes
 * them, what a damaged or missing index costs, and the bounds of a lease. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "broker/limit/limit.h"
#include "lib_store.h"
#include "task/limit.h"

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_store_server();
}

static void remove_limit(struct contract *c, quern_limit_scope scope, const char *name)
{
    const struct qn_limit_owner owner = {.queue = "default", .scope = scope, .name = name};
    assert_int_equal(qn_broker_remove_limit(c->broker, &owner, NULL), QUERN_OK);
}

static void put(struct contract *c, const char *id, const char *key)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = id, .limit_key = key});
}

/* Leases all that may run, in as many leases as that takes; they are done at once. */
static size_t run_all(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t sum = 0;
    size_t count = 0;
    do {
        count = contract_lease(c, "default", QN_BATCH_MAX, runs);
        for (size_t i = 0; i < count; i++) {
            (void)contract_finish(c, runs[i], QN_DONE);
        }
        sum += count;
    } while (count > 0 || c->more);
    return sum;
}

/* "a" runs and has the only place of its key; "b", "c" and "d" wait for it. */
static struct qn_leased *fill_key(struct contract *c)
{
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1");
    put(c, "a", "k");
    put(c, "b", "k");
    put(c, "c", "k");
    put(c, "d", "k");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_null(contract_take(c, "default"));
    return run;
}

/* As long as it takes Go's forwarder to get them. */
static void pass_the_far_moment(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    contract_advance(c, (QN_LIMIT_ASIDE_S + 1) * INT64_C(1000));
    while (contract_forward(c, "default", &next_due_at_ms) > 0) {
    }
}

/* --- Go -------------------------------------------------------------------------------- */

static void waiting_task_is_scheduled_for_go(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    assert_string_equal(test_redis_do(server(), "HGET " Q "t:b state"), "scheduled");
    long long at_s = test_redis_count(server(), "ZSCORE " Q "scheduled b");
    assert_int_equal(at_s, CONTRACT_NOW_MS / 1000 + QN_LIMIT_ASIDE_S);
    assert_int_equal(test_redis_count(server(), "LLEN " Q "pending"), 0);
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(run_all(c), 3);
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "scheduled " Q "quern:lanes"), 0);
}

static void forward_puts_a_waiting_task_further_ahead(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    pass_the_far_moment(c);
    assert_int_equal(test_redis_count(server(), "LLEN " Q "pending"), 0);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "scheduled"), 3);
    long long at_s = test_redis_count(server(), "ZSCORE " Q "scheduled b");
    assert_true(at_s > CONTRACT_NOW_MS / 1000 + 2 * QN_LIMIT_ASIDE_S);
    (void)contract_finish(c, run, QN_DONE);
    qn_leased_free(contract_take_id(c, "default", "b"));
}

/* Long before Go's forwarder could get it, and not in each call. */
static void forward_renews_the_moment_when_half_of_it_is_over(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    long long first_s = CONTRACT_NOW_MS / 1000 + QN_LIMIT_ASIDE_S;
    struct qn_leased *run = fill_key(c);
    contract_advance(c, (QN_LIMIT_ASIDE_S / 2 - 1) * INT64_C(1000));
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(test_redis_count(server(), "ZSCORE " Q "scheduled b"), first_s);
    contract_advance(c, 1000);
    assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    assert_int_equal(test_redis_count(server(), "ZSCORE " Q "scheduled b"),
                     first_s + QN_LIMIT_ASIDE_S / 2);
    assert_int_equal(test_redis_count(server(), "ZCOUNT " Q "scheduled -inf %lld", first_s), 0);
    (void)contract_finish(c, run, QN_DONE);
    qn_leased_free(contract_take_id(c, "default", "b"));
}

/* Neither is a delayed task moved, nor do very many of them hide those behind them. */
static void forward_renews_what_stands_behind_delayed_tasks(struct contract *c)
{
    int64_t next_due_at_ms = 0;
    long long now_s = CONTRACT_NOW_MS / 1000;
    char script[160];
    (void)snprintf(script, sizeof script,
                   "for i = 1, 5000 do redis.call('ZADD', '" Q "scheduled', %lld, 'd' .. i) end",
                   now_s + 500);
    (void)test_redis_do(server(), "EVAL %s 0", script);
    qn_leased_free(fill_key(c));
    int calls = 0;
    do {
        assert_true(++calls <= 100);
        contract_advance(c, 1000 + (calls == 1 ? QN_LIMIT_ASIDE_S / 2 * INT64_C(1000) : 0));
        assert_int_equal(contract_forward(c, "default", &next_due_at_ms), 0);
    } while (test_redis_count(server(), "ZCOUNT " Q "scheduled %lld +inf",
                              now_s + QN_LIMIT_ASIDE_S + 1) < 3);
    assert_int_equal(
        test_redis_count(server(), "ZCOUNT " Q "scheduled %lld %lld", now_s + 500, now_s + 500),
        5000);
}

/* Else it would be put ahead for ever. */
static void forward_makes_leases_look_at_lanes_again(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    (void)test_redis_do(server(), "DEL " Q "quern:meta " Q "quern:limit:set");
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(run_all(c), 0);
    pass_the_far_moment(c);
    assert_int_equal(run_all(c), 3);
}

/* As asynq's RunTask, DeleteTask and ArchiveTask leave them. */
static void inspector_of_go_takes_waiting_tasks(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    (void)test_redis_do(server(), "ZREM " Q "scheduled c");
    (void)test_redis_do(server(), "LPUSH " Q "pending c");
    (void)test_redis_do(server(), "HSET " Q "t:c state pending");
    (void)test_redis_do(server(), "ZREM " Q "scheduled b");
    (void)test_redis_do(server(), "DEL " Q "t:b");
    (void)test_redis_do(server(), "ZREM " Q "scheduled d");
    (void)test_redis_do(server(), "ZADD " Q "archived 1800000000 d");
    (void)test_redis_do(server(), "HSET " Q "t:d state archived");
    assert_null(contract_take(c, "default")); /* the limit binds c all the same */
    (void)contract_finish(c, run, QN_DONE);
    run = contract_take_id(c, "default", "c");
    assert_null(contract_take(c, "default"));
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(run_all(c), 0);
    assert_int_equal(contract_state(c, "default", "d"), QUERN_TASK_ARCHIVED);
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "quern:lanes"), 0);
}

/* Its worker was killed, and Go's recoverer, or an operator, took the run away. */
static void place_of_a_run_that_go_ended_comes_back(struct contract *c)
{
    qn_leased_free(fill_key(c));
    (void)test_redis_do(server(), "LREM " Q "active 1 a");
    (void)test_redis_do(server(), "ZREM " Q "lease a");
    (void)test_redis_do(server(), "DEL " Q "t:a");
    qn_leased_free(contract_take_id(c, "default", "b"));
    assert_null(contract_take(c, "default"));
}

/* All that the server has run so far. */
static long long scripts_run(void)
{
    const char *text = strstr(test_redis_do(server(), "INFO commandstats"), "cmdstat_evalsha:");
    return text == NULL ? 0 : strtoll(strchr(text, '=') + 1, NULL, 10);
}

static void late_success_finds_its_task_in_a_lane(struct contract *c)
{
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1");
    put(c, "a", "k");
    put(c, "b", "k");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_string_equal(run->task.id, "a");
    contract_expire(c, "default");
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "0");
    assert_null(contract_take(c, "default"));
    assert_string_equal(test_redis_do(server(), "HGET " Q "t:a state"), "scheduled");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1");
    qn_leased_free(contract_take_id(c, "default", "b"));
}

/* A late task has no run, so it takes no place that another one of its limit could have, and a
 * lease puts by many of them. */
static void late_tasks_take_no_place_of_their_limit(struct contract *c)
{
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1");
    for (int i = 0; i < 100; i++) {
        contract_enqueue(c, &(quern_task){.type = "t", .limit_key = "k", .start_within_ms = 1000});
    }
    put(c, "live", "k");
    contract_advance(c, 1000);
    long long calls = scripts_run();
    struct qn_leased *run = contract_take(c, "default");
    while (run == NULL && c->more) {
        run = contract_take(c, "default");
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "live");
    assert_int_equal(c->late_count, 100);
    assert_true(scripts_run() - calls <= 6);
    assert_null(contract_take(c, "default"));
    (void)contract_finish(c, run, QN_DONE);
}

/* --- Damage ---------------------------------------------------------------------------- */

static const char *const indexes[] = {Q "quern:lanes", Q "quern:lane:k\x1ft", Q "quern:limit:runs",
                                      Q "quern:lanes:idle"};

/* No task is lost or stuck, and the limit is kept as far as it is known. */
static void missing_or_damaged_index_loses_no_task(struct contract *c)
{
    static const char *const values[] = {"", "SET %s x", "LPUSH %s x"};
    for (size_t i = 0; i < TEST_COUNT(indexes) * TEST_COUNT(values); i++) {
        const char *key = indexes[i / TEST_COUNT(values)];
        const char *value = values[i % TEST_COUNT(values)];
        test_redis_empty(server());
        struct qn_leased *run = fill_key(c);
        (void)test_redis_do(server(), "DEL %s", key);
        if (value[0] != '\0') {
            (void)test_redis_do(server(), value, key);
        }
        assert_null(contract_take(c, "default"));
        (void)contract_finish(c, run, QN_DONE);
        size_t count = run_all(c);
        pass_the_far_moment(c);
        assert_int_equal(count + run_all(c), 3);
        assert_int_equal(test_redis_count(server(), "EXISTS " Q "scheduled " Q "pending"), 0);
    }
}

static void all_keys_of_ours_lost_costs_the_limits_only(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    (void)test_redis_do(server(), "DEL " Q "quern:meta " Q "quern:limit:set " Q
                                  "quern:limit:runs " Q "quern:lanes " Q "quern:lanes:idle");
    (void)test_redis_do(server(), "DEL %s", indexes[1]);
    assert_int_equal(run_all(c), 0);
    pass_the_far_moment(c);
    assert_int_equal(run_all(c), 3);
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "scheduled " Q "pending"), 0);
}

/* --- Many ------------------------------------------------------------------------------ */

/* "a0000" to "t0099", each letter a millisecond later. */
#define MANY 1200
static void put_very_many(struct contract *c)
{
    for (char prefix[] = "a"; prefix[0] <= 't'; prefix[0]++) {
        contract_put_many(c, "default", prefix, MANY / 20);
        contract_advance(c, 1);
    }
}

/* A lease moves 512 of them at most, and those behind them come in the next one. */
static void new_limit_sorts_what_waits_in_bounded_leases(struct contract *c)
{
    struct qn_leased *runs[2];
    int leases = 0;
    put_very_many(c);
    contract_enqueue(c, &(quern_task){.type = "quick", .id = "last"});
    contract_limit(c, "default", QUERN_LIMIT_TYPE, "t", "1");
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    assert_string_equal(runs[0]->task.id, "a0000");
    assert_true(test_redis_count(server(), "ZCARD " Q "scheduled") <= 511 + 64);
    while (contract_lease(c, "default", 1, &runs[1]) == 0) {
        assert_true(c->more);
        assert_true(++leases < 8);
    }
    assert_string_equal(runs[1]->task.id, "last");
    (void)contract_finish(c, runs[1], QN_DONE);
    remove_limit(c, QUERN_LIMIT_TYPE, "t");
    for (int i = 1; i < MANY;) {
        struct qn_leased *more[QN_BATCH_MAX];
        size_t count = contract_lease(c, "default", QN_BATCH_MAX, more);
        assert_true(count > 0 || c->more);
        for (size_t k = 0; k < count; k++, i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "%c%04d", 'a' + i / (MANY / 20), i % (MANY / 20));
            assert_string_equal(more[k]->task.id, id);
            (void)contract_finish(c, more[k], QN_DONE);
        }
    }
    (void)contract_finish(c, runs[0], QN_DONE);
    assert_int_equal(run_all(c), 0);
    assert_int_equal(test_redis_count(server(), "HEXISTS " Q "quern:meta limits"), 0);
}

static void removed_queue_leaves_no_key(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *run = fill_key(c);
    (void)contract_finish(c, run, QN_DONE);
    put(c, "e", "other");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    const char *left = test_redis_do(server(), "KEYS asynq:*{default}*");
    for (const char *at = left; *at != '\0'; at = strchr(at, '\n') + 1) {
        assert_non_null(strstr(at, "quern:s:") == at + strlen(Q) ? at : NULL);
    }
}

/* What a type and a key have used of their limits goes with the queue. */
static void queue_that_is_made_again_starts_clean(struct contract *c)
{
    quern_error err = {0};
    for (int i = 0; i < 2; i++) {
        contract_limit(c, "default", QUERN_LIMIT_TYPE, "t", "1/1h");
        contract_limit(c, "default", QUERN_LIMIT_KEY, "*", "1/1h");
        contract_limit(c, "default", QUERN_LIMIT_KEY, "other", "1/1h");
        contract_enqueue(c, &(quern_task){.type = "u", .id = "x", .limit_key = "other"});
        put(c, "a", "k");
        put(c, "b", "k");
        assert_int_equal(run_all(c), 2);
        assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
        const char *left = test_redis_do(server(), "KEYS asynq:{default}:quern:*");
        for (const char *at = left; *at != '\0'; at = strchr(at, '\n') + 1) {
            assert_non_null(strstr(at, "quern:s:") == at + strlen(Q) ? at : NULL);
        }
    }
}

/* A step removes 500 at most. */
static void queue_with_very_many_limits_is_removed_in_steps(struct contract *c)
{
    quern_error err = {0};
    put(c, "a", "k");
    (void)test_redis_do(server(), "EVAL %s 0",
                        "for i = 1, 1200 do redis.call('HSET', '" Q "quern:limit:set', '3s:' .. i, "
                        "'1 1000 0') redis.call('SET', '" Q "quern:limit:use:3:' .. i, '1') end");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    assert_string_equal(test_redis_do(server(), "KEYS " Q "quern:l*"), "");
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "paused " Q "t:a"), 0);
}

/* --- Waking up ------------------------------------------------------------------------- */

static bool arm(struct contract *c)
{
    const char *const queue = "default";
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err), err);
    return work;
}

static void tasks_that_all_wait_are_no_work_for_a_sleeping_worker(struct contract *c)
{
    struct qn_leased *run = fill_key(c);
    assert_false(arm(c));
    (void)contract_finish(c, run, QN_DONE);
    assert_true(arm(c));
    run = contract_take_id(c, "default", "b");
    assert_null(contract_take(c, "default"));
    assert_false(arm(c));
    put(c, "x", "other");
    assert_true(arm(c));
    (void)contract_finish(c, contract_take_id(c, "default", "x"), QN_DONE);
    assert_null(contract_take(c, "default"));
    assert_false(arm(c));
    contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "2");
    assert_true(arm(c));
    (void)contract_finish(c, run, QN_DONE);
}

/* One at a time, until one of them ends otherwise than by a death. */
static void probe_of_a_braked_queue_comes_from_a_lane(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t removed = 0;
    quern_error err = {0};
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    contract_put_many(c, "default", "bad", QN_BRAKE_DEATHS);
    assert_int_equal(contract_lease(c, "default", QN_BRAKE_DEATHS, runs), QN_BRAKE_DEATHS);
    for (size_t i = 0; i < QN_BRAKE_DEATHS; i++) {
        (void)contract_die(c, runs[i]);
    }
    assert_true(c->braked);
    assert_ok(qn_broker_operate_all(c->broker,
                                    &(struct qn_bulk){QUERN_ACTION_DELETE, &filter, QN_BATCH_MAX},
                                    &removed, &err),
              err);
    put(c, "a", "k");
    put(c, "b", "k");
    struct qn_leased *run = contract_take(c, "default");
    for (int i = 0; run == NULL && i < 5; i++) {
        assert_true(c->wait_ms > 0);
        contract_advance(c, c->wait_ms);
        run = contract_take(c, "default");
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "a");
    assert_null(contract_take(c, "default"));
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(run_all(c), 1);
}

struct seen {
    int aside;
    int delayed;
};

static bool note_due(const quern_task_info *info, void *user)
{
    struct seen *seen = user;
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_SCHEDULED);
    if (quern_task_info_limit_key(info)[0] != '\0') {
        assert_int_equal(quern_task_info_due_at_ms(info), 0);
        seen->aside++;
    } else {
        assert_true(quern_task_info_due_at_ms(info) > 0);
        seen->delayed++;
    }
    return true;
}

static void list_shows_no_due_time_of_what_waits_aside(struct contract *c)
{
    struct seen seen = {.aside = 0};
    quern_error err = {0};
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_SCHEDULED};
    struct qn_leased *run = fill_key(c);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "later", .delay_ms = 60000});
    assert_ok(qn_broker_tasks(c->broker, &filter, note_due, &seen, &err), err);
    assert_int_equal(seen.aside, 3);
    assert_int_equal(seen.delayed, 1);
    (void)contract_finish(c, run, QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", waiting_task_is_scheduled_for_go),
    CONTRACT_TEST_ONLY("redis", list_shows_no_due_time_of_what_waits_aside),
    CONTRACT_TEST_ONLY("redis", forward_puts_a_waiting_task_further_ahead),
    CONTRACT_TEST_ONLY("redis", forward_renews_the_moment_when_half_of_it_is_over),
    CONTRACT_TEST_ONLY("redis", forward_renews_what_stands_behind_delayed_tasks),
    CONTRACT_TEST_ONLY("redis", forward_makes_leases_look_at_lanes_again),
    CONTRACT_TEST_ONLY("redis", inspector_of_go_takes_waiting_tasks),
    CONTRACT_TEST_ONLY("redis", place_of_a_run_that_go_ended_comes_back),
    CONTRACT_TEST_ONLY("redis", late_success_finds_its_task_in_a_lane),
    CONTRACT_TEST_ONLY("redis", late_tasks_take_no_place_of_their_limit),
    CONTRACT_TEST_ONLY("redis", missing_or_damaged_index_loses_no_task),
    CONTRACT_TEST_ONLY("redis", all_keys_of_ours_lost_costs_the_limits_only),
    CONTRACT_TEST_ONLY("redis", new_limit_sorts_what_waits_in_bounded_leases),
    CONTRACT_TEST_ONLY("redis", removed_queue_leaves_no_key),
    CONTRACT_TEST_ONLY("redis", queue_that_is_made_again_starts_clean),
    CONTRACT_TEST_ONLY("redis", queue_with_very_many_limits_is_removed_in_steps),
    CONTRACT_TEST_ONLY("redis", probe_of_a_braked_queue_comes_from_a_lane),
    CONTRACT_TEST_ONLY("redis", tasks_that_all_wait_are_no_work_for_a_sleeping_worker),
};

CONTRACT_MAIN(tests)
