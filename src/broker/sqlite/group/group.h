/* SPDX-License-Identifier: MIT */
/* group.h - what the operations on sets share; all of it works inside their transaction. */
#ifndef QN_BROKER_SQLITE_GROUP_GROUP_H
#define QN_BROKER_SQLITE_GROUP_GROUP_H

#include "broker/group.h"
#include "broker/sqlite/store/conn.h"

/* Ends its lease. lease_until: only if it ends then; NULL: in any case. */
QUERN_NODISCARD quern_status qn_set_end(struct qn_conn *conn, int64_t no,
                                        const int64_t *lease_until, bool *ret_ended,
                                        quern_error *err);
/* Its members are back in their group; *ret_count: how many. */
QUERN_NODISCARD quern_status qn_set_give_back(struct qn_conn *conn, int64_t no, size_t *ret_count,
                                              quern_error *err);
/* QUERN_E_STALE, with a text. */
quern_status qn_set_stale(const struct qn_group_set *set, quern_error *err);

#endif
