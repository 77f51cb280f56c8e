/* SPDX-License-Identifier: MIT */
/* wire.c - what a run needs on its way to a child, and what comes back from there.
 *
 * The end of a run is checked field by field: a child may have been overwritten by the handler that
 * it ran. Texts must be UTF-8, as they are stored. Only a run whose child broke the rules suffers:
 * it is charged as if its child had died. */
#include "worker/prefork/wire.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "task/limits.h"
#include "worker/prefork/bytes.h"

enum { NO_CHANGE = -2 };
enum { TEXT_MAX = 1 << 20 }; /* of names and of stderr: a loose limit, far beyond what exists */

/* --- The task --------------------------------------------------------------------------- */

/* As the handler is to see them: with the span of the run. */
static void put_headers(struct qn_writer *writer, const quern_task *view)
{
    qn_bytes_put_number(writer, (int64_t)view->header_count);
    for (size_t i = 0; i < view->header_count; i++) {
        qn_bytes_put_text(writer, view->headers[i].name);
        qn_bytes_put_text(writer, view->headers[i].value);
    }
}

/* The numbers of a task that its handler can see, in one row. */
enum number {
    RETRY_MAX,
    RETRY_KIND,
    RETRY_BASE,
    RETRY_CAP,
    PROCESS_AT,
    TIMEOUT,
    DEADLINE,
    UNIQUE,
    RETENTION,
    DELAY,
    KILL_AFTER,
    CPU,
    MEMORY,
    UNTIL,
    ON_DUPLICATE,
    PRIORITY,
    RETRY_COUNT,
    CRASH_COUNT,
    FENCE,
    CAUSE,
    RUN_DEADLINE,
    CANCELLED,
    POLICY_KIND,
    POLICY_BASE,
    POLICY_CAP,
    ACKED,
    ACK_ON_FAILURE,
    ACK_ON_TIMEOUT,
    NUMBERS
};

static void fill_numbers(const struct quern_run *run, const struct qn_failure_defaults *defaults,
                         int64_t numbers[NUMBERS])
{
    const struct qn_leased *leased = run->leased;
    const struct qn_task *task = &leased->task;
    numbers[RETRY_MAX] = task->retry_max;
    numbers[RETRY_KIND] = task->retry.kind;
    numbers[RETRY_BASE] = task->retry.base_ms;
    numbers[RETRY_CAP] = task->retry.cap_ms;
    numbers[PROCESS_AT] = task->process_at_ms;
    numbers[TIMEOUT] = task->timeout_ms;
    numbers[DEADLINE] = task->deadline_at_ms;
    numbers[UNIQUE] = task->unique_ms;
    numbers[RETENTION] = task->retention_ms;
    numbers[DELAY] = task->delay_ms;
    numbers[KILL_AFTER] = task->kill_after_ms;
    numbers[CPU] = task->cpu_ms;
    numbers[MEMORY] = task->memory_max;
    numbers[UNTIL] = task->unique_until;
    numbers[ON_DUPLICATE] = task->on_duplicate;
    numbers[PRIORITY] = task->priority;
    numbers[RETRY_COUNT] = leased->retry_count;
    numbers[CRASH_COUNT] = leased->crash_count;
    numbers[FENCE] = (int64_t)leased->fence;
    numbers[CAUSE] = (int64_t)leased->cause;
    /* In the window of a child it starts later, when only the child knows. */
    numbers[RUN_DEADLINE] = run->started_at_mono_ns != 0 ? run->deadline_at_ms : QN_WIRE_UNKNOWN;
    numbers[CANCELLED] = (int64_t)atomic_load(&run->cancel_reason);
    numbers[POLICY_KIND] = defaults->retry.kind;
    numbers[POLICY_BASE] = defaults->retry.base_ms;
    numbers[POLICY_CAP] = defaults->retry.cap_ms;
    numbers[ACKED] = run->acks_first ? 1 : 0;
    numbers[ACK_ON_FAILURE] = defaults->ack_on_failure ? 1 : 0;
    numbers[ACK_ON_TIMEOUT] = defaults->ack_on_timeout ? 1 : 0;
}

