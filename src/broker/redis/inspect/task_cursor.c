/* SPDX-License-Identifier: MIT */
/* cursor.c - the ids of one state of one queue, in the order in which they are shown.
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

static bool is_list(const struct qn_spots *spots)
{
    return spots->state == QUERN_TASK_PENDING || spots->state == QUERN_TASK_ACTIVE;
}

static const char *key_of(const struct qn_spots *spots)
{
    return spots->keys[spots->key_at];
}

const char *qn_spots_key(const struct qn_spots *spots)
{
    return key_of(spots);
}

/* --- Which keys --------------------------------------------------------------------- */

static quern_status one_key(struct qn_spots *spots, const char *key, quern_error *err)
{
    spots->keys = qn_arena_alloc(&spots->key_arena, sizeof *spots->keys);
    if (spots->keys == NULL || key == NULL) {
        return qn_error_nomem(err);
    }
    spots->keys[0] = key;
    spots->key_count = 1;
    return QUERN_OK;
}

/* The aggregation sets in flight are registered by their whole keys. */
static quern_status read_sets(struct qn_spots *spots, struct qn_reply const **ret_reply,
                              struct qn_pipeline *pipeline, quern_error *err)
{
    qn_pipeline_command(pipeline, "ZRANGE");
    qn_keys_add(pipeline, spots->queue, "aggregation_sets");
    qn_pipeline_int(pipeline, 0);
    qn_pipeline_int(pipeline, SORT_MAX);
    quern_status status = qn_pipeline_run(pipeline, err);
    return status == QUERN_OK ? qn_pipeline_reply(pipeline, 0, ret_reply, err) : status;
}

static quern_status add_sets(struct qn_spots *spots, const char **groups, size_t group_count,
                             quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *sets = NULL;
    struct qn_arena *arena = &spots->key_arena;
    size_t prefix_size = strlen(spots->queue) + sizeof "asynq:{}:" - 1;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    quern_status status = read_sets(spots, &sets, &pipeline, err);
    if (status == QUERN_OK) {
        spots->keys = qn_arena_alloc(arena, (group_count + sets->count + 1) * sizeof *spots->keys);
        status = spots->keys == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < group_count; i++) {
        spots->keys[spots->key_count] = qn_arena_printf(arena, "g:%s", groups[i]);
        status = spots->keys[spots->key_count++] == NULL ? qn_error_nomem(err) : QUERN_OK;
    }
    for (size_t i = 0; status == QUERN_OK && i < sets->count; i++) {
        const char *key = qn_reply_text(qn_reply_at(sets, i));
        if (strlen(key) > prefix_size) {
            spots->keys[spots->key_count] = qn_arena_strdup(arena, key + prefix_size);
            status = spots->keys[spots->key_count++] == NULL ? qn_error_nomem(err) : QUERN_OK;
        }
    }
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status qn_spots_init(struct qn_spots *spots, struct qn_redis *self, const char *queue,
                           quern_task_state state, const char *group, quern_error *err)
{
    *spots = (struct qn_spots){.self = self, .queue = queue, .state = state};
    if (state != QUERN_TASK_AGGREGATING) {
        return one_key(spots, quern_task_state_name(state), err);
    }
    if (group != NULL) {
        return one_key(spots, qn_arena_printf(&spots->key_arena, "g:%s", group), err);
    }
    const char **groups = NULL;
    size_t count = 0;
    quern_status status =
        qn_look_set(self, queue, "groups", &spots->key_arena, &groups, &count, err);
    return status == QUERN_OK ? add_sets(spots, groups, count, err) : status;
}

void qn_spots_finish(struct qn_spots *spots)
{
    qn_arena_finish(&spots->arena);
    qn_arena_finish(&spots->key_arena);
}

/* --- A block ------------------------------------------------------------------------ */

static bool make_room(struct qn_spots *spots, size_t count)
{
    if (spots->count + count <= spots->capacity) {
        return true;
    }
    size_t capacity = spots->count + count + spots->capacity;
    struct qn_spot *items = qn_arena_alloc(&spots->arena, capacity * sizeof *items);
    if (items == NULL) {
        return false;
    }
    if (spots->count > 0) {
        memcpy(items, spots->spots, spots->count * sizeof *items);
    }
    spots->spots = items;
    spots->capacity = capacity;
    return true;
}

static quern_status add_spot(struct qn_spots *spots, const struct qn_reply *id, int64_t score,
                             uint64_t rank, quern_error *err)
{
    char *copy = qn_arena_alloc(&spots->arena, id->size + 1);
    if (copy == NULL || !make_room(spots, 1)) {
        return qn_error_nomem(err);
    }
    memcpy(copy, id->data, id->size);
    copy[id->size] = '\0';
    spots->spots[spots->count++] = (struct qn_spot){
        .id = copy, .id_size = id->size, .score = score, .at_ms = score * 1000, .rank = rank};
    return QUERN_OK;
}

/* Asks for ids from `rank` on. The head of a list, which is next to run, is its right end. */
static void ask_block(struct qn_pipeline *pipeline, const struct qn_spots *spots, uint64_t rank)
{
    int64_t first = (int64_t)rank;
    int64_t last = first + QN_LOOK_BLOCK - 1;
    if (is_list(spots)) {
        qn_pipeline_command(pipeline, "LRANGE");
        qn_keys_add(pipeline, spots->queue, key_of(spots));
        qn_pipeline_int(pipeline, -last - 1);
        qn_pipeline_int(pipeline, -first - 1);
        return;
    }
    qn_pipeline_command(pipeline, qn_spots_reversed(spots) ? "ZREVRANGE" : "ZRANGE");
    qn_keys_add(pipeline, spots->queue, key_of(spots));
    qn_pipeline_int(pipeline, first);
    qn_pipeline_int(pipeline, last);
    qn_pipeline_text(pipeline, "WITHSCORES");
}

static quern_status take_block(struct qn_spots *spots, const struct qn_reply *reply, uint64_t rank,
                               size_t *ret_count, quern_error *err)
{
    quern_status status = QUERN_OK;
    size_t count = is_list(spots) ? reply->count : reply->count / 2;
    if (!make_room(spots, count)) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        const struct qn_reply *id = qn_reply_at(reply, is_list(spots) ? count - 1 - i : 2 * i);
        int64_t score = is_list(spots) ? 0 : qn_reply_seconds(qn_reply_at(reply, 2 * i + 1));
        status = add_spot(spots, id, score, rank + i, err);
    }
    *ret_count = count;
    return status;
}

