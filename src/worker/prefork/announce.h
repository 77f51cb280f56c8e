/* SPDX-License-Identifier: MIT */
/* announce.h - what a program that serves as zygote tells its worker: its patterns and options. */
#ifndef QN_WORKER_PREFORK_ANNOUNCE_H
#define QN_WORKER_PREFORK_ANNOUNCE_H

#include "base/memory/view.h"
#include "base/text/buf.h"
#include "quern/mux.h"

/* QUERN_E_UNSUPPORTED: the mux has aggregators, which only a worker can call. */
QUERN_NODISCARD quern_status qn_announce_write(const quern_mux *mux, struct qn_buf *out,
                                               quern_error *err);
/* A mux with the same patterns, whose handlers can only be run by a child. The caller frees it.
 * QUERN_E_UNSUPPORTED: of another version of the library. */
QUERN_NODISCARD quern_status qn_announce_read(struct qn_bytes hello, quern_mux **ret_mux,
                                              quern_error *err);

#endif
