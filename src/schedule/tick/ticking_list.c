/* SPDX-License-Identifier: MIT */
/* ticking_list.c - loads the stored entries.
 *
 * An entry that cannot be read (damaged, or its time zone is not there) is logged once and waits
 * for a change; the others go on. Where memory is short for it, all is loaded again. */
#include "schedule/tick/ticking_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "schedule/entry_info.h"

/* A load in progress. */
struct loading {
    struct qn_ticking_list list;
    size_t capacity;
    quern_status status;
    quern_error *err;
};

static int compare(const void *left, const void *right)
{
    const struct qn_ticking *a = left;
    const struct qn_ticking *b = right;
    int order = strcmp(a->entry.task.queue, b->entry.task.queue);
    return order != 0 ? order : strcmp(a->entry.name, b->entry.name);
}

static bool add_entry(const struct qn_schedule_entry *entry, void *user)
{
    struct loading *loading = user;
    struct qn_ticking_list *list = &loading->list;
    struct qn_ticking *items =
        qn_vec_grow(list->items, list->count, &loading->capacity, sizeof *items);
    if (items == NULL) {
        loading->status = qn_error_nomem(loading->err);
        return false;
    }
    list->items = items;
    struct qn_ticking *ticking = &items[list->count];
    *ticking = (struct qn_ticking){0};
    loading->status = qn_entry_copy(&list->arena, entry, &ticking->entry, loading->err);
    list->count += loading->status == QUERN_OK ? 1 : 0;
    return loading->status == QUERN_OK;
}

static void log_fault(struct qn_ticker *ticker, const struct qn_ticking *ticking, const char *text)
{
    QN_LOG(ticker->leader->log, QUERN_LOG_ERROR, "entry cannot be enqueued",
           QN_LOG_TEXT("entry", ticking->entry.name),
           QN_LOG_TEXT("queue", ticking->entry.task.queue), QN_LOG_TEXT("error", text));
}

void qn_ticking_find_next(struct qn_ticking *ticking, struct qn_plan *plan)
{
    const struct qn_plan_terms terms = qn_entry_plan_terms(&ticking->entry, &ticking->clock);
    qn_plan_make(&terms, ticking->entry.last_s * 1000, plan); /* nothing is due then */
    ticking->has_next = plan->has_next;
    ticking->next_s = plan->next_s;
}

static quern_status prepare(struct qn_ticker *ticker, struct qn_ticking *ticking, quern_error *err)
{
    quern_error error = {0};
    const struct qn_ticking_list *before = &ticker->list;
    const struct qn_ticking *old =
        before->count == 0
            ? NULL
            : bsearch(ticking, before->items, before->count, sizeof *before->items, compare);
    if (old != NULL && old->entry.revision == ticking->entry.revision) {
        ticking->was_logged = old->was_logged;
        ticking->rests_until_ms = old->rests_until_ms;
    }
    const char *fault = ticking->entry.fault;
    if (fault == NULL) {
        quern_status status =
            qn_entry_read_clock(&ticking->entry, ticker->zones, &ticking->clock, &error);
        if (status == QUERN_E_NOMEM) {
            return qn_error_nomem(err);
        }
        fault = status == QUERN_OK ? NULL : error.text;
    }
    ticking->is_sound = fault == NULL;
    if (ticking->is_sound) {
        qn_ticking_find_next(ticking, &ticker->plan);
    } else if (!ticking->was_logged) {
        log_fault(ticker, ticking, fault);
        ticking->was_logged = true;
    }
    return QUERN_OK;
}

quern_status qn_ticking_list_load(struct qn_ticker *ticker, quern_error *err)
{
    struct loading loading = {.err = err};
    const struct qn_entry_filter all = {.queue = NULL};
    quern_status status = qn_schedule_list(ticker->leader->broker, &all, add_entry, &loading, err);
    status = status == QUERN_OK ? loading.status : status;
    if (status == QUERN_OK && loading.list.count > 0) {
        qsort(loading.list.items, loading.list.count, sizeof *loading.list.items, compare);
    }
    for (size_t i = 0; status == QUERN_OK && i < loading.list.count; i++) {
        status = prepare(ticker, &loading.list.items[i], err);
    }
    if (status != QUERN_OK) {
        qn_ticking_list_finish(&loading.list);
        return status;
    }
    qn_ticking_list_finish(&ticker->list);
    ticker->list = loading.list;
    return QUERN_OK;
}

void qn_ticking_list_finish(struct qn_ticking_list *list)
{
    qn_free(list->items);
    qn_arena_finish(&list->arena);
    *list = (struct qn_ticking_list){0};
}
