/* SPDX-License-Identifier: MIT */
/* queues.h - the numbers of some queues, for programs of ours that know which they need. */
#ifndef QN_INSPECT_QUEUES_H
#define QN_INSPECT_QUEUES_H

#include "base/memory/view.h"
#include "quern/inspector.h"

/* As quern_inspector_queues, of those of these names that there are, in this order: what it costs
 * does not depend on the others. */
QUERN_NODISCARD quern_status qn_inspect_queues(quern_inspector *inspector, struct qn_names names,
                                               quern_queue_list **ret_list, quern_error *err);

#endif
