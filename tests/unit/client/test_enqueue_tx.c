/* SPDX-License-Identifier: MIT */
/* test_enqueue_tx.c - tasks inside the caller's own transaction in the caller's own file. */
#include "lib_client.h"

#include <string.h>

#include "quern/sqlite.h"

static sqlite3 *open_own(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
}

static int count_rows(sqlite3 *db, const char *table)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int count = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return count;
}

static void it_is_committed_with_the_callers_rows(void **state)
{
    struct client_test *t = *state;
    sqlite3 *db = open_own(t->url);
    run_sql(db, "CREATE TABLE orders (item)");
    const quern_task tasks[] = {{.type = "confirm", .id = "a"}, {.type = "confirm", .id = "b"}};
    quern_enqueue_result results[2];
    quern_error err = {0};
    run_sql(db, "BEGIN IMMEDIATE");
    run_sql(db, "INSERT INTO orders VALUES ('pen')");
    assert_ok(quern_client_enqueue_tx(t->client, db, tasks, 2, results, &err), err);
    assert_int_equal(results[0].status, QUERN_OK);
    assert_string_equal(results[1].id, "b");
    assert_int_equal(client_stored(t), 0); /* no other connection sees it yet */
    run_sql(db, "COMMIT");
    assert_int_equal(client_stored(t), 2);
    assert_int_equal(count_rows(db, "orders"), 1);
    sqlite3_close(db);
}

static void it_is_rolled_back_with_the_callers_rows(void **state)
{
    struct client_test *t = *state;
    sqlite3 *db = open_own(t->url);
    run_sql(db, "CREATE TABLE orders (item)");
    const quern_task task = {.type = "confirm", .id = "a", .unique_ms = 60000};
    quern_error err = {0};
    run_sql(db, "BEGIN");
    run_sql(db, "INSERT INTO orders VALUES ('pen')");
    assert_ok(quern_client_enqueue_tx(t->client, db, &task, 1, NULL, &err), err);
    run_sql(db, "ROLLBACK");
    assert_int_equal(client_stored(t), 0);
    assert_int_equal(count_rows(db, "orders"), 0);
    /* Neither its id nor its lock was left behind. */
    assert_ok(quern_client_enqueue(t->client, &task, NULL, &err), err);
    sqlite3_close(db);
}

static void equal_task_follows_its_policy_and_the_transaction(void **state)
{
    struct client_test *t = *state;
    sqlite3 *db = open_own(t->url);
    const quern_task tasks[] = {{.type = "t", .id = "a", .unique_ms = 60000, .unique_key = "k"},
                                {.type = "t", .unique_ms = 60000, .unique_key = "k"},
                                {.type = "v",
                                 .unique_ms = 60000,
                                 .unique_key = "k",
                                 .on_duplicate = QUERN_ON_DUPLICATE_REPLACE}};
    quern_enqueue_result results[3];
    quern_task_info *info = NULL;
    quern_error err = {0};
    for (int round = 0; round < 2; round++) {
        run_sql(db, "BEGIN IMMEDIATE");
        assert_int_equal(quern_client_enqueue_tx(t->client, db, tasks, 3, results, &err),
                         QUERN_E_DUPLICATE);
        assert_int_equal(results[0].status, QUERN_OK);
        assert_int_equal(results[1].status, QUERN_E_DUPLICATE);
        assert_string_equal(results[1].id, "a");
        assert_int_equal(results[2].status, QUERN_OK);
        assert_string_equal(results[2].id, "a");
        assert_int_equal(results[0].existing + results[1].existing, 0);
        assert_int_equal(results[2].existing, 1);
        run_sql(db, round == 0 ? "ROLLBACK" : "COMMIT");
        assert_int_equal(client_stored(t), round);
    }
    assert_ok(quern_client_find(t->client, NULL, "a", &info, &err), err);
    assert_string_equal(quern_task_info_type(info), "v");
    quern_task_info_free(info);
    sqlite3_close(db);
}

static void many_tasks_go_into_one_transaction_and_bad_ones_stay_out(void **state)
{
    struct client_test *t = *state;
    static quern_task tasks[300];
    static quern_enqueue_result results[300];
    sqlite3 *db = open_own(t->url);
    for (size_t i = 0; i < TEST_COUNT(tasks); i++) {
        tasks[i] = (quern_task){.type = "t"};
    }
    tasks[3].id = "same";
    tasks[200].type = "";
    tasks[299].id = "same";
    quern_error err = {0};
    run_sql(db, "BEGIN IMMEDIATE");
    assert_int_equal(
        quern_client_enqueue_tx(t->client, db, tasks, TEST_COUNT(tasks), results, &err),
        QUERN_E_INVALID);
    assert_int_equal(strncmp(err.text, "task 200: ", 10), 0);
    assert_int_equal(results[200].status, QUERN_E_INVALID);
    assert_int_equal(results[299].status, QUERN_E_CONFLICT);
    assert_int_equal(results[298].status, QUERN_OK);
    run_sql(db, "COMMIT");
    assert_int_equal(client_stored(t), 298);
    sqlite3_close(db);
}

