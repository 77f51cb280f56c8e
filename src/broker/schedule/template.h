/* SPDX-License-Identifier: MIT */
/* template.h - the task of an entry as bytes, as the brokers store it.
 *
 * A byte with the version; then, in the order of their tags, the fields that are not zero: a byte
 * with the tag, the size as 4 bytes, the value. Numbers are 8 bytes, the lowest first. Equal tasks
 * have equal bytes. */
#ifndef QN_BROKER_SCHEDULE_TEMPLATE_H
#define QN_BROKER_SCHEDULE_TEMPLATE_H

#include "base/memory/view.h"
#include "base/text/buf.h"
#include "task/task.h"

/* Everything but id, queue and state. Appends to `buf`; QUERN_E_INVALID: it is full. */
QUERN_NODISCARD quern_status qn_template_encode(struct qn_buf *buf, const struct qn_task *task,
                                                quern_error *err);
/* What it returns lives in the arena; id and queue are NULL, state fits the group. Numbers are
 * clamped. QUERN_E_CORRUPT: the text is the reason. */
QUERN_NODISCARD quern_status qn_template_decode(struct qn_arena *arena, struct qn_bytes bytes,
                                                struct qn_task *ret_task, quern_error *err);

#endif
