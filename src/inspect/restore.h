/* SPDX-License-Identifier: MIT */
/* restore.h - one task comes back from the trash. */
#ifndef QN_INSPECT_RESTORE_H
#define QN_INSPECT_RESTORE_H

#include "broker/trash/trash.h"

/* queue NULL: in whichever trash it is. QUERN_E_NOT_FOUND; QUERN_E_STATE: an enqueue would refuse
 * it, or several queues have deleted tasks with this id. */
QUERN_NODISCARD quern_status qn_restore_task(struct qn_broker *broker, const char *queue,
                                             const char *id, quern_error *err);

#endif
