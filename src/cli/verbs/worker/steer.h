/* SPDX-License-Identifier: MIT */
/* steer.h - `quern worker quiet|resume|stop|resize|log-level`. */
#ifndef QN_CLI_VERBS_WORKER_STEER_H
#define QN_CLI_VERBS_WORKER_STEER_H

#include "cli/cli.h"

#define QN_STEER_OPTION_COUNT 2
extern const struct qn_option qn_worker_steer_options[QN_STEER_OPTION_COUNT];
extern const struct qn_option qn_worker_stop_options[QN_STEER_OPTION_COUNT + 1];
extern const struct qn_option qn_worker_resize_options[QN_STEER_OPTION_COUNT + 1];
extern const struct qn_option qn_worker_log_level_options[QN_STEER_OPTION_COUNT + 1];

int qn_worker_steer_quiet(struct qn_cli *cli);
int qn_worker_steer_resume(struct qn_cli *cli);
int qn_worker_steer_stop(struct qn_cli *cli);
int qn_worker_steer_resize(struct qn_cli *cli);
int qn_worker_steer_log_level(struct qn_cli *cli);

#endif
