/* SPDX-License-Identifier: MIT */
/* test_tracer.c - the queue of spans, and the documents that are made of them. */
#include "trace/tracer.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib_test.h"
#include "quern/version.h"

/* A collector: what it got, and what it answers. */
struct collector {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t calls;
    size_t spans;
    bool blocks; /* until its time is over */
    quern_status status;
    char last[8192];
    char log[4096];
};

static struct collector *new_collector(void)
{
    struct collector *collector = calloc(1, sizeof *collector);
    assert_non_null(collector);
    pthread_mutex_init(&collector->mutex, NULL);
    pthread_cond_init(&collector->changed, NULL);
    return collector;
}

static void free_collector(struct collector *collector)
{
    pthread_cond_destroy(&collector->changed);
    pthread_mutex_destroy(&collector->mutex);
    free(collector);
}

static quern_status take(const quern_trace_document *document, void *user, quern_error *err)
{
    struct collector *collector = user;
    pthread_mutex_lock(&collector->mutex);
    quern_status status = collector->status;
    bool blocks = collector->blocks;
    collector->calls++;
    collector->spans += status == QUERN_OK && !blocks ? document->span_count : 0;
    (void)snprintf(collector->last, sizeof collector->last, "%s", document->text);
    pthread_cond_broadcast(&collector->changed);
    pthread_mutex_unlock(&collector->mutex);
    while (blocks && quern_tracer_left_ms(document->tracer) > 0) {
        (void)poll(NULL, 0, 1);
    }
    err->code = blocks ? QUERN_E_TIMEOUT : status;
    (void)snprintf(err->text, sizeof err->text, "as the test wants it");
    return err->code;
}

static void keep_line(quern_log_level level, const char *line, void *user)
{
    struct collector *collector = user;
    (void)level;
    pthread_mutex_lock(&collector->mutex);
    size_t size = strlen(collector->log);
    (void)snprintf(collector->log + size, sizeof collector->log - size, "%s\n", line);
    pthread_mutex_unlock(&collector->mutex);
}

static void await_calls(struct collector *collector, size_t calls)
{
    pthread_mutex_lock(&collector->mutex);
    while (collector->calls < calls) {
        pthread_cond_wait(&collector->changed, &collector->mutex);
    }
    pthread_mutex_unlock(&collector->mutex);
}

static quern_tracer *start(struct collector *collector, quern_tracer_options options)
{
    quern_tracer *tracer = NULL;
    quern_error err = {0};
    options.send = take;
    options.on_log = keep_line;
    options.user = collector;
    assert_ok(quern_tracer_new(&options, &tracer, &err), err);
    return tracer;
}

static struct qn_span span_of(uint64_t id)
{
    return (struct qn_span){.kind = QN_SPAN_RUN,
                            .context = {1, 2, id, true},
                            .started_at_ns = 1000,
                            .ended_at_ns = 2000,
                            .queue = "default",
                            .type = "t",
                            .id = "one",
                            .outcome = "done"};
}

static void add(quern_tracer *tracer, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct qn_span span = span_of(i + 1);
        qn_tracer_add(tracer, &span);
    }
}

static quern_tracer_stats stats_of(quern_tracer *tracer)
{
    quern_tracer_stats stats;
    quern_tracer_get_stats(tracer, &stats);
    return stats;
}

static void spans_are_sent_when_they_fill_a_document(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    quern_tracer *tracer =
        start(collector, (quern_tracer_options){.batch_max = 10, .interval_ms = 3600000});
    add(tracer, 25);
    await_calls(collector, 2);
    quern_tracer_free(tracer); /* and the rest at the end */
    assert_int_equal(collector->calls, 3);
    assert_int_equal(collector->spans, 25);
    assert_string_equal(collector->log, "");
    free_collector(collector);
}

static void span_waits_for_others_no_longer_than_the_interval(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    quern_tracer *tracer = start(collector, (quern_tracer_options){.interval_ms = 1});
    add(tracer, 1);
    await_calls(collector, 1);
    add(tracer, 1);
    await_calls(collector, 2);
    quern_tracer_free(tracer);
    assert_int_equal(collector->spans, 2);
    free_collector(collector);
}

