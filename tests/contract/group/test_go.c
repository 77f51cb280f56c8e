/* SPDX-License-Identifier: MIT */
/* test_go.c - groups beside Go, on Redis: sets as Go's scripts leave them, ours as Go's scripts
 * expect them; members that are damaged; a server whose memory is full. */
#include "lib_group.h"

#include <stdio.h>
#include <string.h>

#define SECOND 1000
#define Q "asynq:{default}:"
#define GO_SET Q "g:g:3f2b1c7e-8a52-4d39-9a51-6f1f2a9d8c10"

static struct test_redis *server(void)
{
    return test_store_server();
}

static long long server_s(struct contract *c)
{
    return c->store.wall_ms / 1000;
}

/* What asynq's aggregationCheck does with all tasks of the group "g". */
static void make_go_set(struct contract *c, long long deadline_s)
{
    assert_string_equal(test_redis_do(server(), "RENAME %s %s", Q "g:g", GO_SET), "OK");
    assert_int_equal(test_redis_count(server(), "SREM %s g", Q "groups"), 1);
    assert_int_equal(
        test_redis_count(server(), "ZADD %s %lld %s", Q "aggregation_sets", deadline_s, GO_SET), 1);
    assert_int_equal(contract_queue(c, "default").group_count, 0);
}

static void set_of_go_is_given_back_after_its_deadline(struct contract *c)
{
    group_put(c, "g", "a");
    contract_advance(c, SECOND);
    group_put(c, "g", "b");
    make_go_set(c, server_s(c) + 120);
    contract_advance(c, 119 * SECOND);
    assert_int_equal(group_reclaim(c, 100), 0);
    contract_advance(c, SECOND);
    assert_int_equal(group_reclaim(c, 100), 2);
    assert_int_equal(test_redis_count(server(), "EXISTS %s", GO_SET), 0);
    assert_int_equal(test_redis_count(server(), "ZCARD %s", Q "aggregation_sets"), 0);
    assert_int_equal(test_redis_count(server(), "SISMEMBER %s g", Q "groups"), 1);
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), "a b");
    qn_group_set_free(set);
}

/* Go's sets may have any size. */
static void large_set_of_go_is_given_back_in_parts(struct contract *c)
{
    const size_t count = 2500;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(test_redis_count(server(), "ZADD %s 1 t%lld", GO_SET, (long long)i), 1);
    }
    assert_int_equal(test_redis_count(server(), "ZADD %s 1 %s", Q "aggregation_sets", GO_SET), 1);
    assert_int_equal(group_reclaim(c, 300), 300);
    assert_int_equal(test_redis_count(server(), "ZCARD %s", Q "g:g"), 300);
    assert_int_equal(group_reclaim(c, 100000), count - 300);
    assert_int_equal(test_redis_count(server(), "ZCARD %s", Q "g:g"), count);
    assert_int_equal(test_redis_count(server(), "ZCARD %s", Q "aggregation_sets"), 0);
}

/* asynq's reclaimStateAggregationSets takes what precedes the last colon for the key of the group,
 * and reads scores as whole seconds. */
static void our_set_is_one_that_go_can_give_back(struct contract *c)
{
    char key[CONTRACT_TEXT_SIZE];
    char rows[CONTRACT_TEXT_SIZE];
    group_put(c, "a:b", "x");
    long long added_s = server_s(c);
    struct qn_group_set *set = group_take_now(c);
    (void)snprintf(key, sizeof key, "%s",
                   test_redis_do(server(), "ZRANGE %s 0 -1", Q "aggregation_sets"));
    key[strcspn(key, "\n")] = '\0';
    *strrchr(key, ':') = '\0';
    assert_string_equal(key, Q "g:a:b");
    key[strlen(key)] = ':';
    (void)snprintf(rows, sizeof rows, "x\n%lld\n", added_s);
    assert_string_equal(test_redis_do(server(), "ZRANGE %s 0 -1 WITHSCORES", key), rows);
    (void)snprintf(rows, sizeof rows, "%lld", (long long)(server_s(c) + CONTRACT_LEASE_MS / 1000));
    assert_string_equal(test_redis_do(server(), "ZSCORE %s %s", Q "aggregation_sets", key), rows);
    /* What Go's scripts do then: they do not list the group. */
    assert_string_equal(test_redis_do(server(), "RENAME %s %s", key, Q "g:a:b"), "OK");
    assert_int_equal(test_redis_count(server(), "ZREM %s %s", Q "aggregation_sets", key), 1);
    assert_false(group_extend(c, set));
    assert_int_equal(group_finish(c, set, "made"), QUERN_E_STALE);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 0);
    qn_group_set_free(set);
    set = group_take_now(c);
    assert_string_equal(group_ids(set), "x");
    qn_group_set_free(set);
}

