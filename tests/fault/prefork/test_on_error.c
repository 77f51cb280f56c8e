/* SPDX-License-Identifier: MIT */
/* test_on_error.c - on_error of handlers in children: called there, once, with what is stored. */
#include "lib_worker.h"

#include <string.h>

static void note_failure(quern_run *run, const quern_task *task, const quern_failure *failure,
                         void *user)
{
    struct rig *rig = user;
    char text[512];
    (void)snprintf(text, sizeof text, "%s|%s|%s|%d|%d|%lld|%lld;", task->id, failure->error,
                   failure->error_class, failure->outcome, failure->is_final,
                   (long long)failure->delay_ms, (long long)quern_run_retry_count(run));
    pthread_mutex_lock(&rig->mutex);
    size_t size = strlen(rig->seen);
    (void)snprintf(rig->seen + size, sizeof rig->seen - size, "%s", text);
    rig->written_count += getpid() != rig->test_pid ? 1 : 100;
    pthread_mutex_unlock(&rig->mutex);
}

static void replace_error(quern_run *run, const quern_task *task, const quern_failure *failure,
                          void *user)
{
    note_failure(run, task, failure, user);
    (void)quern_run_fail(run, QUERN_RETRY, "in other words: %s", failure->error);
}

static quern_outcome fail_with_class(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    quern_run_set_error_class(run, "http/404");
    return quern_run_fail(run, QUERN_RETRY, "not there");
}

static void add(struct rig *rig, const char *pattern, quern_handler handler,
                const quern_handler_options *options)
{
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, pattern, handler, rig, options, &error), error);
}

static void prepare(struct rig *rig)
{
    static const char *const no_retry[] = {"http/404", NULL};
    rig->test_pid = getpid();
    const quern_retry_policy fixed = QUERN_BACKOFF_FIXED(3600000);
    add(rig, "noted", rig_handler(),
        &(quern_handler_options){.on_error = note_failure, .retry = fixed});
    add(rig, "replaced", rig_handler(),
        &(quern_handler_options){.on_error = replace_error, .retry = fixed});
    add(rig, "class", fail_with_class,
        &(quern_handler_options){.on_error = note_failure, .no_retry = no_retry});
    add(rig, "early", rig_handler(),
        &(quern_handler_options){.on_error = note_failure, .ack = QUERN_ACK_EARLY});
}

/* One that waits does so for its timeout. */
static void put(struct rig *rig, const char *type, const char *id, const char *payload)
{
    rig_put_task(rig, &(quern_task){.id = id,
                                    .type = type,
                                    .payload = payload,
                                    .payload_size = strlen(payload),
                                    .timeout_ms = strcmp(payload, "wait") == 0 ? 700 : 0});
}

static void assert_seen(struct rig *rig, const char *text)
{
    pthread_mutex_lock(&rig->mutex);
    bool seen = strstr(rig->seen, text) != NULL;
    pthread_mutex_unlock(&rig->mutex);
    if (!seen) {
        fail_msg("not seen: %s\nin: %s\n%s", text, rig->seen, rig->log);
    }
}

static void assert_error(struct rig *rig, const char *id, const char *text)
{
    quern_task_info *info = rig_inspect(rig, id);
    assert_string_equal(quern_task_info_error(info), text);
    quern_task_info_free(info);
}

static void it_is_called_in_the_child_with_what_is_stored(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    put(rig, "noted", "r", "retry");
    put(rig, "noted", "a", "archive");
    put(rig, "noted", "d", "done");
    put(rig, "noted", "w", "wait");
    put(rig, "replaced", "x", "retry");
    put(rig, "class", "c", "");
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "r", QUERN_TASK_RETRY);
    rig_wait_state(rig, "a", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "d", 0);
    rig_wait_state(rig, "w", QUERN_TASK_RETRY);
    rig_wait_state(rig, "x", QUERN_TASK_RETRY);
    rig_wait_state(rig, "c", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    assert_seen(rig, "r|broken||1|0|3600000|0;");
    assert_seen(rig, "a|no use||2|1|0|0;");
    assert_seen(rig, "w|timeout of 700ms|timeout|1|0|3600000|0;");
    assert_seen(rig, "c|class \"http/404\" is not retried: not there|http/404|2|1|0|0;");
    assert_error(rig, "r", "broken");
    assert_error(rig, "a", "no use");
    assert_error(rig, "w", "timeout of 700ms");
    assert_error(rig, "x", "in other words: broken");
    assert_error(rig, "c", "class \"http/404\" is not retried: not there");
    assert_int_equal(rig->written_count, 5);
    rig_free(rig);
}

static void a_run_that_was_acked_early_is_final(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    put(rig, "early", "e", "retry");
    rig_start(rig, &worker, NULL);
    rig_wait_reports(rig, 1);
    rig_stop(&worker);
    assert_seen(rig, "e|broken||1|1|0|0;");
    rig_free(rig);
}

static void the_defaults_of_the_worker_are_known_there(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    put(rig, "noted", "f", "retry");
    put(rig, "noted", "t", "wait");
    rig_start(rig, &worker, &(quern_worker_options){.ack_on_failure = true});
    rig_wait_state(rig, "f", QUERN_TASK_ARCHIVED);
    rig_wait_state(rig, "t", QUERN_TASK_RETRY);
    rig_stop(&worker);
    assert_seen(rig, "f|broken||2|1|0|0;");
    assert_seen(rig, "t|timeout of 700ms|timeout|1|0|3600000|0;");
    rig_free(rig);
}

static void a_cancelled_run_is_told_so(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put_task(rig,
                 &(quern_task){.id = "o", .type = "noted", .payload = "wait", .payload_size = 4});
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 1);
    rig_act(rig, QUERN_ACTION_CANCEL_ARCHIVE, "o");
    rig_wait_state(rig, "o", QUERN_TASK_ARCHIVED);
    rig_stop(&worker);
    assert_seen(rig, "o|cancelled|cancelled|2|1|0|0;");
    assert_error(rig, "o", "cancelled");
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_is_called_in_the_child_with_what_is_stored),
    cmocka_unit_test(a_run_that_was_acked_early_is_final),
    cmocka_unit_test(the_defaults_of_the_worker_are_known_there),
    cmocka_unit_test(a_cancelled_run_is_told_so),
};
TEST_MAIN_OVER_BROKERS(tests)
