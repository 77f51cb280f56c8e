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

/* One look for a reply; the room is that of `reply`, or is made in `arena`. */
struct look {
    struct qn_stamp stamp;
    struct qn_room *reply;
    struct qn_arena *arena; /* NULL: the reply must fill the room */
    bool fits;
    bool no_memory;
};

static void take_reply(struct look *look, const void *stored, size_t size)
{
    if (look->arena != NULL) {
        look->reply->size = size;
        look->reply->data = qn_arena_alloc(look->arena, size + 1);
        look->no_memory = look->reply->data == NULL;
    }
    look->fits = size == look->reply->size;
    if (look->fits && size > 0 && !look->no_memory) {
        memcpy(look->reply->data, stored, size);
    }
}

static quern_status find(struct qn_conn *conn, struct look *look, bool *ret_known, quern_error *err)
{
    *ret_known = false;
    if (look->stamp.sequence == 0 || QN_BUG(REPLAY_IGNORED)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_session_find);
    qn_query_int(&query, (int64_t)look->stamp.session);
    uint64_t last = 0;
    if (qn_query_row(&query)) {
        last = (uint64_t)sqlite3_column_int64(query.statement, 0);
        const void *stored = sqlite3_column_blob(query.statement, 1);
        if (last == look->stamp.sequence) {
            take_reply(look, stored, (size_t)sqlite3_column_bytes(query.statement, 1));
        }
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && look->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (last > look->stamp.sequence || (last == look->stamp.sequence && !look->fits)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "request %llu of this session is not the one that was sent before",
                            (unsigned long long)look->stamp.sequence);
    }
    *ret_known = last == look->stamp.sequence;
    return QUERN_OK;
}

quern_status qn_sqlite_session_find(struct qn_conn *conn, struct qn_stamp stamp,
                                    struct qn_room reply, bool *ret_known, quern_error *err)
{
    struct look look = {.stamp = stamp, .reply = &reply};
    return find(conn, &look, ret_known, err);
}

quern_status qn_sqlite_session_copy(struct qn_conn *conn, struct qn_stamp stamp,
                                    struct qn_arena *arena, struct qn_room *ret_reply,
                                    quern_error *err)
{
    *ret_reply = (struct qn_room){0};
    struct look look = {.stamp = stamp, .reply = ret_reply, .arena = arena};
    bool known = false;
    return find(conn, &look, &known, err);
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
