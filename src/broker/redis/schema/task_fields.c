/* SPDX-License-Identifier: MIT */
/* task_fields.c - our own fields as text, and asynq's message as a task.
 *
 * The message has whole seconds and no retry policy; the lost precision is kept in quern_opts.
 * Reading is forgiving: a field that is not a number counts as 0, so that a damaged field costs a
 * detail and never a task. */
#include "broker/redis/schema/task_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "task/retry.h"

/* --- Rows of decimals --------------------------------------------------------------- */

/* The next word as a number; a larger one than `max` is that. */
static int64_t next_number(struct qn_cursor *row, int64_t max)
{
    uint64_t value = 0;
    (void)qn_number_take(row, &value);
    while (row->at < row->end && *row->at != ' ') {
        row->at++;
    }
    if (row->at < row->end) {
        row->at++;
    }
    return value > (uint64_t)max ? max : (int64_t)value;
}

static int64_t next_moment_ms(struct qn_cursor *row)
{
    return next_number(row, QN_MOMENT_MS_MAX);
}

static int64_t next_duration_ms(struct qn_cursor *row)
{
    return next_number(row, QN_DURATION_MS_MAX);
}

/* Characters that end a word, or this field where it is sent with another one, and what stands for
 * them in a limit_key: no name has a character below the space. */
static const char key_plain[] = " ;";
static const char key_stored[] = "\x1e\x1d";

static char swap(char c, const char *from, const char *to)
{
    const char *found = c == '\0' ? NULL : strchr(from, c);
    return found == NULL ? c : to[found - from];
}

static size_t write_key(const char *key, char *out)
{
    size_t size = 0;
    for (; key[size] != '\0'; size++) {
        out[size] = swap(key[size], key_plain, key_stored);
    }
    return size;
}

static bool has_run_limits(const struct qn_task *task)
{
    return (task->kill_after_ms | task->cpu_ms | task->memory_max) != 0;
}

size_t qn_task_fields_opts_write(const struct qn_task *task, char out[QN_FIELD_SIZE])
{
    bool is_exact = task->timeout_ms % 1000 == 0 && task->retention_ms % 1000 == 0;
    if (task->state == QUERN_TASK_PENDING && is_exact && task->deadline_at_ms == 0 &&
        task->start_by_at_ms == 0 && task->retry.kind == QN_BACKOFF_DEFAULT &&
        task->unique_span_ms == 0 && task->limit_key == NULL && !has_run_limits(task)) {
        return 0;
    }
    int size = snprintf(out, QN_FIELD_SIZE, "%lld %lld %lld %d %lld %lld",
                        (long long)task->timeout_ms, (long long)task->deadline_at_ms,
                        (long long)task->retention_ms, (int)task->retry.kind,
                        (long long)task->retry.base_ms, (long long)task->retry.cap_ms);
    if (task->start_by_at_ms > 0) {
        size += snprintf(out + size, QN_FIELD_SIZE - (size_t)size, " %lld",
                         (long long)task->start_by_at_ms);
    }
    if (task->unique_span_ms > 0) {
        size += snprintf(out + size, QN_FIELD_SIZE - (size_t)size, " u%d:%lld",
                         (int)task->unique_until, (long long)task->unique_span_ms);
    }
    if (has_run_limits(task)) {
        size += snprintf(out + size, QN_FIELD_SIZE - (size_t)size, " r%lld:%lld:%lld",
                         (long long)task->kill_after_ms, (long long)task->cpu_ms,
                         (long long)task->memory_max);
    }
    if (task->limit_key != NULL) {
        size += snprintf(out + size, QN_FIELD_SIZE - (size_t)size, " k");
        size += (int)write_key(task->limit_key, out + size);
    }
    return (size_t)size;
}

/* The word of the lock, "u0:60000", wherever it is. */
static void read_lock_terms(const char *text, size_t size, struct qn_task_fields_opts *ret_opts)
{
    const char *end = text + size;
    for (const char *at = text; at + 5 <= end; at++) {
        if (at[0] == ' ' && at[1] == 'u' && at[2] >= '0' && at[2] <= '4' && at[3] == ':') {
            struct qn_cursor word = {at + 4, end};
            ret_opts->unique_until = at[2] - '0';
            ret_opts->unique_span_ms = next_duration_ms(&word);
            return;
        }
    }
}

static int64_t run_limit_of(uint64_t number, int64_t max)
{
    return number > (uint64_t)max ? max : (int64_t)number;
}

