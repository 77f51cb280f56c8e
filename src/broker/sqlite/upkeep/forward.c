/* SPDX-License-Identifier: MIT */
/* forward.c - moves due scheduled and retry tasks to the tail of pending, or to their group.
 *
 * Delays are first corrected if the wall clock was set (redate.c). A query on the reading
 * connection comes first, so that nothing is locked while nothing is due. The tasks are moved in
 * the order of their due times, each with a new place. When the limit was reached, the next due
 * moment that is returned is in the past: call again. */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/owner.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/forward_sql.h"
#include "broker/sqlite/upkeep/redate.h"
#include "broker/sqlite/wake/waiters.h"

#define NO_BOOT "none" /* delays are not kept on a boot clock */

struct forwarding {
    struct qn_conn *conn;
    int64_t now_ms;
    int64_t now_boot_ms;
    char boot_id[QN_BOOT_ID_SIZE]; /* or NO_BOOT */
    int64_t *seqs;                 /* room for `limit` */
    size_t limit;
    size_t moved;
};

static quern_status next_due(struct qn_conn *conn, struct qn_names queues, int64_t *ret_due_at_ms,
                             quern_error *err)
{
    int64_t earliest = INT64_MAX;
    for (size_t i = 0; i < queues.count; i++) {
        int64_t no = 0;
        int64_t due_at_ms = INT64_MAX;
        quern_status status = qn_tables_queue_no(conn, queues.items[i], false, &no, err);
        if (status == QUERN_OK && no != 0) {
            status = qn_tables_next_due(conn, no, &due_at_ms, err);
        }
        if (status != QUERN_OK) {
            return status;
        }
        earliest = due_at_ms < earliest ? due_at_ms : earliest;
    }
    *ret_due_at_ms = earliest;
    return QUERN_OK;
}

static quern_status peek(struct qn_sqlite *self, struct qn_names queues, int64_t *ret_due_at_ms,
                         quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status == QUERN_OK) {
        status = next_due(conn, queues, ret_due_at_ms, err);
        qn_transaction_read_end(self);
    }
    return status;
}

static quern_status find_due(struct forwarding *forwarding, int64_t queue_no, size_t *ret_count,
                             quern_error *err)
{
    size_t count = 0;
    struct qn_query query = qn_query_start(forwarding->conn, sql_forward_find);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, forwarding->now_ms);
    qn_query_int(&query, (int64_t)(forwarding->limit - forwarding->moved));
    qn_query_text(&query, forwarding->boot_id);
    qn_query_int(&query, forwarding->now_boot_ms + QN_DELAY_CLOCK_TOLERANCE_MS);
    while (qn_query_row(&query)) {
        forwarding->seqs[count++] = sqlite3_column_int64(query.statement, 0);
    }
    *ret_count = count;
    return qn_query_finish(&query, err);
}

static quern_status move_queue(struct forwarding *forwarding, const char *queue, quern_error *err)
{
    int64_t no = 0;
    size_t count = 0;
    int64_t place = 0;
    quern_status status = qn_tables_queue_no(forwarding->conn, queue, false, &no, err);
    if (status == QUERN_OK && no != 0) {
        status = find_due(forwarding, no, &count, err);
    }
    if (status == QUERN_OK && count > 0) {
        status = qn_tables_numbers(forwarding->conn, count, &place, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        struct qn_query query = qn_query_start(forwarding->conn, sql_forward_move);
        qn_query_int(&query, forwarding->seqs[i]);
        qn_query_int(&query, place + (int64_t)i);
        qn_query_int(&query, QN_BUG(PRIORITY_LOST) ? 0 : QN_PRIORITY_STEP);
        qn_query_int(&query, forwarding->now_ms);
        status = qn_query_run(&query, NULL, err);
    }
    forwarding->moved += count;
    return status;
}

static quern_status move_due(struct qn_sqlite *self, struct forwarding *forwarding,
                             struct qn_names queues, int64_t *ret_due_at_ms, quern_error *err)
{
    if (self->unsafe_fs || QN_BUG(DATED_IS_DUE) || !qn_owner_boot_id(forwarding->boot_id)) {
        (void)memcpy(forwarding->boot_id, NO_BOOT, sizeof NO_BOOT);
    }
    quern_status status = qn_transaction_begin(self, false, &forwarding->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        if (forwarding->moved < forwarding->limit) {
            status = move_queue(forwarding, queues.items[i], err);
        }
    }
    if (status == QUERN_OK) {
        status = next_due(forwarding->conn, queues, ret_due_at_ms, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

quern_status qn_sqlite_forward(struct qn_broker *broker, struct qn_upkeep upkeep, size_t *ret_moved,
                               int64_t *ret_next_due_at_ms, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct forwarding forwarding = {.limit = upkeep.limit};
    int64_t due_at_ms = INT64_MAX;
    qn_clock_both_ms(broker->clock, &forwarding.now_ms, &forwarding.now_boot_ms);
    bool more = false;
    quern_status status = qn_sqlite_redate(self, &more, err);
    if (status == QUERN_OK) {
        status = peek(self, upkeep.queues, &due_at_ms, err);
    }
    if (more) { /* delays may look due that are not: call again */
        due_at_ms = forwarding.now_ms;
    } else if (status == QUERN_OK && due_at_ms <= forwarding.now_ms && upkeep.limit > 0) {
        forwarding.seqs = qn_alloc_zero(upkeep.limit, sizeof forwarding.seqs[0]);
        if (forwarding.seqs == NULL) {
            return qn_error_nomem(err);
        }
        status = move_due(self, &forwarding, upkeep.queues, &due_at_ms, err);
        qn_free(forwarding.seqs);
        if (forwarding.moved < upkeep.limit && due_at_ms <= forwarding.now_ms) {
            atomic_store(&self->redate_at_mono_ns, 0); /* it is dated wrongly: at the next call */
        }
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (forwarding.moved > 0) {
        qn_waiters_wake(self);
    }
    *ret_moved = forwarding.moved;
    *ret_next_due_at_ms = due_at_ms;
    return QUERN_OK;
}
