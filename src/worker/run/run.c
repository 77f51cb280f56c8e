/* SPDX-License-Identifier: MIT */
/* run.c - one attempt as its handler sees it: facts, cancellation, error text, result, progress.
 *
 * A run is cancelled once, and the first reason counts. The descriptor for poll() is made only when
 * a handler asks for one, under cancel_mutex, so that a cancellation at the same moment is not
 * missed. Results and progress go through the run's sink: the worker's stores them at the broker,
 * the test kit's keeps them. Without memory a run loses its error text or the descriptor, never
 * its outcome. */
#include "worker/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "task/limits.h"
#include "task/name.h"
#include "task/task.h"
#include "task/trace/trace_headers.h"

struct quern_run *qn_run_new(struct qn_slab *slab, struct qn_leased *take_leased,
                             const struct qn_run_sink *sink, void *owner)
{
    struct quern_run *run = qn_slab_alloc(slab, sizeof *run);
    if (run == NULL) {
        return NULL;
    }
    *run = (struct quern_run){
        .leased = take_leased,
        .sink = sink,
        .owner = owner,
        .references = 1,
        .phase = QN_RUN_WAITING,
        .again_in_ms = -1,
        .again_at_ms = -1,
        .view = qn_task_show(&take_leased->task),
    };
    qn_list_init(&run->item.node);
    qn_list_init(&run->child_item.node);
    atomic_init(&run->writes, false);
    qn_list_init(&run->node);
    qn_list_init(&run->phase_node);
    (void)pthread_mutex_init(&run->cancel_mutex, NULL); /* cannot fail on Linux */
    atomic_init(&run->cancel_reason, QN_REASON_NONE);
    atomic_init(&run->cancelled_at_mono_ns, 0);
    atomic_init(&run->cancel_fd, -1);
    atomic_init(&run->abandoned, false);
    return run;
}

void qn_run_free(struct quern_run *run)
{
    if (run == NULL) {
        return;
    }
    int fd = atomic_load(&run->cancel_fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)pthread_mutex_destroy(&run->cancel_mutex);
    qn_leased_free(run->leased);
    qn_free(run->error);
    qn_free(run->stderr_text);
    qn_free(run->wrong_order);
    qn_free(run->result);
    qn_free(run->progress);
    qn_free(run->trace);
    qn_run_free_change(&run->change);
    qn_slab_free(run);
}

void qn_run_release(struct quern_run *run)
{
    QN_ASSERT(run->references > 0);
    run->references--;
    if (run->references == 0) {
        qn_run_free(run);
    }
}

void qn_run_release_all(struct quern_run *const *runs, size_t count, pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    for (size_t i = 0; i < count; i++) {
        qn_run_release(runs[i]);
    }
    (void)pthread_mutex_unlock(mutex);
}

