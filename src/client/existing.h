/* SPDX-License-Identifier: MIT */
/* existing.h - the task because of which another one was refused. */
#ifndef QN_CLIENT_EXISTING_H
#define QN_CLIENT_EXISTING_H

#include "quern/client.h"

/* `task` was refused with QUERN_E_DUPLICATE or QUERN_E_CONFLICT, as `err` has it: returns the task
 * that is there, for the caller to free, and adds its id to the text of a duplicate. NULL: it is
 * gone by now, or cannot be read. holder: of its lock, "": none. */
quern_task_info *qn_existing_task(quern_client *client, const quern_task *task, const char *holder,
                                  quern_error *err);
/* `task` was not stored, because the holder of its lock stands for it: replaces *info, which is
 * that of `task`, by that of the holder; where it is gone by now, `task` itself with its id. */
QUERN_NODISCARD quern_status qn_existing_instead(quern_client *client, const quern_task *task,
                                                 const char *holder, quern_task_info **info,
                                                 quern_error *err);

#endif
