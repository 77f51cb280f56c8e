/* SPDX-License-Identifier: MIT */
/* walk.h - through the names of all keys, at each node that has some. */
#ifndef QN_BROKER_REDIS_DOCTOR_WALK_H
#define QN_BROKER_REDIS_DOCTOR_WALK_H

#include "broker/redis/doctor/doctor.h"

/* Where the walk through the keys of a node is; begins as {.node = ..., .cursor = "0"}, has ended
 * when the cursor is "0" again. */
struct qn_walk {
    int node; /* of a cluster; one server: 0 */
    char cursor[32];
};

/* One step of SCAN; the cursor is replaced. The keys live in the pipeline. */
QUERN_NODISCARD quern_status qn_walk_step(struct qn_walk *walk, struct qn_pipeline *pipeline,
                                          const struct qn_reply **ret_keys, quern_error *err);
/* Calls `scan` for each node, until one fails. */
QUERN_NODISCARD quern_status qn_walk_nodes(struct qn_redis_doctor *doctor,
                                           quern_status (*scan)(struct qn_redis_doctor *, int,
                                                                quern_error *),
                                           quern_error *err);

#endif
