/* SPDX-License-Identifier: MIT */
/* limit.h - limits of the system that are too low for what a worker is asked to do. */
#ifndef QN_CLI_WORK_LIMIT_H
#define QN_CLI_WORK_LIMIT_H

#include "cli/cli.h"

/* Warns when so many commands at a time need more descriptors than this process may have. */
void qn_work_limit_warn(const struct qn_cli *cli, uint32_t concurrency);

#endif
