/* SPDX-License-Identifier: MIT */
/* tracer.c - a queue of spans, and the thread that makes documents of them and has them sent.
 *
 * The threads of clients and workers only copy a span into the queue. A document is sent when there
 * are enough spans for one, or when the oldest has waited for the interval. One that cannot be sent
 * now is tried again for a minute, while the queue fills up and then drops what comes: a collector
 * that is dead, slow or hostile costs spans, never time. At the end what waits is sent once more,
 * within close_timeout_ms.
 *
 * An allocation that fails drops a span or a document. */
#include "trace/tracer.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/list.h"
#include "base/memory/sized.h"
#include "base/thread.h"
#include "trace/otlp.h"

enum {
    QUEUE_DEFAULT = 4096,
    QUEUE_LIMIT = 1 << 20,
    BATCH_DEFAULT = 512,
    BATCH_LIMIT = 1 << 16,
    RESOURCE_LIMIT = 64,
    INTERVAL_MS = 1000,
    SEND_TIMEOUT_MS = 10000,
    CLOSE_TIMEOUT_MS = 2000,
    PAUSE_MS_FIRST = 1000,
    PAUSE_MS_MAX = 30000,
    RETRY_FOR_MS = 60000, /* one document */
    LOG_EVERY_MS = 60000
};
#define TIMEOUT_MS_MAX INT64_C(3600000)
#define DOCUMENT_SIZE_MAX ((size_t)64 << 20) /* a loose limit: 1 KiB a span and 65536 of them */

struct item {
    struct qn_list node;
    int64_t added_at_mono_ns;
    struct qn_span span; /* its texts follow */
};

struct quern_tracer {
    struct qn_trace_source source;
    quern_tracer_options options; /* constant, as all down to thread */
    struct qn_otlp_resource resource;
    struct qn_arena arena; /* of the resource */
    struct qn_log log;
    pid_t opener;
    pthread_t thread; /* there is one if there is `send` */

    /* Only the thread touches these. */
    const struct qn_span **spans; /* of the document, batch_max of them; owned */
    struct qn_buf text;
    bool failing;
    int64_t pause_ms;
    uint64_t logged_dropped;
    int64_t log_at_mono_ns;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    struct qn_list items;
    size_t count;
    bool stopping;
    int64_t stop_until_mono_ns;
    int64_t send_until_mono_ns;
    uint64_t sent;
    uint64_t dropped;
};

/* --- The queue --------------------------------------------------------------------------- */

struct qn_trace_source *qn_tracer_source(quern_tracer *tracer)
{
    return &tracer->source;
}

/* The texts of a span, in the order of its fields. */
enum { TEXT_COUNT = 9 };
static void list_texts(struct qn_span *span, const char **texts[TEXT_COUNT])
{
    const char **const all[TEXT_COUNT] = {
        &span->state,   &span->queue, &span->type,  &span->id,          &span->worker,
        &span->outcome, &span->cause, &span->error, &span->error_class,
    };
    memcpy(texts, all, sizeof all);
}

static struct item *copy_span(const struct qn_span *span)
{
    struct qn_span copy = *span;
    const char **texts[TEXT_COUNT];
    size_t size = 0;
    list_texts(&copy, texts);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        size += *texts[i] == NULL ? 0 : strlen(*texts[i]) + 1;
    }
    struct item *item = qn_alloc(sizeof *item + size);
    if (item == NULL) {
        return NULL;
    }
    char *at = (char *)(item + 1);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        if (*texts[i] != NULL) {
            size_t text_size = strlen(*texts[i]) + 1;
            *texts[i] = memcpy(at, *texts[i], text_size);
            at += text_size;
        }
    }
    item->span = copy;
    item->added_at_mono_ns = qn_clock_mono_ns();
    return item;
}

static bool has_room(quern_tracer *tracer)
{
    (void)pthread_mutex_lock(&tracer->mutex);
    bool has = tracer->count < tracer->options.queue_max && !tracer->stopping;
    tracer->dropped += has ? 0 : 1;
    (void)pthread_mutex_unlock(&tracer->mutex);
    return has;
}

void qn_tracer_add(quern_tracer *tracer, const struct qn_span *span)
{
    if (!span->context.sampled || tracer->options.send == NULL || !has_room(tracer)) {
        return;
    }
    struct item *item = copy_span(span);
    (void)pthread_mutex_lock(&tracer->mutex);
    if (item == NULL) {
        tracer->dropped++;
    } else {
        qn_list_append(&tracer->items, &item->node);
        tracer->count++;
    }
    /* The thread sleeps without an end, or until the interval of the first one is over. */
    if (item != NULL && (tracer->count == 1 || tracer->count == tracer->options.batch_max)) {
        pthread_cond_signal(&tracer->changed);
    }
    (void)pthread_mutex_unlock(&tracer->mutex);
}

