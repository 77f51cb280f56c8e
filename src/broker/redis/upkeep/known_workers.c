/* SPDX-License-Identifier: MIT */
/* known_workers.c - whose process is dead or alive, of the workers that hold leases in a queue: by
 * looking at the process itself where it is on this host (owner.h), and by the boot of its host.
 *
 * The records come in pages without those that are damaged or too large, since anybody could have
 * planted them: they cost themselves, and no recovery. */
#include "broker/redis/upkeep/known_workers.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/hash.h"
#include "broker/owner.h"
#include "broker/redis/schema/keys.h"
#include "broker/redis/schema/worker_record.h"
#include "broker/redis/upkeep/known_workers_lua.h"

#define PAGE 500
#define PAGE_SIZE_MIN 4096 /* an empty page counts, too, so that the pages end */
/* Of all records that one call reads. About the workers behind that nothing is known: their leases
 * end when they are over. */
#define RECORDS_SIZE_MAX QN_REPLY_ROWS_MAX

struct holder {
    const struct qn_reply *id;
    struct qn_worker_holder record;
};

static bool is_same_boot(const struct holder *a, const struct holder *b)
{
    size_t size = strcspn(a->record.owner, ":");
    return strcspn(b->record.owner, ":") == size &&
           strncmp(a->record.owner, b->record.owner, size) == 0;
}

static int compare_ids(const struct qn_reply *a, const struct qn_reply *b)
{
    int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

/* By host, the latest heartbeat first: so one walk finds workers of another boot. */
static int compare_holders(const void *left, const void *right)
{
    const struct holder *a = left;
    const struct holder *b = right;
    int order = strcmp(a->record.host, b->record.host);
    int later = (a->record.heartbeat_at_ms < b->record.heartbeat_at_ms) -
                (a->record.heartbeat_at_ms > b->record.heartbeat_at_ms);
    order = order != 0 ? order : later;
    return order != 0 ? order : compare_ids(a->id, b->id);
}

/* rival: the worker with the latest heartbeat from another boot of its host; NULL: none. */
static char letter_of(const struct holder *holder, const struct holder *rival)
{
    switch (qn_owner_judge(holder->record.owner)) {
    case QN_OWNER_DEAD:
        return 'd';
    case QN_OWNER_ALIVE:
        return 'l';
    case QN_OWNER_UNKNOWN:
        break;
    }
    return rival != NULL && rival->record.heartbeat_at_ms > holder->record.heartbeat_at_ms ? 'b'
                                                                                           : '\0';
}

/* --- Reading the records -------------------------------------------------------------- */

struct scan {
    const char *queue;
    const char *at; /* where HSCAN continues; NULL: all pages are read */
    size_t command;
    struct holder *holders;
    size_t count;
    size_t capacity;
};

static void ask_page(struct qn_pipeline *pipeline, struct scan *scan)
{
    scan->command = pipeline->command_count;
    qn_pipeline_script(pipeline, &qn_lua_known_workers, 1);
    qn_pipeline_limit(pipeline, QN_REPLY_ROWS_MAX);
    qn_keys_add_prefix(pipeline, scan->queue);
    qn_pipeline_text(pipeline, scan->at);
    qn_pipeline_uint(pipeline, PAGE);
}

static quern_status take_page(struct qn_arena *arena, struct scan *scan,
                              const struct qn_reply *reply, size_t *left, quern_error *err)
{
    size_t size = PAGE_SIZE_MIN;
    const char *at = qn_reply_text(qn_reply_at(reply, 0));
    for (size_t i = 1; i + 1 < reply->count; i += 2) {
        const struct qn_reply *id = qn_reply_at(reply, i);
        const struct qn_reply *record = qn_reply_at(reply, i + 1);
        struct holder *holders = qn_vec_grow_in(arena, scan->holders, scan->count, &scan->capacity,
                                                sizeof *scan->holders);
        if (holders == NULL) {
            return qn_error_nomem(err);
        }
        scan->holders = holders;
        size += id->size + record->size;
        if (qn_worker_record_read_holder(arena, record, &holders[scan->count].record)) {
            holders[scan->count++].id = id;
        }
    }
    *left -= size < *left ? size : *left;
    bool is_last = at[0] == '\0' || strcmp(at, "0") == 0;
    scan->at = is_last || *left == 0 ? NULL : at;
    return QUERN_OK;
}

/* The next page of each queue that has one. */
static quern_status read_pages(struct qn_pipeline *pipeline, struct scan *scans, size_t count,
                               size_t *left, quern_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (scans[i].at != NULL) {
            ask_page(pipeline, &scans[i]);
        }
    }
    quern_status status = qn_pipeline_run(pipeline, err);
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *reply = NULL;
        if (scans[i].at == NULL) {
            continue;
        }
        status = qn_pipeline_reply(pipeline, scans[i].command, &reply, err);
        if (status == QUERN_OK) {
            status = take_page(pipeline->arena, &scans[i], reply, left, err);
        } else if (status == QUERN_E_CORRUPT) {
            scans[i].at = NULL; /* the script that recovers this queue reports it */
            scans[i].count = 0;
            status = QUERN_OK;
        }
    }
    return status;
}

