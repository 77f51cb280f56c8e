/* SPDX-License-Identifier: MIT */
/* search_scope.c - checks what a search is given, finds its places, and writes its position as a
 * text.
 *
 * The text is "HASH.STATE.PART.RANK.KEY.KEY2.SEQ.NOW.SEARCHED.QUEUE", with a hash of the query, the
 * queue and the state that were asked for, so that the cursor of another search is refused. */
#include "inspect/search_scope.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/memory/vec.h"
#include "base/text/buf.h"
#include "base/text/hash.h"
#include "base/text/number.h"

#define CURSOR_SIZE_MAX 8192 /* of a queue that others made the name has 4096 */

#define LIMIT_DEFAULT 30
#define SCAN_DEFAULT 30000 /* of Redis: half a second */

static quern_status check_search(const quern_search *search, quern_error *err)
{
    if (search->state != 0 && quern_task_state_name((quern_task_state)search->state) == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "search: %d is not a state", (int)search->state);
    }
    if (search->in_trash != 0 && search->in_trash != 1) {
        return qn_error_set(err, QUERN_E_INVALID, "search: in_trash is neither 0 nor 1");
    }
    if ((search->dry_run != 0 && search->dry_run != 1) || search->reserved != 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "search: dry_run is neither 0 nor 1, or reserved is not 0");
    }
    if (search->in_trash != 0 && search->state != 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "search: in the trash the state is part of the query");
    }
    if (search->limit > QN_SEARCH_LIMIT_MAX || search->scan_max > QN_SEARCH_SCAN_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "search: a page is at most %d tasks out of %d that are looked at",
                            QN_SEARCH_LIMIT_MAX, QN_SEARCH_SCAN_MAX);
    }
    return QUERN_OK;
}

quern_status qn_search_scope_take(const quern_inspector *inspector, struct qn_bytes given,
                                  quern_search *ret_search, quern_error *err)
{
    quern_status status = qn_inspect_enter(inspector, err);
    if (status == QUERN_OK && given.data == NULL) {
        status = qn_error_set(err, QUERN_E_INVALID, "search: must not be NULL");
    }
    if (status == QUERN_OK) {
        status = qn_sized_copy(QN_ROOM_OF(*ret_search), given, "quern_search", err);
    }
    if (status == QUERN_OK) {
        status = check_search(ret_search, err);
    }
    if (status == QUERN_OK && ret_search->limit == 0) {
        ret_search->limit = LIMIT_DEFAULT;
    }
    if (status == QUERN_OK && ret_search->scan_max == 0) {
        ret_search->scan_max = SCAN_DEFAULT;
    }
    return status;
}

/* --- Places -------------------------------------------------------------------------- */

/* False: memory is out. `name` stays the caller's. */
static bool add_place(struct qn_search_scope *scope, struct qn_search_place place)
{
    struct qn_search_place *places =
        qn_vec_grow(scope->places, scope->count, &scope->capacity, sizeof(struct qn_search_place));
    if (places == NULL || place.queue == NULL) {
        scope->places = places != NULL ? places : scope->places;
        scope->no_memory = true;
        return false;
    }
    scope->places = places;
    places[scope->count++] = place;
    scope->total += place.count;
    return true;
}

static bool add_places(const quern_queue_info *queue, void *user)
{
    struct qn_search_scope *scope = user;
    const quern_search *search = scope->search;
    bool wanted = search->queue == NULL || strcmp(search->queue, queue->name) == 0;
    const char *name = NULL;
    if (wanted && search->in_trash) { /* how much there is, find_trash asks */
        name = qn_arena_strdup(&scope->arena, queue->name);
        return add_place(scope, (struct qn_search_place){.queue = name});
    }
    for (int i = QUERN_TASK_ACTIVE; wanted && i <= QUERN_TASK_AGGREGATING; i++) {
        quern_task_state state = (quern_task_state)i;
        if (queue->counts[i] == 0 || (search->state != 0 && search->state != i) ||
            qn_condition_place(scope->condition, queue->name, state) == QN_ANSWER_NO) {
            continue;
        }
        name = name != NULL ? name : qn_arena_strdup(&scope->arena, queue->name);
        if (!add_place(scope, (struct qn_search_place){name, state, queue->counts[i]})) {
            return false;
        }
    }
    return true;
}

/* Asks each queue for its trash, and leaves out those without any. */
static quern_status find_trash(struct qn_search_scope *scope, struct qn_broker *broker,
                               quern_error *err)
{
    size_t kept = 0;
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < scope->count; i++) {
        struct qn_trash_use use = {.count = 0};
        status = qn_broker_trash_use(broker, scope->places[i].queue, &use, err);
        if (status == QUERN_OK && use.count > 0) {
            scope->places[kept] = scope->places[i];
            scope->places[kept++].count = use.count;
            scope->total += use.count;
        }
    }
    scope->count = kept;
    return status;
}

