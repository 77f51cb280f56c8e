/* SPDX-License-Identifier: MIT */
/* search_act.c - applies an action to the tasks that fulfil a query, or moves them elsewhere.
 *
 * It goes from place to place (a state of a queue, or its trash), in bounded steps of the broker,
 * and is applied to what a step has found, as long as it is still there; the rest is counted. */
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/move/move.h"
#include "inspect/inspector.h"
#include "inspect/search_scope.h"
#include "task/lifecycle.h"
#include "task/limits.h"
#include "task/name.h"

#define ACT_SCAN_MAX 20000 /* tasks that one step of an action looks at */
#define PASSES_MAX 3       /* over a place in which tasks move */

struct bulk {
    struct qn_broker *broker;
    struct qn_search_scope scope;
    quern_action action;
    const char *to_queue; /* they are moved there; NULL: the action */
    bool acts;            /* else it only counts */
    bool in_trash;        /* as the search has it */
    quern_matching total;
    int64_t begin_ms; /* of the broker; 0: not known yet */
    /* The present step. */
    struct qn_arena arena;
    struct qn_found found[QN_BULK_MAX];
    size_t found_count;
    uint64_t matched;
    bool no_memory;
};

/* Whether it came, failed or ended after the call began: else one that is run and fails at once
 * would be run again and again. */
static bool is_later(const quern_task_info *info, int64_t begin_ms)
{
    bool is_archived = info->task.state == QUERN_TASK_ARCHIVED;
    return begin_ms > 0 && (info->enqueued_at_ms > begin_ms || info->started_at_ms > begin_ms ||
                            info->failed_at_ms > begin_ms || info->completed_at_ms > begin_ms ||
                            (is_archived && info->at_ms > begin_ms));
}

static bool gather(const quern_task_info *info, void *user)
{
    struct bulk *bulk = user;
    if (is_later(info, bulk->begin_ms)) {
        return true;
    }
    bulk->matched++;
    if (!bulk->acts && !bulk->in_trash) {
        return true;
    }
    struct qn_found *found = &bulk->found[bulk->found_count++];
    const char *key = info->task.unique_key;
    found->id = qn_arena_strdup(&bulk->arena, info->task.id);
    found->unique_key = key == NULL ? "" : qn_arena_strdup(&bulk->arena, key);
    bulk->no_memory = found->id == NULL || found->unique_key == NULL;
    return !bulk->no_memory && bulk->found_count < QN_BULK_MAX;
}

static bool is_allowed(const struct bulk *bulk, quern_task_state state)
{
    return bulk->to_queue != NULL ? qn_move_allows(state)
                                  : qn_lifecycle_allows(state, bulk->action);
}

/* Moves what the step has found. */
static quern_status move_found(struct bulk *bulk, const struct qn_search_place *place,
                               struct qn_search_end *end, quern_error *err)
{
    struct qn_move_answer answers[QN_BULK_MAX];
    quern_matching counted = {.matched = bulk->found_count};
    const struct qn_move_list list = {.queue = place->queue,
                                      .to = bulk->to_queue,
                                      .state = place->state,
                                      .items = bulk->found,
                                      .count = bulk->found_count,
                                      .rank_max = end->at.rank};
    if (list.count == 0) {
        return QUERN_OK;
    }
    quern_status status = qn_broker_move(bulk->broker, &list, answers, err);
    for (size_t i = 0; status == QUERN_OK && i < list.count; i++) {
        enum qn_move_result result = answers[i].result;
        counted.done += result == QN_MOVE_DONE;
        counted.changed += result == QN_MOVE_MISSING || result == QN_MOVE_CHANGED;
    }
    if (status == QUERN_OK) {
        bulk->total.matched += counted.matched;
        bulk->total.done += counted.done;
        bulk->total.changed += counted.changed;
        bulk->total.refused += counted.matched - counted.done - counted.changed;
        end->at.rank -= counted.done < end->at.rank ? counted.done : end->at.rank;
    }
    return status;
}

/* Acts on what the step has found. */
static quern_status act_on_found(struct bulk *bulk, const struct qn_search_place *place,
                                 struct qn_search_end *end, quern_error *err)
{
    const struct qn_found_list list = {.action = bulk->action,
                                       .queue = place->queue,
                                       .state = place->state,
                                       .items = bulk->found,
                                       .count = bulk->found_count,
                                       .rank_max = end->at.rank};
    size_t done = 0;
    quern_status status = QUERN_OK;
    if (list.count > 0) {
        status = qn_broker_search_act(bulk->broker, &list, &done, err);
    }
    bulk->total.matched += status == QUERN_OK ? list.count : done;
    bulk->total.done += done;
    bulk->total.changed += status == QUERN_OK ? list.count - done : 0;
    if (place->state != QUERN_TASK_ACTIVE) {
        end->at.rank -= done < end->at.rank ? done : end->at.rank;
    }
    return status;
}

