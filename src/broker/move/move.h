/* SPDX-License-Identifier: MIT */
/* move.h - the part of a broker's interface that puts tasks into another queue by hand.
 *
 * It belongs to broker.h and search.h, whose rules and errors hold here, too. A task that moves is
 * the same one there: id, data, options, past, state and moment; a pending one stands at the tail.
 * Its unique lock goes along, under the name that it has in that queue. */
#ifndef QN_BROKER_MOVE_MOVE_H
#define QN_BROKER_MOVE_MOVE_H

#include "broker/search/search.h"

enum qn_move_result {
    QN_MOVE_DONE = 1,
    QN_MOVE_MISSING = 2, /* there is no such task */
    QN_MOVE_CHANGED = 3, /* it has left the state in which it was found */
    QN_MOVE_STATE = 4,   /* its state does not allow it */
    QN_MOVE_MEMBER = 5,  /* its group is being aggregated */
    QN_MOVE_EXISTS = 6,  /* the other queue has a task with its id */
    QN_MOVE_LOCKED = 7,  /* a task there holds its unique lock */
    QN_MOVE_FULL = 8,    /* it is archived, and the archive there is full */
    QN_MOVE_DAMAGED = 9  /* its data cannot be read */
};
struct qn_move_answer {
    enum qn_move_result result;
    quern_task_state state; /* of QN_MOVE_STATE */
};
struct qn_move_list {
    const char *queue;
    const char *to;               /* another one; made if there is none */
    quern_task_state state;       /* in which they were found; 0: not known */
    const struct qn_found *items; /* unique_key is not used */
    size_t count;                 /* at most QN_BULK_MAX */
    uint64_t rank_max;            /* no task is behind this rank of its place */
};
/* Each task leaves its queue and enters the other one in one step: no program sees it in none, or
 * in both. answers[i] is what became of items[i]. One transaction, or a few. QUERN_E_UNSUPPORTED:
 * the queues are in two slots of a cluster. */
typedef quern_status qn_move_fn(struct qn_broker *broker, const struct qn_move_list *list,
                                struct qn_move_answer *answers, quern_error *err);
QUERN_NODISCARD qn_move_fn qn_broker_move;

/* --- refuse.c: the same for all brokers --------------------------------------------------- */

bool qn_move_allows(quern_task_state state);
/* The error for one task that was not moved; QN_MOVE_DONE: QUERN_OK. */
QUERN_NODISCARD quern_status qn_move_refuse(struct qn_move_answer answer,
                                            const struct qn_move_list *list, const char *id,
                                            quern_error *err);

#endif
