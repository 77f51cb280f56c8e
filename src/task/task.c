/* SPDX-License-Identifier: MIT */
/* task.c - turns a caller's struct into a task that every layer below can trust.
 *
 * Each group of fields has one function that checks it and fills in its defaults; the first broken
 * rule ends it with QUERN_E_INVALID and a text that names the field, the rule and the given value.
 * Names in such texts are cut, and unprintable bytes escaped, because names may contain anything.
 * Nothing is copied except generated data: the id, the key, headers without value. */
#include "task/task.h"

#include <inttypes.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "message/asynq/asynq.h"
#include "message/asynq/unique_key.h"
#include "task/limits.h"
#include "task/name.h"
#include "task/retry.h"
#include "task/trace/trace_headers.h"
#include "trace/source.h"

#define UNIQUE_MS_MIN 1000

/* A preparation in progress. */
struct preparation {
    const quern_task *in;
    int64_t now_ms;
    struct qn_arena *arena;
    struct qn_task task;
    quern_error *err;
};

static quern_status refuse_number(struct preparation *p, const char *field, const char *rule,
                                  int64_t given)
{
    return qn_error_set(p->err, QUERN_E_INVALID, "%s must be %s, not %" PRId64, field, rule, given);
}

static quern_status prepare_names(struct preparation *p, struct qn_id_source *ids)
{
    const quern_task *in = p->in;
    p->task.type = in->type;
    p->task.queue = in->queue == NULL ? "default" : in->queue;
    bool is_grouped = in->group != NULL && in->group[0] != '\0';
    p->task.group = is_grouped ? in->group : NULL;
    quern_status status = qn_name_check_new("type", in->type, p->err);
    if (status == QUERN_OK) {
        status = qn_name_check_queue(p->task.queue, p->err);
    }
    if (status == QUERN_OK) {
        status = qn_name_check_new("queue", p->task.queue, p->err);
    }
    if (status == QUERN_OK && is_grouped) {
        status = qn_name_check_new("group", in->group, p->err);
    }
    if (status == QUERN_OK && in->id != NULL) {
        p->task.id = in->id;
        return qn_name_check_new("id", in->id, p->err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    char *id = qn_arena_alloc(p->arena, QN_ID_TEXT_SIZE);
    if (id == NULL) {
        return qn_error_nomem(p->err);
    }
    qn_id_next(ids, p->now_ms, id);
    p->task.id = id;
    return QUERN_OK;
}

static quern_status prepare_limit_key(struct preparation *p)
{
    const char *key = p->in->limit_key;
    p->task.limit_key = key;
    return key == NULL ? QUERN_OK : qn_name_check_new("limit_key", key, p->err);
}

static quern_status prepare_payload(struct preparation *p, size_t size_max)
{
    const quern_task *in = p->in;
    if (in->payload == NULL && in->payload_size > 0) {
        return qn_error_set(p->err, QUERN_E_INVALID, "payload is NULL, but payload_size is %zu",
                            in->payload_size);
    }
    if (in->payload_size > size_max) {
        return qn_error_set(p->err, QUERN_E_INVALID,
                            "payload has %zu bytes, at most %zu are allowed", in->payload_size,
                            size_max);
    }
    p->task.payload = in->payload;
    p->task.payload_size = in->payload_size;
    return QUERN_OK;
}

/* Of one run that has a process of its own. */
static quern_status prepare_run_limits(struct preparation *p)
{
    const quern_task *in = p->in;
    if (in->kill_after_ms < 0 || in->kill_after_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "kill_after_ms", "from 0 to 100 years", in->kill_after_ms);
    }
    if (in->cpu_ms < 0 || in->cpu_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "cpu_ms", "from 0 to 100 years", in->cpu_ms);
    }
    if (in->memory_max != 0 && in->memory_max < QN_MEMORY_MAX_MIN) {
        return refuse_number(p, "memory_max", "0 or at least 1048576 (1 MiB)", in->memory_max);
    }
    p->task.kill_after_ms = in->kill_after_ms;
    p->task.cpu_ms = in->cpu_ms;
    p->task.memory_max = in->memory_max;
    return QUERN_OK;
}

quern_status qn_task_retry_max(int64_t given, int64_t *ret_retry_max, quern_error *err)
{
    if (given < QUERN_RETRY_NEVER || given > INT32_MAX) {
        return qn_error_set(
            err, QUERN_E_INVALID,
            "retry_max must be from 0 to 2147483647 or QUERN_RETRY_NEVER, not %" PRId64, given);
    }
    *ret_retry_max = given == QUERN_RETRY_NEVER ? 0 : given == 0 ? QN_RETRY_MAX_DEFAULT : given;
    return QUERN_OK;
}