/* The same of the trash; also only counted, since it is known then what would be refused. */
static quern_status act_on_trash(struct bulk *bulk, const struct qn_search_place *place,
                                 struct qn_search_end *end, quern_error *err)
{
    enum qn_trash_result results[QN_BULK_MAX];
    size_t done = 0;
    const struct qn_trash_list list = {.action = bulk->action,
                                       .dry = !bulk->acts,
                                       .queue = place->queue,
                                       .items = bulk->found,
                                       .count = bulk->found_count};
    quern_status status = QUERN_OK;
    if (list.count > 0) {
        status = qn_broker_trash_act(bulk->broker, &list, results, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < list.count; i++) {
        done += results[i] == QN_TRASH_DONE;
        bulk->total.changed += results[i] == QN_TRASH_MISSING;
    }
    if (status == QUERN_OK) {
        bulk->total.matched += list.count;
        bulk->total.done += done;
    }
    bulk->total.refused = bulk->total.matched - bulk->total.done - bulk->total.changed;
    if (bulk->acts) {
        end->at.rank -= done < end->at.rank ? done : end->at.rank;
    }
    return status;
}

static quern_status search_step(struct bulk *bulk, const struct qn_search *step,
                                struct qn_search_end *end, quern_error *err)
{
    bulk->matched = bulk->found_count = 0;
    qn_arena_reset(&bulk->arena);
    quern_status status = bulk->in_trash ? qn_broker_trash_search(bulk->broker, step, end, err)
                                         : qn_broker_search(bulk->broker, step, end, err);
    return status == QUERN_OK && bulk->no_memory ? qn_error_nomem(err) : status;
}

/* From the position of `end` on, which it moves. */
static quern_status bulk_step(struct bulk *bulk, const struct qn_search_place *place,
                              struct qn_search_end *end, quern_error *err)
{
    const struct qn_search step = {.condition = bulk->scope.condition,
                                   .queue = place->queue,
                                   .state = place->state,
                                   .oldest_first = true,
                                   .now_ms = bulk->begin_ms,
                                   .from = end->at,
                                   .limit = bulk->acts || bulk->in_trash ? QN_BULK_MAX
                                                                         : QN_SEARCH_SCAN_MAX,
                                   .scan_max = ACT_SCAN_MAX,
                                   .on_task = gather,
                                   .user = bulk};
    bool allowed = is_allowed(bulk, place->state);
    quern_status status = search_step(bulk, &step, end, err);
    if (status != QUERN_OK) {
        return status;
    }
    bulk->begin_ms = end->now_ms;
    if (bulk->in_trash) {
        return act_on_trash(bulk, place, end, err);
    }
    if (bulk->acts && allowed) {
        return bulk->to_queue != NULL ? move_found(bulk, place, end, err)
                                      : act_on_found(bulk, place, end, err);
    }
    bulk->total.matched += bulk->matched;
    bulk->total.done += allowed ? bulk->matched : 0;
    bulk->total.refused += allowed ? 0 : bulk->matched;
    return QUERN_OK;
}

/* Where a position is a rank, tasks that left the place meanwhile hid others: another pass finds
 * those. */
static quern_status bulk_place(struct bulk *bulk, const struct qn_search_place *place,
                               quern_error *err)
{
    bool again = true;
    quern_status status = QUERN_OK;
    uint64_t refused = bulk->total.refused;
    for (int pass = 0; status == QUERN_OK && again && pass < PASSES_MAX; pass++) {
        uint64_t done = bulk->total.done;
        if (!QN_BUG(REFUSED_COUNTED_TWICE)) { /* those of the former pass are still there */
            bulk->total.matched -= bulk->total.refused - refused;
            bulk->total.refused = refused;
        }
        struct qn_search_end end = {.is_over = false};
        while (status == QUERN_OK && !end.is_over) {
            status = bulk_step(bulk, place, &end, err);
            if (bulk->scope.search->on_progress != NULL) {
                bulk->scope.search->on_progress(&bulk->total, bulk->scope.search->user);
            }
        }
        bool leaves = bulk->acts && place->state != QUERN_TASK_ACTIVE && !bulk->in_trash;
        again = leaves && end.by_rank && bulk->total.done > done;
    }
    return status;
}

/* All tasks of such a place fulfil it. */
static bool is_counted(const struct bulk *bulk, const struct qn_search_place *place)
{
    return !bulk->acts && !bulk->in_trash &&
           qn_condition_place(bulk->scope.condition, place->queue, place->state) == QN_ANSWER_YES;
}

static quern_status bulk_one(struct bulk *bulk, const struct qn_search_place *place,
                             quern_error *err)
{
    if (!is_counted(bulk, place)) {
        return bulk_place(bulk, place, err);
    }
    bool allowed = is_allowed(bulk, place->state);
    bulk->total.matched += place->count;
    bulk->total.done += allowed ? place->count : 0;
    bulk->total.refused += allowed ? 0 : place->count;
    return QUERN_OK;
}

/* First the places whose state does not allow the action, where tasks are only counted: the others
 * move tasks into these. */
static quern_status bulk_places(struct bulk *bulk, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; status == QUERN_OK && i < bulk->scope.count; i++) {
            const struct qn_search_place *place = &bulk->scope.places[i];
            bool allowed = bulk->in_trash || is_allowed(bulk, place->state);
            bool is_there = bulk->to_queue != NULL && strcmp(bulk->to_queue, place->queue) == 0;
            if (allowed == (round == 1) && !is_there) {
                status = bulk_one(bulk, place, err);
            }
        }
    }
    return status;
}

