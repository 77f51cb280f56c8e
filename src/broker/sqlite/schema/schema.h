/* SPDX-License-Identifier: MIT */
/* schema.h - the tables of a file: their version, and how they are made. */
#ifndef QN_BROKER_SQLITE_SCHEMA_SCHEMA_H
#define QN_BROKER_SQLITE_SCHEMA_SCHEMA_H

#include "broker/sqlite/store/conn.h"

/* Checks the first bytes before SQLite does: refuses a file that is neither a database nor
 * empty. */
QUERN_NODISCARD quern_status qn_sqlite_schema_check_file(struct qn_conn *conn, quern_error *err);
/* Brings the schema to this version. init: also beside the tables of others. */
QUERN_NODISCARD quern_status qn_sqlite_schema_prepare(struct qn_conn *conn, bool create, bool init,
                                                      int64_t now_ms, quern_error *err);
#endif
