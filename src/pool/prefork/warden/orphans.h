/* SPDX-License-Identifier: MIT */
/* orphans.h - the children that this process has, be they its own or what lost its parent:
 * a zygote, a guard and a warden are subreapers. */
#ifndef QN_POOL_PREFORK_WARDEN_ORPHANS_H
#define QN_POOL_PREFORK_WARDEN_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Calls `visit` for children that there are at present; returns for how many it was true. Of very
 * many it sees only the first, so it is called again until there is none. 0 also where the kernel
 * does not name them (CONFIG_PROC_CHILDREN). */
size_t qn_orphans_visit(bool (*visit)(pid_t pid, void *user), void *user);

#endif
