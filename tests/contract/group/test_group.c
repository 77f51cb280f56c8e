/* SPDX-License-Identifier: MIT */
/* test_group.c - when it is the turn of a group, at the exact bounds, and what its set holds: the
 * decisions of asynq in its order. */
#include "lib_group.h"

#include <string.h>

#define SECOND 1000

static void assert_none(struct contract *c, struct group_worker *worker, int64_t next_ms)
{
    worker->cursor = (struct qn_group_cursor){0};
    assert_null(group_take(c, worker));
    assert_int_equal(worker->next_ms, next_ms);
}

/* Whose members must be these; the set is given back. */
static void assert_take(struct contract *c, struct group_worker *worker, const char *ids)
{
    worker->cursor = (struct qn_group_cursor){0};
    struct qn_group_set *set = group_take(c, worker);
    assert_non_null(set);
    assert_string_equal(group_ids(set), ids);
    assert_ok(group_return(c, set), ((quern_error){0}));
    qn_group_set_free(set);
}

static void nothing_is_aggregated_without_groups(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    assert_none(c, &worker, INT64_MAX);
    contract_put(c, "default", "a");
    assert_none(c, &worker, INT64_MAX);
    assert_false(worker.waiting);
    assert_int_equal(worker.look_count, 0);
}

static void grace_period_counts_from_the_newest_task(struct contract *c)
{
    struct group_worker worker = {.settings = {.grace_ms = 5 * SECOND}};
    group_put(c, "g", "a");
    contract_advance(c, 4 * SECOND);
    group_put(c, "g", "b");
    assert_none(c, &worker, 5 * SECOND);
    assert_true(worker.waiting);
    contract_advance(c, 5 * SECOND - 1);
    assert_none(c, &worker, 1);
    contract_advance(c, 1);
    assert_take(c, &worker, "a b");
}

static void oldest_task_waits_at_most_the_longest_delay(struct contract *c)
{
    struct group_worker worker = {.settings = {.grace_ms = 5 * SECOND, .max_delay_ms = 8 * SECOND}};
    group_put(c, "g", "a");
    contract_advance(c, 4 * SECOND);
    group_put(c, "g", "b");
    contract_advance(c, 3 * SECOND);
    group_put(c, "g", "c");
    contract_advance(c, SECOND - 1);
    assert_none(c, &worker, 1);
    contract_advance(c, 1);
    assert_take(c, &worker, "a b c");
}

static void full_group_waits_for_nothing(struct contract *c)
{
    struct group_worker worker = {.settings = {.grace_ms = 5 * SECOND, .max_size = 3}};
    group_put(c, "g", "a");
    group_put(c, "g", "b");
    assert_none(c, &worker, 5 * SECOND);
    group_put(c, "g", "c");
    assert_take(c, &worker, "a b c");
    contract_advance(c, SECOND);
    group_put(c, "g", "d");
    assert_take(c, &worker, "a b c");
}

static void rest_of_a_full_group_waits_for_its_grace_period(struct contract *c)
{
    struct group_worker worker = {.settings = {.grace_ms = 5 * SECOND, .max_size = 3}};
    group_put_many(c, "g", "a", 4);
    struct qn_group_set *set = group_take(c, &worker);
    assert_int_equal(set->count, 3);
    assert_none(c, &worker, 5 * SECOND);
    contract_advance(c, 5 * SECOND);
    struct qn_group_set *rest = group_take(c, &worker);
    assert_non_null(rest);
    assert_string_equal(group_ids(rest), "a0003");
    qn_group_set_free(rest);
    qn_group_set_free(set);
}

static void set_due_by_time_is_no_larger_than_a_full_group(struct contract *c)
{
    struct group_worker worker = {
        .settings = {.grace_ms = 60 * SECOND, .max_delay_ms = SECOND, .max_size = 2}};
    group_put(c, "g", "a");
    contract_advance(c, SECOND);
    assert_take(c, &worker, "a");
}

