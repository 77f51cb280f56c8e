/* SPDX-License-Identifier: MIT */
/* run_entry.h - how a run is noted with its task (task/past_runs.h) when its outcome is written. */
#ifndef QN_BROKER_PAST_RUN_ENTRY_H
#define QN_BROKER_PAST_RUN_ENTRY_H

#include "broker/broker.h"
#include "task/past_runs.h"

/* Who reports it: this process, with one text for all runs of an exchange. */
struct qn_run_reporter {
    const char *host; /* NULL: not known */
    const char *worker_id;
    size_t worker_size; /* 0: the text is not written yet */
    char worker[QN_PAST_RUN_WORKER_SIZE_MAX];
};
/* Whether this outcome is noted. */
bool qn_run_entry_is_due(const struct qn_outcome *outcome);
/* Writes the entry and returns its length; 0, and an empty one: this outcome is not noted. The task
 * of one that is dropped, or done without retention, is gone; of one that is done at its first run
 * everything else is there; one that is put aside, or given back before it began, was no run. */
size_t qn_run_entry_write(const struct qn_outcome *outcome, struct qn_run_reporter *reporter,
                          qn_past_run_text out);

#endif
