/* SPDX-License-Identifier: MIT */
/* quern/mux.h - which handler runs which type of task.
 *
 * A task goes to the handler whose pattern equals its type, else to the one with the longest
 * pattern that is a byte prefix of it ("image:" serves "image:resize"), else to that of the pattern
 * "*", which serves every type, else to other workers (see quern_mux_not_found). Build the mux on
 * one thread, then give it to workers; it must outlive them and must not be changed while one runs
 * (that is refused with QUERN_E_STATE). */
#ifndef QUERN_MUX_H
#define QUERN_MUX_H

#include "quern/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_mux quern_mux;

typedef enum quern_ack {
    QUERN_ACK_LATE = 0, /* the outcome is written after the run; a crash means another run */
    QUERN_ACK_EARLY = 1 /* done is written and confirmed before the run; a crash loses the rest */
} quern_ack;

typedef struct quern_handler_options {
    int32_t ack;              /* a quern_ack */
    int32_t prefetch_max;     /* runs fetched ahead per type; 0: measured; -1: none */
    quern_retry_policy retry; /* for tasks that bring none of their own */
    /* The delay before the next attempt of `task` after its retry_count retries, in ms; NULL: the
     * policy. Called on a pool thread. A negative answer means 0. */
    int64_t (*retry_delay_ms)(int64_t retry_count, const quern_task *task, void *user);
} quern_handler_options;

/* A command as handler, for tasks whose code is any executable; see quern_mux_exec. */
typedef struct quern_exec_options {
    size_t stdout_size_max; /* kept as result when the task has retention; 0: 1 MiB */
    size_t stderr_size_max; /* the last bytes kept for the error text; 0: 4 KiB */
    int64_t kill_after_ms;  /* from SIGTERM to SIGKILL of its process group; 0: 5 s */
    bool log_stderr;        /* the worker logs stderr of a command that succeeded, too */
    uint8_t reserved[7];    /* 0 */
} quern_exec_options;

/* An empty mux, for the caller to free. Errors: QUERN_E_NOMEM. */
QUERN_NODISCARD QUERN_API quern_status quern_mux_new(quern_mux **ret_mux, quern_error *err);
/* NULL is fine. Not while a worker uses it. */
QUERN_API void quern_mux_free(quern_mux *mux);

/* Registers `handler` for the types that `pattern` serves (1 to 256 bytes, copied). `user` is
 * passed to it as it is. options may be NULL. Errors: QUERN_E_CONFLICT (the pattern has one
 * already), QUERN_E_STATE (a worker runs), QUERN_E_FULL (65536 patterns). */
QUERN_NODISCARD static inline quern_status quern_mux_handle(quern_mux *mux, const char *pattern,
                                                            quern_handler handler, void *user,
                                                            const quern_handler_options *options,
                                                            quern_error *err);

/* Registers a shell command: `/bin/sh -c command` in a process group of its own, the payload on
 * stdin, QUERN_TASK_ID, QUERN_TASK_TYPE, QUERN_QUEUE, QUERN_RETRY_COUNT and QUERN_FENCE in its
 * environment, its stdout as result if the task has retention (cut at stdout_size_max, with a line
 * that says so, and a warning in the log), its exit code as verdict: 0 done,
 * 75 retry, 65 archive, other failure (retry). When the run is cancelled the group gets SIGTERM,
 * and SIGKILL after kill_after_ms. Death by a signal that nobody sent for us is a crash. A command
 * that cannot be started (no process, descriptor or memory) costs its task nothing: the run is
 * given back, and the worker fetches nothing for a moment. Errors as quern_mux_handle. */
QUERN_NODISCARD static inline quern_status quern_mux_exec(quern_mux *mux, const char *pattern,
                                                          const char *command,
                                                          const quern_exec_options *options,
                                                          quern_error *err);

/* Wraps every handler: calls `next(run, task, next_user)` when it sees fit, and returns an outcome.
 * The one added first is the outermost. Also wraps the not-found outcome. */
typedef quern_outcome (*quern_middleware)(quern_run *run, const quern_task *task,
                                          quern_handler next, void *next_user, void *user);
/* Errors: QUERN_E_STATE (a worker runs), QUERN_E_FULL (64 middlewares). */
QUERN_NODISCARD QUERN_API quern_status quern_mux_use(quern_mux *mux, quern_middleware middleware,
                                                     void *user, quern_error *err);

/* What becomes of a task that no pattern serves. Without this call a worker leaves it to others: it
 * goes to retry for 1 s, longer if nobody takes it (up to 30 s), and nothing is counted. With it
 * the middlewares are called, and the outcome is that of a run: QUERN_RETRY is what asynq does.
 * Errors: QUERN_E_STATE (a worker runs). */
QUERN_NODISCARD QUERN_API quern_status quern_mux_not_found(quern_mux *mux, quern_outcome outcome,
                                                           quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_mux_handle_sized(quern_mux *mux, const char *pattern,
                                                              quern_handler handler, void *user,
                                                              const quern_handler_options *options,
                                                              size_t options_size,
                                                              quern_error *err);
static inline quern_status quern_mux_handle(quern_mux *mux, const char *pattern,
                                            quern_handler handler, void *user,
                                            const quern_handler_options *options, quern_error *err)
{
    return quern_mux_handle_sized(mux, pattern, handler, user, options,
                                  sizeof(quern_handler_options), err);
}

QUERN_NODISCARD QUERN_API quern_status quern_mux_exec_sized(quern_mux *mux, const char *pattern,
                                                            const char *command,
                                                            const quern_exec_options *options,
                                                            size_t options_size, quern_error *err);
static inline quern_status quern_mux_exec(quern_mux *mux, const char *pattern, const char *command,
                                          const quern_exec_options *options, quern_error *err)
{
    return quern_mux_exec_sized(mux, pattern, command, options, sizeof(quern_exec_options), err);
}

#ifdef __cplusplus
}
#endif
#endif
