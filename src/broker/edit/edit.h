/* SPDX-License-Identifier: MIT */
/* edit.h - the part of a broker's interface that changes the data of tasks by hand.
 *
 * It belongs to broker.h and search.h, whose rules and errors hold here, too. */
#ifndef QN_BROKER_EDIT_EDIT_H
#define QN_BROKER_EDIT_EDIT_H

#include "broker/search/search.h"
#include "broker/task_info.h"

enum qn_edit_result {
    QN_EDIT_DONE = 1,
    QN_EDIT_MISSING = 2, /* there is no such task */
    QN_EDIT_CHANGED = 3, /* it is not as it was seen, or does not fulfil the condition any more */
    QN_EDIT_STATE = 4,   /* its state does not allow it */
    QN_EDIT_UNDATED = 5, /* in its state a task has no moment */
    QN_EDIT_MEMBER = 6,  /* its group is being aggregated */
    QN_EDIT_DAMAGED = 7  /* its data cannot be read */
};
struct qn_edit_answer {
    enum qn_edit_result result;
    quern_task_state state; /* of a task that was read */
};
struct qn_edit_item {
    const char *id;
    /* As a search has shown it; only with a state in the list. */
    int64_t at_ms;
    size_t payload_size;
};
struct qn_edit_list {
    const quern_task_edit *edit; /* checked; with set_payload its payload is not NULL */
    const char *queue;
    quern_task_state state; /* in which they were found; 0: not known */
    const struct qn_edit_item *items;
    size_t count;                         /* at most QN_BULK_MAX */
    const struct qn_condition *condition; /* they must still fulfil it; NULL: none */
    int64_t now_ms;                       /* for that: from which ages are counted */
};
/* Reads each task, lets qn_edit_merge decide, and writes what changed, if the task is then still as
 * it was read. answers[i] is what became of items[i]. QUERN_E_UNSUPPORTED: a priority. */
typedef quern_status qn_edit_fn(struct qn_broker *broker, const struct qn_edit_list *list,
                                struct qn_edit_answer *answers, quern_error *err);
QUERN_NODISCARD qn_edit_fn qn_broker_edit;

/* --- merge.c: the same for all brokers ---------------------------------------------------- */

/* What a task will be. */
struct qn_edited {
    struct qn_task task; /* borrows from both */
    int64_t at_ms;       /* its new moment; 0: as it is */
    bool is_delay;       /* that is a delay from now on */
};
/* ret_edited is set with QN_EDIT_DONE. now_ms: of the broker. */
struct qn_edit_answer qn_edit_merge(const struct qn_edit_list *list, const quern_task_info *info,
                                    int64_t now_ms, struct qn_edited *ret_edited);
/* The error for one task that was not edited; QN_EDIT_DONE: QUERN_OK. */
QUERN_NODISCARD quern_status qn_edit_refuse(struct qn_edit_answer answer, const char *queue,
                                            const char *id, quern_error *err);
/* Whether a task in this state may be edited, and in this way. */
bool qn_edit_allows(const quern_task_edit *edit, quern_task_state state);

#endif
