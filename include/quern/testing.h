/* SPDX-License-Identifier: MIT */
/* quern/testing.h - test your handlers without a broker, and control the clock.
 *
 * Part of libquern, but not included by quern.h. */
#ifndef QUERN_TESTING_H
#define QUERN_TESTING_H

#include "quern/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A clock that stands still until it is advanced. Any thread may advance or read it. It must
 * outlive every object that was opened with it. */
typedef struct quern_clock quern_clock;
/* The wall clock and the clock of leases start at at_ms, which must not be negative. Errors:
 * QUERN_E_INVALID, QUERN_E_NOMEM. */
QUERN_NODISCARD QUERN_API quern_status quern_clock_new(int64_t at_ms, quern_clock **ret_clock,
                                                       quern_error *err);
/* NULL is allowed here and below, and does nothing. */
QUERN_API void quern_clock_free(quern_clock *clock);
/* Advances time by `ms` (the wall clock and the clock of leases). */
QUERN_API void quern_clock_advance(quern_clock *clock, int64_t ms);
/* Sets the wall clock forward or back by `ms`, while no time passes for leases. */
QUERN_API void quern_clock_jump(quern_clock *clock, int64_t ms);

/* The result of a simulated run. */
typedef struct quern_test_run quern_test_run;
typedef struct quern_test_run_options {
    int64_t retry_count;
    int64_t crash_count;
    uint64_t fence;         /* 0: 1 */
    int64_t deadline_at_ms; /* 0: none */
    int32_t cause;          /* a quern_cause */
    bool cancelled;         /* the run is cancelled from the start */
    uint8_t reserved[3];    /* 0 */
} quern_test_run_options;
/* Calls `handler` once on this thread, as a worker would, with the defaults of `task` filled in as
 * at enqueue. *ret_run holds what the handler returned and wrote; the caller frees it. options may
 * be NULL. Errors: QUERN_E_INVALID (also for a task that could not be enqueued), QUERN_E_NOMEM. */
QUERN_NODISCARD static inline quern_status quern_test_run_handler(
    quern_handler handler, const quern_task *task, void *user,
    const quern_test_run_options *options, quern_test_run **ret_run, quern_error *err);
QUERN_API quern_outcome quern_test_run_outcome(const quern_test_run *run);
QUERN_API const char *quern_test_run_error(const quern_test_run *run); /* "": none */
/* Followed by a NUL; NULL and size 0 when none was written. */
QUERN_API const void *quern_test_run_result(const quern_test_run *run, size_t *ret_size);
QUERN_API int64_t quern_test_run_again_in_ms(const quern_test_run *run); /* -1: not set */
QUERN_API int32_t quern_test_run_progress(const quern_test_run *run);    /* -1: not set */
/* What the handler changes in its task with quern_run_change_*. The payload is followed by a NUL;
 * NULL: it stays as it is. */
QUERN_API const void *quern_test_run_payload(const quern_test_run *run, size_t *ret_size);
QUERN_API const char *quern_test_run_queue(const quern_test_run *run); /* NULL: it stays there */
QUERN_API int64_t quern_test_run_retry_max(const quern_test_run *run); /* -1: as it is; 0: none */
QUERN_API void quern_test_run_free(quern_test_run *run);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status
quern_test_run_handler_sized(quern_handler handler, const quern_task *task, size_t task_size,
                             void *user, const quern_test_run_options *options, size_t options_size,
                             quern_test_run **ret_run, quern_error *err);
static inline quern_status quern_test_run_handler(quern_handler handler, const quern_task *task,
                                                  void *user, const quern_test_run_options *options,
                                                  quern_test_run **ret_run, quern_error *err)
{
    return quern_test_run_handler_sized(handler, task, sizeof(quern_task), user, options,
                                        sizeof(quern_test_run_options), ret_run, err);
}

#ifdef __cplusplus
}
#endif
#endif
