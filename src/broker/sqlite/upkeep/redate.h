/* SPDX-License-Identifier: MIT */
/* redate.h - corrects the moments of delays after the wall clock was set. */
#ifndef QN_BROKER_SQLITE_UPKEEP_REDATE_H
#define QN_BROKER_SQLITE_UPKEEP_REDATE_H

#include "broker/sqlite/sqlite.h"

/* Dates delays by the boot clock that the wall clock has left behind, a batch of them. */
QUERN_NODISCARD quern_status qn_sqlite_redate(struct qn_sqlite *self, bool *ret_more,
                                              quern_error *err);

#endif
