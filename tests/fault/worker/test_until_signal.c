/* SPDX-License-Identifier: MIT */
/* test_until_signal.c - a worker that SIGINT and SIGTERM stop, and the log on stderr. */
#include "lib_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static quern_outcome send_one(quern_run *run, const quern_task *task, void *user)
{
    (void)run, (void)task, (void)user;
    (void)kill(getpid(), SIGTERM);
    return QUERN_DONE;
}

/* Two different signals: one that is pending already is not counted again. */
static quern_outcome send_two(quern_run *run, const quern_task *task, void *user)
{
    (void)task, (void)user;
    (void)kill(getpid(), SIGTERM);
    (void)kill(getpid(), SIGINT);
    while (!quern_run_cancelled(run)) {
        (void)poll(NULL, 0, 1);
    }
    return QUERN_RETRY;
}

static void assert_unblocked(void)
{
    sigset_t mask;
    struct sigaction action;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    assert_int_equal(sigismember(&mask, SIGTERM), 0);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    assert_true(action.sa_handler == SIG_DFL);
}

static quern_status run_one(quern_handler handler, const quern_worker_options *options)
{
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error err = {0};
    assert_ok(quern_mux_handle(rig->mux, "signal", handler, NULL, NULL, &err), err);
    rig_put_task(rig, &(quern_task){.type = "signal", .id = "a"});
    assert_ok(quern_worker_new(rig->url, rig->mux, options, &worker, &err), err);
    quern_status status = quern_worker_run_until_signal(worker, &err);
    assert_int_equal(quern_worker_run_until_signal(worker, &err), QUERN_E_STATE);
    quern_worker_free(worker);
    rig_free(rig);
    return status;
}

static void first_signal_drains(void **state)
{
    (void)state;
    assert_int_equal(run_one(send_one, NULL), QUERN_OK);
    assert_unblocked();
}

static void second_signal_ends_the_wait(void **state)
{
    (void)state;
    const quern_worker_options options = {.shutdown_timeout_ms = -1};
    assert_int_equal(run_one(send_two, &options), QUERN_OK);
    assert_unblocked();
}

/* --- Several workers ---------------------------------------------------------------- */

struct runner {
    pthread_t thread;
    quern_worker *worker;
    quern_status status;
};

static void *run_worker(void *user)
{
    struct runner *runner = user;
    runner->status = quern_worker_run_until_signal(runner->worker, NULL);
    return NULL;
}

static bool is_ready(quern_worker *worker)
{
    quern_worker_stats stats;
    quern_worker_get_stats(worker, &stats);
    return stats.ready;
}

/* In a program that blocks the signals in each thread, as the header asks for. */
static void one_signal_stops_all_workers(void **state)
{
    (void)state;
    struct runner runners[3];
    sigset_t signals;
    sigset_t before;
    struct rig *rig = rig_new(false);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, &before), 0);
    for (size_t i = 0; i < TEST_COUNT(runners); i++) {
        quern_error err = {0};
        assert_ok(quern_worker_new(rig->url, rig->mux, NULL, &runners[i].worker, &err), err);
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_worker, &runners[i]), 0);
    }
    for (size_t i = 0; i < TEST_COUNT(runners); i++) {
        while (!is_ready(runners[i].worker)) {
            (void)poll(NULL, 0, 1);
        }
    }
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    for (size_t i = 0; i < TEST_COUNT(runners); i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
        assert_int_equal(runners[i].status, QUERN_OK);
        quern_worker_free(runners[i].worker);
    }
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_unblocked();
    rig_free(rig);
}

/* It was blocked by the program and came before the worker did. */
static void signal_that_waits_already_stops_it(void **state)
{
    (void)state;
    sigset_t signals;
    sigset_t before;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, &before), 0);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    struct rig *rig = rig_new(false);
    quern_worker *worker = NULL;
    quern_error err = {0};
    sigset_t after;
    assert_ok(quern_worker_new(rig->url, rig->mux, NULL, &worker, &err), err);
    assert_ok(quern_worker_run_until_signal(worker, &err), err);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    assert_int_equal(sigismember(&after, SIGTERM), 1); /* as the program had it */
    quern_worker_free(worker);
    rig_free(rig);
}

static void worker_that_is_null_is_refused(void **state)
{
    (void)state;
    quern_error err = {0};
    assert_int_equal(quern_worker_run_until_signal(NULL, &err), QUERN_E_INVALID);
    assert_unblocked();
}

static void log_on_stderr_has_time_and_level(void **state)
{
    (void)state;
    char text[512] = "";
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    int before = dup(STDERR_FILENO);
    assert_int_not_equal(before, -1);
    assert_int_not_equal(dup2(fds[1], STDERR_FILENO), -1);
    quern_log_stderr(QUERN_LOG_DEBUG, "msg=hidden", NULL);
    quern_log_stderr(QUERN_LOG_INFO, "msg=shown", NULL);
    assert_int_not_equal(dup2(before, STDERR_FILENO), -1);
    assert_true(read(fds[0], text, sizeof text - 1) > 0);
    assert_null(strstr(text, "hidden"));
    assert_memory_equal(text, "ts=", 3);
    assert_non_null(strstr(text, "Z level=info msg=shown\n"));
    (void)close(before);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(first_signal_drains),
    cmocka_unit_test(second_signal_ends_the_wait),
    cmocka_unit_test(one_signal_stops_all_workers),
    cmocka_unit_test(signal_that_waits_already_stops_it),
    cmocka_unit_test(worker_that_is_null_is_refused),
    cmocka_unit_test(log_on_stderr_has_time_and_level),
};
TEST_MAIN_OVER_BROKERS(tests)
