/* SPDX-License-Identifier: MIT */
/* run_entry.h - how a run is noted with its task (task/past_runs.h) when its outcome is written. */
#ifndef QN_BROKER_PAST_RUN_ENTRY_H
#define QN_BROKER_PAST_RUN_ENTRY_H

#include "broker/broker.h"
#include "task/past_runs.h"

/* Who reports it. */
struct qn_run_reporter {
    const char *host; /* NULL: not known */
    const char *worker_id;
};
/* Writes the entry; false, and an empty one: this outcome is not noted. The task of one that is
 * dropped, or done without retention, is gone; one that is put aside, or given back before it
 * began, was no run. */
bool qn_run_entry_write(const struct qn_outcome *outcome, const struct qn_run_reporter *reporter,
                        qn_past_run_text out);

#endif