/* The word of the limits of a run, "r10000:60000:1073741824", wherever it is: all or none. */
static void read_run_limits(const char *text, size_t size, struct qn_task_fields_opts *ret_opts)
{
    const char *end = text + size;
    for (const char *at = text; at + 6 < end; at++) {
        struct qn_cursor word = {at + 2, end};
        uint64_t numbers[3] = {0};
        if (at[0] == ' ' && at[1] == 'r' && qn_number_take(&word, &numbers[0]) &&
            qn_number_take_char(&word, ':') && qn_number_take(&word, &numbers[1]) &&
            qn_number_take_char(&word, ':') && qn_number_take(&word, &numbers[2])) {
            ret_opts->kill_after_ms = run_limit_of(numbers[0], QN_DURATION_MS_MAX);
            ret_opts->cpu_ms = run_limit_of(numbers[1], QN_DURATION_MS_MAX);
            ret_opts->memory_max = run_limit_of(numbers[2], INT64_MAX);
            return;
        }
    }
}

/* The last word, "kacme"; it has no space. */
static void read_limit_key(const char *text, size_t size, struct qn_task_fields_opts *ret_opts)
{
    size_t first = size;
    while (first > 0 && text[first - 1] != ' ') {
        first--;
    }
    bool has_key = first > 0 && size - first > 1 && text[first] == 'k';
    ret_opts->limit_key = has_key ? text + first + 1 : NULL;
    ret_opts->limit_key_size = has_key ? size - first - 1 : 0;
}

void qn_task_fields_opts_read(const char *text, size_t size, struct qn_task_fields_opts *ret_opts)
{
    struct qn_cursor row = {text, text + size};
    ret_opts->enqueued_at_ms = next_moment_ms(&row);
    ret_opts->timeout_ms = next_duration_ms(&row);
    ret_opts->deadline_at_ms = next_moment_ms(&row);
    ret_opts->retention_ms = next_duration_ms(&row);
    int64_t kind = next_number(&row, INT32_MAX);
    bool is_kind = kind <= QN_BACKOFF_EXPONENTIAL;
    ret_opts->retry = (quern_retry_policy){.kind = is_kind ? (int32_t)kind : QN_BACKOFF_DEFAULT};
    ret_opts->retry.base_ms = next_duration_ms(&row);
    ret_opts->retry.cap_ms = next_duration_ms(&row);
    ret_opts->start_by_at_ms = next_moment_ms(&row);
    ret_opts->unique_until = QUERN_UNIQUE_UNTIL_DONE;
    ret_opts->unique_span_ms = 0;
    ret_opts->kill_after_ms = 0;
    ret_opts->cpu_ms = 0;
    ret_opts->memory_max = 0;
    read_lock_terms(text, size, ret_opts);
    read_run_limits(text, size, ret_opts);
    read_limit_key(text, size, ret_opts);
}

void qn_task_fields_past_read(const char *text, size_t size, struct qn_task_fields_past *ret_past)
{
    struct qn_cursor row = {text, text + size};
    ret_past->crash_count = next_number(&row, INT32_MAX);
    ret_past->crashed_at_ms = next_moment_ms(&row);
    ret_past->failed_at_ms = next_moment_ms(&row);
    ret_past->ended_at_ms = next_moment_ms(&row);
    ret_past->cause = next_number(&row, INT32_MAX);
    ret_past->since_ns = next_number(&row, QN_MOMENT_MS_MAX * 1000000);
    ret_past->kept_until_ms = next_moment_ms(&row);
    ret_past->lone = next_number(&row, INT32_MAX);
    ret_past->life_ms = next_number(&row, QN_DURATION_MS_MAX);
    ret_past->died_at_ms = next_moment_ms(&row);
    int64_t charges = row.at < row.end ? next_number(&row, INT32_MAX) : ret_past->crash_count;
    ret_past->level = charges < QN_ALONE_CHARGES ? charges : QN_ALONE_CHARGES;
}

void qn_task_fields_run_read(const char *text, size_t size, struct qn_task_fields_run *ret_run)
{
    struct qn_cursor row = {text, text + size};
    ret_run->started = next_number(&row, INT32_MAX);
    ret_run->started_at_ms = next_moment_ms(&row);
    ret_run->since_ns = next_number(&row, QN_MOMENT_MS_MAX * 1000000);
    ret_run->until_ms = next_moment_ms(&row);
    ret_run->worker_id = row.at;
    ret_run->worker_id_size = (size_t)(row.end - row.at);
}

/* --- Messages ----------------------------------------------------------------------- */

