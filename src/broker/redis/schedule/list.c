/* SPDX-License-Identifier: MIT */
/* list.c - reads entries: queue by queue, their names with HSCAN, and then the entries in pages
 * (load.lua).
 *
 * The names are those in quern:ticks, whose values are small; an entry that is not there is found
 * by doctor. Nothing is reported while a channel is held, so the callback may use the broker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/redis/inspect/page_bound.h"
#include "broker/redis/schedule/definition.h"
#include "broker/redis/schedule/load_lua.h"
#include "broker/redis/schedule/schedule_queues.h"
#include "broker/redis/schema/keys.h"

#define SCAN_COUNT 500
#define PAGE_COUNT 100
#define PAGE_SIZE_MAX (4 << 20)

struct listing {
    struct qn_redis *self;
    bool (*on_entry)(const struct qn_schedule_entry *entry, void *user);
    void *user;
    bool is_over;          /* the callback has seen enough */
    struct qn_arena names; /* of one queue */
    struct qn_arena page;  /* the entries of one page */
    const char **items;    /* the names */
    size_t count;
    size_t capacity;
};

static quern_status add_name(struct listing *listing, const char *name, quern_error *err)
{
    const char **items = qn_vec_grow_in(&listing->names, listing->items, listing->count,
                                        &listing->capacity, sizeof *items);
    char *copy = qn_arena_strdup(&listing->names, name);
    if (items == NULL || copy == NULL) {
        return qn_error_nomem(err);
    }
    listing->items = items;
    listing->items[listing->count++] = copy;
    return QUERN_OK;
}

