/* SPDX-License-Identifier: MIT */
/* by_id.h - does something to each task whose id, whole or short, is an operand. */
#ifndef QN_CLI_VERBS_TASK_BY_ID_H
#define QN_CLI_VERBS_TASK_BY_ID_H

#include "cli/cli.h"
#include "quern/inspector.h"

struct qn_by_id {
    const char *queue; /* where they are; NULL: in any */
    /* Does it to the task, which was read just now. */
    quern_status (*act)(quern_inspector *inspector, const quern_task_info *info, const void *user,
                        quern_error *err);
    const void *user;
    const char *done; /* "edited" */
};
/* Each is tried, until the broker fails; reports them. Returns the exit code. */
QUERN_NODISCARD int qn_by_id_run(const struct qn_cli *cli, quern_inspector *inspector,
                                 const struct qn_by_id *by_id);

#endif
