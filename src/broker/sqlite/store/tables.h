/* SPDX-License-Identifier: MIT */
/* tables.h - the few statements on our tables that several rooms need. */
#ifndef QN_BROKER_SQLITE_STORE_TABLES_H
#define QN_BROKER_SQLITE_STORE_TABLES_H

#include "broker/sqlite/store/conn.h"

/* The number of a queue; with create it is made when there is none; else *ret_no = 0 for that. */
QUERN_NODISCARD quern_status qn_tables_queue_no(struct qn_conn *conn, const char *name, bool create,
                                                int64_t *ret_no, quern_error *err);
/* Takes `count` numbers from the counter of the database; *ret_first is the first of them. */
QUERN_NODISCARD quern_status qn_tables_numbers(struct qn_conn *conn, size_t count,
                                               int64_t *ret_first, quern_error *err);
/* When the next scheduled or retry task of the queue is due; INT64_MAX: none. */
QUERN_NODISCARD quern_status qn_tables_next_due(struct qn_conn *conn, int64_t queue_no,
                                                int64_t *ret_due_at_ms, quern_error *err);
/* Frees the unique lock if it is held by this task. key NULL: nothing. */
QUERN_NODISCARD quern_status qn_tables_unlock(struct qn_conn *conn, const char *key,
                                              int64_t queue_no, const char *id, quern_error *err);

#endif