static void full_queue_drops_what_comes_and_counts_it(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    collector->blocks = true;
    quern_tracer *tracer = start(collector, (quern_tracer_options){.batch_max = 5,
                                                                   .queue_max = 20,
                                                                   .send_timeout_ms = 3600000,
                                                                   .close_timeout_ms = 1});
    add(tracer, 5);
    await_calls(collector, 1); /* those are no longer in the queue */
    add(tracer, 50);
    assert_int_equal(stats_of(tracer).queued, 20);
    assert_int_equal(stats_of(tracer).dropped, 30);
    quern_tracer_free(tracer);
    unsigned long dropped = 0;
    for (const char *at = strstr(collector->log, "count="); at != NULL;
         at = strstr(at + 1, "count=")) {
        dropped += strtoul(at + strlen("count="), NULL, 10);
    }
    assert_int_equal(dropped, 55);
    free_collector(collector);
}

static void end_takes_no_longer_than_its_time(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    collector->blocks = true;
    quern_tracer *tracer =
        start(collector, (quern_tracer_options){
                             .interval_ms = 1, .send_timeout_ms = 3600000, .close_timeout_ms = 50});
    add(tracer, 1);
    await_calls(collector, 1);
    int64_t began_at_ns = qn_clock_mono_ns();
    quern_tracer_free(tracer); /* else it would take an hour */
    assert_true(qn_clock_mono_ns() - began_at_ns < 60000 * QN_NS_PER_MS);
    free_collector(collector);
}

/* Three spans in one document, which gets the collector's status once; then it takes all. */
static quern_tracer *add_one_document(struct collector *collector)
{
    quern_tracer *tracer =
        start(collector, (quern_tracer_options){.batch_max = 3, .interval_ms = 3600000});
    add(tracer, 3);
    await_calls(collector, 1);
    pthread_mutex_lock(&collector->mutex);
    collector->status = QUERN_OK;
    pthread_mutex_unlock(&collector->mutex);
    return tracer;
}

static void document_that_is_refused_is_dropped(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    collector->status = QUERN_E_INVALID;
    quern_tracer *tracer = add_one_document(collector);
    while (stats_of(tracer).dropped < 3) {
        (void)poll(NULL, 0, 1);
    }
    add(tracer, 3);
    await_calls(collector, 2);
    quern_tracer_free(tracer);
    assert_int_equal(collector->spans, 3);
    assert_non_null(strstr(collector->log, "spans cannot be sent"));
    assert_non_null(strstr(collector->log, "spans are sent again"));
    assert_non_null(strstr(collector->log, "count=3"));
    free_collector(collector);
}

static void document_that_could_not_be_sent_is_sent_again(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    collector->status = QUERN_E_CONNECT;
    quern_tracer *tracer = add_one_document(collector);
    await_calls(collector, 2);
    quern_tracer_free(tracer);
    assert_int_equal(collector->spans, 3);
    free_collector(collector);
}

static void span_that_is_not_sampled_is_not_sent(void **state)
{
    struct collector *collector = new_collector();
    (void)state;
    quern_tracer *tracer = start(collector, (quern_tracer_options){0});
    struct qn_span span = span_of(1);
    span.context.sampled = false;
    qn_tracer_add(tracer, &span);
    quern_tracer_free(tracer);
    assert_int_equal(collector->calls, 0);
    free_collector(collector);
}

static void tracer_without_send_makes_ids_only(void **state)
{
    quern_tracer *tracer = NULL;
    quern_error err = {0};
    struct qn_trace_context context;
    (void)state;
    assert_ok(quern_tracer_new(NULL, &tracer, &err), err);
    qn_trace_source_next(qn_tracer_source(tracer), NULL, &context);
    assert_true(context.sampled && context.span != 0);
    add(tracer, 3);
    assert_int_equal(stats_of(tracer).queued, 0);
    quern_tracer_free(tracer);
    quern_tracer_free(NULL);
    assert_int_equal(quern_tracer_left_ms(NULL), 0);
}

