/* SPDX-License-Identifier: MIT */
/* tree_limits.h - limits of processes that run already. */
#ifndef QN_POOL_EXEC_TREE_LIMITS_H
#define QN_POOL_EXEC_TREE_LIMITS_H

#include <stdint.h>
#include <sys/types.h>

/* For this process and its descendants, each with a count of its own, in place of those that were
 * set here before. cpu_ms: from now on, then SIGXCPU each second; memory_max: bytes of address
 * space. 0: none but the limit that it was started with. Best effort: a process that has gone, or
 * belongs to another user, is left. */
void qn_tree_limits_set(pid_t root, int64_t cpu_ms, uint64_t memory_max);

#endif
