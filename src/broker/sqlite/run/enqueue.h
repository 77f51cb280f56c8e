/* SPDX-License-Identifier: MIT */
/* enqueue.h - storing tasks in a transaction that does more than that. */
#ifndef QN_BROKER_SQLITE_RUN_ENQUEUE_H
#define QN_BROKER_SQLITE_RUN_ENQUEUE_H

#include "broker/sqlite/sqlite.h"

/* As qn_sqlite_enqueue within the transaction of `conn`, without stamp. Sets *ret_wake if sleeping
 * workers are to be woken after the commit, and leaves it alone otherwise. */
QUERN_NODISCARD quern_status qn_enqueue_store(struct qn_sqlite *self, struct qn_conn *conn,
                                              const struct qn_enqueue *enqueue, bool *ret_wake,
                                              quern_error *err);

#endif