static quern_status read_some(struct qn_spots *spots, uint64_t rank, size_t *ret_count,
                              quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    ask_block(&pipeline, spots, rank);
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(&pipeline, 0, &reply, err);
    }
    if (status == QUERN_OK) {
        qn_page_bound_add(&spots->bound, reply);
        status = take_block(spots, reply, rank, ret_count, err);
    }
    qn_pipeline_end(&pipeline);
    return status == QUERN_OK ? qn_page_bound_check(&spots->bound, err) : status;
}

/* Takes the last second off a block that was cut, unless it is all there is. */
static bool cut_to_seconds(struct qn_spots *spots)
{
    size_t kept = spots->count;
    int64_t last = spots->spots[kept - 1].score;
    while (kept > 0 && spots->spots[kept - 1].score == last) {
        kept--;
    }
    if (kept > 0) {
        spots->count = kept;
    }
    return kept > 0;
}

/* --- Reading on ------------------------------------------------------------------------- */

/* The next block of the present key; none: it is at its end. */
static quern_status read_block(struct qn_spots *spots, quern_error *err)
{
    spots->bound.self = spots->self;
    spots->bound.size_command = is_list(spots) ? "LLEN" : "ZCARD";
    spots->bound.queue = spots->queue;
    spots->bound.key = key_of(spots);
    spots->spots = NULL;
    spots->count = spots->at = spots->capacity = 0;
    qn_arena_reset(&spots->arena);
    bool plain = is_list(spots) || spots->state == QUERN_TASK_AGGREGATING;
    bool whole = spots->state == QUERN_TASK_COMPLETED && !spots->oldest_first;
    size_t count = 0;
    quern_status status = QUERN_OK;
    do {
        status = read_some(spots, spots->rank + spots->count, &count, err);
        bool cut = status == QUERN_OK && count == QN_LOOK_BLOCK && !plain;
        if (!cut || (!whole && cut_to_seconds(spots))) {
            break;
        }
    } while (spots->count < SORT_MAX);
    spots->rank += spots->count;
    bool sorts = !plain && (spots->state != QUERN_TASK_COMPLETED || whole);
    if (whole && (spots->count >= SORT_MAX || spots->rank > spots->count)) {
        sorts = false; /* too many: by the end of the retention */
    }
    return status == QUERN_OK && sorts ? qn_spots_sort(spots, err) : status;
}

quern_status qn_spots_next(struct qn_spots *spots, size_t room, const struct qn_spot **ret_spots,
                           size_t *ret_count, quern_error *err)
{
    quern_status status = QUERN_OK;
    while (status == QUERN_OK && spots->at == spots->count && spots->key_at < spots->key_count) {
        status = read_block(spots, err);
        if (status == QUERN_OK && spots->count == 0) {
            spots->rank = 0;
            spots->bound.weight = 0;
            spots->key_at++;
        }
    }
    if (status == QUERN_OK) {
        size_t left = spots->count - spots->at;
        *ret_count = left < room ? left : room;
        *ret_spots = spots->spots == NULL ? NULL : spots->spots + spots->at;
        spots->at += *ret_count;
    }
    return status;
}

