/* SPDX-License-Identifier: MIT */
/* add.h - `quern schedule add`. */
#ifndef QN_CLI_SCHEDULE_ADD_H
#define QN_CLI_SCHEDULE_ADD_H

#include "cli/task_options.h"

#define QN_ADD_OPTION_COUNT (QN_TASK_OPTION_COUNT + 9)
extern const struct qn_option qn_add_options[QN_ADD_OPTION_COUNT];

int qn_add_run(struct qn_cli *cli);

#endif
