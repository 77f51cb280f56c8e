/* SPDX-License-Identifier: MIT */
/* task_cursor.c - the ids of one state of one queue, in the order in which they are shown.
 *
 * They come in blocks. Scores are whole seconds, so tasks of one second are put in order by the
 * moment that we know exactly (quern:due, quern_past), and a block ends between two seconds: one
 * that was cut is read again with the next block, and one that fills a block is read on, up to
 * SORT_MAX. completed is kept by the end of the retention but shown by the moment of completion, so
 * all of it is read and sorted; beyond SORT_MAX tasks it is shown by the end of the retention. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text/number.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"

#define SORT_MAX 10000

static bool is_list(const struct qn_task_cursor *cursor)
{
    return cursor->state == QUERN_TASK_PENDING || cursor->state == QUERN_TASK_ACTIVE;
}

static const char *key_of(const struct qn_task_cursor *cursor)
{
    return cursor->keys[cursor->key_at];
}

/* Whether the server's order is ours. */
static bool is_plain(const struct qn_task_cursor *cursor)
{
    return is_list(cursor) || cursor->state == QUERN_TASK_AGGREGATING || cursor->by_score;
}

const char *qn_task_cursor_key(const struct qn_task_cursor *cursor)
{
    return key_of(cursor);
}

/* --- Which keys --------------------------------------------------------------------- */

static quern_status one_key(struct qn_task_cursor *cursor, const char *key, quern_error *err)
{
    cursor->keys = qn_arena_alloc(&cursor->key_arena, sizeof *cursor->keys);
    if (cursor->keys == NULL || key == NULL) {
        return qn_error_nomem(err);
    }
    cursor->keys[0] = key;
    cursor->key_count = 1;
    return QUERN_OK;
}

/* The aggregation sets in flight are registered by their whole keys. */
static quern_status read_sets(struct qn_task_cursor *cursor, struct qn_reply const **ret_reply,
                              struct qn_pipeline *pipeline, quern_error *err)
{
    qn_pipeline_command(pipeline, "ZRANGE");
    qn_keys_add(pipeline, cursor->queue, "aggregation_sets");
    qn_pipeline_int(pipeline, 0);
    qn_pipeline_int(pipeline, SORT_MAX);
    quern_status status = qn_pipeline_run(pipeline, err);
    return status == QUERN_OK ? qn_pipeline_reply(pipeline, 0, ret_reply, err) : status;
}

