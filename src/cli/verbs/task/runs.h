/* SPDX-License-Identifier: MIT */
/* runs.h - the last runs of a task, as a table and as JSON. */
#ifndef QN_CLI_VERBS_TASK_RUNS_H
#define QN_CLI_VERBS_TASK_RUNS_H

#include <jansson.h>

#include "quern/task.h"

/* Under a line "past runs:"; nothing if there are none. */
void qn_task_runs_print(const quern_task_info *info);
/* An array, the latest run first. */
json_t *qn_task_runs_json(const quern_task_info *info);

#endif
