/* SPDX-License-Identifier: MIT */
/* operate.h - shared by the files of this room: an operation on one row, and the row of a queue. */
#ifndef QN_BROKER_SQLITE_OPERATE_OPERATE_H
#define QN_BROKER_SQLITE_OPERATE_OPERATE_H

#include "broker/sqlite/sqlite.h"

struct qn_operate_target {
    int64_t seq;             /* in, as the next; the rest is read */
    quern_task_state wanted; /* not 0: a task that is not in this state is left as it is */
    bool skipped;            /* so that was; or it is marked already, or in an aggregation set */
    int64_t queue_no;
    quern_task_state state;
    char id[QN_NAME_SIZE_MAX + 1];
};
struct qn_operation {
    quern_action action;
    const char *queue;
    int64_t now_ms;
};
/* Does it to one row, if its state allows it. */
QUERN_NODISCARD quern_status qn_sqlite_operate_on(struct qn_conn *conn,
                                                  const struct qn_operation *operation,
                                                  struct qn_operate_target *target,
                                                  quern_error *err);
/* The mark that the action leaves on a task that runs. */
enum qn_cancel qn_sqlite_operate_cancel(quern_action action);
/* Whether a task is over, or gone, after it. */
bool qn_sqlite_operate_is_end(quern_action action);

/* QUERN_E_STATE: the archive would grow beyond its limit. It is trimmed to that by the next worker,
 * and archiving must not delete. */
QUERN_NODISCARD quern_status qn_sqlite_operate_check_archive(struct qn_conn *conn, int64_t queue_no,
                                                             size_t more, quern_error *err);

struct qn_queue_row {
    int64_t no;
    int64_t paused_at_ms; /* 0: not paused */
};
/* QUERN_E_NOT_FOUND when there is no such queue (pause.c). */
QUERN_NODISCARD quern_status qn_sqlite_pause_read(struct qn_conn *conn, const char *name,
                                                  struct qn_queue_row *ret_row, quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_pause_write(struct qn_conn *conn, int64_t queue_no,
                                                   int64_t paused_at_ms, quern_error *err);

#endif