/* One step of HSCAN. */
static quern_status scan_step(struct listing *listing, const char *queue, char cursor[32],
                              struct qn_page_bound *bound, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, listing->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "HSCAN");
    qn_keys_add(&pipeline, queue, QN_KEY_TICKS);
    qn_pipeline_text(&pipeline, cursor);
    qn_pipeline_text(&pipeline, "COUNT");
    qn_pipeline_int(&pipeline, SCAN_COUNT);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        const struct qn_reply *next = qn_reply_at(reply, 0);
        const struct qn_reply *fields = qn_reply_at(reply, 1);
        status = qn_pipeline_expect(&pipeline,
                                    next->type == QN_REPLY_TEXT && next->size > 0 &&
                                        next->size < 32 && fields->type == QN_REPLY_ARRAY,
                                    "HSCAN", err);
        (void)snprintf(cursor, 32, "%s", qn_reply_text(next));
        qn_page_bound_add(bound, fields);
        for (size_t i = 0; status == QUERN_OK && i + 1 < fields->count; i += 2) {
            const char *name = qn_reply_text(qn_reply_at(fields, i));
            status = name[0] == '\0' ? QUERN_OK : add_name(listing, name, err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* HSCAN may show a name twice. */
static quern_status scan_names(struct listing *listing, const char *queue, quern_error *err)
{
    char cursor[32] = "0";
    struct qn_page_bound bound = {
        .self = listing->self, .size_command = "HLEN", .queue = queue, .key = QN_KEY_TICKS};
    quern_status status = QUERN_OK;
    do {
        status = scan_step(listing, queue, cursor, &bound, err);
        if (status == QUERN_OK) {
            status = qn_page_bound_check(&bound, err);
        }
    } while (status == QUERN_OK && strcmp(cursor, "0") != 0);
    if (status == QUERN_OK && listing->count > 1) {
        qsort(listing->items, listing->count, sizeof *listing->items, compare_names);
        size_t kept = 1;
        for (size_t i = 1; i < listing->count; i++) {
            if (strcmp(listing->items[i], listing->items[kept - 1]) != 0) {
                listing->items[kept++] = listing->items[i];
            }
        }
        listing->count = kept;
    }
    return status;
}

struct page {
    size_t first; /* name */
    size_t read;  /* names, found or not */
    size_t count;
    struct qn_schedule_entry entries[PAGE_COUNT];
};

/* Reads the entries from the first name on, as many as fit into a page. */
static quern_status load_page(struct listing *listing, const char *queue, struct page *page,
                              quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, listing->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_script(&pipeline, &qn_lua_load, 1);
    qn_pipeline_limit(&pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(&pipeline, queue);
    qn_pipeline_int(&pipeline, PAGE_SIZE_MAX);
    for (size_t i = page->first; i < listing->count && i < page->first + PAGE_COUNT; i++) {
        qn_pipeline_text(&pipeline, listing->items[i]);
    }
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    page->read = status == QUERN_OK ? reply->count / 2 : 0;
    page->count = 0;
    if (status == QUERN_OK) {
        status = qn_pipeline_expect(&pipeline,
                                    page->read > 0 && page->read <= PAGE_COUNT &&
                                        page->read <= listing->count - page->first,
                                    "load", err);
    }
    for (size_t i = 0; status == QUERN_OK && i < page->read; i++) {
        const struct qn_stored_entry stored = {.queue = queue,
                                               .name = listing->items[page->first + i],
                                               .definition = qn_reply_at(reply, 2 * i),
                                               .row = qn_reply_at(reply, 2 * i + 1)};
        if (stored.definition->type == QN_REPLY_TEXT || stored.row->type == QN_REPLY_TEXT) {
            status =
                qn_definition_decode(&listing->page, &stored, &page->entries[page->count++], err);
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static quern_status report_all(struct listing *listing, const char *queue, quern_error *err)
{
    struct page *page = qn_alloc(sizeof *page);
    if (page == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    page->first = 0;
    while (status == QUERN_OK && page->first < listing->count && !listing->is_over) {
        status = load_page(listing, queue, page, err);
        for (size_t i = 0; status == QUERN_OK && i < page->count && !listing->is_over; i++) {
            listing->is_over = !listing->on_entry(&page->entries[i], listing->user);
        }
        qn_arena_reset(&listing->page);
        page->first += page->read;
    }
    qn_free(page);
    return status;
}

static quern_status list_queue(struct listing *listing, const struct qn_entry_filter *filter,
                               const char *queue, quern_error *err)
{
    quern_error why = {0};
    listing->items = NULL;
    listing->count = listing->capacity = 0;
    quern_status status = filter->name != NULL ? add_name(listing, filter->name, &why)
                                               : scan_names(listing, queue, &why);
    if (status == QUERN_OK) {
        status = report_all(listing, queue, &why);
    }
    qn_arena_reset(&listing->names);
    if (status == QUERN_E_CORRUPT && !listing->is_over) {
        const struct qn_schedule_entry damaged = {
            .name = filter->name != NULL ? filter->name : "",
            .task = {.queue = queue},
            .fault = "quern:entries or quern:ticks of this queue is damaged"};
        listing->is_over = !listing->on_entry(&damaged, listing->user);
        return QUERN_OK;
    }
    if (status != QUERN_OK && err != NULL) {
        *err = why;
    }
    return status;
}

quern_status qn_redis_schedule_list(struct qn_broker *broker, const struct qn_entry_filter *filter,
                                    bool (*on_entry)(const struct qn_schedule_entry *entry,
                                                     void *user),
                                    void *user, quern_error *err)
{
    struct listing listing = {.self = qn_redis_of(broker), .on_entry = on_entry, .user = user};
    struct qn_arena arena = {0};
    struct qn_names queues = {&filter->queue, 1};
    quern_status status = QUERN_OK;
    if (filter->queue == NULL) {
        status = qn_schedule_queues(listing.self, &arena, &queues, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < queues.count && !listing.is_over; i++) {
        status = list_queue(&listing, filter, queues.items[i], err);
    }
    qn_arena_finish(&listing.names);
    qn_arena_finish(&listing.page);
    qn_arena_finish(&arena);
    return status;
}
