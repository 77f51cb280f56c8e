/* SPDX-License-Identifier: MIT */
/* quern/command.h - commands to workers, on any machine, by way of the broker.
 *
 * Who may write to the broker may send them. On Redis the ACL must allow the channel asynq:quern,
 * to send as well as to receive; workers on an SQLite file are reached by users who may write to
 * it. Go's servers take no commands. */
#ifndef QUERN_COMMAND_H
#define QUERN_COMMAND_H

#include "quern/inspector.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_worker_order {
    QUERN_ORDER_QUIET = 1,    /* as quern_worker_quiet */
    QUERN_ORDER_RESUME = 2,   /* as quern_worker_resume */
    QUERN_ORDER_STOP = 3,     /* as quern_worker_stop */
    QUERN_ORDER_RESIZE = 4,   /* as quern_worker_resize */
    QUERN_ORDER_LOG_LEVEL = 5 /* see on_log_level of quern_worker_options */
} quern_worker_order;

typedef struct quern_worker_command {
    const char *worker_id; /* the whole one, see quern_inspector_workers */
    int32_t order;         /* a quern_worker_order */
    int32_t log_level;     /* a quern_log_level, of QUERN_ORDER_LOG_LEVEL */
    uint32_t concurrency;  /* of QUERN_ORDER_RESIZE, 1 to 4096 */
    uint32_t reserved;     /* 0 */
    int64_t timeout_ms;    /* how long to wait for the worker's answer; 0: 5 s */
} quern_worker_command;

/* Sends a command to a worker, and waits until its record at the broker says that it has been
 * carried out, which takes some ms. A stop is carried out when the worker drains; whether it has
 * ended shows in quern_inspector_workers. Errors: QUERN_E_NOT_FOUND (no such worker),
 * QUERN_E_UNSUPPORTED (a Go server, a worker of an older version, or one that cannot do this: the
 * text says why), QUERN_E_STATE (it was killed, or has ended, before it answered: the text says
 * which; a stop of a worker that has ended is none), QUERN_E_TIMEOUT (no answer: it may carry the
 * command out yet), broker errors. */
QUERN_NODISCARD static inline quern_status quern_inspector_command(
    quern_inspector *inspector, const quern_worker_command *command, quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status
quern_inspector_command_sized(quern_inspector *inspector, const quern_worker_command *command,
                              size_t command_size, quern_error *err);
static inline quern_status quern_inspector_command(quern_inspector *inspector,
                                                   const quern_worker_command *command,
                                                   quern_error *err)
{
    return quern_inspector_command_sized(inspector, command, sizeof(quern_worker_command), err);
}

#ifdef __cplusplus
}
#endif
#endif
