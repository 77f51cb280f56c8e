/* SPDX-License-Identifier: MIT */
/* loop_limits.h - what one run may use of a process that stays. */
#ifndef QN_CLI_LOOP_LOOP_LIMITS_H
#define QN_CLI_LOOP_LOOP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "quern/run.h"

/* 0: none. Those of the task come first, then the options of its handler. */
struct qn_loop_limits {
    int64_t kill_after_ms;
    int64_t cpu_ms;
    uint64_t memory_max;
    uint64_t memory_at_start; /* of the process: its handler's, which no task can raise */
};

struct qn_loop_limits qn_loop_limits_of(const quern_run *run, int64_t kill_after_ms);
/* Whether the kernel has ended a process with this status because of its CPU seconds: as a timeout,
 * that is no crash. */
bool qn_loop_limits_over_cpu(const struct qn_loop_limits *limits, int status);

/* Zeroed for each run. */
struct qn_loop_flood {
    int64_t from_mono_ns;
    int count; /* lines since then */
};

/* After each line of progress. Progress is for display only: a process that floods us with it is
 * not read for a while, or until the descriptor is readable. */
void qn_loop_flood_slow_down(struct qn_loop_flood *flood, int cancel_fd);

#endif
