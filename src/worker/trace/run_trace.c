/* SPDX-License-Identifier: MIT */
/* run_trace.c - the spans of a run: below that of its enqueue the wait, from the moment when the
 * task was due to its start, and below that the run.
 *
 * A task without a trace, as one of a Go program or a scheduler, begins one here. The ids are not
 * random: they follow from the task and the fence of the run, so that all runs of a task whose id
 * is a UUID are in one trace (which has that number), and a run that another program took over in a
 * rolling restart keeps its span. */
#include "worker/trace/run_trace.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/hash.h"
#include "message/id.h"
#include "task/trace/trace_headers.h"
#include "trace/tracer.h"
#include "worker/internal.h"
#include "worker/run/report.h"
#include "worker/run/run.h"

struct qn_run_trace {
    struct qn_trace_context context; /* of the run */
    uint64_t wait;
    uint64_t parent; /* of the wait; 0: it is the root */
    char traceparent[QN_TRACEPARENT_SIZE];
    quern_header headers[]; /* in place of those of the task */
};

enum { UUID_DIGITS = 32 };

/* Its 128 bits; false: the id is no UUID. */
static bool read_uuid(const char *id, uint64_t ret_halves[2])
{
    size_t size = qn_id_uuid_size(id);
    size_t digits = 0;
    uint64_t halves[2] = {0, 0};
    if (size == 0 || id[size] != '\0') {
        return false;
    }
    for (size_t i = 0; i < size && digits < UUID_DIGITS; i++) {
        char c = (char)(id[i] >= 'A' && id[i] <= 'F' ? id[i] - 'A' + 'a' : id[i]);
        if (c != '-') {
            unsigned value = (unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0');
            halves[digits / 16] = halves[digits / 16] << 4 | value;
            digits++;
        }
    }
    if (digits != UUID_DIGITS) {
        return false;
    }
    memcpy(ret_halves, halves, sizeof halves);
    return true;
}

static struct qn_trace_headers task_headers(const struct quern_run *run)
{
    const struct qn_task *task = &run->leased->task;
    return (struct qn_trace_headers){task->headers, task->header_count};
}

/* The context above the wait, whose span is 0 if there is none. */
static struct qn_trace_context find_parent(quern_tracer *tracer, const struct quern_run *run)
{
    const struct qn_leased *leased = run->leased;
    struct qn_trace_context context;
    uint64_t seed[2];
    if (qn_trace_headers_find(task_headers(run), &context)) {
        return context;
    }
    if (!read_uuid(leased->task.id, seed)) {
        uint64_t hash = qn_hash_part(QN_HASH_START, leased->task.queue, strlen(leased->task.queue));
        hash = qn_hash_part(hash, leased->task.id, strlen(leased->task.id));
        seed[0] = qn_trace_source_mix(hash, leased->fence);
        seed[1] = qn_trace_source_mix(leased->fence, hash);
    }
    qn_trace_source_derive(qn_tracer_source(tracer), seed, &context);
    context.span = 0;
    return context;
}

void qn_run_trace_begin(struct quern_worker *worker, struct quern_run *run)
{
    quern_tracer *tracer = worker->options.tracer;
    if (tracer == NULL || run->unknown) {
        return;
    }
    const struct qn_task *task = &run->leased->task;
    struct qn_trace_context context = find_parent(tracer, run);
    const char *state = qn_trace_headers_state(task_headers(run));
    if (!context.sampled && context.span != 0) {
        return; /* it is passed on as it is */
    }
    struct qn_run_trace *trace =
        qn_alloc_zero(1, sizeof *trace + (task->header_count + 2) * sizeof(quern_header));
    if (trace == NULL) {
        return;
    }
    trace->parent = context.span;
    uint64_t seed = qn_trace_source_mix(context.trace_high, context.trace_low);
    trace->wait = qn_trace_source_mix(seed, run->leased->fence);
    context.span = qn_trace_source_mix(trace->wait, run->leased->fence);
    trace->context = context;
    qn_trace_context_format(&context, trace->traceparent);
    run->view.headers = trace->headers;
    run->view.header_count =
        qn_trace_headers_fill(task_headers(run), trace->traceparent, state, trace->headers);
    run->trace = trace;
}

/* The outcomes that OpenTelemetry has as errors. */
static const char *find_error(const struct quern_run *run, const char *outcome)
{
    static const char *const failures[] = {"retried", "archived", "crashed", "stale"};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        if (strcmp(outcome, failures[i]) == 0) {
            return run->verdict.error != NULL ? run->verdict.error : outcome;
        }
    }
    return NULL;
}

void qn_run_trace_end(struct quern_worker *worker, const struct quern_run *run,
                      enum qn_applied applied)
{
    const struct qn_run_trace *trace = run->trace;
    if (trace == NULL || run->unknown || !qn_run_began(run)) {
        return;
    }
    const struct qn_task *task = &run->leased->task;
    char name[QN_NAME_SIZE_MAX + QN_ID_TEXT_SIZE + 32];
    (void)snprintf(name, sizeof name, "%s:%lld:%s", worker->host, (long long)worker->opener_pid,
                   worker->id);
    struct qn_span span = {.kind = QN_SPAN_WAIT,
                           .context = trace->context,
                           .parent = trace->parent,
                           .state = qn_trace_headers_state(task_headers(run)),
                           .queue = task->queue,
                           .type = task->type,
                           .id = task->id,
                           .payload_size = task->payload_size,
                           .retry_count = run->leased->retry_count,
                           .worker = name};
    span.context.span = trace->wait;
    span.ended_at_ns = run->started_at_wall_ms * QN_NS_PER_MS;
    span.started_at_ns = task->process_at_ms > 0 && task->process_at_ms < run->started_at_wall_ms
                             ? task->process_at_ms * QN_NS_PER_MS
                             : span.ended_at_ns;
    qn_tracer_add(worker->options.tracer, &span);
    bool is_fenced = run->phase == QN_RUN_FENCED; /* its handler may still write what is its */
    int64_t ended_at_ns = is_fenced ? qn_clock_mono_ns() : run->ended_at_mono_ns;
    span.kind = QN_SPAN_RUN;
    span.context = trace->context;
    span.parent = trace->wait;
    span.started_at_ns = span.ended_at_ns;
    span.ended_at_ns += ended_at_ns - run->started_at_mono_ns;
    span.outcome = qn_report_outcome(run, applied);
    span.cause =
        run->leased->cause != QUERN_CAUSE_NONE ? quern_cause_name(run->leased->cause) : NULL;
    span.error = find_error(run, span.outcome);
    bool has_class = !is_fenced && run->error_class[0] != '\0';
    span.error_class = has_class ? run->error_class : run->crashed && !is_fenced ? "crash" : NULL;
    qn_tracer_add(worker->options.tracer, &span);
}
