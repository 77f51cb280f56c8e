/* SPDX-License-Identifier: MIT */
/* late.h - the indexes that a file gets when it first needs them.
 *
 * Even an empty index costs each change of a task the evaluation of its condition. So those of
 * lanes and of groups are made by the transaction that stores the first lane, or the first task
 * with a group, of the whole file; this reads all tasks once, about a million in a second. Later
 * calls find the index by the schema that the connection has in memory. */
#ifndef QN_BROKER_SQLITE_SCHEMA_LATE_H
#define QN_BROKER_SQLITE_SCHEMA_LATE_H

#include "broker/sqlite/store/conn.h"

struct qn_sqlite_late {
    bool lanes;
    bool groups;
};

/* In a transaction that writes. */
QUERN_NODISCARD quern_status qn_sqlite_late_lanes(struct qn_conn *conn, quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_late_groups(struct qn_conn *conn, quern_error *err);
/* Makes those that the tasks of a file need which was just migrated from an older version. */
QUERN_NODISCARD quern_status qn_sqlite_late_migrate(struct qn_conn *conn, quern_error *err);
/* Which of them the file needs. */
QUERN_NODISCARD quern_status qn_sqlite_late_needed(struct qn_conn *conn,
                                                   struct qn_sqlite_late *ret_needed,
                                                   quern_error *err);
/* Whether the index of this name is one of them and, as the file is now, may be missing. */
bool qn_sqlite_late_may_miss(const struct qn_sqlite_late *needed, const char *index);

#endif
