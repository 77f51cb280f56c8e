/* SPDX-License-Identifier: MIT */
/* completion_values.h - what a broker holds, for the completion of a shell. */
#ifndef QN_CLI_VERBS_COMPLETION_VALUES_H
#define QN_CLI_VERBS_COMPLETION_VALUES_H

#include "cli/cli.h"

/* Whether it is "queues", "ids" or "active" (the ids of active tasks). */
bool qn_completion_values_know(const char *kind);
/* Prints them, one per line. Reports its errors itself, returns the exit code. */
QUERN_NODISCARD int qn_completion_values_print(struct qn_cli *cli, const char *kind);

#endif
