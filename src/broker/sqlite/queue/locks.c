/* SPDX-License-Identifier: MIT */
/* locks.c - renews the lock of a unique task as long as the task lives.
 *
 * Its time begins again with each lease and each extension, and with the moment of each retry. So
 * it ends early only if the task waits in pending for longer than that. */
#include "broker/sqlite/queue/locks.h"

#include "base/bug.h"
#include "broker/sqlite/queue/locks_sql.h"
#include "broker/sqlite/store/query.h"

struct term {
    int64_t from_ms;
    int64_t least_ms; /* or the time of the lock, if that is longer */
    int64_t now_ms;
};

static quern_status hold(struct qn_conn *conn, int64_t seq, struct term term, quern_error *err)
{
    if (QN_BUG(LOCK_NOT_RENEWED)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_lock_hold);
    qn_query_int(&query, seq);
    qn_query_int(&query, term.from_ms);
    qn_query_int(&query, term.least_ms);
    qn_query_int(&query, term.now_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status end(struct qn_conn *conn, int64_t seq, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_lock_end);
    qn_query_int(&query, seq);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_locks_leased(struct qn_conn *conn, int64_t seq, int32_t unique_until,
                             struct qn_span lease, quern_error *err)
{
    if (unique_until == QUERN_UNIQUE_UNTIL_STARTED) {
        return QN_BUG(STARTED_KEEPS_LOCK) ? QUERN_OK : end(conn, seq, err);
    }
    const struct term term = {lease.now_ms, 2 * lease.lease_ms, lease.now_ms};
    return hold(conn, seq, term, err);
}

quern_status qn_locks_waits(struct qn_conn *conn, int64_t seq, int64_t at_ms, int64_t now_ms,
                            quern_error *err)
{
    return hold(conn, seq, (struct term){at_ms, 0, now_ms}, err);
}

quern_status qn_locks_archived(struct qn_conn *conn, int64_t seq, int32_t unique_until,
                               int64_t now_ms, quern_error *err)
{
    if (unique_until == QUERN_UNIQUE_UNTIL_ENDED) {
        return end(conn, seq, err);
    }
    if (unique_until == QUERN_UNIQUE_UNTIL_REMOVED) {
        return hold(conn, seq, (struct term){now_ms, QN_UNIQUE_SPAN_MS_MAX, now_ms}, err);
    }
    struct qn_query query = qn_query_start(conn, sql_lock_shorten);
    qn_query_int(&query, seq);
    qn_query_int(&query, now_ms);
    return qn_query_run(&query, NULL, err);
}
