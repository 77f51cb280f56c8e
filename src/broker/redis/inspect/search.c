/* SPDX-License-Identifier: MIT */
/* search.c - goes through one state of one queue and reports the tasks that fulfil a condition.
 *
 * As for a listing with a filter, ids are read in blocks and tasks a few at a time, by plain
 * commands that only read, and compared here: the server never works for long, and a call looks at
 * no more tasks than it may. The position is a rank. So when tasks leave the place meanwhile, as
 * many others may be passed over. */
#include <string.h>

#include "base/assert.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/search/search.h"

struct step {
    const struct qn_search *search;
    struct qn_task_entries page;
    size_t looked; /* entries of the page up to the one reported last */
    struct qn_search_end *end;
    uint64_t found;
    bool stopped;
};

static bool on_info(const struct qn_task_entry *entry, const quern_task_info *info, void *user)
{
    struct step *step = user;
    while (step->looked < step->page.count && step->page.items[step->looked].id != entry->id) {
        step->looked++; /* it has moved */
    }
    step->looked++;
    if (qn_search_fits(step->search->condition, info, step->end->now_ms)) {
        step->found++;
        step->stopped =
            !step->search->on_task(info, step->search->user) || step->found == step->search->limit;
    }
    return !step->stopped;
}

/* One page; none left: the place is over. */
static quern_status search_page(struct step *step, struct qn_task_cursor *cursor, quern_error *err)
{
    const struct qn_task_sink sink = {.on_info = on_info, .user = step};
    uint64_t left = step->search->scan_max - step->end->scanned;
    quern_status status = qn_task_cursor_next(
        cursor, left < QN_INSPECT_BATCH ? (size_t)left : QN_INSPECT_BATCH, &step->page, err);
    if (status != QUERN_OK || step->page.count == 0) {
        step->end->is_over = status == QUERN_OK;
        return status;
    }
    const struct qn_place place = {.queue = cursor->queue,
                                   .state = cursor->state,
                                   .key = qn_task_cursor_key(cursor),
                                   .now_ms = step->end->now_ms};
    step->looked = 0;
    status = qn_read_task_all(cursor->self, &place, step->page, &sink, err);
    size_t looked = step->stopped ? step->looked : step->page.count;
    step->end->scanned += looked;
    step->end->at.rank += looked;
    return status;
}

static quern_status search_place(struct step *step, struct qn_task_cursor *cursor, quern_error *err)
{
    uint64_t skipped = 0;
    quern_status status = QUERN_OK;
    cursor->oldest_first = step->search->oldest_first;
    cursor->by_score = true;
    if (step->search->from.rank > 0) {
        status = qn_task_cursor_skip(cursor, step->search->from.rank, &skipped, err);
        step->end->is_over = status == QUERN_OK && skipped < step->search->from.rank;
    }
    while (status == QUERN_OK && !step->end->is_over && !step->stopped &&
           step->end->scanned < step->search->scan_max) {
        status = search_page(step, cursor, err);
    }
    return status;
}

quern_status qn_redis_search(struct qn_broker *broker, const struct qn_search *search,
                             struct qn_search_end *ret_end, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    struct qn_search_end end = {.at = search->from, .now_ms = search->now_ms, .by_rank = true};
    struct step step = {.search = search, .end = &end};
    quern_status status = end.now_ms == 0 ? qn_redis_inspect_now(self, &end.now_ms, err) : QUERN_OK;
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_task_cursor cursor;
    const struct qn_place place = {.queue = search->queue, .state = search->state};
    status = qn_task_cursor_init(&cursor, self, &place, NULL, err);
    if (status == QUERN_OK) {
        status = search_place(&step, &cursor, err);
    }
    qn_task_cursor_finish(&cursor);
    if (status == QUERN_OK) {
        *ret_end = end;
    }
    return status;
}
