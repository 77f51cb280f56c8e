/* SPDX-License-Identifier: MIT */
/* reread.h - a scheduler reads its configuration again, on SIGHUP: the log changes at once. */
#ifndef QN_CLI_SCHEDULE_REREAD_H
#define QN_CLI_SCHEDULE_REREAD_H

#include "cli/cli.h"
#include "cli/work/config/settings.h"

struct qn_schedule_reread;

/* Starts a thread that waits to be asked; read: the options of the log of a command, which returns
 * an exit code. NULL: there is no file, or no thread. */
struct qn_schedule_reread *qn_schedule_reread_start(const struct qn_cli *cli,
                                                    struct qn_work_log *log,
                                                    int (*read)(const struct qn_cli *cli,
                                                                struct qn_work_settings *settings));
/* Async-signal-safe; NULL is fine, as for stop. */
void qn_schedule_reread_ask(struct qn_schedule_reread *reread);
void qn_schedule_reread_stop(struct qn_schedule_reread *reread);

#endif
