/* SPDX-License-Identifier: MIT */
/* open.h - opens the connections of an object whose path is known, with their settings. */
#ifndef QN_BROKER_SQLITE_STORE_OPEN_H
#define QN_BROKER_SQLITE_STORE_OPEN_H

#include "broker/sqlite/sqlite.h"

QUERN_NODISCARD quern_status qn_sqlite_open_writer(struct qn_sqlite *self, quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_open_reader(struct qn_sqlite *self, quern_error *err);

#endif
