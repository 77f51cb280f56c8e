/* SPDX-License-Identifier: MIT */
/* transaction.c - transactions of the SQLite broker, and the small pieces that operations share.
 *
 * A writer first waits at the gate for the other threads of this process, then with BEGIN IMMEDIATE
 * for other processes, for command_timeout_ms each. Urgent writers (lease
 * extension) pass all that wait. A commit that fails for lack of space has stored nothing; one that
 * fails with an I/O error may have: the caller is told QUERN_E_UNKNOWN, asks again with the same
 * stamp, and the connection is opened afresh before, so that it sees what is really in the file.
 * A file that was removed or replaced meanwhile is refused until the program starts again. */
#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/cond.h"
#include "base/error.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/transaction_sql.h"

#define LONG_WAIT_NS INT64_C(100000000) /* few transactions of ours take that long */
#define REST_NS INT64_C(2000000000)     /* who lives prolongs its leases within it */
#define REST_AGAIN_NS INT64_C(10000000000)

bool qn_gate_enter(struct qn_gate *gate, bool urgent, int64_t timeout_ms)
{
    pthread_mutex_lock(&gate->mutex);
    if (gate->taken || (!urgent && gate->urgent_waiting > 0)) {
        int64_t until_ns = qn_clock_mono_ns() + timeout_ms * INT64_C(1000000);
        bool in_time = true;
        gate->urgent_waiting += urgent ? 1 : 0;
        while ((gate->taken || (!urgent && gate->urgent_waiting > 0)) && in_time) {
            in_time = qn_cond_wait_until(&gate->freed, &gate->mutex, until_ns);
        }
        gate->urgent_waiting -= urgent ? 1 : 0;
    }
    bool entered = !gate->taken && (urgent || gate->urgent_waiting == 0);
    if (entered) {
        gate->taken = true;
    } else {
        /* One that gives up may have been the one that the others let pass. */
        pthread_cond_broadcast(&gate->freed);
    }
    pthread_mutex_unlock(&gate->mutex);
    return entered;
}

void qn_gate_leave(struct qn_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    QN_ASSERT(gate->taken);
    gate->taken = false;
    pthread_cond_broadcast(&gate->freed);
    pthread_mutex_unlock(&gate->mutex);
}

/* What is written to a file that no longer has its name is lost with this process. Another file of
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

/* Somebody kept the lock for long. Nobody could prolong a lease meanwhile, so all may look as if
 * they were over: recovery gives those who live a moment for that. Where locks are slow all the
 * time, only now and then. */
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

quern_status qn_sqlite_begin(struct qn_sqlite *self, bool urgent, struct qn_conn **ret_conn,
                             quern_error *err)
{
    int64_t asked_mono_ns = qn_clock_mono_ns();
    if (!qn_gate_enter(&self->gate, urgent, self->base.command_timeout_ms)) {
        return qn_error_set(err, QUERN_E_BUSY, "sqlite %s: other threads of this process kept it",
                            self->path);
    }
    quern_status status = check_place(self, err);
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
        qn_conn_limit(&self->writer, QN_SQLITE_STEP_MS_MAX);
    }
    if (status != QUERN_OK) {
        qn_gate_leave(&self->gate);
        return status;
    }
    qn_sqlite_presence_note_beside(self);
    *ret_conn = &self->writer;
    return QUERN_OK;
}

/* SQLite rolls back by itself after some errors; then there is nothing left to do. */
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

quern_status qn_sqlite_commit(struct qn_sqlite *self, quern_error *err)
{
    qn_conn_limit(&self->writer, 0);
    struct qn_query query = qn_query_start(&self->writer, sql_commit);
    (void)qn_query_row(&query);
    bool unknown = (query.code & 0xff) == SQLITE_IOERR;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        qn_syncer_note(self);
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
    qn_gate_leave(&self->gate);
    return status;
}

void qn_sqlite_rollback(struct qn_sqlite *self)
{
    roll_back(&self->writer);
    qn_gate_leave(&self->gate);
}

