/* SPDX-License-Identifier: MIT */
/* standing.h - the part of a broker's interface that says where one task stands: what an
 * explanation needs beside the task, its queue and the workers.
 *
 * It belongs to broker.h and inspect.h, whose rules and errors hold here, too. */
#ifndef QN_BROKER_STANDING_STANDING_H
#define QN_BROKER_STANDING_STANDING_H

#include "broker/listing.h"

#define QN_STANDING_AHEAD_MAX 100000 /* tasks before it are counted so far: 1 ms of Redis */

struct qn_standing {
    /* Pending: how many tasks are before it in its queue, or in its lane, at most
     * QN_STANDING_AHEAD_MAX; -1: not known, or it is not pending. */
    int64_t ahead;
    bool in_lane;  /* it waits in the lane of its key and its type */
    int64_t level; /* how much company it may have (struct qn_deaths); -1: it is not charged */
    /* The solo lock of its queue; "": no worker has it. */
    char solo_owner[QN_NAME_SIZE_MAX + 1];
    int64_t solo_until_ms; /* wall clock; when it ends unless it is kept */
    int64_t solo_rest_ms;  /* until then the queue rests */
    /* The worker that has its lease, by its own record, also if it is dead; host "": there is no
     * record, or it is not active. */
    char host[QN_NAME_SIZE_MAX + 1];
    int64_t pid;        /* 0: not known */
    int64_t seen_at_ms; /* its last heartbeat */
    /* Aggregating: how many tasks wait in its group; in_set: it is in a set that is aggregated. */
    uint64_t group_size;
    bool in_set;
};
/* Of this task, as it was read. What has changed since is not noticed. Never QUERN_E_NOT_FOUND: a
 * task that is gone has no standing. */
typedef quern_status qn_standing_fn(struct qn_broker *broker, const struct quern_task_info *info,
                                    struct qn_standing *ret_standing, quern_error *err);
QUERN_NODISCARD qn_standing_fn qn_broker_standing;

#endif