static void make_readable(int fd)
{
    const uint64_t one = 1;
    /* Fails only when the counter is full: then it is readable already. */
    ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

void qn_run_cancel(struct quern_run *run, enum qn_cancel_reason reason)
{
    int before = QN_REASON_NONE;
    if (!atomic_compare_exchange_strong(&run->cancel_reason, &before, (int)reason)) {
        /* It is cancelled already; only the fate of its task may change. */
        while (reason == QN_REASON_OPERATOR_ARCHIVE && !QN_BUG(FIRST_CANCEL_WINS) &&
               before != QN_REASON_LEASE_LOST &&
               !atomic_compare_exchange_weak(&run->cancel_reason, &before, (int)reason)) {
        }
        return;
    }
    atomic_store(&run->cancelled_at_mono_ns, qn_clock_mono_ns());
    (void)pthread_mutex_lock(&run->cancel_mutex);
    int fd = atomic_load(&run->cancel_fd);
    if (fd >= 0) {
        make_readable(fd);
    }
    (void)pthread_mutex_unlock(&run->cancel_mutex);
    if (run->sink != NULL && run->sink->cancelled != NULL) {
        run->sink->cancelled(run, reason);
    }
}

enum qn_cancel_reason qn_run_cancel_reason(const struct quern_run *run)
{
    if (run->sink != NULL && run->sink->cancel_reason != NULL) {
        return run->sink->cancel_reason(run);
    }
    return (enum qn_cancel_reason)atomic_load(&run->cancel_reason);
}

bool quern_run_cancelled(const quern_run *run)
{
    return qn_run_cancel_reason(run) != QN_REASON_NONE;
}

int quern_run_cancel_fd(quern_run *run)
{
    bool is_known = atomic_load(&run->cancel_reason) != QN_REASON_NONE;
    if (!is_known && run->sink != NULL && run->sink->cancel_fd != NULL) {
        return run->sink->cancel_fd(run);
    }
    (void)pthread_mutex_lock(&run->cancel_mutex);
    int fd = atomic_load(&run->cancel_fd);
    if (fd < 0) {
        fd = eventfd(quern_run_cancelled(run) ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
        atomic_store(&run->cancel_fd, fd);
    }
    (void)pthread_mutex_unlock(&run->cancel_mutex);
    return fd;
}

const char *quern_run_cancel_reason(const quern_run *run)
{
    static const char *const texts[] = {
        [QN_REASON_NONE] = "",
        [QN_REASON_TIMEOUT] = "timeout",
        [QN_REASON_DEADLINE] = "deadline exceeded",
        [QN_REASON_LEASE_LOST] = "lease lost",
        [QN_REASON_OPERATOR_RETRY] = "cancelled",
        [QN_REASON_OPERATOR_ARCHIVE] = "cancelled",
        [QN_REASON_SHUTDOWN] = "shutdown",
    };
    return texts[qn_run_cancel_reason(run)];
}

const char *quern_run_task_id(const quern_run *run)
{
    return run->leased->task.id;
}

const char *quern_run_queue(const quern_run *run)
{
    return run->leased->task.queue;
}

int64_t quern_run_retry_count(const quern_run *run)
{
    return run->leased->retry_count;
}

int64_t quern_run_crash_count(const quern_run *run)
{
    return run->leased->crash_count;
}

quern_cause quern_run_cause(const quern_run *run)
{
    return run->leased->cause;
}

uint64_t quern_run_fence(const quern_run *run)
{
    return run->leased->fence;
}

static struct qn_trace_headers trace_headers(const struct quern_run *run)
{
    return (struct qn_trace_headers){run->view.headers, run->view.header_count};
}

const char *quern_run_traceparent(const quern_run *run)
{
    const char *parent = qn_trace_headers_parent(trace_headers(run));
    return parent != NULL ? parent : "";
}

const char *quern_run_tracestate(const quern_run *run)
{
    const char *state = qn_trace_headers_state(trace_headers(run));
    return state != NULL ? state : "";
}

const char *qn_run_trace_id(const struct quern_run *run, char text[QN_TRACE_ID_SIZE])
{
    return qn_trace_headers_id(trace_headers(run), text);
}

int64_t quern_run_deadline_at_ms(const quern_run *run)
{
    return run->deadline_at_ms;
}

quern_status quern_run_write_result(quern_run *run, const void *data, size_t size, quern_error *err)
{
    if (run == NULL || (data == NULL && size > 0)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            run == NULL ? "run" : "data");
    }
    if (size > QN_PAYLOAD_SIZE_LIMIT) {
        return qn_error_set(err, QUERN_E_INVALID, "result of %zu bytes is over the limit of %zu",
                            size, QN_PAYLOAD_SIZE_LIMIT);
    }
    return run->sink->write_result(run, data, size, err);
}

quern_status quern_run_write_progress(quern_run *run, int32_t percent, const char *note,
                                      quern_error *err)
{
    if (run == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "run: must not be NULL");
    }
    if (percent < 0 || percent > 100) {
        return qn_error_set(err, QUERN_E_INVALID, "progress of %d %% is not 0 to 100",
                            (int)percent);
    }
    if (note != NULL && strlen(note) > QN_NOTE_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "progress note is over %d bytes",
                            QN_NOTE_SIZE_MAX);
    }
    if (note != NULL && !qn_utf8_valid(note, strlen(note))) {
        return qn_error_set(err, QUERN_E_INVALID, "progress note is not valid UTF-8");
    }
    return run->sink->write_progress(run, percent, note, err);
}

void qn_run_post_progress(struct quern_run *run, const struct qn_progress *progress)
{
    (void)pthread_mutex_lock(&run->cancel_mutex);
    if (run->progress == NULL) {
        run->progress = qn_alloc(sizeof *run->progress);
    }
    if (run->progress != NULL) {
        *run->progress = *progress;
        run->progress_is_new = true;
    }
    (void)pthread_mutex_unlock(&run->cancel_mutex);
    if (run->sink != NULL && run->sink->progress_posted != NULL) {
        run->sink->progress_posted(run);
    }
}

