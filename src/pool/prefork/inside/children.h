/* SPDX-License-Identifier: MIT */
/* children.h - starting and ending the processes of a pool. With the mutex held, all of it. */
#ifndef QN_POOL_PREFORK_INSIDE_CHILDREN_H
#define QN_POOL_PREFORK_INSIDE_CHILDREN_H

#include "pool/prefork/inside/state.h"

int64_t qn_children_now_ms(void);
/* Wakes the pool's thread, if it sleeps. */
void qn_children_wake(struct qn_prefork *prefork);
/* The pool's thread looks at its timers at this moment at the latest. */
void qn_children_set_timer(struct qn_prefork *prefork, int64_t at_ms);
/* Starts as many as are missing, if it is time for that. Returns an errno if that was impossible,
 * else 0. Pool's thread. */
int qn_children_start(struct qn_prefork *prefork);
/* No child could be started: the next start waits, longer each time. */
void qn_children_back_off(struct qn_prefork *prefork);
/* Whether the first item of its window has started. */
bool qn_children_has_started(const struct qn_prefork_child *child);
/* Sends a signal to its group; nothing if it has no process yet, or no more. */
void qn_children_signal(const struct qn_prefork_child *child, int number);
/* Kills it and its group; hostile: a constant text, or NULL. */
void qn_children_kill(struct qn_prefork_child *child, const char *hostile);
/* It gets no more items; it ends when its window is empty. */
void qn_children_retire(struct qn_prefork_child *child);
/* Writes what waits for it. */
void qn_children_flush(struct qn_prefork_child *child);
/* It counts no longer as alive, so that another one is started. */
void qn_children_note_closing(struct qn_prefork_child *child);
/* Its socket is at its end: its process must end soon. If it has run nothing, the next start waits.
 */
void qn_children_close_socket(struct qn_prefork_child *child);
/* Closes all of it; freed by qn_children_free_ended. Its window must be empty. */
void qn_children_remove(struct qn_prefork_child *child);
/* When no event of a removed child is left. Pool's thread. */
void qn_children_free_removed(struct qn_prefork *prefork);

#endif
