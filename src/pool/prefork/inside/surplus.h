/* SPDX-License-Identifier: MIT */
/* surplus.h - the children that are too many after the pool has become smaller. */
#ifndef QN_POOL_PREFORK_INSIDE_SURPLUS_H
#define QN_POOL_PREFORK_INSIDE_SURPLUS_H

#include "pool/prefork/inside/state.h"

/* With the mutex held, on the thread of the pool: they get no more items. Those that are idle end
 * at once, and first; the others after the item that they run. */
void qn_surplus_retire(struct qn_prefork *prefork);

#endif