bool qn_wire_put_task(struct qn_buf *out, const struct quern_run *run,
                      const struct qn_failure_defaults *defaults, struct qn_bytes *ret_more)
{
    const struct qn_task *task = &run->leased->task;
    struct qn_writer writer = {.out = out, .ok = true};
    int64_t numbers[NUMBERS];
    fill_numbers(run, defaults, numbers);
    qn_bytes_put(&writer, numbers, sizeof numbers);
    qn_bytes_put_text(&writer, task->id);
    qn_bytes_put_text(&writer, task->queue);
    qn_bytes_put_text(&writer, task->type);
    qn_bytes_put_text(&writer, task->group);
    qn_bytes_put_text(&writer, task->limit_key);
    put_headers(&writer, &run->view);
    *ret_more = (struct qn_bytes){task->payload, task->payload_size};
    return writer.ok;
}

static void take_numbers(const int64_t numbers[NUMBERS], struct qn_leased *leased)
{
    struct qn_task *task = &leased->task;
    task->retry_max = numbers[RETRY_MAX];
    task->retry.kind = (int32_t)numbers[RETRY_KIND];
    task->retry.base_ms = numbers[RETRY_BASE];
    task->retry.cap_ms = numbers[RETRY_CAP];
    task->process_at_ms = numbers[PROCESS_AT];
    task->timeout_ms = numbers[TIMEOUT];
    task->deadline_at_ms = numbers[DEADLINE];
    task->unique_ms = numbers[UNIQUE];
    task->retention_ms = numbers[RETENTION];
    task->delay_ms = numbers[DELAY];
    task->kill_after_ms = numbers[KILL_AFTER];
    task->cpu_ms = numbers[CPU];
    task->memory_max = numbers[MEMORY];
    task->unique_until = (int32_t)numbers[UNTIL];
    task->on_duplicate = (int32_t)numbers[ON_DUPLICATE];
    task->priority = (int32_t)numbers[PRIORITY];
    leased->retry_count = numbers[RETRY_COUNT];
    leased->crash_count = numbers[CRASH_COUNT];
    leased->fence = (uint64_t)numbers[FENCE];
    leased->cause = (quern_cause)numbers[CAUSE];
}

/* A task of another program may have more headers than ours: those are not shown. */
static void get_headers(struct qn_reader *reader, struct qn_task *task, quern_header *headers)
{
    int64_t count = qn_bytes_number(reader);
    for (int64_t i = 0; i < count && reader->ok; i++) {
        quern_header header = {.name = qn_bytes_text(reader, TEXT_MAX),
                               .value = qn_bytes_text(reader, QN_PAYLOAD_SIZE_LIMIT)};
        if (task->header_count < QN_HEADER_COUNT_MAX && header.name != NULL) {
            headers[task->header_count++] = header;
        }
    }
    task->headers = headers;
}

bool qn_wire_get_task(struct qn_bytes body, struct qn_leased *ret_leased, quern_header *headers,
                      struct qn_wire_run *ret_run)
{
    struct qn_reader reader = {.at = body.data, .left = body.size, .ok = true};
    struct qn_task *task = &ret_leased->task;
    *ret_leased = (struct qn_leased){.started = true};
    int64_t numbers[NUMBERS] = {0};
    const void *row = qn_bytes_take(&reader, sizeof numbers);
    if (row != NULL) {
        memcpy(numbers, row, sizeof numbers);
    }
    take_numbers(numbers, ret_leased);
    task->id = qn_bytes_text(&reader, TEXT_MAX);
    task->queue = qn_bytes_text(&reader, TEXT_MAX);
    task->type = qn_bytes_text(&reader, TEXT_MAX);
    task->group = qn_bytes_text(&reader, TEXT_MAX);
    task->limit_key = qn_bytes_text(&reader, TEXT_MAX);
    get_headers(&reader, task, headers);
    task->payload_size = reader.left;
    task->payload = qn_bytes_take(&reader, reader.left);
    *ret_run = (struct qn_wire_run){
        .deadline_at_ms = numbers[RUN_DEADLINE],
        .reason = (enum qn_cancel_reason)numbers[CANCELLED],
        .defaults = {.retry = {.kind = (int32_t)numbers[POLICY_KIND],
                               .base_ms = numbers[POLICY_BASE],
                               .cap_ms = numbers[POLICY_CAP]},
                     .ack_on_failure = numbers[ACK_ON_FAILURE] != 0,
                     .ack_on_timeout = numbers[ACK_ON_TIMEOUT] != 0},
        .acked = numbers[ACKED] != 0,
    };
    return reader.ok && task->id != NULL && task->queue != NULL && task->type != NULL;
}

