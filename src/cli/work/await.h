/* SPDX-License-Identifier: MIT */
/* await.h - a worker may be started before its broker is. */
#ifndef QN_CLI_WORK_AWAIT_H
#define QN_CLI_WORK_AWAIT_H

#include "cli/cli.h"

/* Opens the broker; with `wait` it tries until a server is there. Reports its errors, returns the
 * exit code. */
QUERN_NODISCARD int qn_work_await(struct qn_cli *cli, bool wait, quern_inspector **ret_inspector);

#endif
