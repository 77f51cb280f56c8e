/* SPDX-License-Identifier: MIT */
/* pass_on.h - a pool of children that survives the program of its worker. */
#ifndef QN_POOL_PREFORK_INSIDE_PASS_ON_H
#define QN_POOL_PREFORK_INSIDE_PASS_ON_H

#include "pool/prefork/inside/state.h"

/* As qn_prefork_describe. */
QUERN_NODISCARD bool qn_pass_on_write(struct qn_prefork *prefork, struct qn_buf *out,
                                      struct qn_buf *fds,
                                      uint64_t (*key)(const struct qn_prefork_item *item));
/* Adds the zygotes and children of the pool before, which has no thread yet. On failure what was
 * added already stays. */
QUERN_NODISCARD quern_status qn_pass_on_read(struct qn_prefork *prefork,
                                             const struct qn_prefork_passed_on *passed_on,
                                             quern_error *err);
/* Frees the children of a pool without a thread; their processes and descriptors stay as they are.
 */
void qn_pass_on_forget(struct qn_prefork *prefork);

#endif