/* --- Its end ---------------------------------------------------------------------------- */

enum flag {
    FLAG_CRASHED = 1,
    FLAG_NOT_STARTED = 2,
    FLAG_GARBLED = 4,
    FLAG_RESULT = 8,
    FLAG_JUDGED = 16,
    FLAGS = 31
};

/* A checkpoint. */
static void put_change(struct qn_writer *writer, const struct quern_run *run)
{
    const struct qn_task_change *change = &run->change;
    int64_t retry_max = change->retry_max > 0 ? change->retry_max : QUERN_RETRY_NEVER;
    qn_bytes_put_text(writer, change->queue);
    qn_bytes_put_number(writer, change->has_retry_max ? retry_max : NO_CHANGE);
    qn_bytes_put_number(writer, change->has_payload ? (int64_t)change->payload_size : NO_CHANGE);
    if (change->has_payload) {
        qn_bytes_put(writer, change->payload, change->payload_size);
    }
}

bool qn_wire_put_end(struct qn_buf *out, const struct quern_run *run)
{
    struct qn_writer writer = {.out = out, .ok = true};
    qn_bytes_put_number(&writer, run->outcome);
    qn_bytes_put_number(
        &writer, (run->crashed ? FLAG_CRASHED : 0) | (run->not_started ? FLAG_NOT_STARTED : 0) |
                     (run->progress_garbled ? FLAG_GARBLED : 0) |
                     (run->has_result ? FLAG_RESULT : 0) | (run->judged ? FLAG_JUDGED : 0));
    qn_bytes_put_number(&writer, run->again_in_ms);
    qn_bytes_put_number(&writer, run->again_at_ms);
    qn_bytes_put_number(&writer, (int64_t)run->output_dropped);
    qn_bytes_put_text(&writer, run->error);
    qn_bytes_put_text(&writer, run->error_class[0] != '\0' ? run->error_class : NULL);
    qn_bytes_put_text(&writer, run->stderr_text);
    put_change(&writer, run);
    if (run->has_result) {
        qn_bytes_put(&writer, run->result, run->result_size);
    }
    return writer.ok;
}

static bool is_text(const char *text)
{
    return text == NULL || qn_utf8_valid(text, strlen(text));
}

/* What no handler can return is a violation; so is a crash that is none. */
static bool is_outcome(int64_t outcome, int64_t flags)
{
    bool crashed = (flags & FLAG_CRASHED) != 0;
    if ((flags & FLAG_JUDGED) != 0) {
        return !crashed && (flags & FLAG_NOT_STARTED) == 0 &&
               (outcome == QUERN_RETRY || outcome == QUERN_ARCHIVE);
    }
    if (outcome == QN_OUTCOME_CRASHED) {
        return crashed;
    }
    return outcome >= QUERN_DONE && outcome <= QUERN_SNOOZE;
}

static bool copy_text(const char *text, char **own)
{
    qn_free(*own);
    *own = NULL;
    if (text == NULL) {
        return true;
    }
    size_t size = strlen(text) + 1;
    *own = qn_alloc(size);
    if (*own != NULL) {
        memcpy(*own, text, size);
    }
    return *own != NULL;
}

static bool copy_result(struct quern_run *run, struct qn_bytes result)
{
    qn_free(run->result);
    run->result = qn_alloc(result.size + 1);
    if (run->result == NULL) {
        return false;
    }
    if (result.size > 0) {
        memcpy(run->result, result.data, result.size);
    }
    run->result_size = result.size;
    run->has_result = true;
    return true;
}

/* By the calls of the handler, which check it. */
static bool get_change(struct qn_reader *reader, struct quern_run *run)
{
    const char *queue = qn_bytes_text(reader, TEXT_MAX);
    int64_t retry_max = qn_bytes_number(reader);
    int64_t size = qn_bytes_number_in(reader, NO_CHANGE, (int64_t)QN_PAYLOAD_SIZE_LIMIT);
    const void *payload = size >= 0 ? qn_bytes_take(reader, (size_t)size) : NULL;
    return reader->ok && (queue == NULL || quern_run_change_queue(run, queue, NULL) == QUERN_OK) &&
           (retry_max == NO_CHANGE ||
            quern_run_change_retry_max(run, retry_max, NULL) == QUERN_OK) &&
           (size < 0 || quern_run_change_payload(run, payload, (size_t)size, NULL) == QUERN_OK);
}

