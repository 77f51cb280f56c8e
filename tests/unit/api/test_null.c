/* SPDX-License-Identifier: MIT */
/* test_null.c - each public function that returns a status refuses NULL where it is not allowed,
 * and names the argument; those that return nothing do nothing. */
#include <string.h>

#include "lib_test.h"
#include "quern/quern.h"
#include "quern/sqlite.h"
#include "quern/testing.h"

struct objects {
    char dir[TEST_DIR_SIZE];
    char url[TEST_DIR_SIZE + 16];
    quern_client *client;
    quern_mux *mux;
    quern_inspector *inspector;
};

static int setup(void **state)
{
    static struct objects objects;
    struct objects *t = &objects;
    quern_error err = {0};
    test_dir_make(t->dir);
    (void)snprintf(t->url, sizeof t->url, "%.*s/q.db", TEST_DIR_SIZE, t->dir);
    assert_ok(quern_client_open(t->url, NULL, &t->client, &err), err);
    assert_ok(quern_mux_new(&t->mux, &err), err);
    assert_ok(quern_inspector_open(t->url, NULL, &t->inspector, &err), err);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct objects *t = *state;
    quern_client_free(t->client);
    quern_mux_free(t->mux);
    quern_inspector_free(t->inspector);
    test_dir_remove(t->dir);
    return 0;
}

/* The call is refused as invalid, and its text begins with the name of the argument. */
#define REFUSES(argument, call)                                                                    \
    do {                                                                                           \
        quern_error err = {0};                                                                     \
        assert_int_equal((call), QUERN_E_INVALID);                                                 \
        assert_int_equal(err.code, QUERN_E_INVALID);                                               \
        assert_string_equal(err.text, argument ": must not be NULL");                              \
    } while (0)

static quern_outcome handler(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    REFUSES("run", quern_run_write_result(NULL, "x", 1, &err));
    REFUSES("data", quern_run_write_result(run, NULL, 1, &err));
    REFUSES("run", quern_run_write_progress(NULL, 1, NULL, &err));
    REFUSES("run", quern_run_change_payload(NULL, "x", 1, &err));
    REFUSES("data", quern_run_change_payload(run, NULL, 1, &err));
    REFUSES("run", quern_run_change_queue(NULL, "other", &err));
    REFUSES("queue", quern_run_change_queue(run, NULL, &err));
    REFUSES("run", quern_run_change_retry_max(NULL, 1, &err));
    return QUERN_DONE;
}

static quern_outcome aggregator(quern_aggregation *aggregation, const quern_task *const *members,
                                size_t count, void *user)
{
    (void)aggregation;
    (void)members;
    (void)count;
    (void)user;
    return QUERN_DONE;
}

static void client_names_the_argument_that_is_null(void **state)
{
    struct objects *t = *state;
    const quern_task task = {.type = "t"};
    quern_client *client = NULL;
    REFUSES("url", quern_client_open(NULL, NULL, &client, &err));
    REFUSES("ret_client", quern_client_open(t->url, NULL, NULL, &err));
    REFUSES("client", quern_client_enqueue(NULL, &task, NULL, &err));
    REFUSES("task", quern_client_enqueue(t->client, NULL, NULL, &err));
    REFUSES("client", quern_client_enqueue_batch(NULL, &task, 1, NULL, &err));
    REFUSES("tasks", quern_client_enqueue_batch(t->client, NULL, 1, NULL, &err));
    REFUSES("db", quern_client_enqueue_tx(t->client, NULL, &task, 1, NULL, &err));
    REFUSES("client", quern_client_reload_certificates(NULL, &err));
    REFUSES("ret_tracer", quern_tracer_new(NULL, NULL, &err));
    quern_tracer_stats stats = {.sent = 7};
    quern_tracer_get_stats(NULL, &stats);
    assert_int_equal(stats.sent, 0);
    quern_tracer_get_stats(NULL, NULL);
    assert_int_equal(quern_tracer_left_ms(NULL), 0);
    quern_tracer_free(NULL);
    quern_client_wake(NULL);
    quern_client_free(NULL);
}

