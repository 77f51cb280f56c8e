/* SPDX-License-Identifier: MIT */
/* history.c - the processed and failed tasks of a queue on the last days. */
#include <time.h>

#include "base/error.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

#define DAY_MS (24 * 3600 * INT64_C(1000))

struct history {
    int64_t today; /* in days since 1970 */
    quern_day *days;
    size_t count;
};

static void init_days(struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        quern_day *day = &history->days[i];
        time_t seconds = (time_t)((history->today - (int64_t)i) * (DAY_MS / 1000));
        struct tm date = {0};
        (void)gmtime_r(&seconds, &date);
        *day = (quern_day){0};
        (void)strftime(day->date, sizeof day->date, "%Y-%m-%d", &date);
    }
}

static quern_status read_history(struct qn_conn *conn, const char *queue, struct history *history,
                                 quern_error *err)
{
    int64_t queue_no = 0;
    quern_status status = qn_tables_queue_no(conn, queue, false, &queue_no, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (queue_no == 0) {
        return qn_error_set(err, QUERN_E_NOT_FOUND, "no queue \"%s\"", queue);
    }
    init_days(history);
    struct qn_query query = qn_query_start(conn, sql_history);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, history->today - (int64_t)history->count + 1);
    qn_query_int(&query, history->today);
    while (qn_query_row(&query)) {
        int64_t age = history->today - sqlite3_column_int64(query.statement, 0);
        quern_day *day = &history->days[age];
        day->processed = qn_sqlite_inspect_count(&query, 1);
        day->failed = qn_sqlite_inspect_count(&query, 2);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_sqlite_history(struct qn_broker *broker, const char *queue, size_t days,
                               quern_day *ret_days, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status == QUERN_OK) {
        struct history history = {
            .today = qn_clock_wall_ms(broker->clock) / DAY_MS, .days = ret_days, .count = days};
        status = read_history(conn, queue, &history, err);
        qn_transaction_read_end(self);
    }
    return status;
}
