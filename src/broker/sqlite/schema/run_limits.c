/* SPDX-License-Identifier: MIT */
/* run_limits.c - few tasks have limits of their own, so that these share a column: an empty one
 * costs each change of a task a byte. */
#include "broker/sqlite/schema/run_limits.h"

#include <stdio.h>
#include <string.h>

#include "base/text/number.h"

bool qn_run_limits_any(const struct qn_task *task)
{
    return (task->kill_after_ms | task->cpu_ms | task->memory_max) != 0;
}

const char *qn_run_limits_write(const struct qn_task *task, char out[QN_RUN_LIMITS_SIZE])
{
    if (!qn_run_limits_any(task)) {
        return NULL;
    }
    (void)snprintf(out, QN_RUN_LIMITS_SIZE, "%lld %lld %lld", (long long)task->kill_after_ms,
                   (long long)task->cpu_ms, (long long)task->memory_max);
    return out;
}

static bool take(struct qn_cursor *row, int64_t max, int64_t *ret_number)
{
    uint64_t number = 0;
    bool is_one = qn_number_take(row, &number);
    *ret_number = number > (uint64_t)max ? max : (int64_t)number;
    (void)qn_number_take_char(row, ' ');
    return is_one;
}

void qn_run_limits_read(const char *text, struct qn_task *task)
{
    int64_t kill_after_ms = 0;
    int64_t cpu_ms = 0;
    int64_t memory_max = 0;
    if (text == NULL) {
        return;
    }
    struct qn_cursor row = {text, text + strlen(text)};
    if (take(&row, QN_DURATION_MS_MAX, &kill_after_ms) && take(&row, QN_DURATION_MS_MAX, &cpu_ms) &&
        take(&row, INT64_MAX, &memory_max)) {
        task->kill_after_ms = kill_after_ms;
        task->cpu_ms = cpu_ms;
        task->memory_max = memory_max;
    }
}
