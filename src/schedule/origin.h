/* SPDX-License-Identifier: MIT */
/* origin.h - makes the stored entries of one origin (a program, a file) equal to a given set. */
#ifndef QN_SCHEDULE_ORIGIN_H
#define QN_SCHEDULE_ORIGIN_H

#include "base/log.h"
#include "broker/schedule/schedule.h"

struct qn_origin {
    const char *name; /* "code:PROGRAM", "file:PATH"; that of all entries below */
    const struct qn_schedule_entry *entries;
    size_t count;
    const char *const *kept; /* names that stay as they are stored, as their new text is wrong;
                              * "": all stay */
    size_t kept_count;
    bool allow_empty; /* an empty set may replace one that is not empty */
};

/* Adds what is not stored, changes what differs, removes the rest of this origin. An entry that is
 * equal is not touched. A name that another origin has in the queue is left to it, and logged. An
 * entry whose queue has changed keeps its last tick. ret_done: false: another scheduler changed
 * entries meanwhile: try again. */
QUERN_NODISCARD quern_status qn_origin_sync(struct qn_broker *broker, struct qn_log *log,
                                            const struct qn_origin *origin, bool *ret_done,
                                            quern_error *err);
/* Equal for equal sets. */
uint64_t qn_origin_hash(const struct qn_origin *origin);

#endif
