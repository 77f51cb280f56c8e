/* SPDX-License-Identifier: MIT */
/* list.h - `quern schedule list`. */
#ifndef QN_CLI_SCHEDULE_LIST_H
#define QN_CLI_SCHEDULE_LIST_H

#include "cli/cli.h"

#define QN_LIST_OPTION_COUNT 3
extern const struct qn_option qn_list_options[QN_LIST_OPTION_COUNT];

int qn_list_run(struct qn_cli *cli);

#endif
