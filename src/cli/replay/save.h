/* SPDX-License-Identifier: MIT */
/* save.h - `quern task save`. */
#ifndef QN_CLI_REPLAY_SAVE_H
#define QN_CLI_REPLAY_SAVE_H

#include "cli/cli.h"

#define QN_SAVE_OPTION_COUNT 1
extern const struct qn_option qn_save_options[QN_SAVE_OPTION_COUNT];
int qn_save(struct qn_cli *cli);

#endif
