/* SPDX-License-Identifier: MIT */
/* history.c - what became of the latest ticks of an entry. */
#include "base/error.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

struct reading {
    struct qn_conn *conn;
    bool (*on_event)(const struct qn_tick_event *event, void *user);
    void *user;
};

static quern_status read_events(const struct reading *reading, int64_t queue_no, const char *name,
                                quern_error *err)
{
    bool go_on = true;
    struct qn_query query = qn_query_start(reading->conn, sql_tick_history);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, name);
    qn_query_int(&query, QN_TICK_HISTORY_MAX);
    while (go_on && qn_query_row(&query)) {
        const struct qn_tick_event event = {
            .tick_s = qn_entry_row_column_s(query.statement, 0),
            .at_ms = qn_query_column_moment_ms(query.statement, 1),
            .what = (enum qn_tick_what)qn_query_column_count(query.statement, 2),
            .skipped = (uint32_t)qn_query_column_count(query.statement, 3),
            .id = qn_query_column_text(&query, 4)};
        go_on = reading->on_event(&event, reading->user);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_sqlite_schedule_history(struct qn_broker *broker, const struct qn_entry_key *key,
                                        bool (*on_event)(const struct qn_tick_event *event,
                                                         void *user),
                                        void *user, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct reading reading = {.on_event = on_event, .user = user};
    int64_t queue_no = 0;
    quern_status status = qn_transaction_read_begin(self, &reading.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(reading.conn, key->queue, false, &queue_no, err);
    if (status == QUERN_OK && queue_no != 0) {
        status = read_events(&reading, queue_no, key->name, err);
    }
    qn_transaction_read_end(self);
    return status;
}

/* No other program lists the entries of a file. */
quern_status qn_sqlite_schedule_record(struct qn_broker *broker, const struct qn_record *record,
                                       quern_error *err)
{
    (void)broker;
    (void)record;
    (void)err;
    return QUERN_OK;
}
