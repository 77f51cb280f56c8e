/* SPDX-License-Identifier: MIT */
/* run_limits.h - quern_task.run_limits: the limits of one run, as a text. */
#ifndef QN_BROKER_SQLITE_SCHEMA_RUN_LIMITS_H
#define QN_BROKER_SQLITE_SCHEMA_RUN_LIMITS_H

#include <stdbool.h>

#include "task/task.h"

#define QN_RUN_LIMITS_SIZE 64

bool qn_run_limits_any(const struct qn_task *task);
/* NULL: it has none. */
const char *qn_run_limits_write(const struct qn_task *task, char out[QN_RUN_LIMITS_SIZE]);
/* NULL, or what is no such text: none. */
void qn_run_limits_read(const char *text, struct qn_task *task);

#endif