static quern_status add_sets(struct qn_task_cursor *cursor, struct qn_names groups,
                             quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *sets = NULL;
    struct qn_arena *arena = &cursor->key_arena;
    size_t prefix_size = strlen(cursor->queue) + strlen(QN_KEY_ROOT QN_KEY_NAME);
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    quern_status status = read_sets(cursor, &sets, &pipeline, err);
    if (status == QUERN_OK) {
        cursor->keys =
            qn_arena_alloc(arena, (groups.count + sets->count + 1) * sizeof *cursor->keys);
        status = cursor->keys == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < groups.count; i++) {
        cursor->keys[cursor->key_count] =
            qn_arena_printf(arena, QN_KEY_GROUP "%s", groups.items[i]);
        status = cursor->keys[cursor->key_count++] == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < sets->count; i++) {
        const char *key = qn_reply_text(qn_reply_at(sets, i));
        if (strlen(key) > prefix_size) {
            cursor->keys[cursor->key_count] = qn_arena_strdup(arena, key + prefix_size);
            status = cursor->keys[cursor->key_count++] == NULL ? qn_error_nomem(err) : QUERN_OK;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_task_cursor_init(struct qn_task_cursor *cursor, struct qn_redis *self,
                                 const struct qn_place *place, const char *group, quern_error *err)
{
    *cursor = (struct qn_task_cursor){.self = self, .queue = place->queue, .state = place->state};
    if (place->state != QUERN_TASK_AGGREGATING) {
        return one_key(cursor, quern_task_state_name(place->state), err);
    }
    if (group != NULL) {
        return one_key(cursor, qn_arena_printf(&cursor->key_arena, QN_KEY_GROUP "%s", group), err);
    }
    struct qn_names groups;
    quern_status status =
        qn_redis_inspect_groups(self, place->queue, &cursor->key_arena, &groups, err);
    return status == QUERN_OK ? add_sets(cursor, groups, err) : status;
}

void qn_task_cursor_finish(struct qn_task_cursor *cursor)
{
    qn_arena_finish(&cursor->arena);
    qn_arena_finish(&cursor->key_arena);
}

/* --- A block ------------------------------------------------------------------------ */

static bool grow_entries(struct qn_task_cursor *cursor, size_t count)
{
    if (cursor->count + count <= cursor->capacity) {
        return true;
    }
    size_t capacity = cursor->count + count + cursor->capacity;
    struct qn_task_entry *items = qn_arena_alloc(&cursor->arena, capacity * sizeof *items);
    if (items == NULL) {
        return false;
    }
    if (cursor->count > 0) {
        memcpy(items, cursor->entries, cursor->count * sizeof *items);
    }
    cursor->entries = items;
    cursor->capacity = capacity;
    return true;
}

static quern_status add_entry(struct qn_task_cursor *cursor, const struct qn_reply *id,
                              int64_t score, uint64_t rank, quern_error *err)
{
    char *copy = qn_arena_alloc(&cursor->arena, id->size + 1);
    if (copy == NULL || !grow_entries(cursor, 1)) {
        return qn_error_nomem(err);
    }
    memcpy(copy, id->data, id->size);
    copy[id->size] = '\0';
    cursor->entries[cursor->count++] = (struct qn_task_entry){
        .id = copy, .id_size = id->size, .score = score, .at_ms = score * 1000, .rank = rank};
    return QUERN_OK;
}

/* Asks for ids from `rank` on. The head of a list, which is next to run, is its right end. */
static void ask_block(struct qn_pipeline *pipeline, const struct qn_task_cursor *cursor,
                      uint64_t rank)
{
    int64_t first = (int64_t)rank;
    int64_t last = first + QN_INSPECT_BLOCK - 1;
    if (is_list(cursor)) {
        qn_pipeline_command(pipeline, "LRANGE");
        qn_keys_add(pipeline, cursor->queue, key_of(cursor));
        qn_pipeline_int(pipeline, -last - 1);
        qn_pipeline_int(pipeline, -first - 1);
        return;
    }
    qn_pipeline_command(pipeline, qn_cursor_order_is_reversed(cursor) ? "ZREVRANGE" : "ZRANGE");
    qn_keys_add(pipeline, cursor->queue, key_of(cursor));
    qn_pipeline_int(pipeline, first);
    qn_pipeline_int(pipeline, last);
    qn_pipeline_text(pipeline, "WITHSCORES");
}

static quern_status take_block(struct qn_task_cursor *cursor, const struct qn_reply *reply,
                               uint64_t rank, size_t *ret_count, quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t count = is_list(cursor) ? reply->count : reply->count / 2;
    if (!grow_entries(cursor, count)) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *id = qn_reply_at(reply, is_list(cursor) ? count - 1 - i : 2 * i);
        int64_t score = is_list(cursor) ? 0 : qn_reply_seconds(qn_reply_at(reply, 2 * i + 1));
        status = add_entry(cursor, id, score, rank + i, err);
    }
    *ret_count = count;
    return status;
}

static quern_status read_some(struct qn_task_cursor *cursor, uint64_t rank, size_t *ret_count,
                              quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_block(&pipeline, cursor, rank);
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        qn_page_bound_add(&cursor->bound, reply);
        status = take_block(cursor, reply, rank, ret_count, err);
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK ? qn_page_bound_check(&cursor->bound, err) : status;
}

/* Takes the last second off a block that was cut, unless it is all there is. */
static bool cut_to_seconds(struct qn_task_cursor *cursor)
{
    size_t kept = cursor->count;
    int64_t last = cursor->entries[kept - 1].score;
    while (kept > 0 && cursor->entries[kept - 1].score == last) {
        kept--;
    }
    if (kept > 0) {
        cursor->count = kept;
    }
    return kept > 0;
}

/* --- Reading on ------------------------------------------------------------------------- */

/* The next block of the present key; none: it is at its end. */
static quern_status read_block(struct qn_task_cursor *cursor, quern_error *err)
{
    cursor->bound.self = cursor->self;
    cursor->bound.size_command = is_list(cursor) ? "LLEN" : "ZCARD";
    cursor->bound.queue = cursor->queue;
    cursor->bound.key = key_of(cursor);
    cursor->entries = NULL;
    cursor->count = cursor->at = cursor->capacity = 0;
    qn_arena_reset(&cursor->arena);
    bool plain = is_plain(cursor);
    bool whole = cursor->state == QUERN_TASK_COMPLETED && !cursor->oldest_first;
    size_t count = 0;
    quern_status status = QUERN_OK;
    do {
        status = read_some(cursor, cursor->rank + cursor->count, &count, err);
        bool cut = status == QUERN_OK && count == QN_INSPECT_BLOCK && !plain;
        if (!cut || (!whole && cut_to_seconds(cursor))) {
            break;
        }
    } while (cursor->count < SORT_MAX);
    cursor->rank += cursor->count;
    bool sorts = !plain && (cursor->state != QUERN_TASK_COMPLETED || whole);
    if (whole && (cursor->count >= SORT_MAX || cursor->rank > cursor->count)) {
        sorts = false; /* too many: by the end of the retention */
    }
    if (status == QUERN_OK && sorts) {
        return qn_cursor_order_sort(cursor, err);
    }
    bool is_due = cursor->state == QUERN_TASK_SCHEDULED || cursor->state == QUERN_TASK_RETRY;
    return status == QUERN_OK && cursor->by_score && is_due ? qn_cursor_order_date(cursor, err)
                                                            : status;
}

quern_status qn_task_cursor_next(struct qn_task_cursor *cursor, size_t room,
                                 struct qn_task_entries *ret_entries, quern_error *err)
{
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && cursor->at == cursor->count &&
           cursor->key_at < cursor->key_count) {
        status = read_block(cursor, err);
        if (status == QUERN_OK && cursor->count == 0) {
            cursor->rank = 0;
            cursor->bound.weight = 0;
            cursor->key_at++;
        }
    }
    if (status == QUERN_OK) {
        size_t left = cursor->count - cursor->at;
        ret_entries->count = left < room ? left : room;
        ret_entries->items = cursor->entries == NULL ? NULL : cursor->entries + cursor->at;
        cursor->at += ret_entries->count;
    }
    return status;
}

void qn_task_cursor_removed(struct qn_task_cursor *cursor, uint64_t count)
{
    cursor->rank -= count < cursor->rank ? count : cursor->rank;
}

/* --- Skipping ------------------------------------------------------------------------- */

static quern_status ask_number(struct qn_pipeline *pipeline, int64_t *ret_number, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = qn_pipeline_ask(pipeline, &reply, err);
    if (status == QUERN_OK) {
        bool pair = reply->type == QN_REPLY_ARRAY;
        *ret_number = qn_reply_int(pair ? qn_reply_at(reply, 1) : reply, 0);
    }
    return status;
}

/* Begins at `rank`, or at the begin of its second; the rest is read and thrown away. */
static quern_status start_at(struct qn_task_cursor *cursor, uint64_t rank, quern_error *err)
{
    bool whole = cursor->state == QUERN_TASK_COMPLETED && !cursor->oldest_first;
    cursor->rank = rank;
    if (is_plain(cursor)) {
        return QUERN_OK;
    }
    struct qn_pipeline pipeline;
    int64_t score = 0;
    int64_t before = 0;
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, qn_cursor_order_is_reversed(cursor) ? "ZREVRANGE" : "ZRANGE");
    qn_keys_add(&pipeline, cursor->queue, key_of(cursor));
    qn_pipeline_uint(&pipeline, rank);
    qn_pipeline_uint(&pipeline, rank);
    qn_pipeline_text(&pipeline, "WITHSCORES");
    quern_status status = ask_number(&pipeline, &score, err);
    if (status == QUERN_OK && !whole) {
        const char *edge = qn_arena_printf(pipeline.arena, "(%lld", (long long)score);
        qn_pipeline_command(&pipeline, "ZCOUNT");
        qn_keys_add(&pipeline, cursor->queue, key_of(cursor));
        qn_pipeline_text(&pipeline, qn_cursor_order_is_reversed(cursor) ? edge : "-inf");
        qn_pipeline_text(&pipeline, qn_cursor_order_is_reversed(cursor) ? "+inf" : edge);
        status = ask_number(&pipeline, &before, err);
    }
    qn_pipeline_end(&pipeline);
    if (status != QUERN_OK) {
        return status;
    }
    cursor->rank = (uint64_t)qn_number_clamp(before, 0, (int64_t)rank);
    uint64_t surplus = rank - cursor->rank;
    while (status == QUERN_OK && surplus > 0) {
        struct qn_task_entries passed = {0};
        status = qn_task_cursor_next(cursor, surplus > SIZE_MAX ? SIZE_MAX : (size_t)surplus,
                                     &passed, err);
        surplus -= passed.count;
        if (passed.count == 0) {
            break;
        }
    }
    return status;
}

