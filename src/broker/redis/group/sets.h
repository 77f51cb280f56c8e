/* SPDX-License-Identifier: MIT */
/* sets.h - the keys of sets. */
#ifndef QN_BROKER_REDIS_GROUP_SETS_H
#define QN_BROKER_REDIS_GROUP_SETS_H

#include "broker/group.h"
#include "redis/pipeline.h"

/* "g:<group>:<name>" of the queue, the key of a set and the proof of its lease. Copied. */
void qn_sets_add_key(struct qn_pipeline *pipeline, const struct qn_group_set *set);
/* QUERN_E_STALE, with a text. */
quern_status qn_sets_stale(const struct qn_group_set *set, quern_error *err);

#endif
