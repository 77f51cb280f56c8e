/* SPDX-License-Identifier: MIT */
/* standing.c - where a task stands: how many are before it, its charges, the solo lock of its
 * queue, the record of its worker, its group. In one read transaction. */
#include "broker/standing/standing.h"

#include <stdio.h>

#include "broker/owner.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/standing_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

/* The columns of its row that other statements need. */
struct row {
    int64_t queue_no;
    int64_t place;
    int64_t worker; /* of an aggregating task its set */
    bool is_charged;
    char lane[2 * QN_NAME_SIZE_MAX + 2];
};

static quern_status read_row(struct qn_conn *conn, const struct quern_task_info *info,
                             struct row *row, struct qn_standing *standing, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_standing_task);
    qn_query_text(&query, info->task.queue);
    qn_query_text(&query, info->task.id);
    if (qn_query_row(&query)) {
        row->queue_no = sqlite3_column_int64(query.statement, 0);
        row->place = sqlite3_column_int64(query.statement, 1);
        row->is_charged = sqlite3_column_int64(query.statement, 2) > 0;
        standing->level = row->is_charged ? qn_query_column_count(query.statement, 3) : -1;
        (void)snprintf(row->lane, sizeof row->lane, "%s", qn_query_column_text(&query, 4));
        row->worker = sqlite3_column_int64(query.statement, 5);
        standing->in_lane = sqlite3_column_int64(query.statement, 6) != 0;
        (void)snprintf(standing->solo_owner, sizeof standing->solo_owner, "%s",
                       qn_query_column_text(&query, 7));
        standing->solo_until_ms = qn_query_column_moment_ms(query.statement, 8);
        standing->solo_rest_ms = qn_query_column_moment_ms(query.statement, 9);
    }
    return qn_query_finish(&query, err);
}

static quern_status read_ahead(struct qn_conn *conn, const struct row *row,
                               struct qn_standing *standing, quern_error *err)
{
    bool in_lane = standing->in_lane;
    struct qn_query query =
        qn_query_start(conn, in_lane ? sql_standing_ahead_lane : sql_standing_ahead);
    qn_query_int(&query, row->queue_no);
    qn_query_int(&query, row->place);
    qn_query_int(&query, QN_STANDING_AHEAD_MAX);
    if (in_lane) {
        qn_query_text(&query, row->lane);
    }
    if (qn_query_row(&query)) {
        standing->ahead = sqlite3_column_int64(query.statement, 0);
    }
    return qn_query_finish(&query, err);
}

static quern_status read_worker(struct qn_conn *conn, const struct row *row,
                                struct qn_standing *standing, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_standing_worker);
    qn_query_int(&query, row->worker);
    if (qn_query_row(&query)) {
        (void)snprintf(standing->host, sizeof standing->host, "%s",
                       qn_query_column_text(&query, 0));
        standing->pid = sqlite3_column_int64(query.statement, 1);
        standing->seen_at_ms = qn_query_column_moment_ms(query.statement, 2);
    }
    return qn_query_finish(&query, err);
}

static quern_status read_group(struct qn_conn *conn, const struct quern_task_info *info,
                               const struct row *row, struct qn_standing *standing,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_standing_group);
    qn_query_int(&query, row->queue_no);
    qn_query_text(&query, info->task.group);
    standing->in_set = row->worker > 0;
    if (qn_query_row(&query)) {
        standing->group_size = qn_sqlite_inspect_count(&query, 0);
    }
    return qn_query_finish(&query, err);
}

static quern_status read_standing(struct qn_conn *conn, const struct quern_task_info *info,
                                  struct qn_standing *standing, quern_error *err)
{
    struct row row = {.queue_no = 0};
    quern_status status = read_row(conn, info, &row, standing, err);
    if (status != QUERN_OK || row.queue_no == 0) {
        return status;
    }
    switch (info->task.state) {
    case QUERN_TASK_PENDING:
        return row.is_charged ? QUERN_OK : read_ahead(conn, &row, standing, err);
    case QUERN_TASK_ACTIVE:
        return read_worker(conn, &row, standing, err);
    case QUERN_TASK_AGGREGATING:
        return read_group(conn, info, &row, standing, err);
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
    case QUERN_TASK_ARCHIVED:
    case QUERN_TASK_COMPLETED:
        return QUERN_OK;
    }
    return QUERN_OK;
}

quern_status qn_sqlite_standing(struct qn_broker *broker, const struct quern_task_info *info,
                                struct qn_standing *ret_standing, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = read_standing(conn, info, ret_standing, err);
    qn_transaction_read_end(self);
    return status;
}