bool qn_wire_get_end(struct qn_bytes body, struct quern_run *run)
{
    struct qn_reader reader = {.at = body.data, .left = body.size, .ok = true};
    int64_t outcome = qn_bytes_number(&reader);
    int64_t flags = qn_bytes_number_in(&reader, 0, FLAGS);
    int64_t again_in_ms = qn_bytes_number_in(&reader, -1, QN_DURATION_MS_MAX);
    int64_t again_at_ms = qn_bytes_number_in(&reader, -1, QN_MOMENT_MS_MAX);
    int64_t dropped = qn_bytes_number_in(&reader, 0, INT64_MAX);
    const char *error = qn_bytes_text(&reader, QN_ERROR_TEXT_SIZE_MAX);
    const char *error_class = qn_bytes_text(&reader, QN_ERROR_CLASS_SIZE_MAX);
    const char *stderr_text = qn_bytes_text(&reader, TEXT_MAX);
    bool changed = get_change(&reader, run);
    size_t size = reader.left;
    const void *result = qn_bytes_take(&reader, size);
    bool has_result = (flags & FLAG_RESULT) != 0;
    if (!changed || !reader.ok || !is_outcome(outcome, flags) || !is_text(error) ||
        !is_text(stderr_text) ||
        (error_class != NULL && !qn_handler_options_is_class(error_class)) ||
        size > (has_result ? QN_PAYLOAD_SIZE_LIMIT : 0) || !copy_text(error, &run->error) ||
        !copy_text(stderr_text, &run->stderr_text) ||
        (has_result && !copy_result(run, (struct qn_bytes){result, size}))) {
        return false;
    }
    quern_run_set_error_class(run, error_class);
    run->outcome = (int)outcome;
    run->judged = (flags & FLAG_JUDGED) != 0;
    run->crashed = (flags & FLAG_CRASHED) != 0;
    run->not_started = (flags & FLAG_NOT_STARTED) != 0;
    run->progress_garbled = (flags & FLAG_GARBLED) != 0;
    run->again_in_ms = again_in_ms;
    run->again_at_ms = again_at_ms;
    run->output_dropped = (uint64_t)dropped;
    return true;
}

/* --- Meanwhile -------------------------------------------------------------------------- */

bool qn_wire_put_progress(struct qn_buf *out, int32_t percent, const char *note)
{
    struct qn_writer writer = {.out = out, .ok = true};
    qn_bytes_put_number(&writer, percent);
    qn_bytes_put_text(&writer, note);
    return writer.ok;
}

bool qn_wire_get_progress(struct qn_bytes body, struct qn_progress *ret_progress)
{
    struct qn_reader reader = {.at = body.data, .left = body.size, .ok = true};
    ret_progress->percent = (int32_t)qn_bytes_number_in(&reader, 0, 100);
    const char *note = qn_bytes_text(&reader, QN_NOTE_SIZE_MAX);
    if (!reader.ok || reader.left != 0 || !is_text(note)) {
        return false;
    }
    size_t size = note != NULL ? strlen(note) : 0;
    if (size > 0) {
        memcpy(ret_progress->note, note, size);
    }
    ret_progress->note[size] = '\0';
    return true;
}

bool qn_wire_put_answer(struct qn_buf *out, const quern_error *error)
{
    struct qn_writer writer = {.out = out, .ok = true};
    qn_bytes_put_number(&writer, error->code);
    qn_bytes_put_text(&writer, error->text);
    return writer.ok;
}

void qn_wire_get_answer(struct qn_bytes body, quern_error *ret_error)
{
    struct qn_reader reader = {.at = body.data, .left = body.size, .ok = true};
    int64_t code = qn_bytes_number_in(&reader, QUERN_OK, INT32_MAX);
    const char *text = qn_bytes_text(&reader, sizeof ret_error->text - 1);
    memset(ret_error, 0, sizeof *ret_error);
    if (!reader.ok || text == NULL) {
        ret_error->code = QUERN_E_CORRUPT;
        text = "the worker's answer cannot be read";
    } else {
        ret_error->code = (quern_status)code;
    }
    memcpy(ret_error->text, text, strlen(text) + 1);
}
