/* SPDX-License-Identifier: MIT */
/* explain.h - explanations for programs of ours that have read more already. */
#ifndef QN_INSPECT_EXPLAIN_EXPLAIN_H
#define QN_INSPECT_EXPLAIN_EXPLAIN_H

#include "inspect/explain/reading.h"
#include "inspect/explain/reasons.h"

/* As quern_inspector_explain, of a task that was just read by its id. */
QUERN_NODISCARD quern_status qn_explain_task(quern_inspector *inspector,
                                             const quern_task_info *info,
                                             struct qn_reasons *ret_reasons, quern_error *err);
/* Why this queue, or a task of this type in it (type may be NULL), is not served. False: it is. */
bool qn_explain_queue(const struct qn_reading *reading, const char *queue, const char *type,
                      struct qn_reason *ret_reason);

#endif
