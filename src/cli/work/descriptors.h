/* SPDX-License-Identifier: MIT */
/* descriptors.h - whether this process may have enough descriptors for a worker. */
#ifndef QN_CLI_WORK_DESCRIPTORS_H
#define QN_CLI_WORK_DESCRIPTORS_H

#include "cli/cli.h"

/* Warns when this many commands at a time need more descriptors than this process may have. */
void qn_work_descriptors_warn(const struct qn_cli *cli, uint32_t concurrency);

#endif
