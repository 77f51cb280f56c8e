/* SPDX-License-Identifier: MIT */
/* test_mux.c - which handler runs, middlewares, the not-found outcome, refusals. Handlers are
 * called through the public test kit. */
#include "quern/mux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "broker/broker.h"
#include "lib_test.h"
#include "quern/testing.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

static char trace[256];

static void note(const char *text)
{
    size_t used = strlen(trace);
    (void)snprintf(trace + used, sizeof trace - used, "%s", text);
}

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    note(user);
    return QUERN_DONE;
}

static quern_outcome layer(quern_run *run, const quern_task *task, quern_handler next,
                           void *next_user, void *user)
{
    note(user);
    quern_outcome outcome = next(run, task, next_user);
    note(user);
    return outcome;
}

static quern_outcome wall(quern_run *run, const quern_task *task, quern_handler next,
                          void *next_user, void *user)
{
    (void)next;
    (void)next_user;
    (void)user;
    return quern_run_fail(run, QUERN_DROP, "no %s today", task->type);
}

static quern_mux *new_mux(void)
{
    quern_mux *mux = NULL;
    quern_error error = {0};
    assert_ok(quern_mux_new(&mux, &error), error);
    trace[0] = '\0';
    return mux;
}

static void add(quern_mux *mux, const char *pattern, void *user)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(mux, pattern, handle, user, NULL, &error), error);
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

static void expect_trace(quern_mux *mux, const char *type, const char *expected)
{
    trace[0] = '\0';
    struct quern_run *run = new_run((struct qn_task){.type = type});
    qn_execute_handler(run, mux);
    assert_string_equal(trace, expected);
    qn_run_free(run);
}

static void exact_pattern_wins_then_the_longest_prefix(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    add(mux, "image:", (char[]){"A"});
    add(mux, "image:resize", (char[]){"B"});
    add(mux, "image:resize:big", (char[]){"C"});
    add(mux, "i", (char[]){"D"});
    expect_trace(mux, "image:resize", "B");
    expect_trace(mux, "image:resize:big", "C");
    expect_trace(mux, "image:resize:small", "B");
    expect_trace(mux, "image:crop", "A");
    expect_trace(mux, "image", "D");
    expect_trace(mux, "x", "");
    quern_mux_free(mux);
}

static void a_star_serves_what_no_other_pattern_does(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    add(mux, "*", (char[]){"S"});
    add(mux, "a", (char[]){"A"});
    add(mux, "mail:*", (char[]){"M"}); /* no pattern: types that begin so */
    expect_trace(mux, "x", "S");
    expect_trace(mux, "a:b", "A");
    expect_trace(mux, "*", "S");
    expect_trace(mux, "mail:x", "S");
    quern_mux_free(mux);
}

static void the_first_middleware_is_the_outermost(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_use(mux, layer, (char[]){"1"}, &error), error);
    assert_ok(quern_mux_use(mux, layer, (char[]){"2"}, &error), error);
    add(mux, "a", (char[]){"h"});
    expect_trace(mux, "a", "12h21");
    expect_trace(mux, "unknown", "1221"); /* it wraps the not-found outcome, too */
    quern_mux_free(mux);
}

static void a_middleware_may_answer_itself(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_use(mux, wall, NULL, &error), error);
    add(mux, "a", (char[]){"h"});
    struct quern_run *run = new_run((struct qn_task){.type = "a"});
    qn_execute_handler(run, mux);
    assert_int_equal(run->outcome, QUERN_DROP);
    assert_string_equal(run->error, "no a today");
    assert_string_equal(trace, "");
    qn_run_free(run);
    quern_mux_free(mux);
}

static void an_unknown_type_gets_the_not_found_outcome(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    struct quern_run *run = new_run((struct qn_task){.type = "x"});
    qn_execute_handler(run, mux);
    assert_int_equal(run->outcome, QUERN_RETRY);
    assert_string_equal(run->error, "handler not found for task \"x\"");
    assert_ok(quern_mux_not_found(mux, QUERN_ARCHIVE, &error), error);
    qn_execute_handler(run, mux);
    assert_int_equal(run->outcome, QUERN_ARCHIVE);
    assert_int_equal(quern_mux_not_found(mux, (quern_outcome)9, &error), QUERN_E_INVALID);
    qn_run_free(run);
    quern_mux_free(mux);
}

