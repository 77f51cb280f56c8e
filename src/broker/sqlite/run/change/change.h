/* SPDX-License-Identifier: MIT */
/* change.h - what a run changes in its task when it ends (struct qn_task_change). */
#ifndef QN_BROKER_SQLITE_RUN_CHANGE_CHANGE_H
#define QN_BROKER_SQLITE_RUN_CHANGE_CHANGE_H

#include "broker/sqlite/queue/queue_counters.h"

/* Before the outcome is applied, in the same transaction; nothing where its token is not valid. */
QUERN_NODISCARD quern_status qn_change_data(struct qn_queue_counters *counters,
                                            const struct qn_outcome *outcome, quern_error *err);
/* After it was applied as *ret_applied. A task that cannot go to another queue stays: *ret_applied
 * is QN_UNMOVED then. Queues of the counters may move in memory. */
QUERN_NODISCARD quern_status qn_change_queue(struct qn_queue_counters *counters,
                                             const struct qn_outcome *outcome,
                                             enum qn_applied *ret_applied, quern_error *err);

#endif
