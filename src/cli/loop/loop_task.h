/* SPDX-License-Identifier: MIT */
/* loop_task.h - a task as a line of JSON, for a loop process. */
#ifndef QN_CLI_LOOP_LOOP_TASK_H
#define QN_CLI_LOOP_LOOP_TASK_H

#include "quern/run.h"

/* The caller frees it (free); with its line end. */
char *qn_loop_task_line(const quern_run *run, const quern_task *task, size_t *ret_size);

#endif
