/* SPDX-License-Identifier: MIT */
/* quern/run.h - handlers (your code) and the run that is passed to them.
 *
 * A run is one attempt of one task. It is valid only during the call of the handler. It is never
 * NULL, and accessors do not check it. All functions here may be called from the handler's thread;
 * quern_run_cancelled and quern_run_cancel_fd also from threads that the handler started and joins
 * before it returns. */
#ifndef QUERN_RUN_H
#define QUERN_RUN_H

#include "quern/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_outcome {
    QUERN_DONE = 0,    /* finished: deleted, or kept with its result for retention_ms */
    QUERN_RETRY = 1,   /* failed: run again later, or archived when the attempts are used up */
    QUERN_ARCHIVE = 2, /* failed for good: archived now */
    QUERN_DROP = 3,    /* no longer wanted: deleted now, not counted as a failure */
    QUERN_SNOOZE = 4   /* not a failure: run again later, see quern_run_again_in */
} quern_outcome;

typedef struct quern_run quern_run;

/* Runs one task. `task` and everything it points to live until the handler returns; its delay_ms is
 * 0, and process_at_ms is the moment at which the task became due. `user` is the registered
 * pointer. Any other outcome than those above counts as QUERN_RETRY and is reported as such. */
typedef quern_outcome (*quern_handler)(quern_run *run, const quern_task *task, void *user);

QUERN_API const char *quern_run_task_id(const quern_run *run);
QUERN_API const char *quern_run_queue(const quern_run *run);
QUERN_API int64_t quern_run_retry_count(const quern_run *run);
QUERN_API int64_t quern_run_crash_count(const quern_run *run);
QUERN_API quern_cause quern_run_cause(const quern_run *run);
/* Grows over all runs of a broker: store it in your own database, to refuse a run that was
 * overtaken by a later one ("UPDATE ... WHERE fence < ?"). */
QUERN_API uint64_t quern_run_fence(const quern_run *run);
/* When this attempt is cancelled: the earlier of its timeout and the task's deadline; 0: never. */
QUERN_API int64_t quern_run_deadline_at_ms(const quern_run *run);
/* The trace of this run, for quern_task.traceparent and tracestate of tasks that its handler
 * enqueues, and for other calls that it makes: those of its task's headers, if they are valid. "":
 * it has none. They live as long as the task. */
QUERN_API const char *quern_run_traceparent(const quern_run *run);
QUERN_API const char *quern_run_tracestate(const quern_run *run);

/* True once the run should end: timeout, deadline, a lost lease, a cancellation, or shutdown. */
QUERN_API bool quern_run_cancelled(const quern_run *run);
/* A descriptor for poll() that becomes readable when the run is cancelled; -1 if none can be made.
 * The run owns it: never read from it or close it. */
QUERN_API int quern_run_cancel_fd(quern_run *run);
/* Why the run was cancelled: "timeout", "deadline exceeded", "lease lost", "cancelled", "shutdown";
 * "" if it is not. */
QUERN_API const char *quern_run_cancel_reason(const quern_run *run);

/* Replaces the task's result. It is stored at once, so that it survives a crash of the handler, and
 * kept after the run only if the task has retention_ms. data may be NULL when size is 0. Errors:
 * QUERN_E_INVALID (more than 512 MiB), QUERN_E_STALE (the lease is lost), broker errors. */
QUERN_NODISCARD QUERN_API quern_status quern_run_write_result(quern_run *run, const void *data,
                                                              size_t size, quern_error *err);
/* Reports how far the run is: percent 0 to 100 and a note of at most 256 bytes of UTF-8 (NULL:
 * none). The status may be ignored: progress is for display only. Errors: QUERN_E_INVALID,
 * QUERN_E_STALE, broker errors. */
QUERN_API quern_status quern_run_write_progress(quern_run *run, int32_t percent, const char *note,
                                                quern_error *err);
/* Records the reason of a failure, for the retry list and the inspector, and returns `outcome`. At
 * most 4 KiB are kept; bytes that are not UTF-8 are replaced. If the run was cancelled, the cause
 * stands before the reason: "timeout of 700ms: REASON", "cancelled: REASON". With QUERN_SNOOZE it
 * is kept, too, while nothing counts as failed. format must not be NULL. */
QUERN_API quern_outcome quern_run_fail(quern_run *run, quern_outcome outcome, const char *format,
                                       ...) QUERN_PRINTF(3, 4);
/* Sets the class of the failure that this run ends with, for the lists no_retry and only_retry of
 * its handler and for its on_error: a short name such as "http/503" (copied; 1 to 64 bytes without
 * spaces; another one, or NULL, means none). Without it the class of a run that was cancelled is
 * "timeout", "deadline" or "cancelled", that of a crash "crash", that of a command "exit/CODE";
 * others have none. */
QUERN_API void quern_run_set_error_class(quern_run *run, const char *error_class);
/* Sets when the task runs again if this run ends with QUERN_SNOOZE or QUERN_RETRY (a retry then
 * ignores the retry policy). Without it a snooze is 1 s. Negative means 0. Returns QUERN_SNOOZE,
 * for `return quern_run_again_in(run, 5000);`. */
QUERN_API quern_outcome quern_run_again_in(quern_run *run, int64_t delay_ms);
/* The same with a moment, in ms since 1970; one that is over means now. */
QUERN_API quern_outcome quern_run_again_at(quern_run *run, int64_t at_ms);

/* A checkpoint: what the next run of the task finds changed. It is written in one step with the
 * outcome of this run, and only if that is QUERN_RETRY or QUERN_SNOOZE, or if the run is given back
 * as its worker ends; so a run that dies or loses its lease changes nothing. The last call of each
 * kind counts. Errors: QUERN_E_INVALID, QUERN_E_NOMEM; then what was set before still holds. */

/* The payload, copied; data may be NULL when size is 0. At most 512 MiB. A unique task keeps the
 * lock that it has: it is that of the payload with which it was enqueued. */
QUERN_NODISCARD QUERN_API quern_status quern_run_change_payload(quern_run *run, const void *data,
                                                                size_t size, quern_error *err);
/* The queue where it waits for its next run; its lock, if it has one, goes with it. If there is a
 * task with its id or its lock, it stays in its queue, with the other changes, and a warning is
 * logged. It also stays if it is archived. If the run is given back, it goes there all the same,
 * and is due at once. In the old queue nothing is left of it: a client that waits for it there gets
 * QUERN_E_NOT_FOUND. */
QUERN_NODISCARD QUERN_API quern_status quern_run_change_queue(quern_run *run, const char *queue,
                                                              quern_error *err);
/* As quern_task.retry_max; if this run fails, that counts. */
QUERN_NODISCARD QUERN_API quern_status quern_run_change_retry_max(quern_run *run, int64_t retry_max,
                                                                  quern_error *err);

#ifdef __cplusplus
}
#endif
#endif
