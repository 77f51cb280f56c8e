/* SPDX-License-Identifier: MIT */
/* search.c - searches tasks by a query.
 *
 * It goes from place to place (a state of a queue, or its trash), in bounded steps of the broker.
 * */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "inspect/inspector.h"
#include "inspect/search_scope.h"
#include "inspect/task_list.h"

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
    quern_status status = page->scope.search->in_trash
                              ? qn_broker_trash_search(page->broker, &step, &end, err)
                              : qn_broker_search(page->broker, &step, &end, err);
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
    const quern_task_filter filter = {
        .queue = search->queue, .id = id, .limit = QN_SEARCH_LIMIT_MAX};
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
    bool by_id = id != NULL && search->cursor == NULL && !search->in_trash;
    return by_id ? search_id(page, id, err) : search_places(page, err);
}

quern_status quern_inspector_search_sized(quern_inspector *inspector, const quern_search *search,
                                          size_t search_size, quern_task_list **ret_list,
                                          quern_error *err)
{
    quern_search ours;
    quern_status status =
        qn_search_scope_take(inspector, (struct qn_bytes){search, search_size}, &ours, err);
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
