/* SPDX-License-Identifier: MIT */
/* unknown.h - leaves tasks of types that this worker cannot run to other workers.
 *
 * Guarded by plan_mutex. */
#ifndef QN_WORKER_FETCH_UNKNOWN_H
#define QN_WORKER_FETCH_UNKNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

struct quern_run;
struct quern_worker;

#define QN_UNKNOWN_TYPES_MAX 64

/* A type that was met here, for the log. */
struct qn_unknown_type {
    char *type;             /* owned */
    uint64_t aside_count;   /* since it was logged last */
    int64_t log_at_mono_ns; /* when a warning may be written again */
};

struct qn_unknown {
    struct qn_random random;
    uint64_t *seen;             /* a table of tasks; NULL until one is met */
    int64_t hold_until_mono_ns; /* until when nothing is fetched */
    int64_t back_at_mono_ns;    /* when the last of those put aside is to come back */
    struct qn_unknown_type types[QN_UNKNOWN_TYPES_MAX];
    size_t type_count;
};

void qn_unknown_init(struct qn_unknown *unknown);
/* At the start: logs which types this worker takes. */
void qn_unknown_log_served(struct quern_worker *worker);
void qn_unknown_finish(struct qn_unknown *unknown);
/* Whether a run that was just leased, and is not in the run table yet, is to be left to others:
 * then its verdict is set. Writes to the log. */
bool qn_unknown_judge(struct qn_unknown *unknown, struct quern_worker *worker,
                      struct quern_run *run, int64_t now_mono_ns);

#endif
