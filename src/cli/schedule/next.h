/* SPDX-License-Identifier: MIT */
/* next.h - `quern schedule next` and `check`. */
#ifndef QN_CLI_SCHEDULE_NEXT_H
#define QN_CLI_SCHEDULE_NEXT_H

#include "cli/cli.h"

#define QN_NEXT_OPTION_COUNT 5
extern const struct qn_option qn_next_options[QN_NEXT_OPTION_COUNT];
#define QN_NEXT_CHECK_OPTION_COUNT 1
extern const struct qn_option qn_next_check_options[QN_NEXT_CHECK_OPTION_COUNT];

int qn_next_run(struct qn_cli *cli);
int qn_next_check(struct qn_cli *cli);

#endif
