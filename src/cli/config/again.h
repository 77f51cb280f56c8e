/* SPDX-License-Identifier: MIT */
/* again.h - the options of a command that runs, as they would be after a start now. */
#ifndef QN_CLI_CONFIG_AGAIN_H
#define QN_CLI_CONFIG_AGAIN_H

#include "cli/config/config.h"

/* Reads the words of `now`, the environment and the file again, for the same verb; messages go to
 * the function that next has. next is finished by qn_again_finish in any case. False: why has the
 * reason. */
QUERN_NODISCARD bool qn_again_read(const struct qn_cli *now, struct qn_cli *next,
                                   char why[QN_CONFIG_WHY_SIZE]);
void qn_again_finish(struct qn_cli *next);
/* Whether an option has other values there. */
bool qn_again_differs(const struct qn_cli *now, const struct qn_cli *next, size_t option);
/* Whether the file names another broker. */
bool qn_again_moves(const struct qn_cli *now, const struct qn_cli *next);

#endif
