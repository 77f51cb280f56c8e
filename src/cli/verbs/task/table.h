/* SPDX-License-Identifier: MIT */
/* table.h - tasks on stdout. */
#ifndef QN_CLI_VERBS_TASK_TABLE_H
#define QN_CLI_VERBS_TASK_TABLE_H

#include "cli/cli.h"

struct qn_task_table {
    bool wide;
    bool utc;
    bool one_state; /* all tasks have the same, as was asked for */
    bool one_queue;
    bool in_trash;
    bool is_all; /* these are all tasks of the broker */
};
void qn_task_table_print(const struct qn_task_table *shape, const quern_task_info *const *tasks,
                         size_t count);
/* An array of documents. */
json_t *qn_task_table_array(const quern_task_info *const *tasks, size_t count);
/* Prints it; returns the exit code. */
int qn_task_table_json(const quern_task_info *const *tasks, size_t count);
/* The moment by which its state is ordered: each state has at most one of them. */
int64_t qn_task_table_dated_at_ms(const quern_task_info *info);

#endif
