/* SPDX-License-Identifier: MIT */
/* search.c - searches tasks by a query, and applies an action to those that fulfil it.
 *
 * Both go from place to place (a state of a queue), in bounded steps of the broker. An action is
 * applied to what a step has found, as long as it is still in that state; the rest is counted. */
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "inspect/inspector.h"
#include "inspect/search_scope.h"
#include "inspect/task_list.h"
#include "task/lifecycle.h"
#include "task/limits.h"

#define LIMIT_DEFAULT 30
#define LIMIT_MAX 10000
#define SCAN_DEFAULT 30000 /* of Redis: half a second */
#define SCAN_MAX 10000000
#define ACT_SCAN_MAX 20000 /* tasks that one step of an action looks at */
#define PASSES_MAX 3       /* over a place in which tasks move */

static quern_status take_search(const quern_inspector *inspector, struct qn_bytes given,
                                quern_search *ours, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && given.data == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "search: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(*ours), given, "quern_search", err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (ours->state != 0 && quern_task_state_name((quern_task_state)ours->state) == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "search: %d is not a state", (int)ours->state);
    }
    if (ours->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "search: reserved is not 0");
    }
    if (ours->limit > LIMIT_MAX || ours->scan_max > SCAN_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "search: a page is at most %d tasks out of %d that are looked at",
                            LIMIT_MAX, SCAN_MAX);
    }
    ours->limit = ours->limit == 0 ? LIMIT_DEFAULT : ours->limit;
    ours->scan_max = ours->scan_max == 0 ? SCAN_DEFAULT : ours->scan_max;
    return QUERN_OK;
}

/* --- A page -------------------------------------------------------------------------- */

struct page {
    struct qn_broker *broker;
    const struct quern_clock *clock;
    struct qn_search_scope scope;
    struct qn_search_cursor cursor;
    quern_task_list *list;
};

/* One step of the broker. */
static quern_status search_step(struct page *page, uint64_t scan_max, uint64_t *ret_scanned,
                                quern_error *err)
{
    const struct qn_search_place *place = &page->scope.places[page->cursor.place];
    const struct qn_search step = {.condition = page->scope.condition,
                                   .queue = place->queue,
                                   .state = place->state,
                                   .now_ms = page->cursor.now_ms,
                                   .from = page->cursor.at,
                                   .limit = page->scope.search->limit - page->list->count,
                                   .scan_max = scan_max,
                                   .on_task = qn_task_list_add,
                                   .user = page->list};
    struct qn_search_end end = {0};
    quern_status status = qn_broker_search(page->broker, &step, &end, err);
    if (status == QUERN_OK && page->list->no_memory) {
        status = qn_error_nomem(err);
    }
    if (status == QUERN_OK) {
        page->cursor.at = end.is_over ? (struct qn_search_position){0} : end.at;
        page->cursor.place += end.is_over;
        page->cursor.now_ms = end.now_ms;
        page->cursor.searched += end.scanned;
        *ret_scanned += end.scanned;
    }
    return status;
}

static quern_status search_places(struct page *page, quern_error *err)
{
    const quern_search *search = page->scope.search;
    uint64_t scanned = 0;
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && page->cursor.place < page->scope.count &&
           page->list->count < search->limit && scanned < search->scan_max) {
        status = search_step(page, search->scan_max - scanned, &scanned, err);
    }
    page->list->searched = page->cursor.searched;
    page->list->total = page->scope.total;
    if (status == QUERN_OK && page->cursor.place < page->scope.count) {
        page->list->cursor = qn_search_scope_write(&page->scope, &page->cursor);
        status = page->list->cursor == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    return status;
}

struct by_id {
    struct page *page;
    int64_t now_ms;
};

static bool add_fitting(const quern_task_info *info, void *user)
{
    struct by_id *by_id = user;
    const quern_search *search = by_id->page->scope.search;
    by_id->page->list->searched++;
    by_id->page->list->total++;
    bool fits = (search->state == 0 || search->state == (int32_t)info->task.state) &&
                qn_search_fits(by_id->page->scope.condition, info, by_id->now_ms);
    return !fits || qn_task_list_add(info, by_id->page->list);
}

/* Few tasks have this id: one in each queue at most. */
static quern_status search_id(struct page *page, const char *id, quern_error *err)
{
    const quern_search *search = page->scope.search;
    struct by_id by_id = {.page = page, .now_ms = qn_clock_wall_ms(page->clock)};
    const quern_task_filter filter = {.queue = search->queue, .id = id, .limit = LIMIT_MAX};
    quern_status status = qn_broker_tasks(page->broker, &filter, add_fitting, &by_id, err);
    return status == QUERN_OK && page->list->no_memory ? qn_error_nomem(err) : status;
}