static quern_status prepare_attempts(struct preparation *p)
{
    const quern_task *in = p->in;
    quern_status status = qn_task_retry_max(in->retry_max, &p->task.retry_max, p->err);
    if (status != QUERN_OK) {
        return status;
    }
    if (in->timeout_ms < QUERN_TIMEOUT_NEVER || in->timeout_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "timeout_ms", "from 0 to 100 years or QUERN_TIMEOUT_NEVER",
                             in->timeout_ms);
    }
    if (in->priority < -QN_PRIORITY_MAX || in->priority > QN_PRIORITY_MAX) {
        return refuse_number(p, "priority", "from -100 to 100", in->priority);
    }
    if (in->reserved != 0) {
        return refuse_number(p, "reserved", "0", in->reserved);
    }
    p->task.priority = in->priority;
    p->task.timeout_ms = in->timeout_ms;
    if (in->timeout_ms == QUERN_TIMEOUT_NEVER) {
        p->task.timeout_ms = 0;
    } else if (in->timeout_ms == 0 && in->deadline_at_ms == 0) {
        p->task.timeout_ms = QN_ASYNQ_TIMEOUT_MS;
    }
    status = qn_retry_policy_check(&in->retry, p->err);
    if (status == QUERN_OK && in->retry.kind != QN_BACKOFF_DEFAULT) {
        p->task.retry = qn_retry_policy_resolve(&in->retry, NULL, NULL);
    }
    return status;
}

static quern_status prepare_moments(struct preparation *p)
{
    const quern_task *in = p->in;
    int64_t latest_ms = p->now_ms + QN_DURATION_MS_MAX;
    if (in->delay_ms != 0 && in->process_at_ms != 0) {
        return qn_error_set(p->err, QUERN_E_INVALID,
                            "delay_ms and process_at_ms must not both be given");
    }
    if (in->delay_ms < 0 || in->delay_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "delay_ms", "from 0 to 100 years", in->delay_ms);
    }
    if (in->process_at_ms < 0 || in->process_at_ms > latest_ms) {
        return refuse_number(p, "process_at_ms", "a moment from 1970 to 100 years from now",
                             in->process_at_ms);
    }
    if (in->deadline_at_ms < 0 || in->deadline_at_ms > latest_ms) {
        return refuse_number(p, "deadline_at_ms", "a moment from now to 100 years from now",
                             in->deadline_at_ms);
    }
    if (in->deadline_at_ms != 0 && in->deadline_at_ms <= p->now_ms) {
        return qn_error_set(p->err, QUERN_E_INVALID,
                            "deadline_at_ms %" PRId64 " has already passed (it is %" PRId64 ")",
                            in->deadline_at_ms, p->now_ms);
    }
    if (in->start_within_ms < 0 || in->start_within_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "start_within_ms", "from 0 to 100 years", in->start_within_ms);
    }
    int64_t at_ms = in->delay_ms > 0 ? p->now_ms + in->delay_ms : in->process_at_ms;
    p->task.process_at_ms = at_ms > p->now_ms ? at_ms : 0;
    p->task.delay_ms = in->delay_ms;
    p->task.deadline_at_ms = in->deadline_at_ms;
    if (in->start_within_ms > 0) {
        p->task.start_by_at_ms = (at_ms > p->now_ms ? at_ms : p->now_ms) + in->start_within_ms;
    }
    p->task.state = p->task.group == NULL ? QUERN_TASK_PENDING : QUERN_TASK_AGGREGATING;
    if (p->task.process_at_ms != 0) {
        p->task.state = QUERN_TASK_SCHEDULED;
    }
    return QUERN_OK;
}

static quern_status check_not_unique(const struct preparation *p)
{
    const quern_task *in = p->in;
    const char *field = in->unique_key != NULL  ? "unique_key"
                        : in->unique_until != 0 ? "unique_until"
                        : in->on_duplicate != 0 ? "on_duplicate"
                                                : NULL;
    return field == NULL ? QUERN_OK
                         : qn_error_set(p->err, QUERN_E_INVALID, "%s needs unique_ms", field);
}

