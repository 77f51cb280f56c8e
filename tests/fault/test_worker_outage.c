/* SPDX-License-Identifier: MIT */
/* test_worker_outage.c - a broker that does not answer: the database stays locked by somebody else
 * for longer than any call waits. */
#include "lib_worker.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A lease of 1 s lets a call give up after a third of a second. */
static const quern_worker_options short_lease = {.concurrency = 4, .lease_ms = 1000};

static sqlite3 *lock_database(struct stage *stage)
{
    sqlite3 *db = NULL;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/quern.db", stage->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, TEST_PATIENCE_MS), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void unlock_database(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void outcomes_wait_for_the_end_of_an_outage(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true); /* no lease runs out meanwhile */
    static const char *const words[] = {"hold", "hold", "hold-retry"};
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "n%zu", i);
        stage_put(stage, id, words[i]);
    }
    struct stage_worker worker;
    stage_start(stage, &worker, &short_lease);
    stage_wait_starts(stage, TEST_COUNT(words));
    sqlite3 *db = lock_database(stage);
    stage_open_gate(stage);
    stage_wait_log(stage, "broker does not answer by=pump");
    assert_int_equal(stage_stats(&worker).done, 0);
    unlock_database(db);
    stage_wait_state(stage, "n0", 0);
    stage_wait_state(stage, "n1", 0);
    stage_wait_state(stage, "n2", QUERN_TASK_RETRY);
    stage_wait_log(stage, "broker answers again by=pump");
    stage_wait_reports(stage, 3);
    assert_int_equal(stage_stats(&worker).done, 2);
    assert_int_equal(stage_stats(&worker).stale, 0);
    stage_stop(&worker);
    assert_int_equal(stage_queue(stage, "default").processed_total, 3);
    stage_free(stage);
}

static void a_worker_that_stops_in_an_outage_delivers_when_it_is_over(void **state)
{
    (void)state;
    struct stage *stage = stage_new(true);
    stage_put(stage, "a", "wait");
    struct stage_worker worker;
    quern_worker_options options = short_lease;
    options.shutdown_timeout_ms = 20;
    stage_start(stage, &worker, &options);
    stage_wait_starts(stage, 1);
    sqlite3 *db = lock_database(stage);
    quern_worker_stop(worker.worker);
    stage_wait_log(stage, "broker does not answer by=pump");
    unlock_database(db);
    assert_int_equal(stage_join(&worker), QUERN_OK);
    quern_task_info *info = stage_see(stage, "a");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    quern_task_info_free(info);
    stage_free(stage);
}

static void a_worker_of_the_parent_is_refused_after_a_fork(void **state)
{
    (void)state;
    struct stage *stage = stage_new(false);
    quern_worker *worker = NULL;
    quern_error error = {0};
    assert_ok(quern_worker_new(stage->url, stage->mux, NULL, &worker, &error), error);
    pid_t child = fork();
    if (child == 0) {
        _exit(quern_worker_run(worker, &error) == QUERN_E_CLOSED ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    quern_worker_free(worker);
    stage_free(stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(outcomes_wait_for_the_end_of_an_outage),
    cmocka_unit_test(a_worker_that_stops_in_an_outage_delivers_when_it_is_over),
    cmocka_unit_test(a_worker_of_the_parent_is_refused_after_a_fork),
};
TEST_MAIN(tests)
