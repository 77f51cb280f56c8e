/* SPDX-License-Identifier: MIT */
/* test_cost.c - what a task costs that uses nothing special: enqueued, leased, done. And what a
 * lease costs that finds many keys whose limits are used up.
 *
 * SQLite counts the steps of its virtual machine, so one more column, index or statement is seen
 * here, where a clock would show nothing. The measure is what the same took in a file of version 3,
 * before there were groups, limits, priorities and the like, with the SQLite of this machine. What
 * only some tasks use belongs into columns that are NULL, indexes that are made late
 * (schema/late.h), tables of its own, or statements that other tasks do not run. */
#include "lib_sqlite.h"

#include "broker/limit/limit.h"
#include "broker/sqlite/schema/late_sql.h"
#include "broker/sqlite/schema/schema_sql.h"

#define SMALL 28
#define LARGE QN_BATCH_MAX
/* In percent. */
#define MOST 102

/* --- Version 3 -------------------------------------------------------------------------- */

static const char *const steps[] = {sql_schema_1, sql_schema_2, sql_schema_3};

static const char insert_then[] =
    "INSERT INTO quern_task (seq, place, queue, id, state, at_ms, retry_max, timeout_ms,"
    " deadline_at_ms, retention_ms, enqueued_at_ms, retry_kind, retry_base_ms, retry_cap_ms, type,"
    " unique_key, grp, headers, payload, due_boot_ms)"
    " VALUES (?1, ?1, 1, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?2, ?13, ?14, ?15, x'00',"
    " ?16)"
    " ON CONFLICT (queue, id) DO NOTHING";

static const char read_then[] =
    "SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,"
    " timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, crash_count,"
    " cause, iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started, 0"
    " FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND place > ?2"
    " ORDER BY place LIMIT ?3";

static const char lease_then[] =
    "UPDATE quern_task SET state = 1, token = ?2, lease_until = ?3, worker = ?4, started = ?5,"
    " started_at_ms = ?6 WHERE seq = ?1";

static const char delete_then[] =
    "DELETE FROM quern_task WHERE seq = ?1 AND token = ?2 AND state = 1";

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    return statement;
}

/* Binds the numbers to ?1 and so on, and runs the statement to its end. */
static void run(sqlite3_stmt *statement, const int64_t *numbers, int count)
{
    int code = SQLITE_ROW;
    for (int i = 0; i < count; i++) {
        assert_int_equal(sqlite3_bind_int64(statement, i + 1, numbers[i]), SQLITE_OK);
    }
    while (code == SQLITE_ROW) {
        code = sqlite3_step(statement);
    }
    assert_int_equal(code, SQLITE_DONE);
    assert_int_equal(sqlite3_reset(statement), SQLITE_OK);
}

static void enqueue_then(sqlite3 *db, sqlite3_stmt *statement, int64_t count)
{
    for (int64_t seq = 1; seq <= count; seq++) {
        for (int i = 3; i <= sqlite3_bind_parameter_count(statement); i++) {
            bool is_null = i >= 13 && i <= 15;
            assert_int_equal(is_null ? sqlite3_bind_null(statement, i)
                                     : sqlite3_bind_int64(statement, i, i == 3 ? 2 : 0),
                             SQLITE_OK);
        }
        assert_int_equal(sqlite3_bind_text(statement, 2, "t", -1, SQLITE_STATIC), SQLITE_OK);
        run(statement, (int64_t[]){seq}, 1);
        assert_int_equal(sqlite3_changes(db), 1);
    }
}

static int64_t take_steps(sqlite3_stmt *statement)
{
    return sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
}

/* The steps of so many tasks. */
static int64_t cost_then(sqlite3 *db, int64_t count)
{
    sqlite3_stmt *statements[] = {prepare(db, insert_then), prepare(db, read_then),
                                  prepare(db, lease_then), prepare(db, delete_then)};
    int64_t cost = 0;
    enqueue_then(db, statements[0], count);
    run(statements[1], (int64_t[]){1, 0, count}, 3);
    for (int64_t seq = 1; seq <= count; seq++) {
        run(statements[2], (int64_t[]){seq, 1000 + seq, 1, 1, 1, 1}, 6);
        assert_int_equal(sqlite3_changes(db), 1);
    }
    for (int64_t seq = 1; seq <= count; seq++) {
        run(statements[3], (int64_t[]){seq, 1000 + seq}, 2);
        assert_int_equal(sqlite3_changes(db), 1);
    }
    for (size_t i = 0; i < TEST_COUNT(statements); i++) {
        cost += take_steps(statements[i]);
        assert_int_equal(sqlite3_finalize(statements[i]), SQLITE_OK);
    }
    return cost;
}

/* What each task adds to the cost of a batch. */
static int64_t cost_of_each_then(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        assert_int_equal(sqlite3_exec(db, steps[i], NULL, NULL, NULL), SQLITE_OK);
    }
    int64_t small = cost_then(db, SMALL);
    int64_t large = cost_then(db, LARGE);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return (large - small) / (LARGE - SMALL);
}

/* --- Now -------------------------------------------------------------------------------- */

static void enqueue(struct qn_broker *broker, uint32_t count)
{
    struct qn_task tasks[LARGE];
    quern_status results[LARGE];
    char ids[LARGE][16];
    quern_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%u", i);
        tasks[i] = (struct qn_task){.id = ids[i],
                                    .queue = "default",
                                    .type = "t",
                                    .payload = "",
                                    .payload_size = 1,
                                    .state = QUERN_TASK_PENDING};
    }
    assert_ok(qn_broker_enqueue(
                  broker, &(struct qn_enqueue){(struct qn_stamp){0}, tasks, count, results}, &err),
              err);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(results[i], QUERN_OK);
    }
}

