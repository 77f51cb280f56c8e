/* SPDX-License-Identifier: MIT */
/* test_policies.c - what the options of a handler make of its tasks, its failures and its crashes.
 */
#include "lib_worker.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* What on_error was called with. */
struct noted {
    pthread_mutex_t mutex;
    char last[256];
    size_t calls;
    size_t final_calls;
};

static struct noted noted = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_error(quern_run *run, const quern_task *task, const quern_failure *failure,
                       void *user)
{
    (void)user;
    (void)pthread_mutex_lock(&noted.mutex);
    bool is_sound = strcmp(quern_run_task_id(run), task->id) == 0 &&
                    failure->is_final == (failure->delay_ms == 0);
    (void)snprintf(noted.last, sizeof noted.last, "%s %s %d %s", is_sound ? task->type : "unsound",
                   failure->error_class, failure->outcome, failure->error);
    noted.calls++;
    noted.final_calls += failure->is_final ? 1 : 0;
    (void)pthread_mutex_unlock(&noted.mutex);
}

static size_t noted_calls(void)
{
    (void)pthread_mutex_lock(&noted.mutex);
    size_t calls = noted.calls;
    (void)pthread_mutex_unlock(&noted.mutex);
    return calls;
}

/* Fails with the class that its payload names. */
static quern_outcome fail_with_class(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    quern_run_set_error_class(run, task->payload);
    return quern_run_fail(run, QUERN_RETRY, "bad");
}

/* Until its cancellation; then fails. */
static quern_outcome wait_and_fail(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    struct pollfd cancel = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    bool cancelled = poll(&cancel, 1, TEST_PATIENCE_MS) == 1;
    return quern_run_fail(run, QUERN_RETRY, cancelled ? "gone" : "never cancelled");
}

static void handle(struct rig *rig, const char *pattern, quern_handler handler,
                   const quern_handler_options *options)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, pattern, handler, NULL, options, &error), error);
}

static void run_command(struct rig *rig, const char *pattern, const char *command,
                        const quern_handler_options *options)
{
    quern_error error = {0};
    assert_ok(quern_mux_exec(rig->mux, pattern, command, NULL, &error), error);
    assert_ok(quern_mux_configure(rig->mux, pattern, options, &error), error);
}

static void put(struct rig *rig, const char *id, const char *type, const char *payload)
{
    rig_put_task(
        rig,
        &(quern_task){.id = id, .type = type, .payload = payload, .payload_size = strlen(payload)});
}

/* An error of a crash goes on with its CPU time and its memory. */
static void expect_error(const char *text, const char *expected)
{
    char start[256];
    bool is_crash = strstr(expected, "killed by signal") != NULL;
    (void)snprintf(start, sizeof start, "%.*s", is_crash ? (int)strlen(expected) : -1, text);
    assert_string_equal(start, expected);
    assert_int_equal(strstr(text, "; CPU ") != NULL, is_crash);
}

static void expect(struct rig *rig, const char *id, int state, int64_t retry_count,
                   const char *error)
{
    rig_wait_state(rig, id, state);
    quern_task_info *info = rig_inspect(rig, id);
    assert_int_equal(quern_task_info_retry_count(info), retry_count);
    expect_error(quern_task_info_error(info), error);
    quern_task_info_free(info);
}

/* A task, and what its run makes of it. */
struct errand {
    const char *id;
    const char *type;
    const char *payload;
    int state;
    int64_t retry_count;
    const char *error;
};

/* Puts all of them, and lets a worker run them. */
static void run_errands(struct rig *rig, const struct errand *errands, size_t count)
{
    struct rig_worker worker;
    for (size_t i = 0; i < count; i++) {
        put(rig, errands[i].id, errands[i].type, errands[i].payload);
    }
    rig_start(rig, &worker, NULL);
    for (size_t i = 0; i < count; i++) {
        expect(rig, errands[i].id, errands[i].state, errands[i].retry_count, errands[i].error);
    }
    rig_stop(&worker);
}

static void classes_of_errors_decide_what_is_retried(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    static const char *const classes[] = {"http/404", "dns", NULL};
    const quern_handler_options without = {.no_retry = classes};
    const quern_handler_options only = {.only_retry = classes};
    handle(rig, "without", fail_with_class, &without);
    handle(rig, "only", fail_with_class, &only);
    const struct errand errands[] = {
        {"a", "without", "http/404", QUERN_TASK_ARCHIVED, 0,
         "class \"http/404\" is not retried: bad"},
        {"b", "without", "http/4040", QUERN_TASK_RETRY, 1, "bad"},
        {"c", "without", "dns/nxdomain", QUERN_TASK_ARCHIVED, 0,
         "class \"dns/nxdomain\" is not retried: bad"},
        {"d", "without", "", QUERN_TASK_RETRY, 1, "bad"},
        {"e", "only", "http/404", QUERN_TASK_RETRY, 1, "bad"},
        {"f", "only", "http", QUERN_TASK_ARCHIVED, 0, "class \"http\" is not retried: bad"},
        {"g", "only", "", QUERN_TASK_ARCHIVED, 0, "errors without a class are not retried: bad"},
    };
    run_errands(rig, errands, TEST_COUNT(errands));
    rig_free(rig);
}

