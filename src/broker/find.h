/* SPDX-License-Identifier: MIT */
/* find.h - one task by its id. */
#ifndef QN_BROKER_FIND_H
#define QN_BROKER_FIND_H

#include "broker/inspect.h"

/* The task, for the caller to free. queue NULL: look in all queues. QUERN_E_NOT_FOUND: no such
 * task; QUERN_E_STATE: it is in several queues, which the text names. */
QUERN_NODISCARD quern_status qn_find_task(struct qn_broker *broker, const char *queue,
                                          const char *id, quern_task_info **ret_info,
                                          quern_error *err);

/* The same, and where there is no such task, the one whose id is a UUID that begins with `id`, at
 * least QN_ID_SHORT_SIZE_MIN characters. QUERN_E_STATE: several begin so; the text names some. */
QUERN_NODISCARD quern_status qn_find_short(struct qn_broker *broker, const char *queue,
                                           const char *id, quern_task_info **ret_info,
                                           quern_error *err);

#endif
