/* SPDX-License-Identifier: MIT */
/* nursery.h - a quern_zygote as a worker uses it: the definition of the public object. */
#ifndef QN_WORKER_PREFORK_NURSERY_H
#define QN_WORKER_PREFORK_NURSERY_H

#include "pool/prefork/zygote.h"
#include "quern/zygote.h"

/* quern_zygote_serve, with the descriptor of qn_warden_start. */
QUERN_NODISCARD quern_status qn_nursery_serve(const quern_mux *mux, int warden_fd,
                                              quern_error *err);
/* Reserves it for a worker with this mux (NULL: that of the zygote), and returns the mux to use.
 * QUERN_E_INVALID: it serves another mux; QUERN_E_STATE: a worker has it, or had it;
 * QUERN_E_CLOSED: it belongs to the process that forked. */
QUERN_NODISCARD quern_status qn_nursery_claim(quern_zygote *zygote, const quern_mux *mux,
                                              const quern_mux **ret_mux, quern_error *err);
/* The worker that had claimed it was not made. */
void qn_nursery_unclaim(quern_zygote *zygote);
/* Whether both are programs that announced the same. */
bool qn_nursery_equal(const quern_zygote *zygote, const quern_zygote *other);
/* The process itself, the caller's from now on; NULL: it was taken before. */
struct qn_zygote *qn_nursery_take(quern_zygote *zygote);
/* Forks a second process, for the commands of its worker: quern_zygote_start does so where the mux
 * has both handlers and commands. QUERN_E_THREADS. */
QUERN_NODISCARD quern_status qn_nursery_add_commands(quern_zygote *zygote, quern_error *err);
/* The same for an executed zygote, which then forks it: where its mux has commands. Before that one
 * was taken. Errors as qn_zygote_fork_another. */
QUERN_NODISCARD quern_status qn_nursery_fork_commands(quern_zygote *zygote, quern_error *err);
/* That one, the caller's from now on; NULL: there is none, or it was taken before. */
struct qn_zygote *qn_nursery_take_for_commands(quern_zygote *zygote);

#endif
