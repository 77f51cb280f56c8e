/* SPDX-License-Identifier: MIT */
/* quern/search.h - searches tasks by a query, and changes those that fulfil it.
 *
 *     quern_search search = {.match = "state = archived and error ~ \"no route\" and age < 2h"};
 *     status = quern_inspector_search(inspector, &search, &list, &err);
 *
 * docs/guide/queries.md describes the language; it means the same on every broker. A call looks at
 * a bounded number of tasks. It belongs to quern/inspector.h, whose rules hold here, too. */
#ifndef QUERN_SEARCH_H
#define QUERN_SEARCH_H

#include "quern/inspector.h"

#ifdef __cplusplus
extern "C" {
#endif

struct quern_matching;
typedef struct quern_search {
    const char *match;  /* the query; NULL or "": every task */
    const char *queue;  /* NULL: all queues */
    int32_t state;      /* a quern_task_state; 0: all */
    int32_t in_trash;   /* 1: tasks that QUERN_ACTION_TRASH has deleted, for a day; 0: the others */
    const char *cursor; /* NULL: from the beginning; else as quern_task_list_cursor returned it */
    uint64_t limit;     /* tasks in the list; 0: 30; at most 10000 */
    uint64_t scan_max;  /* tasks that are looked at; 0: 30 000; at most 10 000 000 */
    /* Called after each step of an action with the counts so far; NULL: not. */
    void (*on_progress)(const struct quern_matching *so_far, void *user);
    void *user;
    int32_t dry_run;  /* 1: an action only counts what it would do */
    int32_t reserved; /* 0 */
} quern_search;

/* A page of the tasks that fulfil the query. Order: by queue, then state; pending and active: next
 * or oldest first, tasks with crashes last; scheduled and retry: soonest first; archived: newest
 * first; completed: those kept longest first; of the trash, by queue, deleted last first. While
 * tasks move, one may be passed over or be listed twice. A query that demands one whole id looks at
 * no other tasks. Errors: QUERN_E_INVALID: the query, where the text names the column and the
 * remedy; a cursor of another search. */
QUERN_NODISCARD static inline quern_status quern_inspector_search(quern_inspector *inspector,
                                                                  const quern_search *search,
                                                                  quern_task_list **ret_list,
                                                                  quern_error *err);
/* Where the search continues, also if the list is empty; NULL: that was all, or the list is not of
 * a search. It belongs to the list. Ages are counted from the moment of the first page. */
QUERN_API const char *quern_task_list_cursor(const quern_task_list *list);
/* How many tasks were looked at since the beginning of the search. */
QUERN_API uint64_t quern_task_list_searched(const quern_task_list *list);
/* How many tasks there are in the states and queues in which some could fulfil the query. */
QUERN_API uint64_t quern_task_list_total(const quern_task_list *list);

/* You own it, so it never grows. */
typedef struct quern_matching {
    uint64_t matched; /* tasks that fulfilled the query; the sum of the next three */
    uint64_t done;    /* the action was applied to them */
    uint64_t changed; /* they had left their state, or were cancelled in this way, by then */
    uint64_t refused; /* their state does not allow the action */
} quern_matching;
/* Applies the action to each task that fulfils the query (cursor, limit and scan_max are not used),
 * in bounded steps, while the queues stay in use. A task that is enqueued, fails or ends after the
 * call began is left alone. *ret_matching is right also on failure, when others may be left.
 * QUERN_E_STATE: the archive or the trash would grow beyond its limit.
 *
 * In the trash (search.in_trash) the actions are QUERN_ACTION_RESTORE and QUERN_ACTION_DELETE,
 * which empties it. A task is restored with its id, data, options and moment, once; refused are
 * those whose id or unique lock another task has by now, or for which the archive has no room, and
 * they stay in the trash. The lock ends when it would have ended. */
QUERN_NODISCARD static inline quern_status quern_inspector_act_matching(
    quern_inspector *inspector, quern_action action, const quern_search *search,
    quern_matching *ret_matching, quern_error *err);
/* What quern_inspector_act_matching would do, without doing it: `done` are those that it would be
 * applied to. */
QUERN_NODISCARD static inline quern_status quern_inspector_count_matching(
    quern_inspector *inspector, quern_action action, const quern_search *search,
    quern_matching *ret_matching, quern_error *err);

/* --- Editing ---------------------------------------------------------------------------- */

/* Changes one task: its payload, its moment, its options; all of it in one step. queue NULL: in any
 * queue. QUERN_E_CONFLICT: the task has changed since it was read (edit.seen, else by this call),
 * and is left as it is. QUERN_E_STATE: it is active or completed, its group is being aggregated, or
 * it is to have a moment although it is neither scheduled nor waits for a retry. QUERN_E_NOT_FOUND.
 * The lock of a unique task stays that of the payload with which it was enqueued, as with asynq's
 * UpdateTaskPayload; where a lock is renewed while its task lives, it is renewed for the new
 * moment. */
QUERN_NODISCARD static inline quern_status quern_inspector_task_edit(quern_inspector *inspector,
                                                                     const char *queue,
                                                                     const char *id,
                                                                     const quern_task_edit *edit,
                                                                     quern_error *err);
/* Does so to each task that fulfils the query, as quern_inspector_act_matching applies an action;
 * edit.seen is not used. Each is read once more, and must then still fulfil it: else it is counted
 * as changed. */
QUERN_NODISCARD static inline quern_status quern_inspector_edit_matching(
    quern_inspector *inspector, const quern_task_edit *edit, const quern_search *search,
    quern_matching *ret_matching, quern_error *err);

/* --- Moving ----------------------------------------------------------------------------- */

/* Puts a task that waits, or is archived, into another queue, which is made if there is none. It is
 * the same task there: id, data, options, past, state and moment; a pending one stands at the tail,
 * and the limits of that queue hold for it, but not its max_pending. Its unique lock goes along.
 * In one step: no program sees it in none of the queues, or in both. queue NULL: from any queue.
 * QUERN_E_STATE: it is active or completed, its group is being aggregated, it is there already, or
 * the archive there is full. QUERN_E_CONFLICT: that queue has a task with its id.
 * QUERN_E_DUPLICATE: a task there holds its unique lock. QUERN_E_UNSUPPORTED: the two queues are in
 * two slots of a Redis Cluster. QUERN_E_NOT_FOUND. For quern_client_wait that has found it in its
 * old queue it is gone. */
QUERN_NODISCARD QUERN_API quern_status quern_inspector_task_move(quern_inspector *inspector,
                                                                 const char *queue, const char *id,
                                                                 const char *to_queue,
                                                                 quern_error *err);
/* Does so to each task that fulfils the query, oldest first, as quern_inspector_act_matching
 * applies an action. Those that are there already are not counted; with search.dry_run a clash with
 * a task there is not known yet. */
QUERN_NODISCARD static inline quern_status quern_inspector_move_matching(
    quern_inspector *inspector, const char *to_queue, const quern_search *search,
    quern_matching *ret_matching, quern_error *err);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_inspector_search_sized(quern_inspector *inspector,
                                                                    const quern_search *search,
                                                                    size_t search_size,
                                                                    quern_task_list **ret_list,
                                                                    quern_error *err);
static inline quern_status quern_inspector_search(quern_inspector *inspector,
                                                  const quern_search *search,
                                                  quern_task_list **ret_list, quern_error *err)
{
    return quern_inspector_search_sized(inspector, search, sizeof(quern_search), ret_list, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_act_matching_sized(
    quern_inspector *inspector, quern_action action, const quern_search *search, size_t search_size,
    quern_matching *ret_matching, quern_error *err);
static inline quern_status quern_inspector_act_matching(quern_inspector *inspector,
                                                        quern_action action,
                                                        const quern_search *search,
                                                        quern_matching *ret_matching,
                                                        quern_error *err)
{
    return quern_inspector_act_matching_sized(inspector, action, search, sizeof(quern_search),
                                              ret_matching, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_count_matching_sized(
    quern_inspector *inspector, quern_action action, const quern_search *search, size_t search_size,
    quern_matching *ret_matching, quern_error *err);
static inline quern_status quern_inspector_count_matching(quern_inspector *inspector,
                                                          quern_action action,
                                                          const quern_search *search,
                                                          quern_matching *ret_matching,
                                                          quern_error *err)
{
    return quern_inspector_count_matching_sized(inspector, action, search, sizeof(quern_search),
                                                ret_matching, err);
}

QUERN_NODISCARD QUERN_API quern_status
quern_inspector_task_edit_sized(quern_inspector *inspector, const char *queue, const char *id,
                                const quern_task_edit *edit, size_t edit_size, quern_error *err);
static inline quern_status quern_inspector_task_edit(quern_inspector *inspector, const char *queue,
                                                     const char *id, const quern_task_edit *edit,
                                                     quern_error *err)
{
    return quern_inspector_task_edit_sized(inspector, queue, id, edit, sizeof(quern_task_edit),
                                           err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_edit_matching_sized(
    quern_inspector *inspector, const quern_task_edit *edit, size_t edit_size,
    const quern_search *search, size_t search_size, quern_matching *ret_matching, quern_error *err);
static inline quern_status quern_inspector_edit_matching(quern_inspector *inspector,
                                                         const quern_task_edit *edit,
                                                         const quern_search *search,
                                                         quern_matching *ret_matching,
                                                         quern_error *err)
{
    return quern_inspector_edit_matching_sized(inspector, edit, sizeof(quern_task_edit), search,
                                               sizeof(quern_search), ret_matching, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_inspector_move_matching_sized(
    quern_inspector *inspector, const char *to_queue, const quern_search *search,
    size_t search_size, quern_matching *ret_matching, quern_error *err);
static inline quern_status quern_inspector_move_matching(quern_inspector *inspector,
                                                         const char *to_queue,
                                                         const quern_search *search,
                                                         quern_matching *ret_matching,
                                                         quern_error *err)
{
    return quern_inspector_move_matching_sized(inspector, to_queue, search, sizeof(quern_search),
                                               ret_matching, err);
}

#ifdef __cplusplus
}
#endif
#endif