static quern_status prepare_policies(struct preparation *p)
{
    const quern_task *in = p->in;
    if (in->unique_until < 0 || in->unique_until > QUERN_UNIQUE_UNTIL_EXPIRED) {
        return refuse_number(p, "unique_until", "one of QUERN_UNIQUE_UNTIL_*", in->unique_until);
    }
    if (in->on_duplicate < 0 || in->on_duplicate > QUERN_ON_DUPLICATE_DEBOUNCE) {
        return refuse_number(p, "on_duplicate", "one of QUERN_ON_DUPLICATE_*", in->on_duplicate);
    }
    if (in->unique_until == QUERN_UNIQUE_UNTIL_EXPIRED &&
        in->on_duplicate >= QUERN_ON_DUPLICATE_REPLACE) {
        return qn_error_set(p->err, QUERN_E_INVALID,
                            "on_duplicate must be FAIL or IGNORE with QUERN_UNIQUE_UNTIL_EXPIRED");
    }
    p->task.unique_until = in->unique_until;
    p->task.on_duplicate = in->on_duplicate;
    return in->unique_key == NULL ? QUERN_OK
                                  : qn_name_check_new("unique_key", in->unique_key, p->err);
}

/* After the moments: a lock lives from now until `unique_ms` after the task is due. */
static quern_status prepare_lifetimes(struct preparation *p)
{
    const quern_task *in = p->in;
    if (in->retention_ms < 0 || in->retention_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "retention_ms", "from 0 to 100 years", in->retention_ms);
    }
    p->task.retention_ms = in->retention_ms;
    if (in->unique_ms == 0) {
        return check_not_unique(p);
    }
    if (in->unique_ms < UNIQUE_MS_MIN || in->unique_ms > QN_DURATION_MS_MAX) {
        return refuse_number(p, "unique_ms", "0, or from 1 s (1000) to 100 years", in->unique_ms);
    }
    int64_t delay_ms = p->task.process_at_ms == 0 ? 0 : p->task.process_at_ms - p->now_ms;
    p->task.unique_ms = delay_ms + in->unique_ms;
    p->task.unique_span_ms = in->unique_ms;
    quern_status status = prepare_policies(p);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_uniqueness same = {.queue = p->task.queue,
                                       .type = p->task.type,
                                       .payload = {in->payload, in->payload_size},
                                       .key = in->unique_key};
    return qn_unique_key(p->arena, &same, &p->task.unique_key, p->err);
}

static quern_status check_header(const struct preparation *p, size_t index)
{
    const quern_header *header = &p->in->headers[index];
    if (header->name == NULL || header->name[0] == '\0') {
        return qn_error_set(p->err, QUERN_E_INVALID, "header %zu has no name", index);
    }
    quern_status status = qn_name_check_new("header name", header->name, p->err);
    if (status != QUERN_OK) {
        return status;
    }
    char shown[QN_NAME_SHOWN_SIZE];
    const char *name = qn_name_show(header->name, shown);
    size_t value_size = header->value == NULL ? 0 : strlen(header->value);
    if (value_size > QN_HEADER_VALUE_SIZE_MAX) {
        return qn_error_set(p->err, QUERN_E_INVALID,
                            "the value of header \"%s\" has %zu bytes, at most %d are allowed",
                            name, value_size, QN_HEADER_VALUE_SIZE_MAX);
    }
    if (value_size > 0 && !qn_utf8_valid(header->value, value_size)) {
        return qn_error_set(p->err, QUERN_E_INVALID, "header \"%s\" is not valid UTF-8", name);
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(p->in->headers[i].name, header->name) == 0) {
            return qn_error_set(p->err, QUERN_E_INVALID, "header \"%s\" is given twice", name);
        }
    }
    return QUERN_OK;
}

static quern_status prepare_headers(struct preparation *p)
{
    const quern_task *in = p->in;
    if (in->header_count == 0) {
        return QUERN_OK;
    }
    if (in->headers == NULL) {
        return qn_error_set(p->err, QUERN_E_INVALID, "headers is NULL, but header_count is %zu",
                            in->header_count);
    }
    if (in->header_count > QN_HEADER_COUNT_MAX) {
        return qn_error_set(p->err, QUERN_E_INVALID, "%zu headers, at most %d are allowed",
                            in->header_count, QN_HEADER_COUNT_MAX);
    }
    quern_header *headers =
        qn_arena_copy(p->arena, in->headers, in->header_count * sizeof *in->headers);
    if (headers == NULL) {
        return qn_error_nomem(p->err);
    }
    for (size_t i = 0; i < in->header_count; i++) {
        quern_status status = check_header(p, i);
        if (status != QUERN_OK) {
            return status;
        }
        if (headers[i].value == NULL) {
            headers[i].value = "";
        }
    }
    p->task.headers = headers;
    p->task.header_count = in->header_count;
    return QUERN_OK;
}