static struct item *item_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct item, node);
}

static void free_items(struct qn_list *items)
{
    struct qn_list *node = qn_list_shift(items);
    while (node != NULL) {
        qn_free(item_of(node));
        node = qn_list_shift(items);
    }
}

/* --- The log ------------------------------------------------------------------------------ */

static void log_dropped(quern_tracer *tracer, bool at_end)
{
    (void)pthread_mutex_lock(&tracer->mutex);
    uint64_t dropped = tracer->dropped;
    (void)pthread_mutex_unlock(&tracer->mutex);
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (dropped > tracer->logged_dropped && (at_end || now_mono_ns >= tracer->log_at_mono_ns)) {
        QN_LOG(&tracer->log, QUERN_LOG_WARN, "spans dropped",
               QN_LOG_NUMBER("count", dropped - tracer->logged_dropped));
        tracer->logged_dropped = dropped;
        tracer->log_at_mono_ns = now_mono_ns + LOG_EVERY_MS * QN_NS_PER_MS;
    }
}

static void note_end(quern_tracer *tracer, quern_status status, const quern_error *error)
{
    if (status == QUERN_OK) {
        if (tracer->failing) {
            qn_log_event(&tracer->log, QUERN_LOG_INFO, "spans are sent again", NULL, 0);
        }
        tracer->failing = false;
        tracer->pause_ms = 0;
        return;
    }
    if (!tracer->failing) {
        QN_LOG(&tracer->log, QUERN_LOG_WARN, "spans cannot be sent",
               QN_LOG_TEXT("error", error->text));
    }
    tracer->failing = true;
}

/* --- The thread --------------------------------------------------------------------------- */

/* With the mutex held: until a document is due, or the tracer ends. */
static void wait_for_batch(quern_tracer *tracer)
{
    while (!tracer->stopping && tracer->count < tracer->options.batch_max) {
        int64_t until_mono_ns = INT64_MAX;
        if (tracer->count > 0) {
            until_mono_ns = item_of(tracer->items.next)->added_at_mono_ns +
                            tracer->options.interval_ms * QN_NS_PER_MS;
            if (qn_clock_mono_ns() >= until_mono_ns) {
                return;
            }
        } else if (tracer->dropped > tracer->logged_dropped) {
            until_mono_ns = tracer->log_at_mono_ns;
            if (qn_clock_mono_ns() >= until_mono_ns) {
                return;
            }
        }
        (void)qn_cond_wait_until(&tracer->changed, &tracer->mutex, until_mono_ns);
    }
}

/* With the mutex held. */
static size_t take_batch(quern_tracer *tracer, struct qn_list *batch)
{
    size_t count = 0;
    while (count < tracer->options.batch_max && tracer->count > 0) {
        struct qn_list *node = qn_list_shift(&tracer->items);
        tracer->spans[count++] = &item_of(node)->span;
        tracer->count--;
        qn_list_append(batch, node);
    }
    return count;
}

/* False: the tracer ends, and there is no time for another attempt. */
static bool pause_sending(quern_tracer *tracer)
{
    tracer->pause_ms = tracer->pause_ms == 0 ? PAUSE_MS_FIRST : 2 * tracer->pause_ms;
    tracer->pause_ms = tracer->pause_ms < PAUSE_MS_MAX ? tracer->pause_ms : PAUSE_MS_MAX;
    int64_t until_mono_ns = qn_clock_mono_ns() + tracer->pause_ms * QN_NS_PER_MS;
    (void)pthread_mutex_lock(&tracer->mutex);
    bool was_stopping = tracer->stopping;
    while (!tracer->stopping && qn_clock_mono_ns() < until_mono_ns) {
        (void)qn_cond_wait_until(&tracer->changed, &tracer->mutex, until_mono_ns);
    }
    (void)pthread_mutex_unlock(&tracer->mutex);
    return !was_stopping;
}

static bool may_come(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_BUSY || status == QUERN_E_TIMEOUT;
}

