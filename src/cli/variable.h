/* SPDX-License-Identifier: MIT */
/* variable.h - the variables of the environment that options have. */
#ifndef QN_CLI_VARIABLE_H
#define QN_CLI_VARIABLE_H

#include "cli/args.h"

#define QN_VARIABLE_SIZE 96

/* The variable of the environment for an option of "schedule run": QUERN_SCHEDULE_RUN_ZONE; of all
 * verbs, where is "". */
void qn_variable_name(const char *where, const struct qn_option *option,
                      char ret_name[QN_VARIABLE_SIZE]);

#endif
