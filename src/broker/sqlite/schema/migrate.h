/* SPDX-License-Identifier: MIT */
/* migrate.h - the versions of our tables. */
#ifndef QN_BROKER_SQLITE_SCHEMA_MIGRATE_H
#define QN_BROKER_SQLITE_SCHEMA_MIGRATE_H

#include "broker/sqlite/store/conn.h"

#define QN_SQLITE_SCHEMA_VERSION 7

/* Runs the migrations from version `from` to version `to`, without noting that. */
QUERN_NODISCARD quern_status qn_sqlite_migrate(struct qn_conn *conn, int64_t from, int64_t to,
                                               quern_error *err);

#endif
