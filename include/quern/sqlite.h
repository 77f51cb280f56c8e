/* SPDX-License-Identifier: MIT */
/* quern/sqlite.h - tasks inside your own SQLite transaction.
 *
 * If your program keeps its data in an SQLite file, the tasks can be stored in the same file. A
 * task is then stored exactly when your transaction commits. Prepare the file once with `quern db
 * init FILE`, which adds tables named quern_* to yours. */
#ifndef QUERN_SQLITE_H
#define QUERN_SQLITE_H

#include <sqlite3.h>

#include "quern/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stores tasks through `db`, the caller's connection to the file that `client` has open, inside the
 * transaction that the caller has begun there (best with BEGIN IMMEDIATE). They are committed or
 * rolled back with it. `db` is used only during the call, by this thread. After COMMIT call
 * quern_client_wake(client). results may be NULL. Errors as quern_client_enqueue_batch, and
 * QUERN_E_STATE (`db` is not in a transaction), QUERN_E_INVALID (`db` has another file open),
 * QUERN_E_UNSUPPORTED (a client of Redis or of "memory:"). quern's own connections run no triggers
 * and views of the file; yours keeps your settings, so a trigger on a quern_* table runs here
 * (`quern doctor` names it). */
QUERN_NODISCARD static inline quern_status quern_client_enqueue_tx(
    quern_client *client, sqlite3 *db, const quern_task *tasks, size_t count,
    quern_enqueue_result *results, quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_client_enqueue_tx_sized(
    quern_client *client, sqlite3 *db, const quern_task *tasks, size_t task_size, size_t count,
    quern_enqueue_result *results, quern_error *err);
static inline quern_status quern_client_enqueue_tx(quern_client *client, sqlite3 *db,
                                                   const quern_task *tasks, size_t count,
                                                   quern_enqueue_result *results, quern_error *err)
{
    return quern_client_enqueue_tx_sized(client, db, tasks, sizeof(quern_task), count, results,
                                         err);
}

#ifdef __cplusplus
}
#endif
#endif
