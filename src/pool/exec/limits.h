/* SPDX-License-Identifier: MIT */
/* limits.h - limits of a command, which the kernel enforces from its start. */
#ifndef QN_POOL_EXEC_LIMITS_H
#define QN_POOL_EXEC_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* 0: none. Each of its processes has its own count. */
struct qn_exec_limits {
    uint64_t address_space_bytes; /* RLIMIT_AS */
    uint64_t cpu_s;               /* RLIMIT_CPU: SIGXCPU, a second later KILL */
    bool no_new_privs;            /* no set-uid program gives it rights */
};

#endif
