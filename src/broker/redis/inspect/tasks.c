/* SPDX-License-Identifier: MIT */
/* tasks.c - pages of tasks that match a filter.
 *
 * The order is by queue, then by state, so the page is laid over a row of segments, one for each
 * state of each queue (task_cursor.c). Without a filter on the contents of tasks, the tasks before
 * the page are only counted; with one, the tasks are read and compared here, some at a time, so
 * that the server never works for long. Plain read commands only: for a listing, `+@read` is
 * enough. */
#include "base/error.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"

#define LIMIT_DEFAULT 30

struct listing {
    struct qn_redis *self;
    const quern_task_filter *filter;
    int64_t now_ms;
    bool reads;    /* the filter looks into the tasks */
    uint64_t skip; /* matches still to be passed over */
    uint64_t room; /* tasks still wanted */
    bool (*on_task)(const quern_task_info *info, void *user);
    void *user;
    bool read_any;
    bool stopped;
};

static bool is_over(const struct listing *listing)
{
    return listing->stopped || listing->room == 0;
}

static bool report_task(const struct qn_task_entry *entry, const quern_task_info *info, void *user)
{
    struct listing *listing = user;
    (void)entry;
    listing->read_any = true;
    bool compares = listing->reads || listing->filter->id != NULL;
    if (compares && !qn_filter_fits(listing->filter, info)) {
        return true;
    }
    if (listing->skip > 0) {
        listing->skip--;
        return true;
    }
    listing->room--;
    listing->stopped = !listing->on_task(info, listing->user);
    return !is_over(listing);
}

static quern_status list_entries(struct listing *listing, struct qn_task_cursor *cursor,
                                 quern_error *err)
{
    quern_status status = QUERN_OK;
    if (!listing->reads && listing->skip > 0) {
        uint64_t skipped = 0;
        status = qn_task_cursor_skip(cursor, listing->skip, &skipped, err);
        listing->skip -= status == QUERN_OK ? skipped : 0;
    }
    const struct qn_task_sink sink = {.on_info = report_task, .user = listing};
    struct qn_task_entries page = {.count = 1};
    while (status == QUERN_OK && page.count > 0 && !is_over(listing)) {
        bool few = !listing->reads && listing->room < QN_INSPECT_BATCH;
        status =
            qn_task_cursor_next(cursor, few ? (size_t)listing->room : QN_INSPECT_BATCH, &page, err);
        if (status == QUERN_OK && page.count > 0) {
            struct qn_place place = {.queue = cursor->queue,
                                     .state = cursor->state,
                                     .key = qn_task_cursor_key(cursor),
                                     .now_ms = listing->now_ms};
            status = qn_read_task_all(listing->self, &place, page, &sink, err);
        }
    }
    return status;
}

static quern_status list_state(struct listing *listing, const char *queue, quern_task_state state,
                               quern_error *err)
{
    struct qn_task_cursor cursor;
    const struct qn_place place = {.queue = queue, .state = state};
    quern_status status =
        qn_task_cursor_init(&cursor, listing->self, &place, listing->filter->group, err);
    if (status == QUERN_OK) {
        status = list_entries(listing, &cursor, err);
    }
    qn_task_cursor_finish(&cursor);
    return status;
}

/* Which states hold anything, in one pipeline, since most of most queues are empty. A key of a
 * wrong type is there, too: reading it shows the fault. */
static quern_status find_filled(struct listing *listing, const char *queue,
                                bool filled[QUERN_TASK_STATE_COUNT], quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, listing->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const char *name = quern_task_state_name((quern_task_state)state);
        qn_pipeline_command(&pipeline, "EXISTS");
        if (state == QUERN_TASK_AGGREGATING) {
            qn_keys_add(&pipeline, queue, "groups");
            name = "aggregation_sets";
        }
        qn_keys_add(&pipeline, queue, name);
    }
    quern_status status = qn_pipeline_run(&pipeline, err);
    for (int state = QUERN_TASK_ACTIVE; status == QUERN_OK && state <= QUERN_TASK_AGGREGATING;
         state++) {
        const struct qn_reply *reply = NULL;
        status = qn_pipeline_reply(&pipeline, (size_t)(state - QUERN_TASK_ACTIVE), &reply, err);
        filled[state] = status == QUERN_OK && qn_reply_int(reply, 0) > 0;
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status list_queue(struct listing *listing, const char *queue, quern_error *err)
{
    bool filled[QUERN_TASK_STATE_COUNT] = {false};
    bool by_group = listing->filter->group != NULL;
    quern_status status = find_filled(listing, queue, filled, err);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        bool wanted = listing->filter->state == 0 || listing->filter->state == state;
        bool hidden = by_group && state == QUERN_TASK_AGGREGATING; /* its name may be lost */
        if (status == QUERN_OK && wanted && (filled[state] || hidden) && !is_over(listing)) {
            status = list_state(listing, queue, (quern_task_state)state, err);
        }
    }
    return status;
}

/* --- By id ------------------------------------------------------------------------------ */

#define FIND_MAX 5 /* a task may move between being found and being read */

struct hit {
    struct listing *listing;
    bool found;
    quern_status status;
    quern_error *err;
};

static bool report_found(const struct qn_place *place, const struct qn_task_entry *entry,
                         void *user)
{
    struct hit *hit = user;
    const struct qn_task_sink sink = {.on_info = report_task, .user = hit->listing};
    hit->found = true;
    hit->status =
        qn_read_task_all(hit->listing->self, place,
                         (struct qn_task_entries){.items = entry, .count = 1}, &sink, hit->err);
    return hit->status == QUERN_OK && !is_over(hit->listing);
}

static quern_status list_id(struct listing *listing, struct qn_names queues, quern_error *err)
{
    quern_status status = QUERN_OK;
    bool moved = true;
    for (int i = 0; status == QUERN_OK && moved && i < FIND_MAX; i++) {
        struct hit hit = {.listing = listing, .status = QUERN_OK, .err = err};
        const struct qn_place_sink sink = {.on_place = report_found, .user = &hit};
        status = qn_find_id(listing->self, queues, listing->filter->id, &sink, err);
        status = hit.status != QUERN_OK ? hit.status : status;
        moved = hit.found && !listing->read_any;
    }
    return status;
}

/* --- All --------------------------------------------------------------------------------- */

static quern_status list_queues(struct listing *listing, struct qn_names queues, quern_error *err)
{
    if (listing->filter->id != NULL) {
        return list_id(listing, queues, err);
    }
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < queues.count && !is_over(listing); i++) {
        status = list_queue(listing, queues.items[i], err);
    }
    return status;
}

quern_status qn_redis_tasks(struct qn_broker *broker, const quern_task_filter *filter,
                            bool (*on_task)(const quern_task_info *info, void *user), void *user,
                            quern_error *err)
{
    struct listing listing = {.self = qn_redis_of(broker),
                              .filter = filter,
                              .reads = qn_filter_reads(filter),
                              .skip = filter->offset,
                              .room = filter->limit == 0 ? LIMIT_DEFAULT : filter->limit,
                              .on_task = on_task,
                              .user = user};
    struct qn_arena arena = {0};
    struct qn_names queues = {.items = &filter->queue, .count = 1};
    quern_status status = qn_redis_inspect_now(listing.self, &listing.now_ms, err);
    if (status == QUERN_OK && filter->queue == NULL) {
        status = qn_redis_inspect_queues(listing.self, &arena, &queues, err);
    }
    if (status == QUERN_OK) {
        status = list_queues(&listing, queues, err);
    }
    qn_arena_finish(&arena);
    return status;
}
