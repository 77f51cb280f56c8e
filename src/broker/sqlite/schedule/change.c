/* SPDX-License-Identifier: MIT */
/* change.c - removes, pauses and resumes entries. */
#include "base/error.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/transaction.h"

static quern_status remove_entry(struct qn_conn *conn, const struct qn_entry_key *key,
                                 quern_error *err)
{
    struct qn_entry_row row;
    int64_t revision = 0;
    quern_status status = qn_entry_row_find_key(conn, key, &row, err);
    if (status == QUERN_OK) {
        status = qn_entry_row_note_change(conn, &revision, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_entry_remove);
    qn_query_int(&query, row.queue_no);
    qn_query_text(&query, key->name);
    return qn_query_run(&query, NULL, err);
}

static quern_status end_transaction(struct qn_sqlite *self, quern_status status, quern_error *err)
{
    if (status == QUERN_OK) {
        return qn_transaction_commit(self, err);
    }
    qn_transaction_rollback(self);
    return status;
}

quern_status qn_sqlite_schedule_remove(struct qn_broker *broker, const struct qn_entry_key *key,
                                       quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    return status != QUERN_OK ? status : end_transaction(self, remove_entry(conn, key, err), err);
}

static int64_t last_after(const struct qn_entry_row *row, enum qn_entry_pause what, int64_t now_s)
{
    switch (what) {
    case QN_ENTRY_RESUME:
        return row->last_s > now_s ? row->last_s : now_s;
    case QN_ENTRY_RESET:
        return now_s;
    case QN_ENTRY_PAUSE:
    case QN_ENTRY_CATCH_UP:
        break;
    }
    return row->last_s;
}

static quern_status change_pause(struct qn_conn *conn, const struct qn_entry_key *key,
                                 enum qn_entry_pause what, int64_t now_ms, quern_error *err)
{
    struct qn_entry_row row;
    int64_t revision = 0;
    bool pause = what == QN_ENTRY_PAUSE;
    quern_status status = qn_entry_row_find_key(conn, key, &row, err);
    if (status != QUERN_OK) {
        return status;
    }
    if ((row.paused_at_ms != 0) == pause && what != QN_ENTRY_RESET) {
        return qn_error_set(err, QUERN_E_STATE, "entry \"%s\" is %s", key->name,
                            pause ? "already paused" : "not paused");
    }
    status = qn_entry_row_note_change(conn, &revision, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_entry_pause);
    qn_query_int(&query, row.queue_no);
    qn_query_text(&query, key->name);
    qn_query_int(&query, pause ? now_ms : 0);
    qn_query_int(&query, last_after(&row, what, now_ms / 1000));
    /* A tick that was planned before a pause is then refused as paused, not as changed. */
    qn_query_int(&query, pause ? (int64_t)row.revision : revision);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_sqlite_schedule_pause(struct qn_broker *broker, const struct qn_entry_key *key,
                                      enum qn_entry_pause what, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t now_ms = qn_clock_wall_ms(broker->clock);
    return end_transaction(self, change_pause(conn, key, what, now_ms, err), err);
}
