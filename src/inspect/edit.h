/* SPDX-License-Identifier: MIT */
/* edit.h - what an edit is given, checked; shared by the edit of one task and of many. */
#ifndef QN_INSPECT_EDIT_H
#define QN_INSPECT_EDIT_H

#include "base/memory/view.h"
#include "inspect/inspector.h"

/* given: a quern_task_edit and its size. */
QUERN_NODISCARD quern_status qn_edit_take(struct qn_bytes given, quern_task_edit *ret_edit,
                                          quern_error *err);

#endif