static bool has_more(const struct scan *scans, size_t count)
{
    bool more = false;
    for (size_t i = 0; i < count; i++) {
        more = more || scans[i].at != NULL;
    }
    return more;
}

/* --- What follows from them ----------------------------------------------------------- */

/* A record that HSCAN returned twice counts once. */
static size_t sort_holders(struct holder *holders, size_t count)
{
    size_t kept = 0;
    QN_ASSERT(holders != NULL || count == 0);
    if (count > 1) {
        qsort(holders, count, sizeof holders[0], compare_holders);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare_holders(&holders[kept - 1], &holders[i]) != 0) {
            holders[kept++] = holders[i];
        }
    }
    return kept;
}

static quern_status find_known(struct qn_arena *arena, struct scan *scan,
                               struct qn_known_workers *ret_known, quern_error *err)
{
    struct qn_known_workers known = {0};
    struct holder *holders = scan->holders;
    size_t count = sort_holders(holders, scan->count);
    QN_ASSERT(holders != NULL || count == 0);
    known.ids = qn_arena_alloc(arena, (count + 1) * sizeof(const struct qn_reply *));
    known.letters = qn_arena_alloc(arena, count + 1);
    if (known.ids == NULL || known.letters == NULL) {
        return qn_error_nomem(err);
    }
    const struct holder *last = holders; /* of this host, and the last on another boot than that */
    const struct holder *other = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct holder *holder = &holders[i];
        bool is_same_host = strcmp(last->record.host, holder->record.host) == 0;
        last = is_same_host ? last : holder;
        bool is_other = !is_same_boot(last, holder);
        other = !is_same_host ? NULL : other == NULL && is_other ? holder : other;
        char letter = letter_of(holder, is_other ? last : other);
        if (letter == 'd') {
            known.dead_count++;
            /* Two sets are the same if these sums are, for what hangs on it. */
            known.mark += qn_hash_bytes(QN_HASH_START, holder->id->data, holder->id->size);
        }
        if (letter != '\0') {
            known.letters[known.count] = letter;
            known.ids[known.count++] = holder->id;
        }
    }
    *ret_known = known;
    return QUERN_OK;
}

quern_status qn_known_workers_read(struct qn_pipeline *pipeline, struct qn_names queues,
                                   struct qn_known_workers *known, quern_error *err)
{
    size_t left = RECORDS_SIZE_MAX;
    struct scan *scans = qn_arena_alloc(pipeline->arena, queues.count * sizeof scans[0]);
    if (scans == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < queues.count; i++) {
        scans[i] = (struct scan){.queue = queues.items[i], .at = "0"};
    }
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && has_more(scans, queues.count)) {
        status = read_pages(pipeline, scans, queues.count, &left, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < queues.count; i++) {
        status = find_known(pipeline->arena, &scans[i], &known[i], err);
    }
    return status;
}
