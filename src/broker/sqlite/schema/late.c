/* SPDX-License-Identifier: MIT */
/* late.c - the indexes that a file gets when it first needs them. */
#include "broker/sqlite/schema/late.h"

#include <string.h>

#include "broker/sqlite/schema/late_sql.h"
#include "broker/sqlite/store/query.h"

static quern_status make(struct qn_conn *conn, const char *sql, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_sqlite_late_lanes(struct qn_conn *conn, quern_error *err)
{
    return make(conn, sql_late_lane, err);
}

quern_status qn_sqlite_late_groups(struct qn_conn *conn, quern_error *err)
{
    quern_status status = make(conn, sql_late_group, err);
    return status == QUERN_OK ? make(conn, sql_late_set, err) : status;
}

static quern_status read_needed(struct qn_conn *conn, const char *sql,
                                struct qn_sqlite_late *ret_needed, quern_error *err)
{
    struct qn_query query = qn_query_start_once(conn, sql);
    *ret_needed = (struct qn_sqlite_late){.lanes = false};
    if (qn_query_row(&query)) {
        ret_needed->lanes = sqlite3_column_int(query.statement, 0) != 0;
        ret_needed->groups = sqlite3_column_int(query.statement, 1) != 0;
    }
    return qn_query_finish(&query, err);
}

quern_status qn_sqlite_late_needed(struct qn_conn *conn, struct qn_sqlite_late *ret_needed,
                                   quern_error *err)
{
    return read_needed(conn, sql_late_needed, ret_needed, err);
}

quern_status qn_sqlite_late_migrate(struct qn_conn *conn, quern_error *err)
{
    struct qn_sqlite_late needed = {0};
    quern_status status = read_needed(conn, sql_late_needed_before, &needed, err);
    return status == QUERN_OK && needed.groups ? qn_sqlite_late_groups(conn, err) : status;
}

bool qn_sqlite_late_may_miss(const struct qn_sqlite_late *needed, const char *index)
{
    if (strcmp(index, "quern_task_lane") == 0) {
        return !needed->lanes;
    }
    bool of_groups = strcmp(index, "quern_task_group") == 0 || strcmp(index, "quern_task_set") == 0;
    return of_groups && !needed->groups;
}