static quern_outcome odd(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    if (user != NULL) {
        (void)quern_run_fail(run, QUERN_RETRY, "%s", (const char *)user);
    }
    return (quern_outcome)QN_OUTCOME_CRASHED; /* ours alone: not for handlers */
}

static void an_unknown_outcome_is_a_retry_with_its_reason(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    assert_ok(quern_mux_handle(mux, "a", odd, NULL, NULL, &error), error);
    assert_ok(quern_mux_handle(mux, "b", odd, (char[]){"why"}, NULL, &error), error);
    struct quern_run *run = new_run((struct qn_task){.type = "a"});
    qn_execute_handler(run, mux);
    assert_int_equal(run->outcome, QUERN_RETRY);
    assert_string_equal(run->error, "handler returned the unknown outcome 100");
    qn_run_free(run);
    run = new_run((struct qn_task){.type = "b"});
    qn_execute_handler(run, mux);
    assert_string_equal(run->error, "handler returned the unknown outcome 100: why");
    qn_run_free(run);
    quern_mux_free(mux);
}

static void bad_registrations_are_refused(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    add(mux, "a", (char[]){"h"});
    assert_int_equal(quern_mux_handle(mux, "a", handle, NULL, NULL, &error), QUERN_E_CONFLICT);
    assert_int_equal(quern_mux_handle(mux, "", handle, NULL, NULL, &error), QUERN_E_INVALID);
    assert_int_equal(quern_mux_handle(mux, NULL, handle, NULL, NULL, &error), QUERN_E_INVALID);
    assert_int_equal(quern_mux_handle(mux, "b", NULL, NULL, NULL, &error), QUERN_E_INVALID);
    char long_pattern[258];
    memset(long_pattern, 'x', 257);
    long_pattern[257] = '\0';
    assert_int_equal(quern_mux_handle(mux, long_pattern, handle, NULL, NULL, &error),
                     QUERN_E_INVALID);
    quern_handler_options options = {.ack = 3};
    assert_int_equal(quern_mux_handle(mux, "b", handle, NULL, &options, &error), QUERN_E_INVALID);
    options = (quern_handler_options){.prefetch_max = 65};
    assert_int_equal(quern_mux_handle(mux, "b", handle, NULL, &options, &error), QUERN_E_INVALID);
    options = (quern_handler_options){.retry = {.kind = 17}};
    assert_int_equal(quern_mux_handle(mux, "b", handle, NULL, &options, &error), QUERN_E_INVALID);
    assert_int_equal(quern_mux_exec(mux, "b", " ", NULL, &error), QUERN_E_INVALID);
    quern_exec_options exec = {.kill_after_ms = -1};
    assert_int_equal(quern_mux_exec(mux, "b", "true", &exec, &error), QUERN_E_INVALID);
    exec = (quern_exec_options){.stdout_size_max = QN_PAYLOAD_SIZE_LIMIT}; /* and a line behind */
    assert_int_equal(quern_mux_exec(mux, "b", "true", &exec, &error), QUERN_E_INVALID);
    assert_int_equal(quern_mux_exec(mux, "a", "true", NULL, &error), QUERN_E_CONFLICT);
    assert_int_equal(quern_mux_use(mux, NULL, NULL, &error), QUERN_E_INVALID);
    quern_mux_free(mux);
}