quern_status qn_task_fields_encode(struct qn_arena *arena, const struct qn_task *task,
                                   struct qn_bytes *ret_bytes, quern_error *err)
{
    bool never = task->timeout_ms == 0 && task->deadline_at_ms == 0;
    const struct qn_asynq_task message = {
        .type = task->type,
        .payload = task->payload,
        .payload_size = task->payload_size,
        .id = task->id,
        .queue = task->queue,
        .retry_max = task->retry_max,
        .timeout_ms = never ? QN_TIMEOUT_NEVER_MS : task->timeout_ms,
        .deadline_at_ms = task->deadline_at_ms,
        .unique_key = task->unique_key,
        .retention_ms = task->retention_ms,
        .group = task->group,
        .headers = task->headers,
        .header_count = task->header_count,
    };
    return qn_asynq_task_encode(arena, &message, ret_bytes, err);
}

/* The exact number, if the message holds it rounded up to a second. */
static int64_t exact(int64_t exact_ms, int64_t message_ms)
{
    bool agrees = exact_ms <= message_ms && message_ms - exact_ms < 1000;
    return agrees ? exact_ms : message_ms;
}

/* Of a message; "never" stays "never". */
static int64_t timeout_of(int64_t timeout_ms)
{
    return timeout_ms == QN_TIMEOUT_NEVER_MS ? timeout_ms : qn_duration_ms_of(timeout_ms);
}

static quern_status add_opts(struct qn_arena *arena, struct qn_task *task,
                             const struct qn_task_fields_opts *opts, quern_error *err)
{
    task->timeout_ms = exact(opts->timeout_ms, task->timeout_ms);
    task->deadline_at_ms = exact(opts->deadline_at_ms, task->deadline_at_ms);
    task->retention_ms = exact(opts->retention_ms, task->retention_ms);
    task->retry = opts->retry;
    task->unique_until = opts->unique_until;
    task->unique_span_ms = opts->unique_span_ms;
    task->kill_after_ms = opts->kill_after_ms;
    task->cpu_ms = opts->cpu_ms;
    task->memory_max = opts->memory_max;
    if (opts->limit_key == NULL) {
        return QUERN_OK;
    }
    char *key = qn_arena_alloc(arena, opts->limit_key_size + 1);
    if (key == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < opts->limit_key_size; i++) {
        key[i] = swap(opts->limit_key[i], key_stored, key_plain);
    }
    key[opts->limit_key_size] = '\0';
    task->limit_key = key;
    return QUERN_OK;
}

quern_status qn_task_fields_decode(struct qn_arena *arena, const struct qn_stored_task *stored,
                                   struct qn_asynq_task *ret_message, struct qn_task *ret_task,
                                   quern_error *err)
{
    struct qn_asynq_task message;
    quern_status status =
        qn_asynq_task_decode(arena, stored->message.data, stored->message.size, &message, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (strcmp(message.id, stored->id) != 0 || strcmp(message.queue, stored->queue) != 0) {
        return qn_error_set(err, QUERN_E_CORRUPT, "message of task: is of task %s in queue %s",
                            message.id, message.queue);
    }
    struct qn_task task = {
        .id = stored->id,
        .queue = stored->queue,
        .type = message.type,
        .payload = message.payload,
        .payload_size = message.payload_size,
        .retry_max = qn_number_clamp(message.retry_max, 0, INT32_MAX),
        .timeout_ms = timeout_of(message.timeout_ms),
        .deadline_at_ms = message.deadline_at_ms < 0 ? 1 : qn_moment_ms_of(message.deadline_at_ms),
        .unique_key = message.unique_key[0] == '\0' ? NULL : message.unique_key,
        .retention_ms = qn_duration_ms_of(message.retention_ms),
        .group = message.group[0] == '\0' ? NULL : message.group,
        .headers = message.headers,
        .header_count = message.header_count,
    };
    if (stored->opts != NULL) {
        status = add_opts(arena, &task, stored->opts, err);
        if (status != QUERN_OK) {
            return status;
        }
        /* A retry of Go's leaves our field as it is. */
        task.start_by_at_ms = message.retry_count > 0 ? 0 : stored->opts->start_by_at_ms;
    }
    if (task.timeout_ms == 0 && task.deadline_at_ms == 0) {
        task.timeout_ms = QN_ASYNQ_TIMEOUT_MS;
    } else if (task.timeout_ms == QN_TIMEOUT_NEVER_MS) {
        task.timeout_ms = 0;
    }
    *ret_message = message;
    *ret_task = task;
    return QUERN_OK;
}
