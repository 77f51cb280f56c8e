/* SPDX-License-Identifier: MIT */
/* generations.h - the zygotes of a pool: the one that new children come from, and older ones whose
 * children still run. Pool's thread, with the mutex held, which is let go while ops are called. */
#ifndef QN_POOL_PREFORK_INSIDE_GENERATIONS_H
#define QN_POOL_PREFORK_INSIDE_GENERATIONS_H

#include "pool/prefork/inside/state.h"

/* New children come from this zygote. On failure it stays the caller's. */
QUERN_NODISCARD quern_status qn_generations_add(struct qn_prefork *prefork,
                                                struct qn_zygote *zygote, quern_error *err);
struct qn_generation *qn_generations_newest(struct qn_prefork *prefork);
/* Handles all events of its zygote. */
void qn_generations_read(struct qn_prefork *prefork, struct qn_generation *generation);
/* Uses the zygote of a reload, and frees old ones that have no children left. */
void qn_generations_take_next(struct qn_prefork *prefork);
/* An older zygote, without children yet. It is freed on failure. */
QUERN_NODISCARD quern_status qn_generations_add_old(struct qn_prefork *prefork,
                                                    struct qn_zygote *take_zygote,
                                                    struct qn_generation **ret_generation,
                                                    quern_error *err);
/* Frees both, and lets the zygote live. */
void qn_generations_forget(struct qn_prefork *prefork, struct qn_generation *generation);
/* Ends the zygote, and frees both. */
void qn_generations_free(struct qn_prefork *prefork, struct qn_generation *generation);

#endif
