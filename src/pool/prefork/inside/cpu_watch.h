/* SPDX-License-Identifier: MIT */
/* cpu_watch.h - finds a child whose item goes on beyond its limit of CPU time. With the mutex held.
 *
 * The child limits itself before the item: at the end of its time it gets SIGXCPU. That limit is a
 * soft one, which the code of the item may raise, and the signal can be blocked or ignored. So the
 * pool looks at its processor time as well, and kills it a second later. */
#ifndef QN_POOL_PREFORK_INSIDE_CPU_WATCH_H
#define QN_POOL_PREFORK_INSIDE_CPU_WATCH_H

#include "pool/prefork/inside/state.h"

/* The head of its window begins. */
void qn_cpu_watch_begin(struct qn_prefork_child *child);
/* It has ended. */
void qn_cpu_watch_end(struct qn_prefork_child *child);
/* Looks if it is time for that; true: the item has used too much. When to look again is in
 * cpu_look_at_ms. */
bool qn_cpu_watch_is_over(struct qn_prefork_child *child, int64_t now_ms);

#endif
