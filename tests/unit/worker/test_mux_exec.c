/* SPDX-License-Identifier: MIT */
/* test_mux_exec.c - commands as handlers: their ends, their orders, their limits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "broker/broker.h"
#include "lib_test.h"
#include "quern/mux.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

#if defined(__SANITIZE_THREAD__) /* there commands are forked by fork() */
enum { CALLS_ATFORK = 1 };
#else
enum { CALLS_ATFORK = 0 };
#endif

static quern_mux *new_mux(void)
{
    quern_mux *mux = NULL;
    quern_error error = {0};
    assert_ok(quern_mux_new(&mux, &error), error);
    return mux;
}

/* A run of one task of this type, outside of any worker. */
static struct quern_run *new_run(struct qn_task task)
{
    task.id = task.id != NULL ? task.id : "id-1";
    task.queue = "default";
    struct qn_leased leased = {.task = task, .fence = 7, .retry_count = 2};
    struct qn_leased *copy = qn_leased_copy(NULL, &leased);
    assert_non_null(copy);
    struct quern_run *run = qn_run_new(NULL, copy, NULL, NULL);
    assert_non_null(run);
    return run;
}

static struct quern_run *run_command(const char *command, struct qn_task task)
{
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_exec(mux, "c", command, NULL, &error), error);
    task.type = "c";
    struct quern_run *run = new_run(task);
    qn_execute_handler(run, mux);
    quern_mux_free(mux);
    return run;
}

static void the_exit_code_of_a_command_is_its_verdict(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        int outcome;
        const char *error;
    } cases[] = {
        {"exit 0", QUERN_DONE, NULL},
        {"exit 75", QUERN_RETRY, "exit status 75"},
        {"echo bad data >&2; exit 65", QUERN_ARCHIVE, "exit status 65: bad data"},
        {"printf 'a\\nb\\n' >&2; exit 3", QUERN_RETRY, "exit status 3: a\nb"},
        {"exit 139", QUERN_RETRY, "exit status 139 (128 + SIGSEGV)"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct quern_run *run = run_command(cases[i].command, (struct qn_task){.id = NULL});
        assert_int_equal(run->outcome, cases[i].outcome);
        if (cases[i].error != NULL) {
            assert_string_equal(run->error, cases[i].error);
        } else {
            assert_null(run->error);
        }
        assert_false(run->has_result);
        qn_run_free(run);
    }
}

static void a_crash_names_its_signal_and_what_it_used(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        const char *start;
    } cases[] = {
        {"kill -SEGV $$", "killed by signal 11 (SIGSEGV); CPU "},
        {"echo last words >&2; kill -KILL $$", "killed by signal 9 (SIGKILL); CPU "},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct quern_run *run = run_command(cases[i].command, (struct qn_task){.id = NULL});
        assert_int_equal(run->outcome, QN_OUTCOME_CRASHED);
        assert_int_equal(strncmp(run->error, cases[i].start, strlen(cases[i].start)), 0);
        assert_non_null(strstr(run->error, "s, memory "));
        assert_int_equal(strstr(run->error, "iB: last words") != NULL, i == 1);
        qn_run_free(run);
    }
}

static void orders_decide_with_the_exit_code(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        int outcome;
        int64_t again_in_ms;
        const char *error;
    } cases[] = {
        {"echo snooze=5m >&3", QUERN_SNOOZE, 300000, NULL},
        {"echo snooze=5m >&3; echo busy >&2; exit 1", QUERN_SNOOZE, 300000, "exit status 1: busy"},
        {"echo retry-in=30s >&3; exit 1", QUERN_RETRY, 30000, "exit status 1"},
        {"echo retry-in=30s >&3", QUERN_DONE, -1, NULL},
        {"echo no-retry=gone >&3; exit 1", QUERN_ARCHIVE, -1,
         "class \"gone\" is not retried: exit status 1"},
        {"echo no-retry=gone >&3", QUERN_DONE, -1, NULL},
        {"echo snooze=soon >&3; exit 1", QUERN_RETRY, -1, "exit status 1"},
        {"echo 50 half >&3; echo snooze=1s >&3; kill -9 $$", QN_OUTCOME_CRASHED, -1, NULL},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct quern_run *run = run_command(cases[i].command, (struct qn_task){.id = NULL});
        assert_int_equal(run->outcome, cases[i].outcome);
        assert_int_equal(run->again_in_ms, cases[i].again_in_ms);
        if (cases[i].error != NULL) {
            assert_string_equal(run->error, cases[i].error);
        }
        bool has_class = strstr(cases[i].command, "no-retry") != NULL;
        if (cases[i].error != NULL) {
            assert_string_equal(run->error_class, has_class ? "gone" : "exit/1");
        }
        assert_int_equal(run->wrong_order != NULL, strstr(cases[i].command, "soon") != NULL);
        qn_run_free(run);
    }
}

