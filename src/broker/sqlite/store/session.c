/* SPDX-License-Identifier: MIT */
/* session.c - the stored reply to a request, by its stamp.
 *
 * A session keeps its last request only: its caller sends one at a time, and repeats it until it
 * has a reply. The reply is written in the transaction of the request, so there is one exactly when
 * the request has changed something. */
#include "broker/sqlite/store/session.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/session_sql.h"

quern_status qn_sqlite_session_find(struct qn_conn *conn, struct qn_stamp stamp,
                                    struct qn_room reply, bool *ret_known, quern_error *err)
{
    *ret_known = false;
    if (stamp.sequence == 0 || QN_BUG(REPLAY_IGNORED)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_session_find);
    qn_query_int(&query, (int64_t)stamp.session);
    uint64_t last = 0;
    bool fits = false;
    if (qn_query_row(&query)) {
        last = (uint64_t)sqlite3_column_int64(query.statement, 0);
        const void *stored = sqlite3_column_blob(query.statement, 1);
        fits = (size_t)sqlite3_column_bytes(query.statement, 1) == reply.size;
        if (last == stamp.sequence && fits && reply.size > 0) {
            memcpy(reply.data, stored, reply.size);
        }
    }
    quern_status status = qn_query_finish(&query, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (last > stamp.sequence || (last == stamp.sequence && !fits)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "request %llu of this session is not the one that was sent before",
                            (unsigned long long)stamp.sequence);
    }
    *ret_known = last == stamp.sequence;
    return QUERN_OK;
}

quern_status qn_sqlite_session_keep(struct qn_conn *conn, struct qn_stamp stamp, int64_t now_ms,
                                    struct qn_bytes reply, quern_error *err)
{
    if (stamp.sequence == 0) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_session_keep);
    qn_query_int(&query, (int64_t)stamp.session);
    qn_query_int(&query, (int64_t)stamp.sequence);
    qn_query_blob(&query, reply.data, reply.size);
    qn_query_int(&query, now_ms);
    return qn_query_run(&query, NULL, err);
}
