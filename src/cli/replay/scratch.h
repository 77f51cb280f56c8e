/* SPDX-License-Identifier: MIT */
/* scratch.h - a broker for one task, in a temporary folder. */
#ifndef QN_CLI_REPLAY_SCRATCH_H
#define QN_CLI_REPLAY_SCRATCH_H

#include "cli/cli.h"
#include "cli/replay/task_file.h"

struct qn_scratch {
    char folder[256];      /* "": there is none */
    char url[288];         /* of the database in it */
    quern_task_info *info; /* of the task, as it was stored */
};

/* Makes it with the task of the file, due now, and with its retries. Reports its errors, returns
 * the exit code; qn_scratch_remove also after a failure. */
QUERN_NODISCARD int qn_scratch_make(const struct qn_cli *cli, const struct qn_task_file *file,
                                    bool is_timed, struct qn_scratch *scratch);
void qn_scratch_remove(struct qn_scratch *scratch);

#endif