/* After the headers. A caller passes on what it was given, so no text is an error. With a source of
 * spans the task gets one, and begins a trace if it has none; else it keeps what it has. */
static quern_status prepare_trace(struct preparation *p, struct qn_trace_source *traces)
{
    const quern_task *in = p->in;
    struct qn_trace_context context;
    struct qn_trace_headers headers = {p->task.headers, p->task.header_count};
    const char *state = qn_trace_context_check_state(in->tracestate) ? in->tracestate : NULL;
    bool has_parent = qn_trace_context_parse(in->traceparent, &context);
    if (!has_parent) {
        if (traces == NULL) {
            return QUERN_OK;
        }
        has_parent = qn_trace_headers_find(headers, &context);
        state = qn_trace_headers_state(headers);
    }
    if (traces != NULL && (!has_parent || context.sampled)) {
        p->task.trace_parent = has_parent ? context.span : 0;
        qn_trace_source_next(traces, has_parent ? &context : NULL, &context);
    }
    char *parent = qn_arena_alloc(p->arena, QN_TRACEPARENT_SIZE);
    if (parent == NULL || !qn_trace_headers_put(&headers, parent, state, p->arena)) {
        return qn_error_nomem(p->err);
    }
    qn_trace_context_format(&context, parent);
    p->task.headers = headers.headers;
    p->task.header_count = headers.count;
    return QUERN_OK;
}

quern_status qn_task_prepare(const quern_task *in, const struct qn_task_terms *terms,
                             struct qn_arena *arena, struct qn_task *ret_task, quern_error *err)
{
    struct preparation p = {.in = in, .now_ms = terms->now_wall_ms, .arena = arena, .err = err};
    quern_status status = prepare_names(&p, terms->ids);
    if (status == QUERN_OK) {
        status = prepare_limit_key(&p);
    }
    if (status == QUERN_OK) {
        status = prepare_payload(&p, terms->payload_size_max);
    }
    if (status == QUERN_OK) {
        status = prepare_attempts(&p);
    }
    if (status == QUERN_OK) {
        status = prepare_run_limits(&p);
    }
    if (status == QUERN_OK) {
        status = prepare_moments(&p);
    }
    if (status == QUERN_OK) {
        status = prepare_lifetimes(&p);
    }
    if (status == QUERN_OK) {
        status = prepare_headers(&p);
    }
    if (status == QUERN_OK && (in->traceparent != NULL || terms->traces != NULL)) {
        status = prepare_trace(&p, terms->traces);
    }
    if (status == QUERN_OK) {
        *ret_task = p.task;
    }
    return status;
}

int64_t qn_task_run_deadline_ms(const struct qn_task *task, int64_t start_wall_ms)
{
    int64_t timeout_at_ms = task->timeout_ms == 0 ? 0 : start_wall_ms + task->timeout_ms;
    if (timeout_at_ms == 0 || task->deadline_at_ms == 0) {
        return timeout_at_ms == 0 ? task->deadline_at_ms : timeout_at_ms;
    }
    return timeout_at_ms < task->deadline_at_ms ? timeout_at_ms : task->deadline_at_ms;
}

quern_task qn_task_show(const struct qn_task *task)
{
    return (quern_task){
        .type = task->type == NULL ? "" : task->type,
        .payload = task->payload == NULL ? "" : task->payload,
        .payload_size = task->payload_size,
        .id = task->id,
        .queue = task->queue,
        .retry_max = task->retry_max == 0 ? QUERN_RETRY_NEVER : task->retry_max,
        .delay_ms = task->delay_ms,
        .process_at_ms = task->delay_ms > 0 ? 0 : task->process_at_ms,
        .timeout_ms = task->timeout_ms == 0 ? QUERN_TIMEOUT_NEVER : task->timeout_ms,
        .deadline_at_ms = task->deadline_at_ms,
        .unique_ms = task->unique_ms,
        .retention_ms = task->retention_ms,
        .group = task->group,
        .headers = task->headers,
        .header_count = task->header_count,
        .retry = task->retry,
        .unique_until = task->unique_ms == 0 ? 0 : task->unique_until,
        .on_duplicate = task->unique_ms == 0 ? 0 : task->on_duplicate,
        .limit_key = task->limit_key,
        .priority = task->priority,
        .kill_after_ms = task->kill_after_ms,
        .cpu_ms = task->cpu_ms,
        .memory_max = task->memory_max,
    };
}
