/* SPDX-License-Identifier: MIT */
/* trash.h - the part of a broker's interface for the trash of a queue: tasks that an operator
 * deleted, which can be restored for QN_TRASH_MS.
 *
 * It belongs to broker.h and inspect.h, whose rules and errors hold here, too. The actions that
 * fill the trash are those of inspect.h and search.h, with QUERN_ACTION_TRASH; when it has no room
 * for all that a call deletes, the call changes nothing (QUERN_E_STATE). A task that is deleted
 * again takes the place of the one with its id. The janitor of a worker removes what is over, and
 * so does each action on the trash. */
#ifndef QN_BROKER_TRASH_TRASH_H
#define QN_BROKER_TRASH_TRASH_H

#include "broker/search/search.h"

/* As qn_search_fn, over all tasks in the trash of the queue, deleted last first unless
 * `oldest_first`; `state` is not used. info->deleted_at_ms is when it was deleted, its state the
 * one that it had. */
typedef quern_status qn_trash_search_fn(struct qn_broker *broker, const struct qn_search *search,
                                        struct qn_search_end *ret_end, quern_error *err);
QUERN_NODISCARD qn_trash_search_fn qn_broker_trash_search;

enum qn_trash_result {
    QN_TRASH_DONE = 1,
    QN_TRASH_MISSING = 2, /* no such task in the trash, or its day is over */
    QN_TRASH_EXISTS = 3,  /* a task of the queue has its id */
    QN_TRASH_LOCKED = 4,  /* another task holds its unique lock */
    QN_TRASH_FULL = 5     /* it was archived, and the archive is full */
};
struct qn_trash_list {
    quern_action action; /* QUERN_ACTION_RESTORE or QUERN_ACTION_DELETE */
    bool dry;            /* nothing is changed: results are what would become of them */
    const char *queue;
    const struct qn_found *items; /* unique_key is not used */
    size_t count;                 /* at most QN_BULK_MAX */
};
/* Restores these tasks, or removes them for good. results[i] is what became of items[i]; those that
 * were not done stay in the trash. One transaction, or a few. */
typedef quern_status qn_trash_act_fn(struct qn_broker *broker, const struct qn_trash_list *list,
                                     enum qn_trash_result *results, quern_error *err);
QUERN_NODISCARD qn_trash_act_fn qn_broker_trash_act;

struct qn_trash_use {
    uint64_t count;
    uint64_t bytes; /* roughly */
};
/* How much is in the trash of the queue; what is over may be counted. */
typedef quern_status qn_trash_use_fn(struct qn_broker *broker, const char *queue,
                                     struct qn_trash_use *ret_use, quern_error *err);
QUERN_NODISCARD qn_trash_use_fn qn_broker_trash_use;

/* The error of an action that would fill the trash beyond its limits. */
QUERN_NODISCARD quern_status qn_trash_refuse_full(const char *queue, struct qn_trash_use use,
                                                  quern_error *err);
/* The error for one task that was not done; QN_TRASH_DONE: QUERN_OK. */
QUERN_NODISCARD quern_status qn_trash_refuse(enum qn_trash_result result, const char *queue,
                                             const char *id, quern_error *err);

#endif
