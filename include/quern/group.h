/* SPDX-License-Identifier: MIT */
/* quern/group.h - aggregators (your code), which make one task of the members of a group.
 *
 * A task with a group waits in state aggregating. When its group is due, a worker with an
 * aggregator for it (quern_mux_aggregate) takes the oldest tasks as a set, under a lease that is
 * extended while the aggregator runs, and calls the aggregator once. That stores the task it made
 * of them, in the same transaction that deletes the members. A crash at any moment leaves either
 * the members or the task, so the aggregator may be called again for members that it has seen.
 *
 * A worker whose mux has aggregators and no handlers takes no tasks. */
#ifndef QUERN_GROUP_H
#define QUERN_GROUP_H

#include "quern/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call of an aggregator; valid during the call. It is never NULL, and accessors do not check
 * it. Only the thread of the call uses it, except quern_aggregation_cancelled and
 * quern_aggregation_cancel_fd, which threads may use that the aggregator started and joins. */
typedef struct quern_aggregation quern_aggregation;

/* Makes one task of `count` members, the oldest first, 1 to 1000 and about 8 MiB at most. They live
 * until it returns. It stores its task by quern_aggregation_store and returns QUERN_DONE; or it
 * returns QUERN_DROP, and the members are deleted. After any other outcome the members go back to
 * their group, and so they do after QUERN_DONE if no task was stored. Then the group rests, for 1 s
 * at first and up to 1 minute if it fails again and again; the other groups go on. A worker calls
 * its aggregators one at a time, on a thread of their own. */
typedef quern_outcome (*quern_aggregator)(quern_aggregation *aggregation,
                                          const quern_task *const *members, size_t count,
                                          void *user);

typedef struct quern_group_options {
    int64_t grace_ms;     /* a group is due when no task has come for this long; at least 1 s; 0: 1
                           * minute */
    int64_t max_delay_ms; /* or when its oldest task has waited this long; 0: no limit */
    int64_t max_size;     /* or when it has this many tasks; 0: no limit. A set has no more, and
                           * never more than 1000 */
    int64_t timeout_ms;   /* the aggregator is cancelled after this; 0: 30 minutes;
                           * QUERN_TIMEOUT_NEVER: not */
} quern_group_options;

QUERN_API const char *quern_aggregation_queue(const quern_aggregation *aggregation);
QUERN_API const char *quern_aggregation_group(const quern_aggregation *aggregation);
/* True once the aggregator should end: a lost lease, its timeout, or shutdown. */
QUERN_API bool quern_aggregation_cancelled(const quern_aggregation *aggregation);
/* A descriptor for poll() that becomes readable when the call is cancelled; -1 if none can be made.
 * The aggregation owns it: never read from it or close it. */
QUERN_API int quern_aggregation_cancel_fd(quern_aggregation *aggregation);
/* Records the reason of a failure, for the log, and returns `outcome`. At most 4 KiB are kept.
 * format must not be NULL. */
QUERN_API quern_outcome quern_aggregation_fail(quern_aggregation *aggregation,
                                               quern_outcome outcome, const char *format, ...)
    QUERN_PRINTF(3, 4);
/* Stores `task` and deletes the members and their locks, which the task may take over, in one
 * transaction. Its queue is that of the group (NULL, or the same), and its group, if any, another
 * one. After an error nothing is changed and the members are still held, so another task may be
 * stored: QUERN_E_INVALID, QUERN_E_DUPLICATE, QUERN_E_CONFLICT, QUERN_E_FULL. QUERN_E_STALE: the
 * lease is lost. QUERN_E_STATE: a task was stored already. QUERN_E_UNSUPPORTED: what this broker
 * does not have, and on_duplicate. While the broker does not answer it waits, until the call is
 * cancelled: then it returns that error. */
QUERN_NODISCARD static inline quern_status quern_aggregation_store(quern_aggregation *aggregation,
                                                                   const quern_task *task,
                                                                   quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_aggregation_store_sized(quern_aggregation *aggregation,
                                                                     const quern_task *task,
                                                                     size_t task_size,
                                                                     quern_error *err);
static inline quern_status quern_aggregation_store(quern_aggregation *aggregation,
                                                   const quern_task *task, quern_error *err)
{
    return quern_aggregation_store_sized(aggregation, task, sizeof(quern_task), err);
}

#ifdef __cplusplus
}
#endif
#endif
