/* SPDX-License-Identifier: MIT */
/* edit.h - `quern task edit`: changes the payload, the moment or options of tasks that wait. */
#ifndef QN_CLI_VERBS_TASK_EDIT_H
#define QN_CLI_VERBS_TASK_EDIT_H

#include "cli/cli.h"

#define QN_EDIT_OPTION_COUNT 17
extern const struct qn_option qn_edit_options[QN_EDIT_OPTION_COUNT];

int qn_edit_run(struct qn_cli *cli);

#endif
