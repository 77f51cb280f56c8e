/* SPDX-License-Identifier: MIT */
/* ending.h - the end of a child: who is charged, and why it died. Pool's thread, with the mutex
 * held, which is let go while ops are called. */
#ifndef QN_POOL_PREFORK_INSIDE_ENDING_H
#define QN_POOL_PREFORK_INSIDE_ENDING_H

#include "pool/prefork/inside/state.h"

/* All that it sent was read. Calls `died` for its items, the head first, and removes it. */
void qn_ending_finish(struct qn_prefork_child *child);
/* `died`, not started, for all items of a list. */
void qn_ending_give_up(struct qn_prefork *prefork, struct qn_list *items);
/* No child could be made, or it ended before it was ready: calls ops.failed without the mutex. */
void qn_ending_failed(struct qn_prefork *prefork, pid_t pid, const char *why);
/* level: of quern/log.h */
void qn_ending_log(struct qn_prefork *prefork, int level, const char *message, pid_t pid,
                   const char *detail);

#endif
