/* SPDX-License-Identifier: MIT */
/* entries.h - finds the stored entry that an operator names. */
#ifndef QN_INSPECT_ENTRIES_H
#define QN_INSPECT_ENTRIES_H

#include "inspect/inspector.h"
#include "schedule/entry_info.h"

/* A copy of the entry, in the arena; queue NULL: in any queue. QUERN_E_INVALID: the inspector or
 * the name is NULL, or the name is none; QUERN_E_NOT_FOUND; QUERN_E_STATE: several queues have
 * it. */
QUERN_NODISCARD quern_status qn_inspect_find_entry(quern_inspector *inspector,
                                                   const struct qn_entry_filter *filter,
                                                   struct qn_arena *arena,
                                                   struct qn_schedule_entry *ret_entry,
                                                   quern_error *err);

#endif
