/* SPDX-License-Identifier: MIT */
/* inspect.h - the selection of tasks, shared by listings and by operations on tasks.
 *
 * A page is a part of the tasks of one state of one queue, in an order; only row numbers are
 * selected, the rows themselves are read one by one, so a page never holds payloads. */
#ifndef QN_BROKER_SQLITE_INSPECT_INSPECT_H
#define QN_BROKER_SQLITE_INSPECT_INSPECT_H

#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"

struct qn_page {
    const quern_task_filter *filter; /* its queue, state, offset and limit are not used */
    int64_t queue_no;
    quern_task_state state;
    bool in_order;             /* oldest first in all states, so that bulk actions keep the order */
    enum qn_cancel cancel_not; /* not QN_CANCEL_NONE: leave out tasks that are marked so */
    uint64_t offset;
    uint64_t limit;
};
/* Fills seqs (room for page->limit) with the row numbers. */
QUERN_NODISCARD quern_status qn_sqlite_page(struct qn_conn *conn, const struct qn_page *page,
                                            int64_t *seqs, size_t *ret_count, quern_error *err);
/* How many tasks there are from the first on, at most count_max. */
QUERN_NODISCARD quern_status qn_sqlite_page_count(struct qn_conn *conn, const struct qn_page *page,
                                                  uint64_t count_max, uint64_t *ret_count,
                                                  quern_error *err);

/* The moment on the boot clock up to which leases have expired; INT64_MAX when they were measured
 * on another boot of the kernel, so that all are (tasks.c). */
QUERN_NODISCARD quern_status qn_sqlite_tasks_leases_over(struct qn_sqlite *self,
                                                         struct qn_conn *conn, int64_t *ret_boot_ms,
                                                         quern_error *err);

/* Passes tasks on, one by one (tasks.c). */
struct qn_task_show {
    struct qn_conn *conn;
    int64_t leases_over_ms;
    int64_t now_ms; /* wall clock, of the same moment; 0: ends of leases are not wanted */
    bool with_runs; /* the past ones, too */
    bool (*on_task)(const quern_task_info *info, void *user);
    void *user;
    bool stopped; /* on_task returned false */
};
/* Reads one row and passes it on. It may be gone only when its number was read wrongly. */
QUERN_NODISCARD quern_status qn_sqlite_tasks_show(struct qn_task_show *show, int64_t seq,
                                                  quern_error *err);

/* The durability class, in words (server_info.c). */
const char *qn_sqlite_server_info_durability(const struct qn_sqlite *self);

/* A count of rows; 0 for a negative one, which is damage. */
static inline uint64_t qn_sqlite_inspect_count(const struct qn_query *query, int column)
{
    int64_t count = sqlite3_column_int64(query->statement, column);
    return count < 0 ? 0 : (uint64_t)count;
}

#endif
