/* SPDX-License-Identifier: MIT */
/* receive.h - what comes from a child. Pool's thread, with the mutex held, which is let go while
 * ops are called. */
#ifndef QN_POOL_PREFORK_INSIDE_RECEIVE_H
#define QN_POOL_PREFORK_INSIDE_RECEIVE_H

#include "pool/prefork/inside/state.h"

/* Its socket is readable. */
void qn_receive_some(struct qn_prefork_child *child);
/* The child has ended: all that it sent before, and the end of its stderr. */
void qn_receive_rest(struct qn_prefork_child *child);
/* Its stderr is readable. */
void qn_receive_stderr(struct qn_prefork_child *child);
/* It has sent READY, and its process is known: it may get items. */
void qn_receive_ready(struct qn_prefork_child *child);
/* One frame. False: it breaks the rules, and the child was killed. */
bool qn_receive_frame(struct qn_prefork_child *child, const struct qn_frame_header *header,
                      struct qn_bytes body);

#endif
