/* SPDX-License-Identifier: MIT */
/* end.h - the last lines of a worker, and the exit code of one that ends by itself. */
#ifndef QN_CLI_WORK_END_H
#define QN_CLI_WORK_END_H

#include "cli/work/work.h"

/* Notes the task of a run that failed. One run at a time. */
void qn_work_end_note_run(struct qn_work *work, const quern_run_report *report);
/* One line: how many runs ended in which way. */
void qn_work_end_report(const struct qn_work *work, const quern_worker_stats *stats);
/* For a worker that ends by itself: reports what failed, what is left and when that is due. Returns
 * the exit code. */
QUERN_NODISCARD int qn_work_end_judge(struct qn_work *work, const quern_worker_stats *stats);
void qn_work_end_finish(struct qn_work *work);

#endif
