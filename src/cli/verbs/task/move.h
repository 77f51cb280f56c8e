/* SPDX-License-Identifier: MIT */
/* move.h - `quern task move`: puts tasks into another queue. */
#ifndef QN_CLI_VERBS_TASK_MOVE_H
#define QN_CLI_VERBS_TASK_MOVE_H

#include "cli/cli.h"

#define QN_MOVE_OPTION_COUNT 6
extern const struct qn_option qn_move_options[QN_MOVE_OPTION_COUNT];

int qn_move_run(struct qn_cli *cli);

#endif
