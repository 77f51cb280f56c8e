/* SPDX-License-Identifier: MIT */
/* lanes.c - chooses the pending tasks of a queue with lanes, so that its keys take turns.
 *
 * When a lease first comes to the queue, it walks through the lanes, beginning behind the key that
 * was served last, until there are enough keys with a task that may run, or all have been seen, or
 * QN_LIMIT_LANES_MAX. Then the keys are served in this order, one task each, round after round; of
 * a key's lanes the one with the oldest task that may run. A second look at the queue in the same
 * lease goes on where the first one ended. Charged tasks come first, by their own rules. */
#include "broker/sqlite/run/limits/lanes.h"

#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "broker/sqlite/run/limits/lanes_sql.h"
#include "broker/sqlite/run/limits/sort.h"

struct lane {
    const char *name;
    const char *key; /* as the next one in the walk's arena */
    const char *type;
    int64_t seq; /* its next task */
    int64_t place;
    bool over; /* has no more */
};

struct qn_lane_walk {
    struct qn_arena arena;
    struct lane *lanes; /* those of a key stand together */
    size_t count;
    size_t capacity;
    size_t open_keys; /* had a task that might run */
    size_t at;        /* the first lane of the key whose turn is next */
    bool enough;      /* no more need be read */
    bool cut;         /* there were too many to see all */
    const char *last; /* the key that was served last; NULL: none yet */
    int64_t queue_no;
};

/* --- Lanes ----------------------------------------------------------------------------- */

const char *qn_lanes_name(char out[QN_LANE_NAME_SIZE], int64_t lanes, const char *key,
                          const char *type)
{
    if (lanes == 0) {
        return NULL;
    }
    int size = snprintf(out, QN_LANE_NAME_SIZE, "%s%c%s", key != NULL ? key : "", QN_LIMIT_LANE_SEP,
                        lanes == QN_LANES_BY_TYPE ? type : "");
    return size < QN_LANE_NAME_SIZE ? out : NULL;
}

static bool copy_lane(struct qn_lane_walk *walk, const char *name, struct lane *lane)
{
    const char *end = strchr(name, QN_LIMIT_LANE_SEP);
    size_t key_size = end != NULL ? (size_t)(end - name) : strlen(name);
    lane->name = qn_arena_strdup(&walk->arena, name);
    lane->key = qn_arena_printf(&walk->arena, "%.*s", (int)key_size, name);
    if (lane->name == NULL || lane->key == NULL) {
        return false;
    }
    lane->type = lane->name + key_size + (end != NULL ? 1 : 0);
    return true;
}

/* The first task of the lane behind `behind`; *ret_found: false: there is none. */
static quern_status read_next(struct qn_lease_batch *batch, struct qn_lane_walk *walk,
                              const char *behind, struct lane *ret_lane, quern_error *err)
{
    *ret_lane = (struct lane){0};
    bool memory = true;
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lane_next);
    qn_query_int(&query, walk->queue_no);
    qn_query_text(&query, behind);
    if (qn_query_row(&query)) {
        memory = copy_lane(walk, qn_query_column_text(&query, 0), ret_lane);
        ret_lane->seq = sqlite3_column_int64(query.statement, 1);
        ret_lane->place = sqlite3_column_int64(query.statement, 2);
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

static quern_status advance(struct qn_lease_batch *batch, const struct qn_lane_walk *walk,
                            struct lane *lane, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lane_more);
    qn_query_int(&query, walk->queue_no);
    qn_query_text(&query, lane->name);
    qn_query_int(&query, lane->place);
    lane->over = !qn_query_row(&query);
    if (!lane->over) {
        lane->seq = sqlite3_column_int64(query.statement, 0);
        lane->place = sqlite3_column_int64(query.statement, 1);
    }
    return qn_query_finish(&query, err);
}