static void a_failure_or_a_timeout_is_final_where_it_is_acked(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    const quern_handler_options on_failure = {.ack_on_failure = true};
    const quern_handler_options on_timeout = {.ack_on_timeout = true};
    const quern_handler_options failure_slow = {.ack_on_failure = true, .timeout_ms = 30};
    const quern_handler_options timeout_slow = {.ack_on_timeout = true, .timeout_ms = 30};
    handle(rig, "failure", fail_with_class, &on_failure);
    handle(rig, "failure:slow", wait_and_fail, &failure_slow);
    handle(rig, "timeout", fail_with_class, &on_timeout);
    handle(rig, "timeout:slow", wait_and_fail, &timeout_slow);
    const struct errand errands[] = {
        {"a", "failure", "x", QUERN_TASK_ARCHIVED, 0, "bad"},
        {"b", "failure:slow", "x", QUERN_TASK_RETRY, 1, "timeout of 30ms: gone"},
        {"c", "timeout", "x", QUERN_TASK_RETRY, 1, "bad"},
        {"d", "timeout:slow", "x", QUERN_TASK_ARCHIVED, 0, "timeout of 30ms: gone"},
    };
    run_errands(rig, errands, TEST_COUNT(errands));
    rig_free(rig);
}

static void what_a_handler_leaves_open_is_decided_by_its_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    const quern_handler_options late = {.ack = QUERN_ACK_LATE};
    const quern_handler_options slow = {.ack = QUERN_ACK_LATE, .timeout_ms = 30};
    handle(rig, "open", fail_with_class, NULL);
    handle(rig, "late", fail_with_class, &late);
    handle(rig, "slow", wait_and_fail, &slow);
    put(rig, "o", "open", "x");
    put(rig, "l", "late", "x");
    put(rig, "s", "slow", "x");
    struct rig_worker worker;
    rig_start(rig, &worker,
              &(quern_worker_options){.ack = QUERN_ACK_EARLY, .ack_on_timeout = true});
    rig_wait_reports(rig, 3);
    assert_int_equal(rig_state(rig, "o"), 0); /* done before it started */
    expect(rig, "l", QUERN_TASK_RETRY, 1, "bad");
    expect(rig, "s", QUERN_TASK_ARCHIVED, 0, "timeout of 30ms: gone");
    rig_stop(&worker);
    rig_start(rig, &worker, &(quern_worker_options){.ack_on_failure = true});
    rig_act(rig, QUERN_ACTION_RUN, "l");
    put(rig, "p", "open", "x");
    expect(rig, "l", QUERN_TASK_ARCHIVED, 1, "bad");
    expect(rig, "p", QUERN_TASK_ARCHIVED, 0, "bad");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_handler_that_is_given_up_after_its_timeout_is_final_too(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    const quern_handler_options options = {.ack_on_timeout = true, .timeout_ms = 20};
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "deaf", rig_handler(), rig, &options, &error), error);
    put(rig, "a", "deaf", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 4, .quarantine_after_ms = 20});
    expect(rig, "a", QUERN_TASK_ARCHIVED, 0, "timeout of 20ms");
    rig_open_gate(rig);
    rig_wait_empty(rig);
    rig_stop(&worker);
    rig_free(rig);
}

static void what_a_task_was_enqueued_with_comes_before_the_handlers_defaults(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    const quern_handler_options options = {.retry_max = 1, .timeout_ms = 25};
    const quern_handler_options never = {.retry_max = QUERN_RETRY_NEVER};
    handle(rig, "once", fail_with_class, &never);
    handle(rig, "slow", wait_and_fail, &options);
    put(rig, "default", "once", "x");
    rig_put_task(rig, &(quern_task){.id = "own", .type = "once", .retry_max = 2});
    put(rig, "short", "slow", "x");
    rig_put_task(rig, &(quern_task){.id = "long", .type = "slow", .timeout_ms = 60});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    expect(rig, "default", QUERN_TASK_ARCHIVED, 0, "bad");
    expect(rig, "own", QUERN_TASK_RETRY, 1, "bad");
    expect(rig, "short", QUERN_TASK_RETRY, 1, "timeout of 25ms: gone");
    expect(rig, "long", QUERN_TASK_RETRY, 1, "timeout of 60ms: gone");
    rig_act(rig, QUERN_ACTION_RUN, "short");
    expect(rig, "short", QUERN_TASK_ARCHIVED, 1, "timeout of 25ms: gone");
    rig_stop(&worker);
    rig_free(rig);
}

