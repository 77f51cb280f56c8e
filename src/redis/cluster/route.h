/* SPDX-License-Identifier: MIT */
/* route.h - how a pipeline runs on a cluster: each command at the node that owns its slot.
 *
 * Only pipeline.c uses this. */
#ifndef QN_REDIS_CLUSTER_ROUTE_H
#define QN_REDIS_CLUSTER_ROUTE_H

#include "redis/pipeline.h"

/* Writes the commands from `first` on that are not in progress, one block to each node that can be
 * reached; the others are written by run. */
QUERN_NODISCARD quern_status qn_route_send(struct qn_pipeline *pipeline, size_t first,
                                           quern_error *err);
/* The same, then reads all replies, and repeats what a node refused without doing it: because it
 * lacks the script, does not own the slot, or cannot answer now. */
QUERN_NODISCARD quern_status qn_route_run(struct qn_pipeline *pipeline, size_t first,
                                          quern_error *err);
/* Closes the connections on which replies are still to come. */
void qn_route_drop(struct qn_pipeline *pipeline);

#endif
