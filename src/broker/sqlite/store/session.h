/* SPDX-License-Identifier: MIT */
/* session.h - the stored reply to a request, so that a repeated request changes nothing. */
#ifndef QN_BROKER_SQLITE_STORE_SESSION_H
#define QN_BROKER_SQLITE_STORE_SESSION_H

#include "broker/broker.h"
#include "broker/sqlite/store/conn.h"

/* The earlier reply to this request, all of `reply`, if *ret_known. */
QUERN_NODISCARD quern_status qn_sqlite_session_find(struct qn_conn *conn, struct qn_stamp stamp,
                                                    struct qn_room reply, bool *ret_known,
                                                    quern_error *err);
/* The same for a reply of any size, in the arena; ret_reply->data NULL: it is not known. */
QUERN_NODISCARD quern_status qn_sqlite_session_copy(struct qn_conn *conn, struct qn_stamp stamp,
                                                    struct qn_arena *arena,
                                                    struct qn_room *ret_reply, quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_session_keep(struct qn_conn *conn, struct qn_stamp stamp,
                                                    int64_t now_ms, struct qn_bytes reply,
                                                    quern_error *err);

#endif
