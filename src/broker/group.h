/* SPDX-License-Identifier: MIT */
/* group.h - the part of a broker's interface that aggregates the tasks of a group.
 *
 * It belongs to broker.h, whose rules and errors hold here, too. Tasks of a group wait in state
 * aggregating. When their group is due, `aggregate` takes the oldest of them as a set,
 * under a lease, as a run is. The worker makes one task of them and calls `finish_set`, which
 * stores that task and removes the members in one transaction; or `return_set`, which gives them
 * back. `reclaim_sets` gives back those of dead workers. So at each moment a task is in its group,
 * in one set, or counted in a task that is stored: a crash neither loses nor doubles it. */
#ifndef QN_BROKER_GROUP_H
#define QN_BROKER_GROUP_H

#include "broker/broker.h"

/* A set has at most QN_GROUP_SET_MAX members, and beyond the first only as many as have
 * QN_BATCH_BYTES_MAX bytes of payload and headers together; the others stay for the next set. */
#define QN_GROUP_SET_MAX 1000

/* When a group is due; asynq's rules, in its order. On Redis tasks are dated in
 * whole seconds, so up to 999 ms less than these may have passed. */
struct qn_group_settings {
    int64_t max_size;     /* it has so many tasks; then and below, a set has no more. 0: no limit;
                           * a larger one than QN_GROUP_SET_MAX counts as that */
    int64_t max_delay_ms; /* its oldest task has waited so long; 0: no limit */
    int64_t grace_ms;     /* no task has come for so long */
};

/* Where the next call goes on, so that no group is left out; zero at first. The broker's own:
 * one uses the name, a server a page of a scan and the groups of it that gave a set. */
#define QN_GROUPS_GIVEN_MAX 256
struct qn_group_cursor {
    char passed[QN_NAME_SIZE_MAX + 1];
    char page[24];
    uint32_t given[QN_GROUPS_GIVEN_MAX];
    size_t given_count;
};

/* Members of a group, leased together; qn_group_set_free frees it with its members. */
struct qn_group_set {
    const char *queue;
    const char *group;
    const char *name;           /* of the set, for the broker and for logs */
    uint64_t token;             /* proves the lease to the broker */
    int64_t row;                /* the broker's own */
    struct qn_leased **members; /* the oldest first; what belongs to a run is 0 */
    size_t count;               /* at least 1 */
};
void qn_group_set_free(struct qn_group_set *set);

struct qn_aggregate {
    const char *queue;     /* paused or not, as in asynq: its tasks do not run */
    const char *worker_id; /* its first heartbeat came before */
    int64_t lease_ms;
    struct qn_group_cursor *cursor; /* in and out */
    /* Whether this worker aggregates the group, and when. Called for each group that is looked at.
     * It must not use the broker. */
    bool (*settings)(const char *queue, const char *group, struct qn_group_settings *ret_settings,
                     void *user);
    /* As in qn_exchange: for each member that was archived because its message cannot be used. */
    void (*on_unusable)(const struct qn_unusable *unusable, void *user);
    void *user;
};

struct qn_aggregate_reply {
    struct qn_group_set *set; /* NULL: no group before `end` is due; freed by caller */
    bool end;                 /* all groups after the cursor were looked at, and the next call
                               * begins with the first */
    bool waiting;             /* a group that was looked at, and that this worker aggregates, has
                               * tasks still */
    int64_t next_ms;          /* when the first of those is due, from now on; tasks that
                               * come until then may change that. After a set 0. INT64_MAX: none
                               * waits */
};

/* Looks at the groups of a queue, from the cursor on, until one is due, whose oldest
 * tasks become a set. Without a set it looks at no more than some hundred groups: call it again
 * until `end`. The forming of the set is one transaction. After QUERN_E_UNKNOWN there may be a set
 * without a worker: its lease ends, and it is given back. */
typedef quern_status qn_aggregate_fn(struct qn_broker *broker, const struct qn_aggregate *aggregate,
                                     struct qn_aggregate_reply *reply, quern_error *err);
QUERN_NODISCARD qn_aggregate_fn qn_broker_aggregate;

struct qn_set_extension {
    const struct qn_group_set *set;
    bool held; /* out: false: the lease is lost, and its members may be in another set */
};
/* Extends the leases still held to lease_ms from now. Each set is a transaction: after an error
 * those that were extended have `held`, and it is as before where there is no answer. */
typedef quern_status qn_extend_sets_fn(struct qn_broker *broker,
                                       struct qn_set_extension *extensions, size_t count,
                                       int64_t lease_ms, quern_error *err);
QUERN_NODISCARD qn_extend_sets_fn qn_broker_extend_sets;

/* Gives the members back to their group, at their old places. QUERN_E_STALE when the lease is lost:
 * they are there already, or in another set. */
typedef quern_status qn_return_set_fn(struct qn_broker *broker, const struct qn_group_set *set,
                                      quern_error *err);
QUERN_NODISCARD qn_return_set_fn qn_broker_return_set;

struct qn_finish_set {
    struct qn_stamp stamp;
    const struct qn_group_set *set;
    const struct qn_task *task; /* as in qn_enqueue, but on_duplicate must be FAIL: a task that is
                                 * left out would lose the members. Its queue must be that of the
                                 * set. NULL: the members are dropped */
};
/* Stores the task as enqueue does, and deletes the members with their unique locks, which the task
 * may take over at once. Nothing is changed and the set is still held after QUERN_E_DUPLICATE,
 * QUERN_E_CONFLICT and QUERN_E_FULL, which are the task's. QUERN_E_STALE: the lease is lost,
 * nothing is changed. A member that an operator has removed meanwhile is no error. */
typedef quern_status qn_finish_set_fn(struct qn_broker *broker, const struct qn_finish_set *finish,
                                      quern_error *err);
QUERN_NODISCARD qn_finish_set_fn qn_broker_finish_set;

/* Gives back the members of sets whose lease is over or whose worker's process is known to be gone,
 * also those that Go workers left: sets in a transaction each, until `limit` members were given
 * back (and the whole set of a worker of ours). ret_reclaimed: members; less than limit: no more is
 * to be done. */
typedef quern_status qn_reclaim_sets_fn(struct qn_broker *broker, struct qn_upkeep upkeep,
                                        size_t *ret_reclaimed, quern_error *err);
QUERN_NODISCARD qn_reclaim_sets_fn qn_broker_reclaim_sets;

#endif
