/* SPDX-License-Identifier: MIT */
/* enqueue.h - storing a task in a transaction that does more than that. */
#ifndef QN_BROKER_SQLITE_RUN_ENQUEUE_H
#define QN_BROKER_SQLITE_RUN_ENQUEUE_H

#include "broker/sqlite/sqlite.h"

struct qn_stored {
    struct qn_arena *arena; /* in: for the holder */
    quern_status result;    /* these two as those of struct qn_enqueue */
    const char *holder;
    bool wake; /* set if sleeping workers are to be woken after the commit, else not changed */
};
/* Stores a task as qn_sqlite_enqueue, within the transaction of `conn`. */
QUERN_NODISCARD quern_status qn_enqueue_store(struct qn_sqlite *self, struct qn_conn *conn,
                                              const struct qn_task *task, struct qn_stored *stored,
                                              quern_error *err);

#endif