static bool is_listed(const char *group)
{
    return test_redis_count(server(), "SISMEMBER %s %s", Q "groups", group) == 1;
}

/* Whichever way a set ends, and while another worker has one of the group. */
static void name_is_listed_while_the_group_has_tasks_or_sets(struct contract *c)
{
    struct group_worker small = {.settings = {.grace_ms = 0, .max_size = 1}};
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    struct qn_group_set *first = group_take(c, &small);
    struct qn_group_set *second = group_take_now(c);
    assert_int_equal(test_redis_count(server(), "EXISTS %s", Q "g:g"), 0);
    assert_int_equal(contract_queue(c, "default").group_count, 0); /* none waits in it */
    assert_int_equal(group_finish(c, first, "made"), QUERN_OK);
    assert_true(is_listed("g"));
    assert_int_equal(group_return(c, second), QUERN_OK);
    qn_group_set_free(first);
    qn_group_set_free(second);
    second = group_take_now(c);
    assert_true(is_listed("g"));
    assert_int_equal(group_finish(c, second, NULL), QUERN_OK);
    assert_false(is_listed("g"));
    qn_group_set_free(second);
}

/* Nor when an operator deletes its last member that is in no set; nor does a set of the wrong type
 * keep him from it. */
static void name_is_listed_while_a_set_of_a_group_without_members_is_out(struct contract *c)
{
    struct group_worker small = {.settings = {.grace_ms = 0, .max_size = 1}};
    quern_error err = {0};
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    struct qn_group_set *set = group_take(c, &small);
    (void)test_redis_do(server(), "SET %s text", Q "g:g:x");
    (void)test_redis_do(server(), "ZADD %s 1 %s", Q "aggregation_sets", Q "g:g:x");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "b", &err), err);
    assert_true(is_listed("g"));
    (void)test_redis_do(server(), "ZREM %s %s", Q "aggregation_sets", Q "g:g:x");
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    assert_false(is_listed("g"));
    qn_group_set_free(set);
}

/* A name that another program has left behind. */
static void name_of_no_tasks_leaves_the_list(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    group_put(c, "g", "a");
    assert_int_equal(test_redis_count(server(), "SADD %s h", Q "groups"), 1);
    struct qn_group_set *set = group_take_now(c);
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    qn_group_set_free(set);
    assert_null(group_take(c, &worker));
    assert_int_equal(test_redis_count(server(), "EXISTS %s", Q "groups"), 0);
}

/* Before a Go server can give it back, which would not list it. */
static void group_of_a_set_that_ends_soon_is_listed(struct contract *c)
{
    group_put(c, "g", "a");
    make_go_set(c, server_s(c) + 120);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_false(is_listed("g"));
    contract_advance(c, 100 * SECOND);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_true(is_listed("g"));
}

/* Sets of the wrong type, and what is no set at all. */
static void damaged_sets_hide_none_behind_them(struct contract *c)
{
    group_put(c, "g", "a");
    make_go_set(c, server_s(c) - 1);
    (void)test_redis_do(server(), "EVAL %s 2 " Q "aggregation_sets " Q "g:h:",
                        "for i = 1, 2000 do redis.call('SET', KEYS[2] .. i, 'text') "
                        "redis.call('ZADD', KEYS[1], 1, KEYS[2] .. i, 2, 'other' .. i) end");
    assert_int_equal(group_reclaim(c, 100), 1);
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), "a");
    qn_group_set_free(set);
}

static void lock_that_only_the_message_names_ends_with_the_member(struct contract *c)
{
    const quern_task task = {.type = "t", .id = "a", .group = "g", .unique_ms = 3600 * SECOND};
    contract_enqueue(c, &task);
    assert_int_equal(test_redis_count(server(), "HDEL %s unique_key", Q "t:a"), 1);
    struct qn_group_set *set = group_take_now(c);
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
    qn_group_set_free(set);
}

static void member_without_a_task_leaves_the_group(struct contract *c)
{
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    group_put(c, "h", "c");
    assert_int_equal(test_redis_count(server(), "DEL %s %s", Q "t:a", Q "t:c"), 2);
    struct group_worker worker = {.settings = group_now};
    struct qn_group_set *set = group_take(c, &worker);
    assert_string_equal(group_ids(set), "b");
    assert_null(group_take(c, &worker));
    assert_false(is_listed("h"));
    assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
    assert_false(is_listed("g"));
    qn_group_set_free(set);
}

static void plant_ghosts(const char *group)
{
    (void)test_redis_do(server(), "EVAL %s 2 " Q "g:%s " Q "groups %s",
                        "for i = 1, 1000 do redis.call('ZADD', KEYS[1], 1, 'ghost' .. i) end "
                        "return redis.call('SADD', KEYS[2], ARGV[1])",
                        group, group);
}