static quern_status search_page(struct page *page, quern_error *err)
{
    const quern_search *search = page->scope.search;
    const char *id = qn_condition_id(page->scope.condition);
    quern_status status = QUERN_OK;
    if (search->cursor != NULL) {
        status = qn_search_scope_read(&page->scope, search->cursor, &page->cursor, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    return id != NULL && search->cursor == NULL ? search_id(page, id, err)
                                                : search_places(page, err);
}

quern_status quern_inspector_search_sized(quern_inspector *inspector, const quern_search *search,
                                          size_t search_size, quern_task_list **ret_list,
                                          quern_error *err)
{
    quern_search ours;
    quern_status status =
        take_search(inspector, (struct qn_bytes){search, search_size}, &ours, err);
    if (status == QUERN_OK && ret_list == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_list: must not be NULL");
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct page page = {.broker = inspector->broker, .clock = inspector->clock};
    page.list = qn_alloc_zero(1, sizeof *page.list);
    if (page.list == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_search_scope_init(&page.scope, inspector->broker, &ours, err);
    if (status == QUERN_OK) {
        status = search_page(&page, err);
    }
    qn_search_scope_finish(&page.scope);
    if (status != QUERN_OK) {
        quern_task_list_free(page.list);
        return status;
    }
    *ret_list = page.list;
    return QUERN_OK;
}

/* --- An action ----------------------------------------------------------------------- */

struct bulk {
    struct qn_broker *broker;
    struct qn_search_scope scope;
    quern_action action;
    bool acts; /* else it only counts */
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
    if (!bulk->acts) {
        return true;
    }
    struct qn_found *found = &bulk->found[bulk->found_count++];
    const char *key = info->task.unique_key;
    found->id = qn_arena_strdup(&bulk->arena, info->task.id);
    found->unique_key = key == NULL ? "" : qn_arena_strdup(&bulk->arena, key);
    bulk->no_memory = found->id == NULL || found->unique_key == NULL;
    return !bulk->no_memory && bulk->found_count < QN_BULK_MAX;
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
                                   .limit = bulk->acts ? QN_BULK_MAX : SCAN_MAX,
                                   .scan_max = ACT_SCAN_MAX,
                                   .on_task = gather,
                                   .user = bulk};
    bool allowed = qn_lifecycle_allows(place->state, bulk->action);
    bulk->matched = bulk->found_count = 0;
    qn_arena_reset(&bulk->arena);
    quern_status status = qn_broker_search(bulk->broker, &step, end, err);
    if (status == QUERN_OK && bulk->no_memory) {
        return qn_error_nomem(err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    bulk->begin_ms = end->now_ms;
    if (bulk->acts && allowed) {
        return act_on_found(bulk, place, end, err);
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
    for (int pass = 0; status == QUERN_OK && again && pass < PASSES_MAX; pass++) {
        uint64_t done = bulk->total.done;
        struct qn_search_end end = {.is_over = false};
        while (status == QUERN_OK && !end.is_over) {
            status = bulk_step(bulk, place, &end, err);
        }
        bool leaves = bulk->acts && place->state != QUERN_TASK_ACTIVE;
        again = leaves && end.by_rank && bulk->total.done > done;
    }
    return status;
}

/* All tasks of such a place fulfil it. */
static bool is_counted(const struct bulk *bulk, const struct qn_search_place *place)
{
    return !bulk->acts &&
           qn_condition_place(bulk->scope.condition, place->queue, place->state) == QN_ANSWER_YES;
}

static quern_status bulk_one(struct bulk *bulk, const struct qn_search_place *place,
                             quern_error *err)
{
    if (!is_counted(bulk, place)) {
        return bulk_place(bulk, place, err);
    }
    bool allowed = qn_lifecycle_allows(place->state, bulk->action);
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
            if (qn_lifecycle_allows(place->state, bulk->action) == (round == 1)) {
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
    struct qn_bytes search;
    bool acts;
};

static quern_status enter_bulk(const struct bulk_call *call, quern_matching *ret_matching,
                               quern_error *err)
{
    quern_search ours;
    quern_status status = take_search(call->inspector, call->search, &ours, err);
    if (status == QUERN_OK && ret_matching == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "ret_matching: must not be NULL");
    }
    if (status == QUERN_OK) {
        *ret_matching = (quern_matching){.matched = 0};
        status = qn_inspect_check_action(call->action, err);
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
    bulk->acts = call->acts;
    status = run_bulk(bulk, &ours, ret_matching, err);
    qn_free(bulk);
    return status;
}

quern_status quern_inspector_act_matching_sized(quern_inspector *inspector, quern_action action,
                                                const quern_search *search, size_t search_size,
                                                quern_matching *ret_matching, quern_error *err)
{
    const struct bulk_call call = {inspector, action, {search, search_size}, true};
    return enter_bulk(&call, ret_matching, err);
}

quern_status quern_inspector_count_matching_sized(quern_inspector *inspector, quern_action action,
                                                  const quern_search *search, size_t search_size,
                                                  quern_matching *ret_matching, quern_error *err)
{
    const struct bulk_call call = {inspector, action, {search, search_size}, false};
    return enter_bulk(&call, ret_matching, err);
}
