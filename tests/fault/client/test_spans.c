/* SPDX-License-Identifier: MIT */
/* test_spans.c - spans through the library: of a client, of a worker with threads and with
 * children, whose handlers see the span of their run. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "quern/trace.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "00-" TRACE "-b7ad6b7169203331-01"

/* All documents, one behind the other. */
struct collector {
    pthread_mutex_t mutex;
    char text[65536];
};

static struct collector collector = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static quern_status take(const quern_trace_document *document, void *user, quern_error *err)
{
    (void)user;
    (void)err;
    pthread_mutex_lock(&collector.mutex);
    size_t size = strlen(collector.text);
    (void)snprintf(collector.text + size, sizeof collector.text - size, "%s\n", document->text);
    pthread_mutex_unlock(&collector.mutex);
    return QUERN_OK;
}

/* Its result is the trace that it has been given, by both ways. */
static quern_outcome tell(quern_run *run, const quern_task *task, void *user)
{
    quern_error err;
    (void)user;
    const char *parent = quern_run_traceparent(run);
    for (size_t i = 0; i < task->header_count; i++) {
        if (strcmp(task->headers[i].name, "traceparent") == 0 &&
            strcmp(task->headers[i].value, parent) != 0) {
            return QUERN_ARCHIVE;
        }
    }
    return quern_run_write_result(run, parent, strlen(parent), &err) == QUERN_OK ? QUERN_DONE
                                                                                 : QUERN_ARCHIVE;
}

static void add_tell(struct rig *rig)
{
    quern_error err = {0};
    assert_ok(quern_mux_handle(rig->mux, "tell", tell, rig, NULL, &err), err);
}

static size_t count(const char *text)
{
    size_t found = 0;
    for (const char *at = strstr(collector.text, text); at != NULL; at = strstr(at + 1, text)) {
        found++;
    }
    return found;
}

/* Runs one task with this parent (NULL: none); its result in `seen`. */
static void run_one(struct rig *rig, const char *parent, char seen[64])
{
    quern_error err = {0};
    quern_tracer *tracer = NULL;
    quern_client *client = NULL;
    struct rig_worker worker;
    collector.text[0] = '\0';
    const quern_tracer_options options = {.send = take};
    assert_ok(quern_tracer_new(&options, &tracer, &err), err);
    const quern_client_options client_options = {.tracer = tracer};
    assert_ok(quern_client_open(rig->url, &client_options, &client, &err), err);
    const quern_task task = {.type = "tell",
                             .id = "one",
                             .retention_ms = 3600000,
                             .traceparent = parent,
                             .tracestate = "a=b"};
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .tracer = tracer});
    rig_wait_state(rig, "one", QUERN_TASK_COMPLETED);
    rig_stop(&worker);
    quern_client_free(client);
    quern_tracer_free(tracer);
    quern_task_info *info = rig_inspect(rig, "one");
    size_t size = 0;
    (void)snprintf(seen, 64, "%s", (const char *)quern_task_info_result(info, &size));
    quern_task_info_free(info);
}

static void assert_run_is_seen(const char *seen, const char *trace)
{
    char own[64];
    assert_int_equal(strlen(seen), 55);
    assert_int_equal(count("\"name\":\"enqueue default\""), 1);
    assert_int_equal(count("\"name\":\"wait default\""), 1);
    assert_int_equal(count("\"name\":\"run default\""), 1);
    (void)snprintf(own, sizeof own, "\"spanId\":\"%.16s\",\"parent", seen + 36);
    assert_int_equal(count(own), 1);
    (void)snprintf(own, sizeof own, "\"traceId\":\"%.32s\"", trace != NULL ? trace : seen + 3);
    assert_int_equal(count(own), 3);
}

static void handler_in_a_thread_sees_its_span(void **state)
{
    char seen[64];
    (void)state;
    struct rig *rig = rig_new(false);
    add_tell(rig);
    run_one(rig, PARENT, seen);
    assert_run_is_seen(seen, TRACE);
    assert_int_equal(count("\"traceState\":\"a=b\""), 3);
    rig_free(rig);
}

static void handler_in_a_child_sees_its_span(void **state)
{
    char seen[64];
    (void)state;
    struct rig *rig = rig_new_prefork(add_tell);
    run_one(rig, PARENT, seen);
    assert_run_is_seen(seen, TRACE);
    rig_free(rig);
}

static void client_begins_a_trace_where_the_parent_is_not_valid(void **state)
{
    char seen[64];
    (void)state;
    struct rig *rig = rig_new(false);
    add_tell(rig);
    run_one(rig, "00-ab-cd-01", seen);
    assert_run_is_seen(seen, NULL);
    assert_int_equal(count("traceState"), 0);
    rig_free(rig);
}

static void trace_that_is_not_sampled_is_passed_on(void **state)
{
    static const char unsampled[] = "00-" TRACE "-b7ad6b7169203331-00";
    char seen[64];
    (void)state;
    struct rig *rig = rig_new(false);
    add_tell(rig);
    run_one(rig, unsampled, seen);
    assert_string_equal(seen, unsampled);
    assert_string_equal(collector.text, "");
    rig_free(rig);
}

/* Only tasks whose fate is known have a span, each one. */
static void batch_has_a_span_for_each_task(void **state)
{
    quern_error err = {0};
    quern_tracer *tracer = NULL;
    quern_client *client = NULL;
    (void)state;
    struct rig *rig = rig_new(false);
    collector.text[0] = '\0';
    const quern_tracer_options options = {.send = take};
    assert_ok(quern_tracer_new(&options, &tracer, &err), err);
    const quern_client_options client_options = {.tracer = tracer};
    assert_ok(quern_client_open(rig->url, &client_options, &client, &err), err);
    const quern_task tasks[] = {
        {.type = "t", .id = "a"}, {.type = ""}, {.type = "t", .id = "a"}, {.type = "t"}};
    assert_int_not_equal(quern_client_enqueue_batch(client, tasks, 4, NULL, &err), QUERN_OK);
    quern_client_free(client);
    quern_tracer_free(tracer);
    assert_int_equal(count("\"name\":\"enqueue default\""), 3);
    assert_int_equal(count("\"error.type\""), 1);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(handler_in_a_child_sees_its_span), /* first: before there are threads */
    cmocka_unit_test(handler_in_a_thread_sees_its_span),
    cmocka_unit_test(client_begins_a_trace_where_the_parent_is_not_valid),
    cmocka_unit_test(trace_that_is_not_sampled_is_passed_on),
    cmocka_unit_test(batch_has_a_span_for_each_task),
};

TEST_MAIN(tests)
