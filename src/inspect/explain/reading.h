/* SPDX-License-Identifier: MIT */
/* reading.h - one look at a broker: its queues, its live workers, what is full. All reasons are
 * judged from it. */
#ifndef QN_INSPECT_EXPLAIN_READING_H
#define QN_INSPECT_EXPLAIN_READING_H

#include "quern/inspector.h"

struct qn_reading {
    quern_inspector *inspector; /* borrowed */
    quern_queue_list *queues;
    quern_worker_list *workers;
    /* Of the file; "": it is a server. */
    char path[4096];
    uint64_t memory_max; /* of a server; 0: no limit, or not known */
    uint64_t memory_used;
};
/* Reads it all; queue: only this one (NULL: each). After a success qn_reading_finish frees it. */
QUERN_NODISCARD quern_status qn_reading_read(quern_inspector *inspector, const char *queue,
                                             struct qn_reading *ret_reading, quern_error *err);
void qn_reading_finish(struct qn_reading *reading);
/* NULL: there is no such queue. */
const quern_queue_info *qn_reading_queue(const struct qn_reading *reading, const char *name);

#endif
