/* SPDX-License-Identifier: MIT */
/* limit.h - limits of the system that are too low for the settings of a worker. */
#ifndef QN_CLI_WORK_LIMIT_H
#define QN_CLI_WORK_LIMIT_H

#include "cli/cli.h"

/* Warns when this many commands at a time need more descriptors than this process may have. */
void qn_work_limit_warn(const struct qn_cli *cli, uint32_t concurrency);

#endif
