/* SPDX-License-Identifier: MIT */
/* replay.h - `quern task replay`. */
#ifndef QN_CLI_REPLAY_REPLAY_H
#define QN_CLI_REPLAY_REPLAY_H

#include "cli/cli.h"

#define QN_REPLAY_OPTION_COUNT 3
extern const struct qn_option qn_replay_options[QN_REPLAY_OPTION_COUNT];
int qn_replay(struct qn_cli *cli);

#endif
