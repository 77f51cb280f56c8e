/* SPDX-License-Identifier: MIT */
/* task_row.h - the arguments of lib_store.lua for a task that is more than a pending one. */
#ifndef QN_BROKER_REDIS_RUN_TASK_ROW_H
#define QN_BROKER_REDIS_RUN_TASK_ROW_H

#include "redis/pipeline.h"
#include "task/task.h"

/* Whether it is just a pending task, with everything in its message: then it has no row. */
bool qn_task_row_is_plain(const struct qn_task *task);
/* Whether its row has letters behind lock_ms. */
bool qn_task_row_has_policy(const struct qn_task *task);
/* Adds the row of a task that is not plain; index: its number among the tasks, from 1. */
void qn_task_row_add(struct qn_pipeline *pipeline, const struct qn_task *task, size_t index);

#endif
