/* SPDX-License-Identifier: MIT */
/* lead.h - the epoch of the leader, below which no tick is taken. */
#ifndef QN_BROKER_SQLITE_SCHEDULE_LEAD_H
#define QN_BROKER_SQLITE_SCHEDULE_LEAD_H

#include "broker/sqlite/store/conn.h"

/* 0: no scheduler has ever led. */
QUERN_NODISCARD quern_status qn_lead_epoch(struct qn_conn *conn, uint64_t *ret_epoch,
                                           quern_error *err);

#endif