quern_status qn_sqlite_read_begin(struct qn_sqlite *self, struct qn_conn **ret_conn,
                                  quern_error *err)
{
    pthread_mutex_lock(&self->read_mutex);
    quern_status status = QUERN_OK;
    if (self->reader.reopen) {
        qn_conn_close(&self->reader);
        self->reader.reopen = false;
    }
    if (self->reader.db == NULL) {
        status = qn_sqlite_open_reader(self, err);
    }
    if (status == QUERN_OK) {
        qn_conn_limit(&self->reader, QN_SQLITE_LOOK_MS_MAX);
        struct qn_query query = qn_query_start(&self->reader, sql_begin_read);
        status = qn_query_run(&query, NULL, err);
    }
    if (status != QUERN_OK) {
        pthread_mutex_unlock(&self->read_mutex);
        return status;
    }
    *ret_conn = &self->reader;
    return QUERN_OK;
}

void qn_sqlite_read_end(struct qn_sqlite *self)
{
    roll_back(&self->reader);
    pthread_mutex_unlock(&self->read_mutex);
}

quern_status qn_sqlite_queue_no(struct qn_conn *conn, const char *name, bool create,
                                int64_t *ret_no, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_queue_find);
    qn_query_text(&query, name);
    int64_t no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && no == 0 && create) {
        query = qn_query_start(conn, sql_queue_make);
        qn_query_text(&query, name);
        no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        status = qn_query_finish(&query, err);
    }
    if (status == QUERN_OK) {
        *ret_no = no;
    }
    return status;
}

quern_status qn_sqlite_numbers(struct qn_conn *conn, size_t count, int64_t *ret_first,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_numbers);
    qn_query_int(&query, (int64_t)count);
    int64_t last = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && last == 0 && count > 0) {
        status = qn_error_set(err, QUERN_E_CORRUPT, "sqlite %s: quern_meta has lost its row",
                              conn->path);
    }
    if (status == QUERN_OK) {
        *ret_first = last - (int64_t)count + 1;
    }
    return status;
}

quern_status qn_sqlite_next_due(struct qn_conn *conn, int64_t queue_no, int64_t *ret_due_at_ms,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_next_due);
    qn_query_int(&query, queue_no);
    int64_t due_at_ms = qn_query_row(&query) ? qn_column_moment_ms(query.statement, 0) : INT64_MAX;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK) {
        *ret_due_at_ms = due_at_ms;
    }
    return status;
}

quern_status qn_sqlite_lock_free(struct qn_conn *conn, const char *key, int64_t queue_no,
                                 const char *id, quern_error *err)
{
    if (key == NULL) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_lock_free);
    qn_query_text(&query, key);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, id);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_sqlite_session_find(struct qn_conn *conn, struct qn_stamp stamp, void *reply,
                                    size_t reply_size, bool *ret_known, quern_error *err)
{
    *ret_known = false;
    if (stamp.sequence == 0 || QN_BUG(REPLAY_IGNORED)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_session_find);
    qn_query_int(&query, (int64_t)stamp.session);
    uint64_t last = 0;
    bool fits = false;
    if (qn_query_row(&query)) {
        last = (uint64_t)sqlite3_column_int64(query.statement, 0);
        const void *stored = sqlite3_column_blob(query.statement, 1);
        fits = (size_t)sqlite3_column_bytes(query.statement, 1) == reply_size;
        if (last == stamp.sequence && fits && reply_size > 0) {
            memcpy(reply, stored, reply_size);
        }
    }
    quern_status status = qn_query_finish(&query, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (last > stamp.sequence || (last == stamp.sequence && !fits)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "request %llu of this session is not the one that was sent before",
                            (unsigned long long)stamp.sequence);
    }
    *ret_known = last == stamp.sequence;
    return QUERN_OK;
}

quern_status qn_sqlite_session_keep(struct qn_conn *conn, struct qn_stamp stamp, int64_t now_ms,
                                    const void *reply, size_t reply_size, quern_error *err)
{
    if (stamp.sequence == 0) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_session_keep);
    qn_query_int(&query, (int64_t)stamp.session);
    qn_query_int(&query, (int64_t)stamp.sequence);
    qn_query_blob(&query, reply, reply_size);
    qn_query_int(&query, now_ms);
    return qn_query_run(&query, NULL, err);
}