static void a_crash_becomes_what_its_pattern_says(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    const char *kill = "kill -SEGV $$";
    const quern_handler_options options[] = {{.on_crash = QUERN_ON_CRASH_FAIL},
                                             {.on_crash = QUERN_ON_CRASH_ARCHIVE},
                                             {.on_crash = QUERN_ON_CRASH_DROP}};
    run_command(rig, "fail", kill, &options[0]);
    run_command(rig, "archive", kill, &options[1]);
    run_command(rig, "drop", kill, &options[2]);
    run_command(rig, "again", "test \"$QUERN_CAUSE\" != '' || kill -SEGV $$", NULL);
    put(rig, "a", "fail", "");
    put(rig, "b", "archive", "");
    put(rig, "c", "drop", "");
    rig_put_task(rig, &(quern_task){.id = "d", .type = "again", .retention_ms = 60000});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    expect(rig, "a", QUERN_TASK_RETRY, 1, "killed by signal 11 (SIGSEGV)");
    expect(rig, "b", QUERN_TASK_ARCHIVED, 0, "killed by signal 11 (SIGSEGV)");
    rig_wait_state(rig, "c", 0);
    rig_wait_state(rig, "d",
                   QUERN_TASK_COMPLETED); /* it ran again at once, and no retry was used */
    rig_wait_log(rig, "run crashed, its task is dropped");
    rig_stop(&worker);
    rig_free(rig);
}

static void on_error_is_told_what_failed_and_whether_it_is_final(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    noted.calls = 0;
    noted.final_calls = 0;
    const quern_handler_options plain = {.on_error = note_error};
    const quern_handler_options last = {.on_error = note_error, .retry_max = QUERN_RETRY_NEVER};
    const quern_handler_options crash = {.on_error = note_error, .on_crash = QUERN_ON_CRASH_FAIL};
    handle(rig, "plain", fail_with_class, &plain);
    handle(rig, "last", fail_with_class, &last);
    run_command(rig, "exit", "exit 7", &plain);
    run_command(rig, "crash", "kill -9 $$", &crash);
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "fine", rig_handler(), rig, &plain, &error), error);
    const struct {
        const char *type;
        const char *last;
        size_t final_calls;
    } cases[] = {{"plain", "plain dns 1 bad", 0},
                 {"last", "last dns 1 bad", 1},
                 {"exit", "exit exit/7 1 exit status 7", 1},
                 {"crash", "crash crash 1 killed by signal 9 (SIGKILL)", 1},
                 {"fine", "crash crash 1 killed by signal 9 (SIGKILL)", 1}};
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        bool fails = i + 1 < TEST_COUNT(cases);
        put(rig, cases[i].type, cases[i].type, fails ? "dns" : "done");
        rig_wait_reports(rig, i + 1);
        assert_int_equal(noted_calls(), fails ? i + 1 : i);
        (void)pthread_mutex_lock(&noted.mutex);
        expect_error(noted.last, cases[i].last);
        assert_int_equal(noted.final_calls, cases[i].final_calls);
        (void)pthread_mutex_unlock(&noted.mutex);
    }
    rig_stop(&worker);
    rig_free(rig);
}

static void a_command_requests_its_next_run_on_descriptor_3(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    run_command(rig, "later", "echo retry-in=1h >&3; exit 1", NULL);
    run_command(rig, "snooze", "echo snooze=1h >&3", NULL);
    run_command(rig, "tried", "echo snooze=1h >&3; echo busy >&2; exit 75", NULL);
    run_command(rig, "never", "echo no-retry=config >&3; exit 2", NULL);
    const struct errand errands[] = {
        {"a", "later", "", QUERN_TASK_RETRY, 1, "exit status 1"},
        {"b", "snooze", "", QUERN_TASK_RETRY, 0, ""},
        {"c", "tried", "", QUERN_TASK_RETRY, 0, "exit status 75: busy"},
        {"d", "never", "", QUERN_TASK_ARCHIVED, 0,
         "class \"config\" is not retried: exit status 2"},
    };
    run_errands(rig, errands, TEST_COUNT(errands));
    for (const char *id = "abc"; *id != '\0'; id++) {
        quern_task_info *info = rig_inspect(rig, (char[]){*id, '\0'});
        assert_true(quern_task_info_due_at_ms(info) >
                    qn_clock_wall_ms(qn_clock_system()) + INT64_C(3500000));
        quern_task_info_free(info);
    }
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(classes_of_errors_decide_what_is_retried),
    cmocka_unit_test(a_failure_or_a_timeout_is_final_where_it_is_acked),
    cmocka_unit_test(what_a_handler_leaves_open_is_decided_by_its_worker),
    cmocka_unit_test(a_handler_that_is_given_up_after_its_timeout_is_final_too),
    cmocka_unit_test(what_a_task_was_enqueued_with_comes_before_the_handlers_defaults),
    cmocka_unit_test(a_crash_becomes_what_its_pattern_says),
    cmocka_unit_test(on_error_is_told_what_failed_and_whether_it_is_final),
    cmocka_unit_test(a_command_requests_its_next_run_on_descriptor_3),
};
TEST_MAIN_OVER_BROKERS(tests)
