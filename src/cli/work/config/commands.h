/* SPDX-License-Identifier: MIT */
/* commands.h - what a worker runs by the options --exec, --exec-loop and --aggregate. */
#ifndef QN_CLI_WORK_CONFIG_COMMANDS_H
#define QN_CLI_WORK_CONFIG_COMMANDS_H

#include "cli/cli.h"
#include "quern/mux.h"

/* Adds what the options name, with their policies. These report what is wrong, and return the exit
 * code. */
QUERN_NODISCARD int qn_work_commands_fill(const struct qn_cli *cli, quern_mux *mux);
/* Whether the values can be understood. */
QUERN_NODISCARD int qn_work_commands_check(const struct qn_cli *cli);

#endif
