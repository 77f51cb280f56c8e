/* SPDX-License-Identifier: MIT */
/* replay_run.h - `quern internal replay`: the worker of a replay. */
#ifndef QN_CLI_REPLAY_REPLAY_RUN_H
#define QN_CLI_REPLAY_REPLAY_RUN_H

#include "cli/cli.h"

#define QN_REPLAY_RUN_OPTION_COUNT 3
extern const struct qn_option qn_replay_run_options[QN_REPLAY_RUN_OPTION_COUNT];
/* Runs one task once. */
int qn_replay_run(struct qn_cli *cli);

#endif
