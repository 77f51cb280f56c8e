/* SPDX-License-Identifier: MIT */
/* task_info.h - the snapshot of a stored task, which inspectors and duplicates hand out. */
#ifndef QN_BROKER_TASK_INFO_H
#define QN_BROKER_TASK_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/view.h"
#include "quern/inspector.h"
#include "task/task.h"

/* The definition of quern_task_info. One block. */
struct quern_task_info {
    struct qn_task task;
    const void *result;
    size_t result_size;
    int64_t retry_count;
    int64_t crash_count;
    const char *error; /* "" when none */
    int64_t failed_at_ms;
    int64_t at_ms; /* by which its state is ordered, see the accessors of it; 0: none */
    int64_t enqueued_at_ms;
    int64_t started_at_ms;
    int64_t completed_at_ms;
    quern_cause cause;
    uint64_t fence;
    const char *worker; /* "" when none */
    bool orphaned;
    bool existing;         /* not the one that was to be stored */
    int64_t deleted_at_ms; /* 0: it is not in the trash */
    int32_t progress;      /* -1: none */
    const char *progress_note;
    int64_t lease_until_ms; /* wall clock; 0: none */
    int32_t cancel;         /* of its present run is asked for: an enum qn_cancel; of one task */
    struct qn_bytes runs;   /* its past ones as they are stored (task/past_runs.h) */
    /* The same, of a copy. */
    const quern_past_run *past_runs;
    size_t past_run_count;
};
/* A deep copy in one block; NULL when memory is out. Free with quern_task_info_free. */
QUERN_NODISCARD quern_task_info *qn_task_info_copy(const struct quern_task_info *info);

#endif
