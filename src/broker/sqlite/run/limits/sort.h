/* SPDX-License-Identifier: MIT */
/* sort.h - gives the tasks of a queue their lanes, when it gets lanes or lanes of another kind. */
#ifndef QN_BROKER_SQLITE_RUN_LIMITS_SORT_H
#define QN_BROKER_SQLITE_RUN_LIMITS_SORT_H

#include "broker/sqlite/run/lease_batch.h"

/* Lets the queue have lanes of this kind. Its active tasks, and the first of the others, are given
 * theirs at once, the rest by qn_sort_pages; a task without one does not start until then. */
QUERN_NODISCARD quern_status qn_sort_begin(struct qn_conn *conn, int64_t queue_no, int64_t lanes,
                                           quern_error *err);
/* Gives the next tasks their lanes; source->queue->sort is 0 when these were the last ones. */
QUERN_NODISCARD quern_status qn_sort_pages(struct qn_lease_batch *batch,
                                           const struct qn_lease_source *source, quern_error *err);
/* Gives one task its lane, which starts before it was sorted. */
QUERN_NODISCARD quern_status qn_sort_row(struct qn_conn *conn, const struct qn_counted_queue *queue,
                                         int64_t row, quern_error *err);

#endif