static struct quern_run *run_limited(const char *command, const quern_handler_options *options)
{
    quern_mux *mux = new_mux();
    quern_error error = {0};
    const quern_exec_options exec = {.no_new_privs = true};
    assert_ok(quern_mux_exec(mux, "c", command, &exec, &error), error);
    assert_ok(quern_mux_configure(mux, "c", options, &error), error);
    struct quern_run *run = new_run((struct qn_task){.type = "c", .retention_ms = 1000});
    run->entry = qn_mux_find(mux, "c");
    qn_execute_handler(run, mux);
    quern_mux_free(mux);
    return run;
}

static void limits_hold_for_the_command(void **state)
{
    (void)state;
    const quern_handler_options options = {.cpu_ms = 1500, .memory_max = (int64_t)64 << 20};
    struct quern_run *run = run_limited(
        "ulimit -St; ulimit -Ht; ulimit -v; grep NoNewPrivs /proc/self/status", &options);
    assert_int_equal(run->outcome, QUERN_DONE);
    const char *expected = "2\n3\n65536\nNoNewPrivs:\t1\n";
    assert_int_equal(run->result_size, strlen(expected));
    assert_memory_equal(run->result, expected, run->result_size);
    qn_run_free(run);
}

static void fail_at_once(void)
{
    _exit(99);
}

/* They are the program's, and may do what no fork of a process with threads may. */
static void functions_of_pthread_atfork_are_not_called(void **state)
{
    (void)state;
    const quern_handler_options options = {.cpu_ms = 1500};
    assert_int_equal(pthread_atfork(NULL, NULL, fail_at_once), 0);
    struct quern_run *run = run_limited("true", &options);
    assert_int_equal(run->outcome, CALLS_ATFORK ? QUERN_RETRY : QUERN_DONE);
    qn_run_free(run);
}

static void the_end_of_its_cpu_time_is_a_failure(void **state)
{
    (void)state;
    static const char *const commands[] = {"while :; do :; done",
                                           "sh -c 'while :; do :; done'; exit $?"};
    static const char *const texts[] = {
        "killed by signal 24 (SIGXCPU), its CPU limit was reached",
        "exit status 152 (128 + SIGXCPU), its CPU limit was reached"};
    const quern_handler_options options = {.cpu_ms = 1};
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct quern_run *run = run_limited(commands[i], &options);
        assert_int_equal(run->outcome, QUERN_RETRY);
        assert_int_equal(strncmp(run->error, texts[i], strlen(texts[i])), 0);
        qn_run_free(run);
    }
}

static void a_command_gets_payload_and_environment(void **state)
{
    (void)state;
    struct quern_run *run =
        run_command("printf '%s|' $QUERN_TASK_ID $QUERN_TASK_TYPE $QUERN_QUEUE $QUERN_RETRY_COUNT "
                    "$QUERN_FENCE; cat",
                    (struct qn_task){.payload = "load", .payload_size = 4, .retention_ms = 1000});
    assert_int_equal(run->outcome, QUERN_DONE);
    assert_true(run->has_result);
    assert_int_equal(run->result_size, strlen("id-1|c|default|2|7|load"));
    assert_memory_equal(run->result, "id-1|c|default|2|7|load", run->result_size);
    qn_run_free(run);
}

