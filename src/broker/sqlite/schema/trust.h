/* SPDX-License-Identifier: MIT */
/* trust.h - is the schema of a file the one that quern made? */
#ifndef QN_BROKER_SQLITE_SCHEMA_TRUST_H
#define QN_BROKER_SQLITE_SCHEMA_TRUST_H

#include "base/memory/arena.h"
#include "broker/sqlite/store/conn.h"

/* Whether our tables are those of this version, as our own statements make them. */
QUERN_NODISCARD quern_status qn_sqlite_trust_check(struct qn_conn *conn, int64_t version,
                                                   quern_error *err);

/* --- For the doctor -------------------------------------------------------------------- */

struct qn_schema_object {
    const char *type;
    const char *name;
    const char *table;
    const char *text; /* without comments and needless spaces; "" for SQLite's own indexes */
    bool unique;
    struct qn_schema_object *next;
};

/* All that is named or on something named quern_*, and views that read such a thing. */
QUERN_NODISCARD quern_status qn_sqlite_trust_read(struct qn_conn *conn, struct qn_arena *arena,
                                                  struct qn_schema_object **ret_objects,
                                                  quern_error *err);
/* The same for the schema that our own statements make for this version. */
QUERN_NODISCARD quern_status qn_sqlite_trust_read_expected(int64_t version, struct qn_arena *arena,
                                                           struct qn_schema_object **ret_objects,
                                                           quern_error *err);
/* The object of the same type and name; NULL: there is none. */
const struct qn_schema_object *qn_sqlite_trust_find(const struct qn_schema_object *objects,
                                                    const struct qn_schema_object *wanted);

#endif
