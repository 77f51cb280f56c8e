/* SPDX-License-Identifier: MIT */
/* name.h - the rules for names of tasks, types and queues. */
#ifndef QN_TASK_NAME_H
#define QN_TASK_NAME_H

#include <stdbool.h>

#include "quern/status.h"

#define QN_NAME_SHOWN_MAX 40
#define QN_NAME_SHOWN_SIZE (4 * QN_NAME_SHOWN_MAX + 4)
/* A short name as it is; else its start in printable ASCII, other bytes as \xNN. */
const char *qn_name_show(const char *name, char out[QN_NAME_SHOWN_SIZE]);

/* The rules for names, each with a text that describes the fault: `what` is "queue", "type", ... */
QUERN_NODISCARD quern_status qn_name_check(const char *what, const char *name, quern_error *err);
/* For tasks that are enqueued here: as qn_name_check, and no mark that changes the direction of
 * text. Tasks that others stored must be served nevertheless. */
QUERN_NODISCARD quern_status qn_name_check_new(const char *what, const char *name,
                                               quern_error *err);
/* As qn_name_check, and no { }, which would break the hash tag of a Redis key. */
QUERN_NODISCARD quern_status qn_name_check_queue(const char *name, quern_error *err);
/* Whether it reads like a list or a pattern of names; it may be a name all the same. */
bool qn_name_is_odd(const char *name);
/* For a queue that others have made by rules of their own (asynq's: any text that is not blank),
 * and that a worker is to serve: valid UTF-8, at most QN_SERVED_NAME_SIZE_MAX bytes. */
QUERN_NODISCARD quern_status qn_name_check_served(const char *name, quern_error *err);

#endif
