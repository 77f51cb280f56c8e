/* SPDX-License-Identifier: MIT */
/* limit.c - sets, removes and lists limits. What they mean for a lease: queue/meter.c. */
#include <string.h>

#include "base/error.h"
#include "broker/sqlite/operate/limit_sql.h"
#include "broker/sqlite/queue/meter.h"
#include "broker/sqlite/queue/meter_sql.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/run/limits/sort.h"
#include "broker/sqlite/schema/late.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

static quern_status note_kinds(struct qn_conn *conn, int64_t queue_no, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_meter_kinds_note);
    qn_query_int(&query, queue_no);
    return qn_query_run(&query, NULL, err);
}

/* With a limit by type the lanes are by type, too: of this queue, or of all. One by key may come
 * before the first key. Others need no lanes. */
static quern_status fit_lanes(struct qn_conn *conn, int64_t queue_no, int32_t scope,
                              quern_error *err)
{
    int64_t unfit_no = 0;
    bool is_split = scope == QUERN_LIMIT_TYPE || scope == QUERN_LIMIT_KEY;
    quern_status status = is_split ? qn_sqlite_late_lanes(conn, err) : QUERN_OK;
    if (status != QUERN_OK || scope != QUERN_LIMIT_TYPE) {
        return status;
    }
    do {
        struct qn_query query = qn_query_start(conn, sql_limit_lanes);
        qn_query_int(&query, queue_no);
        qn_query_int(&query, QN_LANES_BY_TYPE);
        unfit_no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        status = qn_query_finish(&query, err);
        if (status == QUERN_OK && unfit_no != 0) {
            status = qn_sort_begin(conn, unfit_no, QN_LANES_BY_TYPE, err);
        }
    } while (status == QUERN_OK && unfit_no != 0);
    return status;
}

/* Where limits of this queue are stored; -1: there is no such queue, and it is not to be made. */
static quern_status find_owner(struct qn_conn *conn, const char *queue, bool create,
                               int64_t *ret_no, quern_error *err)
{
    int64_t no = QN_METER_ALL;
    quern_status status = QUERN_OK;
    if (strcmp(queue, QUERN_ALL_QUEUES) != 0) {
        status = qn_tables_queue_no(conn, queue, create, &no, err);
        no = no > 0 ? no : -1;
    }
    *ret_no = no;
    return status;
}

static quern_status write_limit(struct qn_conn *conn, const quern_limit *limit, quern_error *err)
{
    int64_t queue_no = 0;
    quern_status status = find_owner(conn, limit->queue, true, &queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_limit_set);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, limit->scope);
    qn_query_text(&query, limit->name);
    qn_query_int(&query, limit->period_ms > 0 ? 1 : 0);
    qn_query_int(&query, limit->count);
    qn_query_int(&query, limit->period_ms);
    qn_query_int(&query, limit->burst);
    status = qn_query_run(&query, NULL, err);
    if (status == QUERN_OK) {
        status = note_kinds(conn, queue_no, err);
    }
    return status == QUERN_OK ? fit_lanes(conn, queue_no, limit->scope, err) : status;
}

static quern_status end(struct qn_sqlite *self, quern_status status, quern_error *err)
{
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    status = qn_transaction_commit(self, err);
    if (status == QUERN_OK) {
        qn_waiters_wake(self);
    }
    return status;
}

quern_status qn_sqlite_set_limit(struct qn_broker *broker, const quern_limit *limit,
                                 quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    return status == QUERN_OK ? end(self, write_limit(conn, limit, err), err) : status;
}

static quern_status delete_limits(struct qn_conn *conn, const struct qn_limit_owner *owner,
                                  quern_error *err)
{
    int64_t queue_no = 0;
    int64_t changes = 0;
    quern_status status = find_owner(conn, owner->queue, false, &queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_limit_remove);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, owner->scope);
    qn_query_text(&query, owner->name);
    status = qn_query_run(&query, &changes, err);
    if (status == QUERN_OK && changes == 0) {
        return qn_limit_not_found(owner, err);
    }
    return status == QUERN_OK ? note_kinds(conn, queue_no, err) : status;
}

quern_status qn_sqlite_remove_limit(struct qn_broker *broker, const struct qn_limit_owner *owner,
                                    quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    return status == QUERN_OK ? end(self, delete_limits(conn, owner, err), err) : status;
}

/* How much of it is used now. */
static quern_status read_used(struct qn_meters *meters, int64_t queue_no, quern_limit *limit,
                              quern_error *err)
{
    struct qn_meter *meter = NULL;
    if (limit->scope != QUERN_LIMIT_SEMAPHORE && strcmp(limit->name, QN_LIMIT_EACH) == 0) {
        return QUERN_OK;
    }
    const struct qn_meter_owner of = {queue_no, limit->scope, limit->name};
    quern_status status = qn_meters_find(meters, of, &meter, err);
    if (status == QUERN_OK && limit->period_ms == 0) {
        limit->used = *qn_meter_running(meter);
    } else if (status == QUERN_OK && meter->has_starts) {
        limit->used = qn_limit_used(&meter->starts, &meter->use, meters->now_ms);
    }
    return status;
}

static quern_limit limit_of(const struct qn_query *query)
{
    sqlite3_stmt *row = query->statement;
    return (quern_limit){.queue = qn_query_column_text(query, 0),
                         .scope = sqlite3_column_int(row, 2),
                         .name = qn_query_column_text(query, 3),
                         .count = qn_query_column_sane(query, 5),
                         .period_ms = qn_query_column_sane(query, 6),
                         .burst = qn_query_column_sane(query, 7)};
}

quern_status qn_sqlite_limits(struct qn_broker *broker, const char *queue,
                              bool (*on_limit)(const quern_limit *limit, void *user), void *user,
                              quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_meters meters;
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_meters_init(&meters, conn, qn_clock_wall_ms(broker->clock));
    struct qn_query query = qn_query_start(conn, sql_limit_list);
    qn_query_text(&query, queue);
    qn_query_text(&query, QUERN_ALL_QUEUES);
    bool go_on = true;
    while (status == QUERN_OK && go_on && qn_query_row(&query)) {
        quern_limit limit = limit_of(&query);
        status = read_used(&meters, sqlite3_column_int64(query.statement, 1), &limit, err);
        go_on = status == QUERN_OK && on_limit(&limit, user);
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    qn_meters_finish(&meters);
    qn_transaction_read_end(self);
    return status == QUERN_OK ? finished : status;
}
