/* SPDX-License-Identifier: MIT */
/* trash_rows.h - the rows of deleted tasks: hidden, found, removed for good. */
#ifndef QN_BROKER_SQLITE_QUEUE_TRASH_ROWS_H
#define QN_BROKER_SQLITE_QUEUE_TRASH_ROWS_H

#include "broker/sqlite/store/conn.h"
#include "broker/trash/trash.h"

struct qn_trash_row {
    int64_t seq; /* 0: there is none */
    int64_t queue_no;
    int64_t until_ms;
    int64_t size;
    int64_t lock_until_ms; /* 0: it held no lock */
    quern_task_state state;
    bool has_lock; /* it has a unique_key */
};

/* Puts a task into the trash of its queue, in place of one with its id; its lock is the caller's to
 * free. */
QUERN_NODISCARD quern_status qn_trash_rows_add(struct qn_conn *conn, const struct qn_trash_row *row,
                                               const char *id, int64_t now_ms, quern_error *err);
QUERN_NODISCARD quern_status qn_trash_rows_find(struct qn_conn *conn, int64_t queue_no,
                                                const char *id, struct qn_trash_row *ret_row,
                                                quern_error *err);
/* Takes it off the list; the task stays as it is. */
QUERN_NODISCARD quern_status qn_trash_rows_forget(struct qn_conn *conn,
                                                  const struct qn_trash_row *row, quern_error *err);
/* The same, and deletes the task. */
QUERN_NODISCARD quern_status qn_trash_rows_remove(struct qn_conn *conn,
                                                  const struct qn_trash_row *row, quern_error *err);
/* Removes tasks whose day is over, up to `limit`. */
QUERN_NODISCARD quern_status qn_trash_rows_expire(struct qn_conn *conn, int64_t now_ms,
                                                  size_t limit, size_t *ret_count,
                                                  quern_error *err);
QUERN_NODISCARD quern_status qn_trash_rows_use(struct qn_conn *conn, int64_t queue_no,
                                               struct qn_trash_use *ret_use, quern_error *err);

#endif
