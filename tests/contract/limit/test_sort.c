/* SPDX-License-Identifier: MIT */
/* test_sort.c - a queue with many tasks gets its first limit by type, or its first key. */
#include "lib_limits.h"

#include <sqlite3.h>
#include <string.h>

#include "base/memory/arena.h"
#include "task/limit.h"

#define TASK_COUNT 4000
#define LEASES_MAX 400

/* Every second task has the type "slow", beginning with the first one; the others have "t". */
static void put_mixed(struct contract *c, size_t count)
{
    static quern_status results[QN_BATCH_MAX];
    static struct qn_task tasks[QN_BATCH_MAX];
    const struct qn_task_terms terms = contract_terms(c);
    struct qn_arena arena = {0};
    quern_error err = {0};
    for (size_t first = 0; first < count; first += QN_BATCH_MAX) {
        size_t size = count - first < QN_BATCH_MAX ? count - first : QN_BATCH_MAX;
        for (size_t i = 0; i < size; i++) {
            const char *id = qn_arena_printf(&arena, "m%zu", first + i);
            const quern_task task = {.type = i % 2 == 0 ? "slow" : "t", .id = id};
            assert_ok(qn_task_prepare(&task, &terms, &arena, &tasks[i], &err), err);
        }
        const struct qn_enqueue enqueue = {.stamp = {c->session, ++c->sequence},
                                           .tasks = tasks,
                                           .count = size,
                                           .results = results};
        assert_ok(qn_broker_enqueue(c->broker, &enqueue, &err), err);
        qn_arena_reset(&arena);
    }
    qn_arena_finish(&arena);
}

/* Leases until `want` runs came, which are all to be of this type, or too often. */
static size_t lease_of_type(struct contract *c, const char *type, size_t want)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t sum = 0;
    for (size_t leases = 0; sum < want && leases < LEASES_MAX; leases++) {
        size_t count = contract_lease(c, "default", QN_BATCH_MAX, runs);
        assert_true(count > 0 || c->wait_ms > 0); /* else no worker would look again */
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(runs[i]->task.type, type);
            qn_leased_free(runs[i]);
        }
        sum += count;
    }
    return sum;
}

static void new_limit_of_a_type_holds_for_all_tasks_at_once(struct contract *c)
{
    limits_begin(c);
    put_mixed(c, TASK_COUNT);
    limits_lease(c, 3, "m0 m1 m2");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "2");
    assert_int_equal(lease_of_type(c, "t", TASK_COUNT / 2 - 1), TASK_COUNT / 2 - 1);
    limits_lease(c, 9, "");
    limits_done(c, "m0");
    limits_lease(c, 9, "m4");
    limits_finish();
}

/* The queue has keys already, and now needs lanes by key and type. */
static void new_limit_of_a_type_holds_where_there_are_keys(struct contract *c)
{
    limits_begin(c);
    put_mixed(c, TASK_COUNT);
    limits_put(c, "keyed", "slow", "k");
    limits_lease(c, 2, "keyed m0");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "2");
    assert_int_equal(lease_of_type(c, "t", TASK_COUNT / 2), TASK_COUNT / 2);
    limits_done(c, "keyed");
    limits_lease(c, 9, "m2");
    limits_finish();
}

/* Of the file, in another connection: the first column, or what has changed. */
static int64_t query(struct contract *c, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(c->url + strlen("sqlite://"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    int64_t value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

static int64_t count_sorted(struct contract *c)
{
    return query(c, "SELECT count(*) FROM quern_task WHERE lane IS NOT NULL");
}

/* Neither the new limit nor a lease gives many tasks their lanes in one transaction. */
static void queue_is_sorted_step_by_step(struct contract *c)
{
    limits_begin(c);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "later", .delay_ms = 3600000});
    put_mixed(c, TASK_COUNT);
    limits_lease(c, 1, "m0");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "1");
    int64_t step = count_sorted(c);
    assert_true(step > QN_LIMIT_SORT_MAX && step < TASK_COUNT / 2);
    limits_lease(c, 1, "m1");
    assert_true(count_sorted(c) - step < TASK_COUNT / 2);
    for (size_t i = 0; i < TASK_COUNT / QN_LIMIT_SORT_MAX + 2; i++) {
        struct qn_leased *run = contract_take(c, "default");
        assert_non_null(run);
        assert_string_equal(run->task.type, "t");
        qn_leased_free(run);
    }
    assert_int_equal(count_sorted(c), TASK_COUNT + 1);
    assert_int_equal(query(c, "SELECT sort FROM quern_queue"), 0);
    limits_finish();
}

/* Charged tasks are not found by their lanes, and may be leased before they have one. */
static void charged_task_counts_before_it_is_sorted(struct contract *c)
{
    limits_begin(c);
    put_mixed(c, TASK_COUNT);
    query(c, "UPDATE quern_task SET crash_count = 1, crashed_at_ms = 1 WHERE id = 'm3998'");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "1");
    struct qn_leased *run = contract_take(c, "default");
    assert_non_null(run);
    assert_string_equal(run->task.id, "m3998");
    assert_int_equal(limits_used(c, QUERN_LIMIT_TYPE, "slow", false), 1);
    assert_int_equal(lease_of_type(c, "t", TASK_COUNT / 2), TASK_COUNT / 2);
    qn_leased_free(run);
    limits_finish();
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(new_limit_of_a_type_holds_for_all_tasks_at_once),
    CONTRACT_TEST(new_limit_of_a_type_holds_where_there_are_keys),
    CONTRACT_TEST_ONLY("sqlite", queue_is_sorted_step_by_step),
    CONTRACT_TEST_ONLY("sqlite", charged_task_counts_before_it_is_sorted),
};

CONTRACT_MAIN(tests)
