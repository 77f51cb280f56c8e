/* SPDX-License-Identifier: MIT */
/* report.h - counts and logs runs that ended, and calls the caller's on_run. */
#ifndef QN_WORKER_RUN_REPORT_H
#define QN_WORKER_RUN_REPORT_H

#include "worker/run/run.h"

struct quern_worker;

/* Logs about a command's output: that some was dropped, that its progress had garbage, and stderr
 * if that was requested. */
void qn_report_output(struct quern_worker *worker, const struct quern_run *run);
/* With mutex held: counts an outcome. */
void qn_report_count(struct quern_worker *worker, const struct quern_run *run,
                     enum qn_applied applied);
/* Without mutex: logs it and calls on_run. */
void qn_report_run(struct quern_worker *worker, const struct quern_run *run,
                   enum qn_applied applied);
/* Without mutex, by one thread at a time: counts it for the metrics. */
void qn_report_measure(struct quern_worker *worker, const struct quern_run *run,
                       enum qn_applied applied);
/* How it ended, as the fields of quern_worker_stats are named. */
const char *qn_report_outcome(const struct quern_run *run, enum qn_applied applied);
/* qn_exchange.on_unusable; user: the worker. Logs and counts it. */
void qn_report_unusable(const struct qn_unusable *unusable, void *user);

#endif
