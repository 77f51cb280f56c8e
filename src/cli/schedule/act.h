/* SPDX-License-Identifier: MIT */
/* act.h - `quern schedule pause`, `resume`, `trigger` and `remove`. */
#ifndef QN_CLI_SCHEDULE_ACT_H
#define QN_CLI_SCHEDULE_ACT_H

#include "cli/cli.h"

#define QN_ACT_OPTION_COUNT 1 /* of pause and trigger */
extern const struct qn_option qn_act_options[QN_ACT_OPTION_COUNT];
#define QN_ACT_RESUME_OPTION_COUNT 3
extern const struct qn_option qn_act_resume_options[QN_ACT_RESUME_OPTION_COUNT];
#define QN_ACT_REMOVE_OPTION_COUNT 2
extern const struct qn_option qn_act_remove_options[QN_ACT_REMOVE_OPTION_COUNT];

int qn_act_pause(struct qn_cli *cli);
int qn_act_resume(struct qn_cli *cli);
int qn_act_trigger(struct qn_cli *cli);
int qn_act_remove(struct qn_cli *cli);

#endif