static void worker_and_mux_name_the_argument_that_is_null(void **state)
{
    struct objects *t = *state;
    quern_worker *worker = NULL;
    REFUSES("ret_mux", quern_mux_new(NULL, &err));
    REFUSES("mux", quern_mux_handle(NULL, "t", handler, NULL, NULL, &err));
    REFUSES("pattern", quern_mux_handle(t->mux, NULL, handler, NULL, NULL, &err));
    REFUSES("handler", quern_mux_handle(t->mux, "t", NULL, NULL, NULL, &err));
    REFUSES("mux", quern_mux_aggregate(NULL, "t", aggregator, NULL, NULL, &err));
    REFUSES("pattern", quern_mux_aggregate(t->mux, NULL, aggregator, NULL, NULL, &err));
    REFUSES("aggregator", quern_mux_aggregate(t->mux, "t", NULL, NULL, NULL, &err));
    REFUSES("aggregation", quern_aggregation_store(NULL, &(quern_task){.type = "t"}, &err));
    REFUSES("mux", quern_mux_exec(NULL, "t", "true", NULL, &err));
    REFUSES("pattern", quern_mux_exec(t->mux, NULL, "true", NULL, &err));
    REFUSES("command", quern_mux_exec(t->mux, "t", NULL, NULL, &err));
    REFUSES("mux", quern_mux_configure(NULL, "t", NULL, &err));
    REFUSES("pattern", quern_mux_configure(t->mux, NULL, NULL, &err));
    REFUSES("middleware", quern_mux_use(t->mux, NULL, NULL, &err));
    REFUSES("mux", quern_mux_not_found(NULL, QUERN_RETRY, &err));
    REFUSES("url", quern_worker_new(NULL, t->mux, NULL, &worker, &err));
    REFUSES("mux", quern_worker_new(t->url, NULL, NULL, &worker, &err));
    REFUSES("ret_worker", quern_worker_new(t->url, t->mux, NULL, NULL, &err));
    quern_zygote *zygote = NULL;
    char *argv[] = {NULL};
    REFUSES("mux", quern_zygote_start(NULL, NULL, &zygote, &err));
    REFUSES("ret_zygote", quern_zygote_start(t->mux, NULL, NULL, &err));
    REFUSES("path", quern_zygote_exec(NULL, argv, NULL, &zygote, &err));
    REFUSES("argv", quern_zygote_exec("/bin/true", NULL, NULL, &zygote, &err));
    REFUSES("ret_zygote", quern_zygote_exec("/bin/true", argv, NULL, NULL, &err));
    REFUSES("mux", quern_zygote_serve(NULL, NULL, &err));
    quern_zygote_free(NULL);
    assert_null(quern_zygote_mux(NULL));
    REFUSES("worker", quern_worker_reload(NULL, NULL, &err));
    REFUSES("worker", quern_worker_reload_certificates(NULL, &err));
    REFUSES("worker", quern_worker_set_weights(NULL, NULL, 0, &err));
    REFUSES("worker", quern_worker_run(NULL, &err));
    char *text = NULL;
    REFUSES("worker", quern_metrics_worker(NULL, NULL, &text, NULL, &err));
    REFUSES("ret_text", quern_metrics_process(NULL, NULL, NULL, &err));
    quern_metrics_free(NULL);
    quern_worker_stop(NULL);
    quern_worker_quiet(NULL);
    quern_worker_resume(NULL);
    quern_worker_log_runs(NULL);
    REFUSES("worker", quern_worker_resize(NULL, 1, &err));
    quern_worker_stats stats = {.done = 7, .ready = true};
    quern_worker_get_stats(NULL, &stats);
    assert_true(stats.done == 0 && !stats.ready);
    quern_worker_get_stats(NULL, NULL);
    quern_worker_health health = {.live = true};
    quern_worker_get_health(NULL, &health);
    assert_true(!health.live && health.check_count == 0);
    quern_worker_get_health(NULL, NULL);
    quern_worker_free(NULL);
    quern_mux_free(NULL);
}

static void refuses_limits(struct objects *t)
{
    quern_limit_list *list = NULL;
    const quern_limit no_queue = {.scope = QUERN_LIMIT_QUEUE, .count = 1};
    REFUSES("limit", quern_inspector_set_limit(t->inspector, NULL, &err));
    REFUSES("queue", quern_inspector_set_limit(t->inspector, &no_queue, &err));
    REFUSES("queue",
            quern_inspector_remove_limit(t->inspector, NULL, QUERN_LIMIT_QUEUE, NULL, &err));
    REFUSES("ret_list", quern_inspector_limits(t->inspector, NULL, NULL, &err));
    REFUSES("inspector", quern_inspector_limits(NULL, NULL, &list, &err));
    quern_limit_list_free(NULL);
}

