/* SPDX-License-Identifier: MIT */
/* internal.c - `quern internal`: processes that other verbs start, by executing the program again.
 *
 * Neither the help nor the completions name them. */
#include "cli/cli.h"
#include "cli/handlers/zygote.h"
#include "cli/replay/replay_run.h"
#include "cli/work/restart.h"

static const struct qn_verb verbs[] = {
    {.name = "replay",
     .operands = "",
     .summary = "the worker of quern task replay",
     .example = "  quern task replay t.task --exec ./handler",
     .options = qn_replay_run_options,
     .option_count = QN_REPLAY_RUN_OPTION_COUNT,
     .run = qn_replay_run},
    {.name = "takes-over",
     .operands = "",
     .summary = "which state of a worker this program reads",
     .example = "  kill -USR2 PID",
     .run = qn_work_restart_print,
     .unconfigured = true},
    {.name = "zygote",
     .operands = "",
     .summary = "the process with the handlers of quern work --handlers",
     .example = "  quern work --handlers ./handlers.so",
     .options = qn_handlers_zygote_options,
     .option_count = QN_HANDLERS_ZYGOTE_OPTION_COUNT,
     .run = qn_handlers_zygote_run,
     .unconfigured = true},
};
const struct qn_noun qn_noun_internal = {"internal", "processes that other verbs start", verbs,
                                         QN_COUNT_OF(verbs)};