bool qn_run_take_progress(struct quern_run *run, struct qn_progress *ret_progress)
{
    (void)pthread_mutex_lock(&run->cancel_mutex);
    bool is_new = run->progress_is_new;
    if (is_new) {
        *ret_progress = *run->progress;
        run->progress_is_new = false;
    }
    (void)pthread_mutex_unlock(&run->cancel_mutex);
    return is_new;
}

void qn_run_untake_progress(struct quern_run *run)
{
    (void)pthread_mutex_lock(&run->cancel_mutex);
    run->progress_is_new = true;
    (void)pthread_mutex_unlock(&run->cancel_mutex);
}

void qn_run_hold_clock(struct quern_run *run, bool held)
{
    if (run->sink != NULL && run->sink->hold_clock != NULL) {
        run->sink->hold_clock(run, held);
    }
}

void qn_run_set_error(struct quern_run *run, const char *text, size_t size)
{
    char *clean = qn_alloc(QN_ERROR_TEXT_SIZE_MAX + 1);
    if (clean == NULL) {
        return;
    }
    size_t clean_size = qn_utf8_sanitize(text, size, clean, QN_ERROR_TEXT_SIZE_MAX + 1);
    char *shrunk = qn_realloc(clean, clean_size + 1);
    qn_free(run->error);
    run->error = shrunk != NULL ? shrunk : clean;
}

quern_outcome quern_run_fail(quern_run *run, quern_outcome outcome, const char *format, ...)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        qn_run_set_error(run, text, size);
    }
    return outcome;
}

void quern_run_set_error_class(quern_run *run, const char *error_class)
{
    run->error_class[0] = '\0';
    if (error_class != NULL && qn_handler_options_is_class(error_class)) {
        (void)snprintf(run->error_class, sizeof run->error_class, "%s", error_class);
    }
}

quern_outcome quern_run_again_in(quern_run *run, int64_t delay_ms)
{
    run->again_in_ms = qn_number_clamp(delay_ms, 0, QN_DURATION_MS_MAX);
    run->again_at_ms = -1;
    return QUERN_SNOOZE;
}

quern_outcome quern_run_again_at(quern_run *run, int64_t at_ms)
{
    run->again_at_ms = qn_number_clamp(at_ms, 0, QN_MOMENT_MS_MAX);
    return QUERN_SNOOZE;
}

int64_t qn_run_again_ms(const struct quern_run *run, int64_t now_ms)
{
    return run->again_at_ms < 0 ? run->again_in_ms
                                : qn_number_clamp(run->again_at_ms - now_ms, 0, QN_DURATION_MS_MAX);
}

/* --- A checkpoint ----------------------------------------------------------------------- */

static void free_const(const void *owned)
{
    qn_free((void *)(uintptr_t)owned);
}

void qn_run_free_change(struct qn_task_change *change)
{
    free_const(change->payload);
    free_const(change->queue);
}

quern_status quern_run_change_payload(quern_run *run, const void *data, size_t size,
                                      quern_error *err)
{
    if (run == NULL || (data == NULL && size > 0)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            run == NULL ? "run" : "data");
    }
    if (size > QN_PAYLOAD_SIZE_LIMIT) {
        return qn_error_set(err, QUERN_E_INVALID, "payload of %zu bytes is over the limit of %zu",
                            size, QN_PAYLOAD_SIZE_LIMIT);
    }
    char *copy = qn_alloc(size + 1);
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    copy[size] = '\0';
    free_const(run->change.payload);
    run->change.payload = copy;
    run->change.payload_size = size;
    run->change.has_payload = true;
    run->has_change = true;
    return QUERN_OK;
}

quern_status quern_run_change_queue(quern_run *run, const char *queue, quern_error *err)
{
    if (run == NULL || queue == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            run == NULL ? "run" : "queue");
    }
    quern_status status = qn_name_check_queue(queue, err);
    if (status != QUERN_OK) {
        return status;
    }
    size_t size = strlen(queue) + 1;
    char *copy = qn_alloc(size);
    if (copy == NULL) {
        return qn_error_nomem(err);
    }
    memcpy(copy, queue, size);
    free_const(run->change.queue);
    run->change.queue = copy;
    run->has_change = true;
    return QUERN_OK;
}

quern_status quern_run_change_retry_max(quern_run *run, int64_t retry_max, quern_error *err)
{
    if (run == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "run: must not be NULL");
    }
    quern_status status = qn_task_retry_max(retry_max, &run->change.retry_max, err);
    if (status == QUERN_OK) {
        run->change.has_retry_max = true;
        run->has_change = true;
    }
    return status;
}
