/* SPDX-License-Identifier: MIT */
/* meter_limits.h - the limits that a meter has, as they are stored. */
#ifndef QN_BROKER_SQLITE_QUEUE_METER_LIMITS_H
#define QN_BROKER_SQLITE_QUEUE_METER_LIMITS_H

#include "broker/sqlite/queue/meter.h"

/* Fills in has_runs, runs, has_starts and starts, by the owner that it has. */
QUERN_NODISCARD quern_status qn_meter_limits_read(struct qn_meters *meters, struct qn_meter *meter,
                                                  quern_error *err);

#endif
