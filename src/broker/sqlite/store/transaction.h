/* SPDX-License-Identifier: MIT */
/* transaction.h - writing and reading transactions.
 *
 * There is one writing connection, so that the threads of a process write one transaction after the
 * other; the writer lock before it lets urgent callers (lease extension) go first. Reading is on a
 * second connection, so that a long listing never delays the pump; in memory, however, the two take
 * turns (docs/internals/memory.md). */
#ifndef QN_BROKER_SQLITE_STORE_TRANSACTION_H
#define QN_BROKER_SQLITE_STORE_TRANSACTION_H

#include "broker/sqlite/sqlite.h"

/* How long the statements of one transaction may take. No honest file needs a fraction of that; in
 * a crafted one the pages can form a maze. */
#define QN_TRANSACTION_WRITE_MS_MAX 60000
#define QN_TRANSACTION_READ_MS_MAX 300000 /* a listing may read all tasks */

/* Waits for the writer lock and begins a transaction (BEGIN IMMEDIATE). On success the caller must
 * end it with commit or rollback, in the same thread. QUERN_E_BUSY after command_timeout_ms. */
QUERN_NODISCARD quern_status qn_transaction_begin(struct qn_sqlite *self, bool urgent,
                                                  struct qn_conn **ret_conn, quern_error *err);
/* Ends the transaction and releases the writer lock in any case. On failure nothing was changed,
 * except with QUERN_E_UNKNOWN. */
QUERN_NODISCARD quern_status qn_transaction_commit(struct qn_sqlite *self, quern_error *err);
void qn_transaction_rollback(struct qn_sqlite *self);

/* Locks the reading connection and begins a read transaction: one snapshot until read_end. Never
 * call it between begin and commit. */
QUERN_NODISCARD quern_status qn_transaction_read_begin(struct qn_sqlite *self,
                                                       struct qn_conn **ret_conn, quern_error *err);
void qn_transaction_read_end(struct qn_sqlite *self);

#endif
