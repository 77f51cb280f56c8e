/* SPDX-License-Identifier: MIT */
/* start.h - what a worker reports before it runs anything. */
#ifndef QN_CLI_WORK_START_H
#define QN_CLI_WORK_START_H

#include "cli/work/work.h"

/* Opens the broker and reports what will run; returns the exit code. */
QUERN_NODISCARD int qn_work_start(struct qn_work *work, const char *url);

#endif