/* However many there are, no call takes long, and the tasks behind them are not forgotten. */
static void members_without_tasks_leave_step_by_step(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    struct qn_group_set *set = NULL;
    group_put(c, "g", "a");
    plant_ghosts("g");
    plant_ghosts("h");
    long long left = 2001;
    while ((set = group_take(c, &worker)) == NULL) {
        long long now = test_redis_count(server(), "ZCARD " Q "g:g") +
                        test_redis_count(server(), "ZCARD " Q "g:h");
        assert_true(worker.waiting && worker.next_ms == 0);
        assert_true(now < left && now >= left - 1000);
        left = now;
    }
    assert_string_equal(group_ids(set), "a");
    qn_group_set_free(set);
}

static void member_that_is_elsewhere_is_not_aggregated(struct contract *c)
{
    contract_put(c, "default", "a");
    group_put(c, "g", "b");
    assert_int_equal(test_redis_count(server(), "ZADD %s 1 a", Q "g:g"), 1);
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), "b");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    qn_group_set_free(set);
}

static void damaged_member_costs_one_task(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    group_put(c, "h", "c");
    assert_int_equal(test_redis_count(server(), "HSET %s msg damaged", Q "t:a"), 0);
    assert_int_equal(test_redis_count(server(), "HSET %s msg damaged", Q "t:c"), 0);
    struct qn_group_set *set = group_take(c, &worker);
    assert_string_equal(group_ids(set), "b");
    assert_null(group_take(c, &worker));
    assert_int_equal(worker.unusable_count, 2);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    assert_int_equal(contract_state(c, "default", "c"), QUERN_TASK_ARCHIVED);
    assert_int_equal(test_redis_count(server(), "ZCARD %s", Q "aggregation_sets"), 1);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 2);
    qn_group_set_free(set);
}

static void wrong_type_of_a_group_costs_that_group(struct contract *c)
{
    group_put(c, "g", "a");
    group_put(c, "h", "b");
    assert_string_equal(test_redis_do(server(), "SET %s text", Q "g:h"), "OK");
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(group_ids(set), "a");
    assert_string_equal(test_redis_do(server(), "SET %s text", Q "g:g"), "OK");
    assert_int_equal(group_return(c, set), QUERN_E_CORRUPT);
    contract_advance(c, CONTRACT_LEASE_MS + SECOND);
    assert_int_equal(group_reclaim(c, 100), 0);
    assert_int_equal(test_redis_count(server(), "DEL %s", Q "g:g"), 1);
    assert_int_equal(group_reclaim(c, 100), 1);
    qn_group_set_free(set);
}

static void full_server_is_emptied_by_aggregation(struct contract *c)
{
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    assert_string_equal(test_redis_do(server(), "CONFIG SET maxmemory 1"), "OK");
    struct qn_group_set *set = group_take_now(c);
    assert_true(group_extend(c, set));
    assert_int_equal(group_return(c, set), QUERN_OK);
    qn_group_set_free(set);
    set = group_take_now(c);
    contract_advance(c, CONTRACT_LEASE_MS + SECOND);
    assert_int_equal(group_reclaim(c, 100), 2);
    qn_group_set_free(set);
    set = group_take_now(c);
    assert_int_equal(group_finish(c, set, "made"), QUERN_OK);
    assert_string_equal(test_redis_do(server(), "CONFIG SET maxmemory 0"), "OK");
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_AGGREGATING), 0);
    qn_group_set_free(set);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", set_of_go_is_given_back_after_its_deadline),
    CONTRACT_TEST_ONLY("redis", large_set_of_go_is_given_back_in_parts),
    CONTRACT_TEST_ONLY("redis", our_set_is_one_that_go_can_give_back),
    CONTRACT_TEST_ONLY("redis", name_is_listed_while_the_group_has_tasks_or_sets),
    CONTRACT_TEST_ONLY("redis", name_is_listed_while_a_set_of_a_group_without_members_is_out),
    CONTRACT_TEST_ONLY("redis", name_of_no_tasks_leaves_the_list),
    CONTRACT_TEST_ONLY("redis", group_of_a_set_that_ends_soon_is_listed),
    CONTRACT_TEST_ONLY("redis", damaged_sets_hide_none_behind_them),
    CONTRACT_TEST_ONLY("redis", lock_that_only_the_message_names_ends_with_the_member),
    CONTRACT_TEST_ONLY("redis", member_without_a_task_leaves_the_group),
    CONTRACT_TEST_ONLY("redis", members_without_tasks_leave_step_by_step),
    CONTRACT_TEST_ONLY("redis", member_that_is_elsewhere_is_not_aggregated),
    CONTRACT_TEST_ONLY("redis", damaged_member_costs_one_task),
    CONTRACT_TEST_ONLY("redis", wrong_type_of_a_group_costs_that_group),
    CONTRACT_TEST_ONLY("redis", full_server_is_emptied_by_aggregation),
};

CONTRACT_MAIN(tests)