/* Without the mutex. Returns whether a collector has it. */
static bool send_document(quern_tracer *tracer, size_t count)
{
    quern_error error;
    quern_status status = qn_otlp_write(&tracer->text, &tracer->resource, tracer->spans, count);
    if (status != QUERN_OK) {
        return false;
    }
    const quern_trace_document document = {.text = tracer->text.data,
                                           .size = tracer->text.size,
                                           .span_count = count,
                                           .tracer = tracer};
    int64_t began_at_mono_ns = qn_clock_mono_ns();
    while (true) {
        (void)pthread_mutex_lock(&tracer->mutex);
        tracer->send_until_mono_ns =
            qn_clock_mono_ns() + tracer->options.send_timeout_ms * QN_NS_PER_MS;
        (void)pthread_mutex_unlock(&tracer->mutex);
        error = (quern_error){0};
        status = quern_tracer_left_ms(tracer) > 0
                     ? tracer->options.send(&document, tracer->options.user, &error)
                     : qn_error_set(&error, QUERN_E_TIMEOUT, "no time left at the end");
        note_end(tracer, status, &error);
        int64_t spent_ms = (qn_clock_mono_ns() - began_at_mono_ns) / QN_NS_PER_MS;
        if (status == QUERN_OK || !may_come(status) || spent_ms >= RETRY_FOR_MS) {
            return status == QUERN_OK;
        }
        log_dropped(tracer, false);
        if (!pause_sending(tracer)) {
            return false;
        }
    }
}

static void *run(void *argument)
{
    quern_tracer *tracer = argument;
    struct qn_list batch;
    qn_list_init(&batch);
    (void)pthread_mutex_lock(&tracer->mutex);
    while (true) {
        wait_for_batch(tracer);
        bool at_end = tracer->stopping && (tracer->count == 0 || tracer->failing ||
                                           qn_clock_mono_ns() >= tracer->stop_until_mono_ns);
        if (at_end) {
            break;
        }
        size_t count = take_batch(tracer, &batch);
        (void)pthread_mutex_unlock(&tracer->mutex);
        bool sent = count > 0 && send_document(tracer, count);
        free_items(&batch);
        (void)pthread_mutex_lock(&tracer->mutex);
        tracer->sent += sent ? count : 0;
        tracer->dropped += sent ? 0 : count;
        (void)pthread_mutex_unlock(&tracer->mutex);
        log_dropped(tracer, false);
        (void)pthread_mutex_lock(&tracer->mutex);
    }
    tracer->dropped += tracer->count;
    tracer->count = 0;
    free_items(&tracer->items);
    (void)pthread_mutex_unlock(&tracer->mutex);
    log_dropped(tracer, true);
    return NULL;
}

/* --- The object --------------------------------------------------------------------------- */

static quern_status refuse(const char *field, const char *rule, quern_error *err)
{
    return qn_error_set(err, QUERN_E_INVALID, "%s must be %s", field, rule);
}

static quern_status check_options(quern_tracer_options *options, quern_error *err)
{
    int64_t *const times[] = {&options->interval_ms, &options->send_timeout_ms,
                              &options->close_timeout_ms};
    static const char *const names[] = {"interval_ms", "send_timeout_ms", "close_timeout_ms"};
    static const int64_t defaults[] = {INTERVAL_MS, SEND_TIMEOUT_MS, CLOSE_TIMEOUT_MS};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (*times[i] < 0 || *times[i] > TIMEOUT_MS_MAX) {
            return refuse(names[i], "from 0 to 1 hour", err);
        }
        *times[i] = *times[i] == 0 ? defaults[i] : *times[i];
    }
    if (options->sample_ppm < QUERN_SAMPLE_NONE || options->sample_ppm > QN_SAMPLE_PPM_MAX) {
        return refuse("sample_ppm", "from 0 to 1000000, or QUERN_SAMPLE_NONE", err);
    }
    if (options->queue_max > QUEUE_LIMIT) {
        return refuse("queue_max", "at most 1048576", err);
    }
    if (options->batch_max > BATCH_LIMIT) {
        return refuse("batch_max", "at most 65536", err);
    }
    if (options->resource_count > RESOURCE_LIMIT) {
        return refuse("resource_count", "at most 64", err);
    }
    if (options->reserved != 0) {
        return refuse("reserved", "0", err);
    }
    options->sample_ppm = options->sample_ppm == 0 ? QN_SAMPLE_PPM_MAX : options->sample_ppm;
    options->queue_max = options->queue_max == 0 ? QUEUE_DEFAULT : options->queue_max;
    options->batch_max = options->batch_max == 0 ? BATCH_DEFAULT : options->batch_max;
    if (options->batch_max > options->queue_max) {
        options->batch_max = options->queue_max;
    }
    return QUERN_OK;
}

/* The service comes first, unless the attributes have it. */
static quern_status copy_resource(quern_tracer *tracer, quern_error *err)
{
    const quern_tracer_options *options = &tracer->options;
    bool has_service = false;
    size_t count = 0;
    quern_header *all = qn_arena_alloc(&tracer->arena, (options->resource_count + 1) * sizeof *all);
    if (all == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < options->resource_count; i++) {
        const quern_header *one = &options->resource[i];
        if (one->name == NULL || one->name[0] == '\0') {
            return refuse("a name of resource", "a text", err);
        }
        has_service = has_service || strcmp(one->name, "service.name") == 0;
        const char *value = one->value != NULL ? one->value : "";
        all[count++] = (quern_header){qn_arena_strdup(&tracer->arena, one->name),
                                      qn_arena_strdup(&tracer->arena, value)};
    }
    if (!has_service) {
        const char *service = options->service != NULL ? options->service : "quern";
        all[count++] = (quern_header){"service.name", qn_arena_strdup(&tracer->arena, service)};
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].name == NULL || all[i].value == NULL) {
            return qn_error_nomem(err);
        }
    }
    tracer->resource = (struct qn_otlp_resource){all, count};
    return QUERN_OK;
}