static void refuses_entries(struct objects *t)
{
    quern_entry_list *list = NULL;
    quern_entry_history *history = NULL;
    const quern_entry entry = {.name = "e", .cron = "@daily"};
    const quern_task task = {.type = "t"};
    REFUSES("ret_list", quern_inspector_entries(t->inspector, NULL, NULL, NULL, &err));
    REFUSES("inspector", quern_inspector_entries(NULL, NULL, NULL, &list, &err));
    REFUSES("entry", quern_inspector_put_entry(t->inspector, NULL, &task, QUERN_ENTRY_ADD, &err));
    REFUSES("task", quern_inspector_put_entry(t->inspector, &entry, NULL, QUERN_ENTRY_ADD, &err));
    REFUSES("name", quern_inspector_pause_entry(t->inspector, NULL, NULL, QUERN_ENTRY_PAUSE, &err));
    REFUSES("name", quern_inspector_remove_entry(t->inspector, NULL, NULL, false, &err));
    REFUSES("name", quern_inspector_trigger_entry(t->inspector, NULL, NULL, NULL, &err));
    REFUSES("name", quern_inspector_entry_history(t->inspector, NULL, NULL, &history, &err));
    REFUSES("ret_history", quern_inspector_entry_history(t->inspector, NULL, "e", NULL, &err));
    quern_entry_list_free(NULL);
    quern_entry_history_free(NULL);
}

static void refuses_edits_and_moves(struct objects *t)
{
    const quern_search search = {.match = ""};
    quern_matching matching;
    const quern_task_edit edit = {.retry_max = 1};
    REFUSES("inspector", quern_inspector_task_move(NULL, NULL, "1", "q", &err));
    REFUSES("id", quern_inspector_task_move(t->inspector, NULL, NULL, "q", &err));
    REFUSES("to_queue", quern_inspector_task_move(t->inspector, NULL, "1", NULL, &err));
    REFUSES("inspector", quern_inspector_move_matching(NULL, NULL, &search, &matching, &err));
    REFUSES("to_queue",
            quern_inspector_move_matching(t->inspector, NULL, &search, &matching, &err));
    REFUSES("search", quern_inspector_move_matching(t->inspector, "q", NULL, &matching, &err));
    REFUSES("ret_matching", quern_inspector_move_matching(t->inspector, "q", &search, NULL, &err));
    REFUSES("inspector", quern_inspector_task_edit(NULL, NULL, "1", &edit, &err));
    REFUSES("id", quern_inspector_task_edit(t->inspector, NULL, NULL, &edit, &err));
    REFUSES("edit", quern_inspector_task_edit(t->inspector, NULL, "1", NULL, &err));
    REFUSES("search", quern_inspector_edit_matching(t->inspector, &edit, NULL, &matching, &err));
    REFUSES("edit", quern_inspector_edit_matching(t->inspector, NULL, &search, &matching, &err));
    REFUSES("ret_matching",
            quern_inspector_edit_matching(t->inspector, &edit, &search, NULL, &err));
}

