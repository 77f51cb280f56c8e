/* SPDX-License-Identifier: MIT */
/* task_info.c - the snapshot of a stored task that an inspector hands out: one block of memory.
 *
 * Brokers fill a struct quern_task_info whose strings are borrowed from a row; the copy owns all of
 * it. Accessors read fields and nothing else, so a snapshot may be shared between threads. */
#include "broker/task_info.h"
#include "base/assert.h"
#include "base/memory/alloc.h"
#include "broker/block.h"
#include "task/past_runs.h"

quern_task_info *qn_task_info_copy(const struct quern_task_info *info)
{
    size_t runs_text_size = 0;
    size_t run_count = qn_past_runs_count(info->runs, &runs_text_size);
    size_t runs_size = run_count * sizeof(quern_past_run) + runs_text_size;
    size_t size = sizeof *info + runs_size + qn_block_task_size(&info->task) +
                  qn_block_bytes_size(info->result, info->result_size) +
                  qn_block_text_size(info->error) + qn_block_text_size(info->worker) +
                  qn_block_text_size(info->progress_note);
    struct quern_task_info *copy = qn_alloc(size + 1); /* empty blocks at the end lie inside */
    if (copy == NULL) {
        return NULL;
    }
    *copy = *info;
    quern_past_run *runs = (quern_past_run *)(copy + 1);
    char *at = (char *)(runs + run_count);
    copy->runs = (struct qn_bytes){NULL, 0};
    copy->past_runs = runs;
    copy->past_run_count = run_count;
    qn_block_put_task(&at, &copy->task);
    copy->error = qn_block_put_text(&at, info->error);
    copy->worker = qn_block_put_text(&at, info->worker);
    copy->progress_note = qn_block_put_text(&at, info->progress_note);
    copy->result = qn_block_put_bytes(&at, info->result, info->result_size);
    qn_past_runs_read(info->runs, run_count, runs, at);
    at += runs_text_size;
    QN_ASSERT(at == (char *)copy + size);
    return copy;
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

const char *quern_task_info_id(const quern_task_info *info)
{
    return info->task.id;
}

const char *quern_task_info_queue(const quern_task_info *info)
{
    return info->task.queue;
}

const char *quern_task_info_type(const quern_task_info *info)
{
    return info->task.type;
}

quern_task_state quern_task_info_state(const quern_task_info *info)
{
    return info->task.state;
}

static const void *bytes(const void *data, size_t size, size_t *ret_size)
{
    if (ret_size != NULL) {
        *ret_size = size;
    }
    return data;
}

const void *quern_task_info_payload(const quern_task_info *info, size_t *ret_size)
{
    const void *payload = info->task.payload;
    return bytes(payload == NULL ? "" : payload, info->task.payload_size, ret_size);
}

const void *quern_task_info_result(const quern_task_info *info, size_t *ret_size)
{
    return bytes(info->result, info->result_size, ret_size);
}

size_t quern_task_info_header_count(const quern_task_info *info)
{
    return info->task.header_count;
}

const quern_header *quern_task_info_headers(const quern_task_info *info)
{
    return info->task.headers;
}

/* struct qn_task has 0 for "none" where quern_task has it for "default". */
int64_t quern_task_info_retry_max(const quern_task_info *info)
{
    return info->task.retry_max == 0 ? QUERN_RETRY_NEVER : info->task.retry_max;
}

quern_retry_policy quern_task_info_retry(const quern_task_info *info)
{
    return info->task.retry;
}

int32_t quern_task_info_priority(const quern_task_info *info)
{
    return info->task.priority;
}

int64_t quern_task_info_retry_count(const quern_task_info *info)
{
    return info->retry_count;
}

int64_t quern_task_info_crash_count(const quern_task_info *info)
{
    return info->crash_count;
}

const char *quern_task_info_error(const quern_task_info *info)
{
    return text_of(info->error);
}

int64_t quern_task_info_failed_at_ms(const quern_task_info *info)
{
    return info->failed_at_ms;
}

int64_t quern_task_info_timeout_ms(const quern_task_info *info)
{
    return info->task.timeout_ms == 0 ? QUERN_TIMEOUT_NEVER : info->task.timeout_ms;
}

int64_t quern_task_info_kill_after_ms(const quern_task_info *info)
{
    return info->task.kill_after_ms;
}

int64_t quern_task_info_cpu_ms(const quern_task_info *info)
{
    return info->task.cpu_ms;
}

int64_t quern_task_info_memory_max(const quern_task_info *info)
{
    return info->task.memory_max;
}

int64_t quern_task_info_deadline_at_ms(const quern_task_info *info)
{
    return info->task.deadline_at_ms;
}

int64_t quern_task_info_start_by_at_ms(const quern_task_info *info)
{
    return info->task.start_by_at_ms;
}

int64_t quern_task_info_retention_ms(const quern_task_info *info)
{
    return info->task.retention_ms;
}

const char *quern_task_info_group(const quern_task_info *info)
{
    return text_of(info->task.group);
}

const char *quern_task_info_limit_key(const quern_task_info *info)
{
    return text_of(info->task.limit_key);
}

static int64_t at_ms_in(const quern_task_info *info, quern_task_state state)
{
    return info->task.state == state ? info->at_ms : 0;
}

int64_t quern_task_info_due_at_ms(const quern_task_info *info)
{
    int64_t retry_at_ms = at_ms_in(info, QUERN_TASK_RETRY);
    return retry_at_ms != 0 ? retry_at_ms : at_ms_in(info, QUERN_TASK_SCHEDULED);
}

int64_t quern_task_info_archived_at_ms(const quern_task_info *info)
{
    return at_ms_in(info, QUERN_TASK_ARCHIVED);
}

int64_t quern_task_info_expires_at_ms(const quern_task_info *info)
{
    return at_ms_in(info, QUERN_TASK_COMPLETED);
}

int64_t quern_task_info_grouped_at_ms(const quern_task_info *info)
{
    return at_ms_in(info, QUERN_TASK_AGGREGATING);
}

int64_t quern_task_info_deleted_at_ms(const quern_task_info *info)
{
    return info->deleted_at_ms;
}

int64_t quern_task_info_enqueued_at_ms(const quern_task_info *info)
{
    return info->enqueued_at_ms;
}

int64_t quern_task_info_started_at_ms(const quern_task_info *info)
{
    return info->started_at_ms;
}

int64_t quern_task_info_completed_at_ms(const quern_task_info *info)
{
    return info->completed_at_ms;
}

quern_cause quern_task_info_cause(const quern_task_info *info)
{
    return info->cause;
}

uint64_t quern_task_info_fence(const quern_task_info *info)
{
    return info->fence;
}

const char *quern_task_info_worker(const quern_task_info *info)
{
    return text_of(info->worker);
}

bool quern_task_info_orphaned(const quern_task_info *info)
{
    return info->orphaned;
}

bool quern_task_info_existing(const quern_task_info *info)
{
    return info->existing;
}

int32_t quern_task_info_progress(const quern_task_info *info)
{
    return info->progress;
}

const char *quern_task_info_progress_note(const quern_task_info *info)
{
    return text_of(info->progress_note);
}

size_t quern_task_info_run_count(const quern_task_info *info)
{
    return info->past_run_count;
}

const quern_past_run *quern_task_info_run_at(const quern_task_info *info, size_t index)
{
    return index < info->past_run_count ? &info->past_runs[index] : NULL;
}

int64_t quern_task_info_lease_until_at_ms(const quern_task_info *info)
{
    return info->lease_until_ms;
}

void quern_task_info_free(quern_task_info *info)
{
    qn_free(info);
}
