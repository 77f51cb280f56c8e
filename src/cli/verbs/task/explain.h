/* SPDX-License-Identifier: MIT */
/* explain.h - `quern task explain`. */
#ifndef QN_CLI_VERBS_TASK_EXPLAIN_H
#define QN_CLI_VERBS_TASK_EXPLAIN_H

#include "cli/cli.h"

#define QN_TASK_EXPLAIN_OPTION_COUNT 1
extern const struct qn_option qn_task_explain_options[QN_TASK_EXPLAIN_OPTION_COUNT];

/* The verb. */
int qn_task_explain(struct qn_cli *cli);

#endif
