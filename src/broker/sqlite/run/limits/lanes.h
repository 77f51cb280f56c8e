/* SPDX-License-Identifier: MIT */
/* lanes.h - queues whose tasks have lanes: those with a limit_key in a task, or a limit by type.
 *
 * A lane is a key, and where there are limits by type, a type of it; tasks without a key are a key
 * of their own. The first task of each lane is found in one step of an index, so tasks that may not
 * run now are not walked through, however many they are. */
#ifndef QN_BROKER_SQLITE_RUN_LIMITS_LANES_H
#define QN_BROKER_SQLITE_RUN_LIMITS_LANES_H

#include "broker/sqlite/run/lease_batch.h"

#define QN_LANES_BY_KEY 1 /* quern_queue.lanes */
#define QN_LANES_BY_TYPE 2
#define QN_LANE_NAME_SIZE (2 * QN_NAME_SIZE_MAX + 2) /* with its NUL */

/* The name of a task's lane; NULL: the queue has none, or a name is too long to be quern's. */
const char *qn_lanes_name(char out[QN_LANE_NAME_SIZE], int64_t lanes, const char *key,
                          const char *type);
/* As qn_pick_pending, for a queue with lanes. */
QUERN_NODISCARD quern_status qn_lanes_pick(struct qn_lease_batch *batch,
                                           const struct qn_lease_source *source, size_t want,
                                           quern_error *err);
/* At the end of a lease: notes whose turn was last, and frees what was read. */
QUERN_NODISCARD quern_status qn_lanes_finish(struct qn_lease_batch *batch, bool write,
                                             quern_error *err);

#endif
