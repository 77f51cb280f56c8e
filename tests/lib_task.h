/* SPDX-License-Identifier: MIT */
/* lib_task.h - a task as brokers take it. */
#ifndef TESTS_LIB_TASK_H
#define TESTS_LIB_TASK_H

#include "task/task.h"

/* A pending task of the type "t" in "default", with asynq's 25 retries and a minute. */
struct qn_task test_task(const char *id);

#endif