static quern_status count_key(struct qn_task_cursor *cursor, uint64_t *ret_count, quern_error *err)
{
    struct qn_pipeline pipeline;
    int64_t count = 0;
    qn_redis_begin(&pipeline, cursor->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, is_list(cursor) ? "LLEN" : "ZCARD");
    qn_keys_add(&pipeline, cursor->queue, key_of(cursor));
    quern_status status = ask_number(&pipeline, &count, err);
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK) {
        *ret_count = (uint64_t)qn_number_clamp(count, 0, UINT32_MAX); /* Redis holds no more */
    }
    return status;
}

quern_status qn_task_cursor_skip(struct qn_task_cursor *cursor, uint64_t count,
                                 uint64_t *ret_skipped, quern_error *err)
{
    uint64_t skipped = 0;
    quern_status status = QUERN_OK;
    QN_ASSERT(cursor->rank == 0);
    while (status == QUERN_OK && skipped < count && cursor->key_at < cursor->key_count) {
        uint64_t size = 0;
        status = count_key(cursor, &size, err);
        if (status == QUERN_OK && size > count - skipped) {
            status = start_at(cursor, count - skipped, err);
            skipped = count;
        } else if (status == QUERN_OK) {
            skipped += size;
            cursor->key_at++;
        }
    }
    if (status == QUERN_OK) {
        *ret_skipped = skipped;
    }
    return status;
}
