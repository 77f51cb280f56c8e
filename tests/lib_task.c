/* SPDX-License-Identifier: MIT */
/* lib_task.c - a task as brokers take it. */
#include "lib_task.h"

struct qn_task test_task(const char *id)
{
    return (struct qn_task){.id = id,
                            .queue = "default",
                            .type = "t",
                            .retry_max = 25,
                            .timeout_ms = 60000,
                            .state = QUERN_TASK_PENDING};
}