static void inspector_names_the_argument_that_is_null(void **state)
{
    struct objects *t = *state;
    quern_inspector *inspector = NULL;
    quern_queue_list *queues = NULL;
    quern_task_list *tasks = NULL;
    quern_worker_list *workers = NULL;
    quern_task_info *info = NULL;
    const quern_search search = {.match = ""};
    quern_matching matching;
    REFUSES("url", quern_inspector_open(NULL, NULL, &inspector, &err));
    REFUSES("ret_inspector", quern_inspector_open(t->url, NULL, NULL, &err));
    REFUSES("inspector", quern_inspector_queues(NULL, &queues, &err));
    REFUSES("ret_list", quern_inspector_queues(t->inspector, NULL, &err));
    REFUSES("queue", quern_inspector_pause(t->inspector, NULL, &err));
    char *text = NULL;
    REFUSES("inspector", quern_metrics_inspector(NULL, NULL, &text, NULL, &err));
    REFUSES("ret_text", quern_metrics_inspector(t->inspector, NULL, NULL, NULL, &err));
    refuses_limits(t);
    refuses_entries(t);
    refuses_edits_and_moves(t);
    REFUSES("queue", quern_inspector_resume(t->inspector, NULL, &err));
    REFUSES("queue", quern_inspector_remove_queue(t->inspector, NULL, false, &err));
    REFUSES("ret_days", quern_inspector_history(t->inspector, "q", 1, NULL, &err));
    REFUSES("path", quern_inspector_backup(t->inspector, NULL, &err));
    REFUSES("inspector", quern_inspector_reload_certificates(NULL, &err));
    REFUSES("inspector", quern_inspector_tasks(NULL, NULL, &tasks, &err));
    REFUSES("ret_list", quern_inspector_tasks(t->inspector, NULL, NULL, &err));
    REFUSES("id", quern_inspector_task(t->inspector, NULL, NULL, &info, &err));
    REFUSES("id", quern_inspector_task_short(t->inspector, NULL, NULL, &info, &err));
    REFUSES("ret_info", quern_inspector_task(t->inspector, NULL, "1", NULL, &err));
    REFUSES("id", quern_inspector_act(t->inspector, QUERN_ACTION_RUN, NULL, NULL, &err));
    REFUSES("inspector", quern_inspector_act_all(NULL, QUERN_ACTION_RUN, NULL, NULL, &err));
    REFUSES("filter", quern_inspector_act_all(t->inspector, QUERN_ACTION_RUN, NULL, NULL, &err));
    const quern_worker_command command = {.order = QUERN_ORDER_QUIET};
    REFUSES("inspector", quern_inspector_command(NULL, &command, &err));
    REFUSES("command", quern_inspector_command(t->inspector, NULL, &err));
    REFUSES("worker_id", quern_inspector_command(t->inspector, &command, &err));
    REFUSES("inspector", quern_inspector_search(NULL, &search, &tasks, &err));
    REFUSES("search", quern_inspector_search(t->inspector, NULL, &tasks, &err));
    REFUSES("ret_list", quern_inspector_search(t->inspector, &search, NULL, &err));
    REFUSES("search",
            quern_inspector_act_matching(t->inspector, QUERN_ACTION_RUN, NULL, &matching, &err));
    REFUSES("ret_matching",
            quern_inspector_act_matching(t->inspector, QUERN_ACTION_RUN, &search, NULL, &err));
    REFUSES("ret_matching",
            quern_inspector_count_matching(t->inspector, QUERN_ACTION_RUN, &search, NULL, &err));
    quern_explanation *explanation = NULL;
    REFUSES("inspector", quern_inspector_explain(NULL, NULL, "1", &explanation, &err));
    REFUSES("id", quern_inspector_explain(t->inspector, NULL, NULL, &explanation, &err));
    REFUSES("ret_explanation", quern_inspector_explain(t->inspector, NULL, "1", NULL, &err));
    quern_explanation_free(NULL);
    REFUSES("inspector", quern_inspector_workers(NULL, &workers, &err));
    REFUSES("ret_list", quern_inspector_workers(t->inspector, NULL, &err));
    REFUSES("on_fact", quern_inspector_broker(t->inspector, NULL, NULL, &err));
    REFUSES("on_finding", quern_inspector_check(t->inspector, false, NULL, NULL, &err));
    quern_queue_list_free(NULL);
    quern_task_list_free(NULL);
    quern_worker_list_free(NULL);
    quern_task_info_free(NULL);
    quern_inspector_free(NULL);
}

static void test_kit_names_the_argument_that_is_null(void **state)
{
    (void)state;
    const quern_task task = {.type = "t", .payload = QUERN_TEXT("four")};
    assert_int_equal(task.payload_size, 4);
    quern_test_run *run = NULL;
    quern_error error = {0};
    REFUSES("ret_clock", quern_clock_new(1, NULL, &err));
    REFUSES("handler", quern_test_run_handler(NULL, &task, NULL, NULL, &run, &err));
    REFUSES("task", quern_test_run_handler(handler, NULL, NULL, NULL, &run, &err));
    REFUSES("ret_run", quern_test_run_handler(handler, &task, NULL, NULL, NULL, &err));
    assert_ok(quern_test_run_handler(handler, &task, NULL, NULL, &run, &error), error);
    assert_int_equal(quern_test_run_outcome(run), QUERN_DONE);
    quern_test_run_free(run);
    quern_test_run_free(NULL);
    quern_clock_advance(NULL, 1);
    quern_clock_jump(NULL, 1);
    quern_clock_free(NULL);
}

static void version_number_is_that_of_the_headers(void **state)
{
    (void)state;
    char text[32];
    int number = quern_version_number();
    (void)snprintf(text, sizeof text, "%d.%d.%d", number / 1000000, number / 1000 % 1000,
                   number % 1000);
    assert_int_equal(number, QUERN_VERSION_NUMBER);
    assert_string_equal(text, quern_version());
    assert_string_equal(text, QUERN_VERSION);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_names_the_argument_that_is_null),
        cmocka_unit_test(worker_and_mux_name_the_argument_that_is_null),
        cmocka_unit_test(inspector_names_the_argument_that_is_null),
        cmocka_unit_test(test_kit_names_the_argument_that_is_null),
        cmocka_unit_test(version_number_is_that_of_the_headers),
    };
    (void)argc;
    (void)argv;
    return cmocka_run_group_tests(tests, setup, teardown);
}
