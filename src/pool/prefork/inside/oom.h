/* SPDX-License-Identifier: MIT */
/* oom.h - whether the kernel has killed a process of our cgroup for want of memory. */
#ifndef QN_POOL_PREFORK_INSIDE_OOM_H
#define QN_POOL_PREFORK_INSIDE_OOM_H

#include <stdint.h>

/* How often since the cgroup was made, as cgroup v2 (memory.events), else v1 (memory.oom_control),
 * else the whole machine (/proc/vmstat) counts it; 0: none can be read. cgroup_fd: the directory of
 * the processes in question; 0 or -1: that of this process. */
uint64_t qn_oom_count(int cgroup_fd);

#endif
