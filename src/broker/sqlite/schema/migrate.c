/* SPDX-License-Identifier: MIT */
/* migrate.c - makes the tables of a version, step by step. */
#include "broker/sqlite/schema/migrate.h"

#include "broker/sqlite/schema/late.h"
#include "broker/sqlite/schema/schema_sql.h"

#define VERSION_WITH_LATE 4 /* indexes (late.h) */

/* migrations[n] leads from version n to n + 1. */
static const char *const migrations[QN_SQLITE_SCHEMA_VERSION] = {
    sql_schema_1, sql_schema_2, sql_schema_3, sql_schema_4,
    sql_schema_5, sql_schema_6, sql_schema_7};

quern_status qn_sqlite_migrate(struct qn_conn *conn, int64_t from, int64_t to, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (int64_t version = from; status == QUERN_OK && version < to; version++) {
        status = qn_conn_exec(conn, migrations[version], err);
    }
    bool had_tasks = from > 0 && from < VERSION_WITH_LATE && to >= VERSION_WITH_LATE;
    return status == QUERN_OK && had_tasks ? qn_sqlite_late_migrate(conn, err) : status;
}