static void wrong_options_are_refused(void **state)
{
    static const quern_header nameless = {NULL, "x"};
    static const struct {
        quern_tracer_options options;
        const char *text;
    } cases[] = {
        {{.sample_ppm = 1000001}, "sample_ppm"},
        {{.sample_ppm = -2}, "sample_ppm"},
        {{.interval_ms = -1}, "interval_ms"},
        {{.send_timeout_ms = 3600001}, "send_timeout_ms"},
        {{.close_timeout_ms = -1}, "close_timeout_ms"},
        {{.queue_max = 2000000}, "queue_max"},
        {{.batch_max = 70000}, "batch_max"},
        {{.reserved = 1}, "reserved"},
        {{.resource_count = 65}, "resource_count"},
        {{.resource = &nameless, .resource_count = 1}, "a name of resource"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        quern_tracer *tracer = NULL;
        quern_error err = {0};
        assert_int_equal(quern_tracer_new(&cases[i].options, &tracer, &err), QUERN_E_INVALID);
        assert_int_equal(strncmp(err.text, cases[i].text, strlen(cases[i].text)), 0);
        assert_null(tracer);
    }
}

static void document_is_json_whatever_the_names_are(void **state)
{
    static const char expected[] =
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"s\\\"\\\\\"}},"
        "{\"key\":\"x\",\"value\":{\"stringValue\":\"\"}}]},"
        "\"scopeSpans\":[{\"scope\":{\"name\":\"quern\",\"version\":\"" QUERN_VERSION "\"},"
        "\"spans\":[{\"traceId\":\"00000000000000010000000000000002\","
        "\"spanId\":\"00000000000000ff\",\"parentSpanId\":\"0000000000000003\","
        "\"name\":\"run bad \xef\xbf\xbd byte\",\"kind\":5,\"startTimeUnixNano\":\"1000\","
        "\"endTimeUnixNano\":\"1000\",\"attributes\":["
        "{\"key\":\"messaging.system\",\"value\":{\"stringValue\":\"quern\"}},"
        "{\"key\":\"messaging.operation.name\",\"value\":{\"stringValue\":\"run\"}},"
        "{\"key\":\"messaging.operation.type\",\"value\":{\"stringValue\":\"process\"}},"
        "{\"key\":\"messaging.destination.name\","
        "\"value\":{\"stringValue\":\"bad \xef\xbf\xbd byte\"}},"
        "{\"key\":\"messaging.message.id\",\"value\":{\"stringValue\":\"one\"}},"
        "{\"key\":\"messaging.message.body.size\",\"value\":{\"intValue\":\"0\"}},"
        "{\"key\":\"quern.task.type\","
        "\"value\":{\"stringValue\":\"a\\\"\\\\\\u000a\\u0001\\u007f\"}},"
        "{\"key\":\"quern.retry.count\",\"value\":{\"intValue\":\"0\"}},"
        "{\"key\":\"quern.outcome\",\"value\":{\"stringValue\":\"done\"}},"
        "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"_OTHER\"}}],"
        "\"status\":{\"code\":2,\"message\":\"\"}}]}]}]}";
    static const quern_header resource[] = {{"service.name", "s\"\\"}, {"x", NULL}};
    struct collector *collector = new_collector();
    (void)state;
    quern_tracer *tracer =
        start(collector, (quern_tracer_options){.resource = resource, .resource_count = 2});
    struct qn_span span = span_of(0xff);
    span.type = "a\"\\\n\x01\x7f";
    span.queue = "bad \xff byte";
    span.error = "";
    span.parent = 3;
    span.ended_at_ns = 0; /* a clock that was set back */
    qn_tracer_add(tracer, &span);
    quern_tracer_free(tracer);
    assert_string_equal(collector->last, expected);
    free_collector(collector);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(spans_are_sent_when_they_fill_a_document),
    cmocka_unit_test(span_waits_for_others_no_longer_than_the_interval),
    cmocka_unit_test(full_queue_drops_what_comes_and_counts_it),
    cmocka_unit_test(end_takes_no_longer_than_its_time),
    cmocka_unit_test(document_that_is_refused_is_dropped),
    cmocka_unit_test(document_that_could_not_be_sent_is_sent_again),
    cmocka_unit_test(span_that_is_not_sampled_is_not_sent),
    cmocka_unit_test(tracer_without_send_makes_ids_only),
    cmocka_unit_test(wrong_options_are_refused),
    cmocka_unit_test(document_is_json_whatever_the_names_are),
};

TEST_MAIN(tests)
