/* SPDX-License-Identifier: MIT */
/* task_list.h - `quern task list`. */
#ifndef QN_CLI_VERBS_TASK_LIST_H
#define QN_CLI_VERBS_TASK_LIST_H

#include "cli/cli.h"

#define QN_TASK_LIST_OPTION_COUNT 14
extern const struct qn_option qn_task_list_options[QN_TASK_LIST_OPTION_COUNT];

int qn_task_list_run(struct qn_cli *cli);

#endif