static quern_status may_run(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                            const struct lane *lane, bool *ret_may, quern_error *err)
{
    bool unsorted = source->queue->sort != 0 && source->queue->lanes == QN_LANES_BY_TYPE &&
                    lane->type[0] == '\0';
    *ret_may = !lane->over && !unsorted;
    if (!*ret_may || source->queue->limits == 0) {
        return QUERN_OK;
    }
    const struct qn_lease_kind kind = {.type = lane->type, .key = lane->key};
    return qn_lease_limits_may(batch, source, &kind, ret_may, err);
}

/* --- The walk -------------------------------------------------------------------------- */

static bool is_new_key(const struct qn_lane_walk *walk, const struct lane *lane)
{
    return walk->count == 0 || strcmp(walk->lanes[walk->count - 1].key, lane->key) != 0;
}

static quern_status add_lane(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                             struct qn_lane_walk *walk, const struct lane *lane, quern_error *err)
{
    struct lane *lanes = qn_vec_grow(walk->lanes, walk->count, &walk->capacity, sizeof *lanes);
    if (lanes == NULL) {
        return qn_error_nomem(err);
    }
    bool may = false;
    walk->lanes = lanes;
    bool is_new = is_new_key(walk, lane);
    walk->lanes[walk->count++] = *lane;
    quern_status status = may_run(batch, source, lane, &may, err);
    walk->open_keys += may && is_new ? 1 : 0;
    return status;
}

/* Adds the lanes behind `behind` up to `until` (NULL: to the end), or until they are enough. */
static quern_status walk_part(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                              const char *behind, const char *until, quern_error *err)
{
    struct qn_lane_walk *walk = batch->progress[source->index].walk;
    size_t room = batch->exchange->room - batch->count;
    for (;;) {
        struct lane lane;
        quern_status status = read_next(batch, walk, behind, &lane, err);
        if (status != QUERN_OK || lane.name == NULL ||
            (until != NULL && strcmp(lane.name, until) > 0)) {
            return status;
        }
        walk->cut = walk->count >= QN_LIMIT_LANES_MAX;
        walk->enough = walk->cut || (walk->open_keys >= room && is_new_key(walk, &lane));
        if (walk->enough) {
            return QUERN_OK;
        }
        status = add_lane(batch, source, walk, &lane, err);
        if (status != QUERN_OK) {
            return status;
        }
        behind = lane.name;
    }
}

static quern_status read_turn(struct qn_lease_batch *batch, struct qn_lane_walk *walk,
                              const char **ret_behind, quern_error *err)
{
    /* No name has a character below the space, so this is behind all lanes of the key. */
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lane_turn);
    qn_query_int(&query, walk->queue_no);
    const char *behind = "";
    if (qn_query_row(&query)) {
        behind = qn_arena_printf(&walk->arena, "%s ", qn_query_column_text(&query, 0));
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && behind == NULL) {
        return qn_error_nomem(err);
    }
    *ret_behind = behind;
    return status;
}

static quern_status walk_all(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                             quern_error *err)
{
    const char *turn = "";
    struct qn_lane_walk *walk = qn_alloc_zero(1, sizeof *walk);
    if (walk == NULL) {
        return qn_error_nomem(err);
    }
    batch->progress[source->index].walk = walk;
    batch->has_walks = true;
    walk->queue_no = source->queue->no;
    quern_status status = read_turn(batch, walk, &turn, err);
    if (status == QUERN_OK) {
        status = walk_part(batch, source, turn, NULL, err);
    }
    if (status == QUERN_OK && !walk->enough) {
        status = walk_part(batch, source, "", turn, err);
    }
    return status;
}

/* --- Turns ----------------------------------------------------------------------------- */

/* The end of the lanes of the key that begins at `first`. */
static size_t end_of_key(const struct qn_lane_walk *walk, size_t first)
{
    size_t end = first + 1;
    while (end < walk->count && strcmp(walk->lanes[end].key, walk->lanes[first].key) == 0) {
        end++;
    }
    return end;
}

