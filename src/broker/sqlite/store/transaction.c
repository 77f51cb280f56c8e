/* SPDX-License-Identifier: MIT */
/* transaction.c - transactions of the SQLite broker.
 *
 * A writer first waits for the other threads of this process (writer_lock.c), then with BEGIN
 * IMMEDIATE for other processes, for command_timeout_ms each. Urgent writers (lease extension) go
 * before all others that wait. A commit that fails for lack of space has stored nothing; one that
 * fails with an I/O error may have: the caller gets QUERN_E_UNKNOWN and repeats the request with
 * the same stamp; the connection is reopened before that, so that it sees the real contents of the
 * file. A file that was removed or replaced meanwhile is refused until the program starts again. */
#include "broker/sqlite/store/transaction.h"

#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/cond.h"
#include "base/error.h"
#include "broker/sqlite/file/presence.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/open.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/sync.h"
#include "broker/sqlite/store/transaction_sql.h"
#include "broker/sqlite/store/writer_lock.h"

#define LONG_WAIT_NS INT64_C(100000000) /* few transactions of ours take that long */
#define REST_NS INT64_C(2000000000)     /* a live worker extends its leases within it */
#define REST_AGAIN_NS INT64_C(10000000000)

/* Writes to a file that no longer has its name are lost with this process. Another file of
 * that name is not ours either: its counter may give out tokens that this process holds. */
static quern_status check_place(struct qn_sqlite *self, quern_error *err)
{
    int moved = 0;
    if (self->writer.db != NULL &&
        sqlite3_file_control(self->writer.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) ==
            SQLITE_OK &&
        moved != 0) {
        return qn_error_set(err, QUERN_E_CONNECT,
                            "sqlite %s: the file was removed or replaced while in use: restart to "
                            "use the one that is there now",
                            self->path);
    }
    return QUERN_OK;
}

/* In memory all objects of the process have one. */
static struct qn_writer_lock *lock_of(struct qn_sqlite *self)
{
    return self->memory != NULL ? &self->memory->lock : &self->writer_lock;
}

static quern_status take_lock(struct qn_sqlite *self, bool urgent, quern_error *err)
{
    if (qn_writer_lock_take(lock_of(self), urgent, self->base.command_timeout_ms)) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_BUSY, "sqlite %s: other threads of this process kept it busy",
                        self->path);
}

/* A reader of a file works beside the writer; a reader of memory excludes it
 * (docs/internals/memory.md). */
static quern_status take_read_lock(struct qn_sqlite *self, quern_error *err)
{
    return self->memory != NULL ? take_lock(self, false, err) : QUERN_OK;
}

static void release_read_lock(struct qn_sqlite *self)
{
    if (self->memory != NULL) {
        qn_writer_lock_release(lock_of(self));
    }
}

/* The lock was held elsewhere for long. No lease could be extended meanwhile, so all may seem
 * expired: recovery gives live workers a moment to extend them. If locks are slow all the time,
 * only now and then. */
static void note_wait(struct qn_sqlite *self, int64_t asked_mono_ns, quern_status status)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t until_mono_ns = atomic_load(&self->rest_until_mono_ns);
    bool is_new =
        until_mono_ns == 0 || now_mono_ns - until_mono_ns > REST_AGAIN_NS || status == QUERN_E_BUSY;
    if (now_mono_ns - asked_mono_ns > LONG_WAIT_NS && is_new) {
        atomic_store(&self->rest_until_mono_ns, now_mono_ns + REST_NS);
    }
}

quern_status qn_transaction_begin(struct qn_sqlite *self, bool urgent, struct qn_conn **ret_conn,
                                  quern_error *err)
{
    int64_t asked_mono_ns = qn_clock_mono_ns();
    quern_status status = take_lock(self, urgent, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = check_place(self, err);
    if (status == QUERN_OK && self->writer.reopen) {
        qn_conn_close(&self->writer);
        status = qn_sqlite_open_writer(self, err);
        self->writer.reopen = status != QUERN_OK;
    }
    if (status == QUERN_OK) {
        qn_conn_limit(&self->writer, 0); /* waiting for locks has a limit of its own */
        struct qn_query begin = qn_query_start(&self->writer, sql_begin_write);
        status = qn_query_run(&begin, NULL, err);
        note_wait(self, asked_mono_ns, status);
        qn_conn_limit(&self->writer, QN_TRANSACTION_WRITE_MS_MAX);
    }
    if (status != QUERN_OK) {
        qn_writer_lock_release(lock_of(self));
        return status;
    }
    qn_sqlite_presence_note_beside(self);
    *ret_conn = &self->writer;
    return QUERN_OK;
}

/* SQLite rolls back on its own after some errors; then there is nothing left to do. */
static void roll_back(struct qn_conn *conn)
{
    qn_conn_limit(conn, 0);
    if (!sqlite3_get_autocommit(conn->db)) {
        struct qn_query query = qn_query_start(conn, sql_rollback);
        if (qn_query_run(&query, NULL, NULL) != QUERN_OK) {
            /* Closing rolls back, and needs no memory; an open transaction would keep the lock. */
            qn_conn_close(conn);
            conn->reopen = true;
        }
    }
}

quern_status qn_transaction_commit(struct qn_sqlite *self, quern_error *err)
{
    qn_conn_limit(&self->writer, 0);
    struct qn_query query = qn_query_start(&self->writer, sql_commit);
    (void)qn_query_row(&query);
    bool unknown = (query.code & 0xff) == SQLITE_IOERR;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        qn_sync_note(self);
    } else if (unknown && status != QUERN_E_FULL) {
        status = QUERN_E_UNKNOWN;
        if (err != NULL) {
            err->code = status;
        }
        self->writer.reopen = true;
    }
    if (status != QUERN_OK) {
        roll_back(&self->writer);
    }
    qn_writer_lock_release(lock_of(self));
    return status;
}

void qn_transaction_rollback(struct qn_sqlite *self)
{
    roll_back(&self->writer);
    qn_writer_lock_release(lock_of(self));
}

quern_status qn_transaction_read_begin(struct qn_sqlite *self, struct qn_conn **ret_conn,
                                       quern_error *err)
{
    pthread_mutex_lock(&self->read_mutex);
    quern_status status = take_read_lock(self, err);
    if (status != QUERN_OK) {
        pthread_mutex_unlock(&self->read_mutex);
        return status;
    }
    if (self->reader.reopen) {
        qn_conn_close(&self->reader);
        self->reader.reopen = false;
    }
    if (self->reader.db == NULL) {
        status = qn_sqlite_open_reader(self, err);
    }
    if (status == QUERN_OK) {
        qn_conn_limit(&self->reader, QN_TRANSACTION_READ_MS_MAX);
        struct qn_query query = qn_query_start(&self->reader, sql_begin_read);
        status = qn_query_run(&query, NULL, err);
    }
    if (status != QUERN_OK) {
        release_read_lock(self);
        pthread_mutex_unlock(&self->read_mutex);
        return status;
    }
    *ret_conn = &self->reader;
    return QUERN_OK;
}

void qn_transaction_read_end(struct qn_sqlite *self)
{
    roll_back(&self->reader);
    release_read_lock(self);
    pthread_mutex_unlock(&self->read_mutex);
}
