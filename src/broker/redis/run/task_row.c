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

bool qn_task_row_has_policy(const struct qn_task *task)
{
    return task->on_duplicate != QUERN_ON_DUPLICATE_FAIL ||
           task->unique_until == QUERN_UNIQUE_UNTIL_EXPIRED;
}

static void add_lock_ms(struct qn_pipeline *pipeline, const struct qn_task *task)
{
    if (!qn_task_row_has_policy(task)) {
        qn_pipeline_int(pipeline, task->unique_ms);
        return;
    }
    static const char *const letters[] = {[QUERN_ON_DUPLICATE_FAIL] = "",
                                          [QUERN_ON_DUPLICATE_IGNORE] = "i",
                                          [QUERN_ON_DUPLICATE_REPLACE] = "p",
                                          [QUERN_ON_DUPLICATE_DEBOUNCE] = "b"};
    const char *text = qn_arena_printf(pipeline->arena, "%lld%s%s", (long long)task->unique_ms,
                                       task->unique_until == QUERN_UNIQUE_UNTIL_EXPIRED ? "x" : "",
                                       letters[task->on_duplicate]);
    qn_pipeline_text(pipeline, text);
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
    add_lock_ms(pipeline, task);
    qn_pipeline_text(pipeline, or_empty(task->group));
    qn_pipeline_bytes(pipeline, copy, opts_size);
}