/* What needs no thread. */
static void dispose(quern_tracer *tracer)
{
    qn_free(tracer->spans);
    qn_buf_finish(&tracer->text);
    qn_arena_finish(&tracer->arena);
    qn_log_finish(&tracer->log);
    qn_trace_source_finish(&tracer->source);
    (void)pthread_cond_destroy(&tracer->changed);
    (void)pthread_mutex_destroy(&tracer->mutex);
    qn_free(tracer);
}

quern_status quern_tracer_new_sized(const quern_tracer_options *theirs, size_t theirs_size,
                                    quern_tracer **ret_tracer, quern_error *err)
{
    if (ret_tracer == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "ret_tracer: must not be NULL");
    }
    quern_tracer_options options;
    quern_status status = qn_sized_copy(QN_ROOM_OF(options), (struct qn_bytes){theirs, theirs_size},
                                        "quern_tracer_options", err);
    status = status == QUERN_OK ? check_options(&options, err) : status;
    if (status != QUERN_OK) {
        return status;
    }
    quern_tracer *tracer = qn_alloc_zero(1, sizeof *tracer);
    if (tracer == NULL) {
        return qn_error_nomem(err);
    }
    tracer->options = options;
    tracer->opener = getpid();
    qn_list_init(&tracer->items);
    (void)pthread_mutex_init(&tracer->mutex, NULL); /* cannot fail on Linux */
    qn_cond_init(&tracer->changed);
    qn_buf_init(&tracer->text, DOCUMENT_SIZE_MAX);
    qn_log_init(&tracer->log, options.on_log != NULL ? options.on_log : qn_log_to_stderr,
                options.user);
    qn_trace_source_init(&tracer->source, options.sample_ppm);
    tracer->spans = qn_alloc_zero(options.batch_max, sizeof *tracer->spans);
    status = tracer->spans == NULL ? qn_error_nomem(err) : copy_resource(tracer, err);
    if (status == QUERN_OK && options.send != NULL) {
        status = qn_thread_start(&tracer->thread, "quern-trace", run, tracer, err);
    }
    if (status != QUERN_OK) {
        dispose(tracer);
        return status;
    }
    *ret_tracer = tracer;
    return QUERN_OK;
}

int64_t quern_tracer_left_ms(quern_tracer *tracer)
{
    if (tracer == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&tracer->mutex);
    int64_t until_mono_ns = tracer->send_until_mono_ns;
    if (tracer->stopping && tracer->stop_until_mono_ns < until_mono_ns) {
        until_mono_ns = tracer->stop_until_mono_ns;
    }
    (void)pthread_mutex_unlock(&tracer->mutex);
    int64_t left_ms = (until_mono_ns - qn_clock_mono_ns()) / QN_NS_PER_MS;
    return left_ms > 0 ? left_ms : 0;
}

void quern_tracer_get_stats_sized(quern_tracer *tracer, quern_tracer_stats *ret_stats,
                                  size_t stats_size)
{
    if (ret_stats == NULL) {
        return;
    }
    quern_tracer_stats stats = {0};
    if (tracer != NULL) {
        (void)pthread_mutex_lock(&tracer->mutex);
        stats.sent = tracer->sent;
        stats.dropped = tracer->dropped;
        stats.queued = tracer->count;
        (void)pthread_mutex_unlock(&tracer->mutex);
    }
    memset(ret_stats, 0, stats_size);
    memcpy(ret_stats, &stats, stats_size < sizeof stats ? stats_size : sizeof stats);
}

void quern_tracer_free(quern_tracer *tracer)
{
    if (tracer == NULL || getpid() != tracer->opener) {
        return;
    }
    if (tracer->options.send != NULL) {
        (void)pthread_mutex_lock(&tracer->mutex);
        tracer->stopping = true;
        tracer->stop_until_mono_ns =
            qn_clock_mono_ns() + tracer->options.close_timeout_ms * QN_NS_PER_MS;
        pthread_cond_broadcast(&tracer->changed);
        (void)pthread_mutex_unlock(&tracer->mutex);
        (void)pthread_join(tracer->thread, NULL);
    }
    dispose(tracer);
}