static void without_a_transaction_it_is_refused(void **state)
{
    struct client_test *t = *state;
    sqlite3 *db = open_own(t->url);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    assert_int_equal(quern_client_enqueue_tx(t->client, db, &task, 1, NULL, &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "transaction"));
    assert_int_equal(client_stored(t), 0);
    sqlite3_close(db);
}

static void another_file_is_refused(void **state)
{
    struct client_test *t = *state;
    char path[TEST_DIR_SIZE + 16];
    (void)snprintf(path, sizeof path, "%s/other.db", t->dir);
    quern_client *other = NULL;
    quern_error err = {0};
    assert_ok(quern_client_open(path, NULL, &other, &err), err); /* with our tables, too */
    sqlite3 *db = open_own(path);
    const quern_task task = {.type = "t"};
    run_sql(db, "BEGIN IMMEDIATE");
    assert_int_equal(quern_client_enqueue_tx(t->client, db, &task, 1, NULL, &err), QUERN_E_INVALID);
    run_sql(db, "COMMIT");
    assert_ok(quern_client_enqueue(other, &task, NULL, &err), err);
    assert_int_equal(client_stored(t), 0);
    sqlite3_close(db);
    sqlite3 *memory = open_own(":memory:");
    run_sql(memory, "BEGIN IMMEDIATE");
    assert_int_equal(quern_client_enqueue_tx(t->client, memory, &task, 1, NULL, &err),
                     QUERN_E_INVALID);
    sqlite3_close(memory);
    quern_client_free(other);
}

static void the_same_file_by_another_name_is_accepted(void **state)
{
    struct client_test *t = *state;
    char path[2 * TEST_DIR_SIZE];
    (void)snprintf(path, sizeof path, "%s/../%s/client.db", t->dir, strrchr(t->dir, '/') + 1);
    sqlite3 *db = open_own(path);
    const quern_task task = {.type = "t"};
    quern_error err = {0};
    run_sql(db, "BEGIN IMMEDIATE");
    assert_ok(quern_client_enqueue_tx(t->client, db, &task, 1, NULL, &err), err);
    run_sql(db, "COMMIT");
    assert_int_equal(client_stored(t), 1);
    sqlite3_close(db);
}

static void null_arguments_are_refused(void **state)
{
    struct client_test *t = *state;
    sqlite3 *db = open_own(t->url);
    const quern_task task = {.type = "t"};
    run_sql(db, "BEGIN IMMEDIATE");
    assert_int_equal(quern_client_enqueue_tx(t->client, NULL, &task, 1, NULL, NULL),
                     QUERN_E_INVALID);
    assert_int_equal(quern_client_enqueue_tx(t->client, db, NULL, 1, NULL, NULL), QUERN_E_INVALID);
    assert_int_equal(quern_client_enqueue_tx(NULL, db, &task, 1, NULL, NULL), QUERN_E_INVALID);
    sqlite3_close(db);
}

static void wake_reaches_a_worker_that_sleeps(void **state)
{
    struct client_test *t = *state;
    const char *const queues[] = {"default"};
    const struct qn_broker_options options = {0};
    struct qn_broker *sleeper = NULL;
    bool work = true;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_open(t->url, &options, &sleeper, &err), err);
    assert_ok(qn_broker_arm(sleeper, (struct qn_names){queues, 1}, &work, &next_due_at_ms, &err),
              err);
    assert_false(work);
    /* Nothing is written, so only the wake can end the wait with work. */
    quern_client_wake(t->client);
    struct qn_wakeup wakeup = {0};
    assert_ok(qn_broker_wait(sleeper, TEST_PATIENCE_MS, &wakeup, &err), err);
    assert_true(wakeup.work);
    qn_broker_close(sleeper);
}

static const struct CMUnitTest tests[] = {
    CLIENT_TEST(it_is_committed_with_the_callers_rows),
    CLIENT_TEST(it_is_rolled_back_with_the_callers_rows),
    CLIENT_TEST(equal_task_follows_its_policy_and_the_transaction),
    CLIENT_TEST(many_tasks_go_into_one_transaction_and_bad_ones_stay_out),
    CLIENT_TEST(without_a_transaction_it_is_refused),
    CLIENT_TEST(another_file_is_refused),
    CLIENT_TEST(the_same_file_by_another_name_is_accepted),
    CLIENT_TEST(null_arguments_are_refused),
    CLIENT_TEST(wake_reaches_a_worker_that_sleeps),
};
TEST_MAIN(tests)
