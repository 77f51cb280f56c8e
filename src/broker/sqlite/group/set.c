/* SPDX-License-Identifier: MIT */
/* set.c - the lease of a set: extended, or given up with its members back in their group.
 *
 * The row of a set in quern_set is its lease: with the row it ends, and its number is never given
 * again. A member keeps its moment and its place, so it is back where it was. */
#include "base/error.h"
#include "broker/sqlite/group/group.h"
#include "broker/sqlite/group/group_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"

quern_status qn_set_stale(const struct qn_group_set *set, quern_error *err)
{
    return qn_error_set(err, QUERN_E_STALE, "the lease of set %s of the group \"%s\" is lost",
                        set->name, set->group);
}

static quern_status extend_one(struct qn_conn *conn, struct qn_set_extension *extension,
                               int64_t until_ms, quern_error *err)
{
    int64_t changes = 0;
    struct qn_query query = qn_query_start(conn, sql_set_extend);
    qn_query_int(&query, extension->set->row);
    qn_query_int(&query, until_ms);
    quern_status status = qn_query_run(&query, &changes, err);
    extension->held = changes > 0;
    return status;
}

quern_status qn_sqlite_extend_sets(struct qn_broker *broker, struct qn_set_extension *extensions,
                                   size_t count, int64_t lease_ms, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    if (count == 0) {
        return QUERN_OK;
    }
    quern_status status = qn_transaction_begin(self, true, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t until_ms = qn_clock_boot_ms(broker->clock) + lease_ms;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        status = extend_one(conn, &extensions[i], until_ms, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

quern_status qn_set_end(struct qn_conn *conn, int64_t no, const int64_t *lease_until,
                        bool *ret_ended, quern_error *err)
{
    int64_t changes = 0;
    struct qn_query query = qn_query_start(conn, sql_set_end);
    qn_query_int(&query, no);
    if (lease_until != NULL) {
        qn_query_int(&query, *lease_until);
    } else {
        qn_query_text(&query, NULL);
    }
    quern_status status = qn_query_run(&query, &changes, err);
    *ret_ended = changes > 0;
    return status;
}

quern_status qn_set_give_back(struct qn_conn *conn, int64_t no, size_t *ret_count, quern_error *err)
{
    int64_t changes = 0;
    struct qn_query query = qn_query_start(conn, sql_set_give_back);
    qn_query_int(&query, no);
    quern_status status = qn_query_run(&query, &changes, err);
    *ret_count = (size_t)changes;
    return status;
}

quern_status qn_sqlite_return_set(struct qn_broker *broker, const struct qn_group_set *set,
                                  quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    bool ended = false;
    size_t count = 0;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_set_end(conn, set->row, NULL, &ended, err);
    if (status == QUERN_OK && !ended) {
        status = qn_set_stale(set, err);
    }
    if (status == QUERN_OK) {
        status = qn_set_give_back(conn, set->row, &count, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}
