/* SPDX-License-Identifier: MIT */
/* window.h - which child gets which item. With the mutex held, unless another promise is made. */
#ifndef QN_POOL_PREFORK_INSIDE_WINDOW_H
#define QN_POOL_PREFORK_INSIDE_WINDOW_H

#include "pool/prefork/inside/state.h"

/* Gives waiting items to children that have room. Pool's thread; lets go of the mutex while it
 * calls ops. */
void qn_window_fill(struct qn_prefork *prefork);
/* Takes an item out of the window of its child; false: it has started, or is about to. */
bool qn_window_take(struct qn_prefork_item *item);
/* Puts all that have not started in front of the waiting ones. */
void qn_window_take_all(struct qn_prefork_child *child);
/* Forgets the item at this place, which has ended. */
void qn_window_remove(struct qn_prefork_child *child, uint32_t place);
/* It was removed too early: it is the head again. */
void qn_window_put_back(struct qn_prefork_child *child, struct qn_prefork_item *item,
                        uint32_t slot);
/* The head has ended: the next one begins, or the child has room, or may end. Pool's thread; lets
 * go of the mutex while it calls ops. */
void qn_window_advance(struct qn_prefork_child *child);

#endif