static void handler_options_are_checked(void **state)
{
    (void)state;
    static const char *const classes[] = {"http/503", "dns", NULL};
    static const char *const with_space[] = {"dns", "no such host", NULL};
    static const char *const with_empty[] = {"", NULL};
    const quern_handler_options refused[] = {
        {.on_crash = 4},
        {.on_crash = -1},
        {.reserved = {0, 1}},
        {.reserved_too = 1},
        {.retry_max = -2},
        {.retry_max = 26},
        {.timeout_ms = -2},
        {.timeout_ms = QN_DURATION_MS_MAX + 1},
        {.kill_after_ms = -1},
        {.cpu_ms = -1},
        {.memory_max = -1},
        {.concurrency = QN_CONCURRENCY_MAX + 1},
        {.no_retry = with_space},
        {.only_retry = with_empty},
        {.no_retry = classes, .only_retry = classes},
    };
    quern_mux *mux = new_mux();
    quern_error error = {0};
    add(mux, "a", (char[]){"h"});
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(quern_mux_handle(mux, "b", handle, NULL, &refused[i], &error),
                         QUERN_E_INVALID);
        assert_int_equal(quern_mux_configure(mux, "a", &refused[i], &error), QUERN_E_INVALID);
        assert_non_null(strstr(error.text, "handler option"));
    }
    const quern_handler_options largest = {.on_crash = QUERN_ON_CRASH_DROP,
                                           .retry_max = 25,
                                           .timeout_ms = QN_DURATION_MS_MAX,
                                           .kill_after_ms = QN_DURATION_MS_MAX,
                                           .cpu_ms = QN_DURATION_MS_MAX,
                                           .memory_max = INT64_MAX,
                                           .concurrency = QN_CONCURRENCY_MAX,
                                           .no_retry = classes};
    assert_ok(quern_mux_handle(mux, "b", handle, NULL, &largest, &error), error);
    quern_mux_free(mux);
}

static void a_pattern_is_configured_again(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    char first[] = "dns";
    const char *const one[] = {first, NULL};
    const quern_handler_options options = {.no_retry = one, .concurrency = 3};
    assert_ok(quern_mux_exec(mux, "a", "true", NULL, &error), error);
    assert_int_equal(quern_mux_configure(mux, "b", &options, &error), QUERN_E_NOT_FOUND);
    assert_ok(quern_mux_configure(mux, "a", &options, &error), error);
    first[0] = 'x'; /* the lists were copied */
    const struct qn_mux_entry *entry = qn_mux_find(mux, "a");
    assert_string_equal(entry->options.no_retry[0], "dns");
    assert_null(entry->options.no_retry[1]);
    assert_int_equal(entry->options.concurrency, 3);
    assert_ok(quern_mux_configure(mux, "a", NULL, &error), error);
    assert_null(entry->options.no_retry);
    assert_int_equal(entry->options.concurrency, 0);
    qn_mux_freeze(mux);
    assert_int_equal(quern_mux_configure(mux, "a", NULL, &error), QUERN_E_STATE);
    qn_mux_thaw(mux);
    quern_mux_free(mux);
}

static void a_frozen_mux_cannot_be_changed(void **state)
{
    (void)state;
    quern_mux *mux = new_mux();
    quern_error error = {0};
    qn_mux_freeze(mux);
    assert_int_equal(quern_mux_handle(mux, "a", handle, NULL, NULL, &error), QUERN_E_STATE);
    assert_int_equal(quern_mux_exec(mux, "a", "true", NULL, &error), QUERN_E_STATE);
    assert_int_equal(quern_mux_use(mux, layer, NULL, &error), QUERN_E_STATE);
    assert_int_equal(quern_mux_not_found(mux, QUERN_DROP, &error), QUERN_E_STATE);
    qn_mux_thaw(mux);
    add(mux, "a", (char[]){"h"});
    quern_mux_free(mux);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(exact_pattern_wins_then_the_longest_prefix),
    cmocka_unit_test(a_star_serves_what_no_other_pattern_does),
    cmocka_unit_test(the_first_middleware_is_the_outermost),
    cmocka_unit_test(a_middleware_may_answer_itself),
    cmocka_unit_test(an_unknown_type_gets_the_not_found_outcome),
    cmocka_unit_test(an_unknown_outcome_is_a_retry_with_its_reason),
    cmocka_unit_test(bad_registrations_are_refused),
    cmocka_unit_test(handler_options_are_checked),
    cmocka_unit_test(a_pattern_is_configured_again),
    cmocka_unit_test(a_frozen_mux_cannot_be_changed),
};
TEST_MAIN(tests)
