/* SPDX-License-Identifier: MIT */
/* schedule.c - `quern schedule`: the table of its verbs, each of which has a file here. */
#include "cli/cli.h"
#include "cli/schedule/run.h"

static const struct qn_verb verbs[] = {
    {.name = "run",
     .operands = "",
     .summary = "enqueue by the clock: a scheduler, one of which leads",
     .about = "Any number may run; each tick is enqueued once. HUP reads files and zones again.",
     .example = "  quern schedule run --file /etc/quern/schedule.conf --zone Europe/Berlin",
     .options = qn_schedule_run_options,
     .option_count = QN_SCHEDULE_RUN_OPTION_COUNT,
     .run = qn_schedule_run},
};
const struct qn_noun qn_noun_schedule = {"schedule", "enqueue tasks by the clock", verbs,
                                         QN_COUNT_OF(verbs)};
