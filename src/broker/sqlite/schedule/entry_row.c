/* SPDX-License-Identifier: MIT */
/* entry_row.c - the row of an entry, as the operations on it need it.
 *
 * Anybody can write to the file, so numbers are clamped where they are read; every operation reads
 * them here, and so with the same result. */
#include "broker/sqlite/schedule/entry_row.h"

#include "base/error.h"
#include "base/text/number.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/store/tables.h"

#define TRIM_EVERY 16 /* events; to count to 1 000 takes longer than all the rest of a tick */

int64_t qn_entry_row_column_s(sqlite3_stmt *row, int column)
{
    return qn_number_clamp(sqlite3_column_int64(row, column), 0, QN_MOMENT_MS_MAX / 1000);
}

quern_status qn_entry_row_find(struct qn_conn *conn, const char *queue, const char *name,
                               struct qn_entry_row *ret_row, quern_error *err)
{
    struct qn_entry_row row = {0};
    quern_status status = qn_tables_queue_no(conn, queue, false, &row.queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (row.queue_no != 0) {
        struct qn_query query = qn_query_start(conn, sql_entry_find);
        qn_query_int(&query, row.queue_no);
        qn_query_text(&query, name);
        row.found = qn_query_row(&query);
        if (row.found) {
            row.revision = (uint64_t)qn_query_column_sane(&query, 0);
            row.paused_at_ms = qn_query_column_moment_ms(query.statement, 1);
            row.last_s = qn_entry_row_column_s(query.statement, 2);
        }
        status = qn_query_finish(&query, err);
    }
    if (status == QUERN_OK) {
        *ret_row = row;
    }
    return status;
}

quern_status qn_entry_row_find_key(struct qn_conn *conn, const struct qn_entry_key *key,
                                   struct qn_entry_row *ret_row, quern_error *err)
{
    quern_status status = qn_entry_row_find(conn, key->queue, key->name, ret_row, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (!ret_row->found) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no entry \"%s\" in queue \"%s\"", key->name,
                            key->queue);
    }
    if (key->revision != QN_REVISION_ANY && key->revision != ret_row->revision) {
        return qn_error_set(err, QUERN_E_CONFLICT, "entry \"%s\" was changed meanwhile", key->name);
    }
    return QUERN_OK;
}

quern_status qn_entry_row_note_change(struct qn_conn *conn, int64_t *ret_revision, quern_error *err)
{
    quern_status status = qn_tables_numbers(conn, 1, ret_revision, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_leader_set_version);
    qn_query_int(&query, *ret_revision);
    return qn_query_run(&query, NULL, err);
}

static quern_status note(struct qn_conn *conn, const struct qn_entry_row *row, const char *name,
                         const struct qn_entry_event *event, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_tick_note);
    qn_query_int(&query, row->queue_no);
    qn_query_text(&query, name);
    qn_query_int(&query, event->number);
    qn_query_int(&query, event->tick_s);
    qn_query_int(&query, event->now_ms);
    qn_query_int(&query, event->what);
    qn_query_int(&query, event->skipped);
    qn_query_text(&query, event->id);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || event->number % TRIM_EVERY != 0) {
        return status;
    }
    query = qn_query_start(conn, sql_tick_trim);
    qn_query_int(&query, row->queue_no);
    qn_query_text(&query, name);
    qn_query_int(&query, QN_TICK_HISTORY_MAX);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_entry_row_advance(struct qn_conn *conn, const struct qn_entry_row *row,
                                  const char *name, const struct qn_entry_event *event,
                                  quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_entry_advance);
    qn_query_int(&query, row->queue_no);
    qn_query_text(&query, name);
    qn_query_int(&query, event->tick_s != 0 ? event->tick_s : row->last_s);
    qn_query_int(&query, event->id != NULL && event->what != QN_TICK_REPLACED ? 1 : 0);
    quern_status status = qn_query_run(&query, NULL, err);
    return status == QUERN_OK ? note(conn, row, name, event, err) : status;
}