void qn_spots_gone(struct qn_spots *spots, uint64_t count)
{
    spots->rank -= count < spots->rank ? count : spots->rank;
}

/* --- Skipping ------------------------------------------------------------------------- */

static quern_status ask_number(struct qn_pipeline *pipeline, int64_t *ret_number, quern_error *err)
{
    const struct qn_reply *reply = NULL;
    quern_status status = qn_pipeline_run(pipeline, err);
    if (status == QUERN_OK) {
        status = qn_pipeline_reply(pipeline, pipeline->command_count - 1, &reply, err);
    }
    if (status == QUERN_OK) {
        bool pair = reply->type == QN_REPLY_ARRAY;
        *ret_number = qn_reply_int(pair ? qn_reply_at(reply, 1) : reply, 0);
    }
    return status;
}

/* Begins at `rank`, or at the begin of its second; the rest is read and thrown away. */
static quern_status start_at(struct qn_spots *spots, uint64_t rank, quern_error *err)
{
    bool whole = spots->state == QUERN_TASK_COMPLETED && !spots->oldest_first;
    spots->rank = rank;
    if (is_list(spots) || spots->state == QUERN_TASK_AGGREGATING) {
        return QUERN_OK;
    }
    struct qn_pipeline pipeline;
    int64_t score = 0;
    int64_t before = 0;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, qn_spots_reversed(spots) ? "ZREVRANGE" : "ZRANGE");
    qn_keys_add(&pipeline, spots->queue, key_of(spots));
    qn_pipeline_uint(&pipeline, rank);
    qn_pipeline_uint(&pipeline, rank);
    qn_pipeline_text(&pipeline, "WITHSCORES");
    quern_status status = ask_number(&pipeline, &score, err);
    if (status == QUERN_OK && !whole) {
        const char *edge = qn_arena_printf(pipeline.arena, "(%lld", (long long)score);
        pipeline.failed = pipeline.failed || edge == NULL;
        qn_pipeline_command(&pipeline, "ZCOUNT");
        qn_keys_add(&pipeline, spots->queue, key_of(spots));
        qn_pipeline_text(&pipeline, qn_spots_reversed(spots) ? (edge == NULL ? "" : edge) : "-inf");
        qn_pipeline_text(&pipeline, qn_spots_reversed(spots) ? "+inf" : (edge == NULL ? "" : edge));
        status = ask_number(&pipeline, &before, err);
    }
    qn_pipeline_end(&pipeline);
    if (status != QUERN_OK) {
        return status;
    }
    spots->rank = (uint64_t)qn_number_clamp(before, 0, (int64_t)rank);
    uint64_t surplus = rank - spots->rank;
    while (status == QUERN_OK && surplus > 0) {
        const struct qn_spot *passed = NULL;
        size_t count = 0;
        status = qn_spots_next(spots, surplus > SIZE_MAX ? SIZE_MAX : (size_t)surplus, &passed,
                               &count, err);
        surplus -= count;
        if (count == 0) {
            break;
        }
    }
    return status;
}

static quern_status count_key(struct qn_spots *spots, uint64_t *ret_count, quern_error *err)
{
    struct qn_pipeline pipeline;
    int64_t count = 0;
    qn_redis_begin(&pipeline, spots->self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, is_list(spots) ? "LLEN" : "ZCARD");
    qn_keys_add(&pipeline, spots->queue, key_of(spots));
    quern_status status = ask_number(&pipeline, &count, err);
    qn_pipeline_end(&pipeline);
    if (status == QUERN_OK) {
        *ret_count = (uint64_t)qn_number_clamp(count, 0, UINT32_MAX); /* Redis holds no more */
    }
    return status;
}

quern_status qn_spots_skip(struct qn_spots *spots, uint64_t count, uint64_t *ret_skipped,
                           quern_error *err)
{
    uint64_t skipped = 0;
    quern_status status = QUERN_OK;
    QN_ASSERT(spots->rank == 0);
    while (status == QUERN_OK && skipped < count && spots->key_at < spots->key_count) {
        uint64_t size = 0;
        status = count_key(spots, &size, err);
        if (status == QUERN_OK && size > count - skipped) {
            status = start_at(spots, count - skipped, err);
            skipped = count;
        } else if (status == QUERN_OK) {
            skipped += size;
            spots->key_at++;
        }
    }
    if (status == QUERN_OK) {
        *ret_skipped = skipped;
    }
    return status;
}
