/* SPDX-License-Identifier: MIT */
/* run.h - `quern schedule run`. */
#ifndef QN_CLI_SCHEDULE_RUN_H
#define QN_CLI_SCHEDULE_RUN_H

#include "cli/cli.h"

#define QN_SCHEDULE_RUN_OPTION_COUNT 6
extern const struct qn_option qn_schedule_run_options[QN_SCHEDULE_RUN_OPTION_COUNT];

int qn_schedule_run(struct qn_cli *cli);
int qn_schedule_run_check(struct qn_cli *cli);

#endif
