/* SPDX-License-Identifier: MIT */
/* export.h - `quern task export`: the tasks that fulfil a query, as lines that can be enqueued. */
#ifndef QN_CLI_VERBS_TASK_EXPORT_H
#define QN_CLI_VERBS_TASK_EXPORT_H

#include "cli/cli.h"

#define QN_EXPORT_OPTION_COUNT 3
extern const struct qn_option qn_export_options[QN_EXPORT_OPTION_COUNT];

int qn_export_run(struct qn_cli *cli);

#endif
