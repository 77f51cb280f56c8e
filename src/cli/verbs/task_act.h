/* SPDX-License-Identifier: MIT */
/* task_act.h - `quern task run|archive|delete|cancel`: one task, or all of a state. */
#ifndef QN_CLI_VERBS_TASK_ACT_H
#define QN_CLI_VERBS_TASK_ACT_H

#include "cli/cli.h"

#define QN_TASK_ACT_OPTION_COUNT 9
#define QN_TASK_CANCEL_OPTION_COUNT 10
#define QN_TASK_DELETE_OPTION_COUNT 10
extern const struct qn_option qn_task_act_options[QN_TASK_ACT_OPTION_COUNT];
extern const struct qn_option qn_task_act_cancel_options[QN_TASK_CANCEL_OPTION_COUNT];
extern const struct qn_option qn_task_act_delete_options[QN_TASK_DELETE_OPTION_COUNT];

int qn_task_act_run(struct qn_cli *cli);
int qn_task_act_archive(struct qn_cli *cli);
int qn_task_act_delete(struct qn_cli *cli);
int qn_task_act_cancel(struct qn_cli *cli);

/* The state of that name; name NULL: 0, all. Reports its errors; returns the exit code. */
QUERN_NODISCARD int qn_task_act_read_state(const struct qn_cli *cli, const char *name,
                                           int32_t *ret_state);

#endif