static void member_has_all_that_was_stored(struct contract *c)
{
    const quern_header headers[] = {{.name = "trace", .value = "1"}};
    contract_enqueue(c, &(quern_task){.type = "mail",
                                      .id = "a",
                                      .group = "g",
                                      .payload = "xyz",
                                      .payload_size = 3,
                                      .headers = headers,
                                      .header_count = 1,
                                      .timeout_ms = 1500,
                                      .retention_ms = 2500});
    struct qn_group_set *set = group_take_now(c);
    assert_string_equal(set->queue, "default");
    assert_string_equal(set->group, "g");
    assert_int_equal(set->count, 1);
    const struct qn_task *task = &set->members[0]->task;
    assert_string_equal(task->id, "a");
    assert_string_equal(task->type, "mail");
    assert_string_equal(task->group, "g");
    assert_memory_equal(task->payload, "xyz", 3);
    assert_int_equal(task->header_count, 1);
    assert_string_equal(task->headers[0].value, "1");
    assert_int_equal(task->timeout_ms, 1500);
    assert_int_equal(task->retention_ms, 2500);
    assert_int_equal(task->process_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(task->state, QUERN_TASK_AGGREGATING);
    qn_group_set_free(set);
}

/* Each of them would always be the first. */
static void full_groups_get_their_turn_one_after_the_other(struct contract *c)
{
    struct group_worker worker = {.settings = {.max_size = 1, .grace_ms = 60 * SECOND}};
    char seen[8] = "";
    group_put_many(c, "a", "a", 3);
    group_put_many(c, "b", "b", 3);
    group_put_many(c, "c", "c", 3);
    for (size_t i = 0; i < 3; i++) {
        struct qn_group_set *set = group_take(c, &worker);
        assert_non_null(set);
        assert_null(strchr(seen, set->group[0]));
        seen[i] = set->group[0];
        qn_group_set_free(set);
    }
}

static void only_wanted_groups_are_aggregated(struct contract *c)
{
    struct group_worker worker = {.settings = group_now, .only = "b"};
    group_put(c, "a", "1");
    group_put(c, "b", "2");
    group_put(c, "c", "3");
    assert_take(c, &worker, "2");
    worker.only = "none";
    assert_none(c, &worker, INT64_MAX);
    assert_false(worker.waiting);
}

/* Each of many groups gives one set, and no call looks at all of them. */
static void count_groups(struct contract *c, size_t count)
{
    char group[24];
    char id[24];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(group, sizeof group, "g%zu", i);
        (void)snprintf(id, sizeof id, "t%zu", i);
        group_put(c, group, id);
    }
    assert_int_equal(contract_queue(c, "default").group_count, count);
    struct group_worker idle = {.settings = {.grace_ms = SECOND}};
    assert_none(c, &idle, SECOND);
    assert_in_range(idle.look_count, count, count + count / 10); /* SSCAN may name one twice */
    assert_true(idle.call_count > count / 1000);
    struct group_worker worker = {.settings = group_now};
    for (struct qn_group_set *set = group_take(c, &worker); set != NULL;
         set = group_take(c, &worker)) {
        assert_int_equal(set->count, 1);
        assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
        qn_group_set_free(set);
        found++;
    }
    assert_int_equal(found, count);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_AGGREGATING), 0);
    assert_int_equal(contract_queue(c, "default").group_count, 0);
}

static void twelve_groups_are_all_looked_at(struct contract *c)
{
    count_groups(c, 12);
}

static void two_thousand_groups_are_all_looked_at(struct contract *c)
{
    count_groups(c, 2000);
}

static void large_group_comes_in_several_sets(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    size_t count = 0;
    char last[64] = "";
    group_put_many(c, "g", "t", QN_GROUP_SET_MAX + 1);
    for (size_t left = QN_GROUP_SET_MAX + 1; left > 0; left -= count) {
        struct qn_group_set *set = group_take(c, &worker);
        if (set == NULL) {
            count = 0;
            continue; /* the round is over */
        }
        count = set->count;
        assert_int_equal(count, left > QN_GROUP_SET_MAX ? QN_GROUP_SET_MAX : left);
        for (size_t i = 0; i < count; i++) {
            assert_true(strcmp(last, set->members[i]->task.id) < 0);
            (void)snprintf(last, sizeof last, "%s", set->members[i]->task.id);
        }
        qn_group_set_free(set);
    }
}

