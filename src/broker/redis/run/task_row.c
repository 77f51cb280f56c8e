/* SPDX-License-Identifier: MIT */
/* task_row.c - the row of a task: index, state, at_ms, lock, lock_ms, group, options. */
#include "broker/redis/run/task_row.h"

#include "broker/redis/schema/task_fields.h"

static bool is_plain(const struct qn_task *task, char opts[QN_FIELD_SIZE], size_t *ret_opts_size)
{
    *ret_opts_size = qn_task_fields_opts_write(task, opts);
    return task->state == QUERN_TASK_PENDING && task->unique_key == NULL && *ret_opts_size == 0;
}

bool qn_task_row_is_plain(const struct qn_task *task)
{
    char opts[QN_FIELD_SIZE];
    size_t opts_size = 0;
    return is_plain(task, opts, &opts_size);
}

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

void qn_task_row_add(struct qn_pipeline *pipeline, const struct qn_task *task, size_t index)
{
    char opts[QN_FIELD_SIZE];
    size_t opts_size = 0;
    if (is_plain(task, opts, &opts_size)) {
        return;
    }
    const void *copy = qn_arena_copy(pipeline->arena, opts, opts_size);
    if (copy == NULL) {
        qn_pipeline_nomem(pipeline);
        return;
    }
    qn_pipeline_uint(pipeline, index);
    qn_pipeline_text(pipeline, quern_task_state_name(task->state));
    qn_pipeline_int(pipeline, task->process_at_ms);
    qn_pipeline_text(pipeline, or_empty(task->unique_key));
    qn_pipeline_int(pipeline, task->unique_ms);
    qn_pipeline_text(pipeline, or_empty(task->group));
    qn_pipeline_bytes(pipeline, copy, opts_size);
}