static quern_status run_bulk(struct bulk *bulk, const quern_search *search,
                             quern_matching *ret_matching, quern_error *err)
{
    quern_status status = qn_search_scope_init(&bulk->scope, bulk->broker, search, err);
    if (status == QUERN_OK) {
        status = bulk_places(bulk, err);
    }
    qn_search_scope_finish(&bulk->scope);
    qn_arena_finish(&bulk->arena);
    *ret_matching = bulk->total;
    return status;
}

/* What is given to both functions. */
struct bulk_call {
    quern_inspector *inspector;
    quern_action action;
    const char *to_queue; /* NULL: the action */
    struct qn_bytes search;
    bool acts;
};

static quern_status check_action(quern_action action, bool in_trash, quern_error *err)
{
    bool for_trash = action == QUERN_ACTION_RESTORE || action == QUERN_ACTION_DELETE;
    if (in_trash && !for_trash) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "search: tasks in the trash are restored or deleted, nothing else");
    }
    if (!in_trash && action == QUERN_ACTION_RESTORE) {
        return qn_error_set(err, QUERN_E_INVALID, "search: only tasks in the trash are restored");
    }
    return qn_inspect_check_action(action, err);
}

static quern_status check_call(const struct bulk_call *call, bool in_trash, quern_error *err)
{
    if (call->to_queue == NULL) {
        return check_action(call->action, in_trash, err);
    }
    return in_trash ? qn_error_set(err, QUERN_E_INVALID, "search: tasks in the trash do not move")
                    : qn_name_check_queue(call->to_queue, err);
}

static quern_status enter_bulk(const struct bulk_call *call, quern_matching *ret_matching,
                               quern_error *err)
{
    quern_search ours;
    quern_status status = qn_search_scope_take(call->inspector, call->search, &ours, err);
    if (status == QUERN_OK && ret_matching == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_matching: must not be NULL");
    }
    if (status == QUERN_OK) {
        *ret_matching = (quern_matching){.matched = 0};
        status = check_call(call, ours.in_trash != 0, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct bulk *bulk = qn_alloc_zero(1, sizeof *bulk);
    if (bulk == NULL) {
        return qn_error_nomem(err);
    }
    bulk->broker = call->inspector->broker;
    bulk->action = call->action;
    bulk->to_queue = call->to_queue;
    bulk->acts = call->acts && ours.dry_run == 0;
    bulk->in_trash = ours.in_trash != 0;
    status = run_bulk(bulk, &ours, ret_matching, err);
    qn_free(bulk);
    return status;
}

quern_status quern_inspector_act_matching_sized(quern_inspector *inspector, quern_action action,
                                                const quern_search *search, size_t search_size,
                                                quern_matching *ret_matching, quern_error *err)
{
    const struct bulk_call call = {inspector, action, NULL, {search, search_size}, true};
    return enter_bulk(&call, ret_matching, err);
}

quern_status quern_inspector_count_matching_sized(quern_inspector *inspector, quern_action action,
                                                  const quern_search *search, size_t search_size,
                                                  quern_matching *ret_matching, quern_error *err)
{
    const struct bulk_call call = {inspector, action, NULL, {search, search_size}, false};
    return enter_bulk(&call, ret_matching, err);
}

quern_status quern_inspector_move_matching_sized(quern_inspector *inspector, const char *to_queue,
                                                 const quern_search *search, size_t search_size,
                                                 quern_matching *ret_matching, quern_error *err)
{
    if (to_queue == NULL) {
        quern_status status = qn_inspect_enter(inspector, err);
        return status != QUERN_OK
                   ? status
                   : qn_error_set(err, QUERN_E_INVALID, "to_queue: must not be NULL");
    }
    const struct bulk_call call = {
        inspector, (quern_action)0, to_queue, {search, search_size}, true};
    return enter_bulk(&call, ret_matching, err);
}
