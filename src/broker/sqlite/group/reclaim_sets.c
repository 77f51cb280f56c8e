/* SPDX-License-Identifier: MIT */
/* reclaim_sets.c - gives back the members of sets whose worker is gone or did not extend its lease.
 *
 * The sets are read on the reading connection, so nothing is locked while there is nothing to do.
 * Each is given back in its own transaction, which finds its lease as it was read, else it was
 * extended or ended meanwhile. Leases are on the clock of this boot; those of an earlier one are
 * void (upkeep/recover.c). A worker on another host is judged by recover, which removes its record;
 * then its sets are given back, too. */
#include "base/error.h"
#include "broker/owner.h"
#include "broker/sqlite/group/group.h"
#include "broker/sqlite/group/group_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

#define SETS_MAX 64  /* that are read at a time */
#define LEASE_VOID 1 /* quern_set.lease_until */

struct set {
    int64_t no;
    int64_t lease_until;
};

struct reclaiming {
    struct qn_sqlite *self;
    int64_t now_boot_ms;
    struct set last; /* that was read */
    struct set sets[SETS_MAX];
    size_t count;
    bool more;
};

static bool is_over(const struct reclaiming *reclaiming, const struct qn_query *row)
{
    int64_t lease_until = sqlite3_column_int64(row->statement, 1);
    bool has_worker = sqlite3_column_int64(row->statement, 2) != 0;
    bool has_record = sqlite3_column_type(row->statement, 3) != SQLITE_NULL;
    if (lease_until == LEASE_VOID || (has_worker && !has_record)) {
        return true;
    }
    const char *owner = qn_query_column_text(row, 3);
    bool ours = !has_record || !reclaiming->self->unsafe_fs || qn_owner_same_boot(owner);
    return (ours && lease_until <= reclaiming->now_boot_ms) ||
           (has_record && qn_owner_judge(owner) == QN_OWNER_DEAD);
}

static quern_status read_sets(struct reclaiming *reclaiming, struct qn_conn *conn,
                              const char *queue, quern_error *err)
{
    int64_t queue_no = 0;
    size_t seen = 0;
    reclaiming->count = 0;
    reclaiming->more = false;
    quern_status status = qn_tables_queue_no(conn, queue, false, &queue_no, err);
    if (status != QUERN_OK || queue_no == 0) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_set_list);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, reclaiming->last.lease_until);
    qn_query_int(&query, reclaiming->last.no);
    qn_query_int(&query, SETS_MAX);
    while (qn_query_row(&query)) {
        reclaiming->last = (struct set){.no = sqlite3_column_int64(query.statement, 0),
                                        .lease_until = sqlite3_column_int64(query.statement, 1)};
        seen++;
        if (is_over(reclaiming, &query)) {
            reclaiming->sets[reclaiming->count++] = reclaiming->last;
        }
    }
    reclaiming->more = seen == SETS_MAX;
    return qn_query_finish(&query, err);
}

static quern_status find_sets(struct reclaiming *reclaiming, const char *queue, quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(reclaiming->self, &conn, err);
    if (status == QUERN_OK) {
        status = read_sets(reclaiming, conn, queue, err);
        qn_transaction_read_end(reclaiming->self);
    }
    return status;
}

static quern_status reclaim_set(struct reclaiming *reclaiming, const struct set *set,
                                size_t *ret_reclaimed, quern_error *err)
{
    struct qn_conn *conn = NULL;
    bool ended = false;
    size_t count = 0;
    quern_status status = qn_transaction_begin(reclaiming->self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_set_end(conn, set->no, &set->lease_until, &ended, err);
    if (status == QUERN_OK && ended) {
        status = qn_set_give_back(conn, set->no, &count, err);
    }
    if (status != QUERN_OK || !ended) {
        qn_transaction_rollback(reclaiming->self);
        return status;
    }
    status = qn_transaction_commit(reclaiming->self, err);
    if (status == QUERN_OK) {
        *ret_reclaimed += count;
    }
    return status;
}

static quern_status reclaim_queue(struct reclaiming *reclaiming, const char *queue, size_t limit,
                                  size_t *ret_reclaimed, quern_error *err)
{
    quern_status status = QUERN_OK;
    reclaiming->last = (struct set){0};
    reclaiming->more = true;
    while (status == QUERN_OK && reclaiming->more && *ret_reclaimed < limit) {
        status = find_sets(reclaiming, queue, err);
        for (size_t i = 0; status == QUERN_OK && i < reclaiming->count && *ret_reclaimed < limit;
             i++) {
            status = reclaim_set(reclaiming, &reclaiming->sets[i], ret_reclaimed, err);
        }
    }
    return status;
}

quern_status qn_sqlite_reclaim_sets(struct qn_broker *broker, struct qn_upkeep upkeep,
                                    size_t *ret_reclaimed, quern_error *err)
{
    struct reclaiming reclaiming = {.self = qn_sqlite_of(broker),
                                    .now_boot_ms = qn_clock_boot_ms(broker->clock)};
    quern_status status = QUERN_OK;
    for (size_t i = 0;
         status == QUERN_OK && i < upkeep.queues.count && *ret_reclaimed < upkeep.limit; i++) {
        status =
            reclaim_queue(&reclaiming, upkeep.queues.items[i], upkeep.limit, ret_reclaimed, err);
    }
    return status;
}