static void the_last_lines_of_a_long_complaint_become_the_error(void **state)
{
    (void)state;
    struct quern_run *run = run_command("seq 1 20000 >&2; printf '\\377last\\n\\n' >&2; exit 1",
                                        (struct qn_task){.id = 0});
    assert_int_equal(run->outcome, QUERN_RETRY);
    size_t size = strlen(run->error);
    assert_true(size <= 4096 && size > 3500);
    assert_memory_equal(run->error, "exit status 1: [cut] 1", strlen("exit status 1: [cut] 1"));
    const char *end = "20000\n\xef\xbf\xbdlast";
    assert_string_equal(run->error + size - strlen(end), end);
    qn_run_free(run);
}

static void a_cancelled_command_is_terminated_and_not_a_crash(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_exec(mux, "c", "exec sleep 1000", NULL, &error), error);
    struct quern_run *run = new_run((struct qn_task){.type = "c"});
    qn_run_cancel(run, QN_REASON_TIMEOUT);
    qn_execute_handler(run, mux);
    assert_int_equal(run->outcome, QUERN_RETRY);
    assert_string_equal(run->error, "killed by signal 15 (SIGTERM)");
    qn_run_free(run);
    quern_mux_free(mux);
}

static void a_command_posts_its_progress(void **state)
{
    (void)state;
    struct qn_progress progress;
    struct quern_run *run = run_command("echo '5 begun' >&3; echo '70% nearly there' >&3",
                                        (struct qn_task){.id = NULL});
    assert_int_equal(run->outcome, QUERN_DONE);
    assert_false(run->progress_garbled);
    assert_true(qn_run_take_progress(run, &progress));
    assert_int_equal(progress.percent, 70);
    assert_string_equal(progress.note, "nearly there");
    assert_false(qn_run_take_progress(run, &progress));
    qn_run_untake_progress(run);
    assert_true(qn_run_take_progress(run, &progress));
    qn_run_free(run);
}

static void garbage_as_progress_is_noted_once_for_a_command(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_exec(mux, "c", "printf '\\377\\n' >&3", NULL, &error), error);
    for (int i = 0; i < 3; i++) {
        struct quern_run *run = new_run((struct qn_task){.type = "c"});
        qn_execute_handler(run, mux);
        assert_int_equal(run->outcome, QUERN_DONE);
        assert_int_equal(run->progress_garbled, i == 0);
        qn_run_free(run);
    }
    quern_mux_free(mux);
}

static void too_large_an_environment_is_a_failure_that_counts(void **state)
{
    (void)state;
    static char huge[300000]; /* the kernel takes 128 KiB for one variable */
    memset(huge, 'x', sizeof huge - 1);
    setenv("MUX_TEST_HUGE", huge, 1);
    struct quern_run *run = run_command("true", (struct qn_task){.id = NULL});
    unsetenv("MUX_TEST_HUGE");
    assert_int_equal(run->outcome, QUERN_RETRY);
    assert_false(run->not_started);
    assert_non_null(strstr(run->error, "command was not started: "));
    assert_non_null(strstr(run->error, "ulimit -s"));
    qn_run_free(run);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_exit_code_of_a_command_is_its_verdict),
    cmocka_unit_test(a_crash_names_its_signal_and_what_it_used),
    cmocka_unit_test(orders_decide_with_the_exit_code),
    cmocka_unit_test(limits_hold_for_the_command),
    cmocka_unit_test(the_end_of_its_cpu_time_is_a_failure),
    cmocka_unit_test(a_command_gets_payload_and_environment),
    cmocka_unit_test(the_last_lines_of_a_long_complaint_become_the_error),
    cmocka_unit_test(a_cancelled_command_is_terminated_and_not_a_crash),
    cmocka_unit_test(a_command_posts_its_progress),
    cmocka_unit_test(garbage_as_progress_is_noted_once_for_a_command),
    cmocka_unit_test(too_large_an_environment_is_a_failure_that_counts),
    cmocka_unit_test(functions_of_pthread_atfork_are_not_called), /* they stay: last */
};
TEST_MAIN(tests)
