/* SPDX-License-Identifier: MIT */
/* service_limit.h - which limit a pending task waits for. */
#ifndef QN_CLI_SERVICE_LIMIT_H
#define QN_CLI_SERVICE_LIMIT_H

#include "cli/service.h"

/* limits: those of its queue. each: a limit of each type or key may be used up; else one of the
 * queue, or of the task's own type or key, is. False: there is none. */
bool qn_service_limit_why(const quern_limit_list *limits, const quern_task_info *info, bool each,
                          struct qn_reason *ret_reason);

#endif