quern_status qn_search_scope_init(struct qn_search_scope *scope, struct qn_broker *broker,
                                  const quern_search *search, quern_error *err)
{
    *scope = (struct qn_search_scope){.search = search};
    const struct qn_names only = {.items = &search->queue, .count = 1};
    quern_status status =
        qn_condition_parse(search->match == NULL ? "" : search->match, &scope->condition, err);
    if (status == QUERN_OK) {
        status =
            qn_broker_queues(broker, search->queue == NULL ? NULL : &only, add_places, scope, err);
    }
    if (status == QUERN_OK && scope->no_memory) {
        status = qn_error_nomem(err);
    }
    return status == QUERN_OK && search->in_trash ? find_trash(scope, broker, err) : status;
}

void qn_search_scope_finish(struct qn_search_scope *scope)
{
    qn_condition_free(scope->condition);
    qn_arena_finish(&scope->arena);
    qn_free(scope->places);
}

/* --- Cursors ------------------------------------------------------------------------- */

static uint64_t add_hash(uint64_t hash, const char *text)
{
    const char *given = text == NULL ? "" : text;
    return qn_hash_part(hash, given, strlen(given));
}

static uint64_t hash_of(const struct qn_search_scope *scope)
{
    uint64_t hash = add_hash(0, scope->search->match);
    hash = add_hash(hash, scope->search->queue);
    hash = qn_hash_part(hash, &scope->search->in_trash, sizeof scope->search->in_trash);
    return qn_hash_part(hash, &scope->search->state, sizeof scope->search->state) >> 32;
}

char *qn_search_scope_write(const struct qn_search_scope *scope,
                            const struct qn_search_cursor *cursor)
{
    const struct qn_search_place *place = &scope->places[cursor->place];
    const struct qn_search_position *at = &cursor->at;
    struct qn_buf buf;
    qn_buf_init(&buf, CURSOR_SIZE_MAX);
    quern_status status =
        qn_buf_printf(&buf,
                      "%" PRIu64 ".%d.%" PRId32 ".%" PRIu64 ".%" PRId64 ".%" PRId64 ".%" PRId64
                      ".%" PRId64 ".%" PRIu64 ".%s",
                      hash_of(scope), (int)place->state, at->part, at->rank, at->key, at->key2,
                      at->seq, cursor->now_ms, cursor->searched, place->queue);
    if (status != QUERN_OK) {
        qn_buf_finish(&buf);
        return NULL;
    }
    return buf.data; /* a block of qn_alloc */
}

/* "NUMBER." */
static bool take_number(struct qn_cursor *text, int64_t *ret_number)
{
    uint64_t number = 0;
    bool is_negative = qn_number_take_char(text, '-');
    if (!qn_number_take(text, &number) || !qn_number_take_char(text, '.')) {
        return false;
    }
    int64_t most = number > INT64_MAX ? INT64_MAX : (int64_t)number;
    *ret_number = is_negative ? -most : most;
    return true;
}

enum { HASH, STATE, PART, RANK, KEY, KEY2, SEQ, NOW, SEARCHED, NUMBER_COUNT };

static bool is_sane(const int64_t numbers[NUMBER_COUNT])
{
    return numbers[STATE] >= 0 && numbers[STATE] <= QUERN_TASK_AGGREGATING && numbers[PART] >= 0 &&
           numbers[PART] <= INT8_MAX && numbers[RANK] >= 0 && numbers[SEQ] >= 0 &&
           numbers[NOW] > 0 && numbers[NOW] <= QN_MOMENT_MS_MAX && numbers[SEARCHED] >= 0;
}

/* Whether the place comes before that state of that queue. */
static bool is_before(const struct qn_search_place *place, const char *queue, int64_t state)
{
    int order = strcmp(place->queue, queue);
    return order < 0 || (order == 0 && (int64_t)place->state < state);
}

quern_status qn_search_scope_read(const struct qn_search_scope *scope, const char *text,
                                  struct qn_search_cursor *ret_cursor, quern_error *err)
{
    struct qn_cursor at = {text, text + strlen(text)};
    int64_t numbers[NUMBER_COUNT] = {0};
    bool is_read = true;
    for (size_t i = 0; is_read && i < NUMBER_COUNT; i++) {
        is_read = take_number(&at, &numbers[i]);
    }
    if (!is_read || !is_sane(numbers)) {
        return qn_error_set(err, QUERN_E_INVALID, "cursor: this is not the cursor of a search");
    }
    if (numbers[HASH] != (int64_t)hash_of(scope)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "cursor: it belongs to another search; give the same query, queue and "
                            "state, or begin again without it");
    }
    struct qn_search_cursor cursor = {.searched = (uint64_t)numbers[SEARCHED],
                                      .now_ms = numbers[NOW]};
    while (cursor.place < scope->count &&
           is_before(&scope->places[cursor.place], at.at, numbers[STATE])) {
        cursor.place++;
    }
    bool is_there =
        cursor.place < scope->count &&
        !is_before(&(struct qn_search_place){at.at, (quern_task_state)numbers[STATE], 0},
                   scope->places[cursor.place].queue, (int64_t)scope->places[cursor.place].state);
    if (is_there) {
        cursor.at = (struct qn_search_position){.rank = (uint64_t)numbers[RANK],
                                                .part = (int32_t)numbers[PART],
                                                .key = numbers[KEY],
                                                .key2 = numbers[KEY2],
                                                .seq = numbers[SEQ]};
    }
    *ret_cursor = cursor;
    return QUERN_OK;
}