static void lease_and_finish(struct qn_broker *broker, uint32_t count)
{
    struct qn_leased *runs[LARGE];
    struct qn_outcome outcomes[LARGE];
    enum qn_applied applied[LARGE];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = count};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .host = "h",
                                   .lease_ms = 30000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = count,
                                   .start_count_now = count};
    struct qn_exchange_reply reply = {.runs = runs, .applied = applied};
    quern_error err = {0};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    assert_int_equal(reply.run_count, count);
    for (uint32_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE, .started = true};
    }
    exchange = (struct qn_exchange){.worker_id = "w",
                                    .host = "h",
                                    .lease_ms = 30000,
                                    .outcomes = outcomes,
                                    .outcome_count = count};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
}

static int64_t take_all_steps(struct qn_broker *broker)
{
    const struct qn_conn *conn = &qn_sqlite_of(broker)->writer;
    int64_t taken = 0;
    for (size_t i = 0; i < QN_CONN_STATEMENTS_MAX; i++) {
        sqlite3_stmt *statement = conn->statements[i].statement;
        taken += statement != NULL ? take_steps(statement) : 0;
    }
    return taken;
}

static int64_t cost_now(struct qn_broker *broker, uint32_t count)
{
    (void)take_all_steps(broker);
    enqueue(broker, count);
    lease_and_finish(broker, count);
    return take_all_steps(broker);
}

static int64_t cost_of_each_now(struct qn_broker *broker)
{
    int64_t small = cost_now(broker, SMALL);
    int64_t large = cost_now(broker, LARGE);
    return (large - small) / (LARGE - SMALL);
}

static void plain_task_costs_what_it_did_before_there_was_more(void **state)
{
    (void)state;
    struct lib_sqlite place;
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    (void)cost_now(broker, SMALL); /* the queue is made */
    int64_t then = cost_of_each_then();
    int64_t now = cost_of_each_now(broker);
    assert_true(then > 0);
    if (now * 100 > then * MOST) {
        fail_msg("a task takes %lld steps, in a file of version 3 it took %lld", (long long)now,
                 (long long)then);
    }
    lib_sqlite_exec(place.path, sql_late_lane); /* an index that nothing is in */
    assert_true(cost_of_each_now(broker) * 100 > then * MOST);
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

/* --- Limits ----------------------------------------------------------------------------- */

#define KEYS 300
/* Its first task, and how many of it run; what the limit is, is read once for all of them. */
#define KEY_STEPS_MAX 100

static void enqueue_with_keys(struct qn_broker *broker)
{
    struct qn_task tasks[QN_BATCH_MAX];
    quern_status results[QN_BATCH_MAX];
    char ids[QN_BATCH_MAX][16];
    char keys[QN_BATCH_MAX][16];
    quern_error err = {0};
    for (uint32_t first = 0; first < 2 * KEYS; first += QN_BATCH_MAX) {
        uint32_t count = 2 * KEYS - first < QN_BATCH_MAX ? 2 * KEYS - first : QN_BATCH_MAX;
        for (uint32_t i = 0; i < count; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%u", first + i);
            (void)snprintf(keys[i], sizeof keys[i], "key-%u", (first + i) % KEYS);
            tasks[i] = (struct qn_task){.id = ids[i],
                                        .queue = "default",
                                        .type = "t",
                                        .payload = "",
                                        .payload_size = 1,
                                        .limit_key = keys[i],
                                        .state = QUERN_TASK_PENDING};
        }
        const struct qn_enqueue batch = {(struct qn_stamp){0}, tasks, count, results};
        assert_ok(qn_broker_enqueue(broker, &batch, &err), err);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(results[i], QUERN_OK);
        }
    }
}

static size_t lease_some(struct qn_broker *broker)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = QN_BATCH_MAX};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .host = "h",
                                   .lease_ms = 30000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = QN_BATCH_MAX,
                                   .start_count_now = QN_BATCH_MAX};
    struct qn_exchange_reply reply = {.runs = runs};
    quern_error err = {0};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    for (size_t i = 0; i < reply.run_count; i++) {
        qn_leased_free(runs[i]);
    }
    return reply.run_count;
}

static void key_that_has_to_wait_costs_a_lease_little(void **state)
{
    (void)state;
    const quern_limit limit = {
        .queue = "default", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 1};
    struct lib_sqlite place;
    quern_error err = {0};
    size_t leased = 0;
    size_t now = 0;
    lib_sqlite_make(&place);
    struct qn_broker *broker = lib_sqlite_open(place.path);
    assert_ok(qn_broker_set_limit(broker, &limit, &err), err);
    enqueue_with_keys(broker);
    do {
        now = lease_some(broker);
        leased += now;
    } while (now > 0);
    assert_int_equal(leased, KEYS);
    (void)take_all_steps(broker);
    assert_int_equal(lease_some(broker), 0);
    int64_t each = take_all_steps(broker) / KEYS;
    if (each > KEY_STEPS_MAX) {
        fail_msg("a key that has to wait takes %lld steps", (long long)each);
    }
    qn_broker_close(broker);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(plain_task_costs_what_it_did_before_there_was_more),
    cmocka_unit_test(key_that_has_to_wait_costs_a_lease_little),
};
TEST_MAIN(tests)