static void set_has_bounded_bytes(struct contract *c)
{
    static char payload[QN_BATCH_BYTES_MAX / 2 + 1];
    const char *ids[] = {"a", "b", "c"};
    memset(payload, 'x', sizeof payload);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        contract_enqueue(c, &(quern_task){.type = "t",
                                          .id = ids[i],
                                          .group = "g",
                                          .payload = payload,
                                          .payload_size = sizeof payload});
    }
    struct qn_group_set *first = group_take_now(c);
    struct qn_group_set *second = group_take_now(c);
    assert_string_equal(group_ids(first), "a");
    assert_string_equal(group_ids(second), "b");
    qn_group_set_free(first);
    qn_group_set_free(second);
}

static void delayed_task_joins_its_group_when_it_is_due(struct contract *c)
{
    struct group_worker worker = {.settings = {.grace_ms = 5 * SECOND}};
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "a", .group = "g", .delay_ms = 10 * SECOND});
    group_put(c, "g", "b");
    contract_advance(c, 10 * SECOND);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_AGGREGATING);
    assert_none(c, &worker, 5 * SECOND); /* it has come just now */
    contract_advance(c, 5 * SECOND);
    assert_take(c, &worker, "b a");
    assert_int_equal(contract_queue(c, "default").group_count, 1);
}

static void delayed_task_makes_its_group(struct contract *c)
{
    struct group_worker worker = {.settings = group_now};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .group = "g", .delay_ms = SECOND});
    assert_none(c, &worker, INT64_MAX);
    contract_advance(c, SECOND);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_take(c, &worker, "a");
}

static size_t reclaim_in(struct contract *c, const char *const *queues, size_t count)
{
    size_t reclaimed = 0;
    quern_error err = {0};
    const struct qn_upkeep upkeep = {{queues, count}, 100};
    assert_ok(qn_broker_reclaim_sets(c->broker, upkeep, &reclaimed, &err), err);
    return reclaimed;
}

static void expired_set_goes_back_whichever_of_the_queues_it_is_in(struct contract *c)
{
    static const char *const queues[] = {"a", "b", "default", "c", "d"};
    for (size_t first = 0; first <= 2; first++) {
        for (size_t last = 2; last < TEST_COUNT(queues); last++) {
            group_put(c, "g", "m");
            qn_group_set_free(group_take_now(c));
            contract_advance(c, CONTRACT_LEASE_MS + SECOND);
            assert_int_equal(reclaim_in(c, queues + first, last - first + 1), 1);
            struct qn_group_set *set = group_take_now(c);
            assert_int_equal(group_finish(c, set, NULL), QUERN_OK);
            qn_group_set_free(set);
        }
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(nothing_is_aggregated_without_groups),
    CONTRACT_TEST(grace_period_counts_from_the_newest_task),
    CONTRACT_TEST(oldest_task_waits_at_most_the_longest_delay),
    CONTRACT_TEST(full_group_waits_for_nothing),
    CONTRACT_TEST(rest_of_a_full_group_waits_for_its_grace_period),
    CONTRACT_TEST(set_due_by_time_is_no_larger_than_a_full_group),
    CONTRACT_TEST(member_has_all_that_was_stored),
    CONTRACT_TEST(full_groups_get_their_turn_one_after_the_other),
    CONTRACT_TEST(only_wanted_groups_are_aggregated),
    CONTRACT_TEST(twelve_groups_are_all_looked_at),
    CONTRACT_TEST(two_thousand_groups_are_all_looked_at),
    CONTRACT_TEST(large_group_comes_in_several_sets),
    CONTRACT_TEST(set_has_bounded_bytes),
    CONTRACT_TEST(delayed_task_joins_its_group_when_it_is_due),
    CONTRACT_TEST(delayed_task_makes_its_group),
    CONTRACT_TEST(expired_set_goes_back_whichever_of_the_queues_it_is_in),
};

CONTRACT_MAIN(tests)
