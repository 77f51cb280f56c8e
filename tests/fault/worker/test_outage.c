/* SPDX-License-Identifier: MIT */
/* test_outage.c - a broker that does not answer: the database stays locked by another process, or
 * the server is frozen, for longer than any call waits. */
#include "lib_worker.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quern/sqlite.h"
#include "worker/internal.h"

/* A lease of 1 s lets a call give up after a third of a second. */
static const quern_worker_options short_lease = {.concurrency = 4, .lease_ms = 1000};

static bool has_failed_twice(void *user)
{
    struct quern_worker *worker = user;
    (void)pthread_mutex_lock(&worker->pump.step_mutex);
    bool failed = worker->pump.backoff.failures >= 2;
    (void)pthread_mutex_unlock(&worker->pump.step_mutex);
    return failed;
}

static void outcomes_wait_for_the_end_of_an_outage(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true); /* no lease runs out meanwhile */
    static const char *const words[] = {"hold", "hold", "hold-retry"};
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "n%zu", i);
        rig_put(rig, id, words[i]);
    }
    struct rig_worker worker;
    rig_start(rig, &worker, &short_lease);
    rig_wait_starts(rig, TEST_COUNT(words));
    test_store_block(&rig->store);
    rig_open_gate(rig);
    rig_wait_log(rig, "broker does not answer");
    /* Calls that only read work meanwhile; that is not the end of it. */
    assert_true(test_until(has_failed_twice, worker.worker));
    assert_false(rig_logged(rig, "broker answers again"));
    assert_int_equal(rig_stats(&worker).done, 0);
    test_store_unblock(&rig->store);
    rig_wait_state(rig, "n0", 0);
    rig_wait_state(rig, "n1", 0);
    rig_wait_state(rig, "n2", QUERN_TASK_RETRY);
    rig_wait_log(rig, "broker answers again");
    rig_wait_reports(rig, 3);
    assert_int_equal(rig_stats(&worker).done, 2);
    assert_int_equal(rig_stats(&worker).stale, 0);
    rig_stop(&worker);
    assert_int_equal(rig_queue(rig, "default").processed_total, 3);
    rig_free(rig);
}

static void a_worker_that_stops_in_an_outage_delivers_when_it_is_over(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    rig_put(rig, "a", "wait");
    struct rig_worker worker;
    quern_worker_options options = short_lease;
    options.shutdown_timeout_ms = 20;
    rig_start(rig, &worker, &options);
    rig_wait_starts(rig, 1);
    test_store_block(&rig->store);
    quern_worker_stop(worker.worker);
    rig_wait_log(rig, "broker does not answer");
    test_store_unblock(&rig->store);
    assert_int_equal(rig_join(&worker), QUERN_OK);
    quern_task_info *info = rig_inspect(rig, "a");
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    quern_task_info_free(info);
    rig_free(rig);
}

enum { LOOKS_MIN = 50, FETCHED = 100 };

struct waiting {
    struct quern_worker *worker;
    int looks;
};

/* Whether the turn of the pump has lasted for so many looks that it must be waiting for the lock of
 * the database. */
static bool is_stuck_in_a_turn(void *user)
{
    struct waiting *waiting = user;
    if (pthread_mutex_trylock(&waiting->worker->pump.step_mutex) == 0) {
        (void)pthread_mutex_unlock(&waiting->worker->pump.step_mutex);
        waiting->looks = 0;
        return false;
    }
    return ++waiting->looks == LOOKS_MIN;
}

static void what_is_fetched_while_the_worker_stops_is_given_back(void **state)
{
    (void)state;
    struct rig *rig = rig_new(true);
    quern_error error = {0};
    struct rig_worker worker;
    rig_put(rig, "first", "done");
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = FETCHED});
    rig_wait_state(rig, "first", 0);
    test_store_block(&rig->store);
    sqlite3 *db = rig->store.lock;
    quern_task tasks[FETCHED];
    for (size_t i = 0; i < FETCHED; i++) {
        tasks[i] = (quern_task){.type = "t", .payload = "done", .payload_size = 4};
    }
    assert_ok(quern_client_enqueue_tx(rig->client, db, tasks, FETCHED, NULL, &error), error);
    qn_broker_wake(rig->broker);
    assert_true(test_until(is_stuck_in_a_turn, &(struct waiting){.worker = worker.worker}));
    quern_worker_stop(worker.worker);
    assert_true(test_until(rig_is_draining, worker.worker));
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    test_store_unblock(&rig->store);
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_PENDING], FETCHED);
    rig_free(rig);
}

static void a_worker_of_the_parent_is_refused_after_a_fork(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error error = {0};
    assert_ok(quern_worker_new(rig->url, rig->mux, NULL, &worker, &error), error);
    pid_t child = fork();
    if (child == 0) {
        _exit(quern_worker_run(worker, &error) == QUERN_E_CLOSED ? 0 : 1);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    quern_worker_free(worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(outcomes_wait_for_the_end_of_an_outage),
    cmocka_unit_test(a_worker_that_stops_in_an_outage_delivers_when_it_is_over),
    TEST_ONLY_OVER("sqlite", what_is_fetched_while_the_worker_stops_is_given_back),
    cmocka_unit_test(a_worker_of_the_parent_is_refused_after_a_fork),
};
TEST_MAIN_OVER_BROKERS(tests)