/* Takes the task of the lane; *ret_taken: it was taken or archived. */
static quern_status take_from(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                              struct lane *lane, bool *ret_taken, quern_error *err)
{
    struct qn_leased *run = NULL;
    quern_status status = qn_lease_row_read(batch, source, lane->seq, &run, err);
    if (status == QUERN_OK && run != NULL) {
        *ret_taken = true;
        status = qn_pick_take(batch, source->queue, run, err);
    }
    return status == QUERN_OK ? advance(batch, batch->progress[source->index].walk, lane, err)
                              : status;
}

/* The turn of the key whose lanes these are. */
static quern_status serve_key(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                              size_t first, bool *ret_taken, quern_error *err)
{
    struct qn_lane_walk *walk = batch->progress[source->index].walk;
    struct lane *chosen = NULL;
    for (size_t i = first; i < end_of_key(walk, first); i++) {
        bool may = false;
        quern_status status = may_run(batch, source, &walk->lanes[i], &may, err);
        if (status != QUERN_OK) {
            return status;
        }
        if (may && (chosen == NULL || walk->lanes[i].place < chosen->place)) {
            chosen = &walk->lanes[i];
        }
    }
    if (chosen == NULL) {
        return QUERN_OK;
    }
    walk->last = chosen->key;
    return take_from(batch, source, chosen, ret_taken, err);
}

static quern_status serve_all(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                              size_t full, quern_error *err)
{
    struct qn_lane_walk *walk = batch->progress[source->index].walk;
    quern_status status = QUERN_OK;
    bool round_taken = true;
    while (status == QUERN_OK && round_taken && batch->count < full &&
           !qn_lease_batch_ends_early(batch)) {
        round_taken = walk->at > 0; /* the rest of a round proves nothing */
        while (status == QUERN_OK && walk->at < walk->count && batch->count < full &&
               !qn_lease_batch_ends_early(batch)) {
            size_t first = walk->at;
            walk->at = end_of_key(walk, first);
            status = serve_key(batch, source, first, &round_taken, err);
        }
        walk->at = walk->at < walk->count ? walk->at : 0;
    }
    return status;
}

quern_status qn_lanes_pick(struct qn_lease_batch *batch, const struct qn_lease_source *source,
                           size_t want, quern_error *err)
{
    struct qn_queue_progress *state = &batch->progress[source->index];
    size_t full = batch->count + want;
    quern_status status = qn_pick_charged(batch, source, want, err);
    if (status == QUERN_OK && source->queue->sort != 0 && state->walk == NULL) {
        status = qn_sort_pages(batch, source, err);
    }
    if (status == QUERN_OK && batch->count < full && state->walk == NULL) {
        status = walk_all(batch, source, err);
    }
    if (status == QUERN_OK && batch->count < full && state->walk != NULL) {
        status = serve_all(batch, source, full, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    state->empty = batch->count < full && !qn_lease_batch_ends_early(batch);
    if (state->empty && source->queue->sort != 0) {
        qn_lease_limits_note_wait(source, QN_LIMIT_LOOK_MS);
    }
    if (state->empty && state->walk->cut) {
        qn_lease_limits_note_wait(source, QN_LIMIT_LOOK_MS);
        state->walk->last = state->walk->lanes[state->walk->count - 1].key;
    }
    return QUERN_OK;
}

static quern_status write_turn(struct qn_lease_batch *batch, const struct qn_lane_walk *walk,
                               quern_error *err)
{
    if (walk->last == NULL || QN_BUG(TURN_NOT_PASSED_ON)) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(batch->counters->conn, sql_lane_turn_write);
    qn_query_int(&query, walk->queue_no);
    qn_query_text(&query, walk->last);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_lanes_finish(struct qn_lease_batch *batch, bool write, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; batch->has_walks && i < batch->exchange->queue_count; i++) {
        struct qn_lane_walk *walk = batch->progress[i].walk;
        if (walk == NULL) {
            continue;
        }
        if (write && status == QUERN_OK) {
            status = write_turn(batch, walk, err);
        }
        qn_arena_finish(&walk->arena);
        qn_free(walk->lanes);
        qn_free(walk);
        batch->progress[i].walk = NULL;
    }
    return status;
}
