/* SPDX-License-Identifier: MIT */
/* search_scope.c - finds the places of a search, and writes its position as a text.
 *
 * The text is "HASH.STATE.PART.RANK.KEY.KEY2.SEQ.NOW.SEARCHED.QUEUE", with a hash of the query, the
 * queue and the state that were asked for, so that the cursor of another search is refused. */
#include "inspect/search_scope.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/buf.h"
#include "base/text/hash.h"
#include "base/text/number.h"

#define CURSOR_SIZE_MAX 8192 /* of a queue that others made the name has 4096 */

/* --- Places -------------------------------------------------------------------------- */

static bool add_places(const quern_queue_info *queue, void *user)
{
    struct qn_search_scope *scope = user;
    const quern_search *search = scope->search;
    bool wanted = search->queue == NULL || strcmp(search->queue, queue->name) == 0;
    const char *name = NULL;
    for (int i = QUERN_TASK_ACTIVE; wanted && i <= QUERN_TASK_AGGREGATING; i++) {
        quern_task_state state = (quern_task_state)i;
        if (queue->counts[i] == 0 || (search->state != 0 && search->state != i) ||
            qn_condition_place(scope->condition, queue->name, state) == QN_ANSWER_NO) {
            continue;
        }
        name = name != NULL ? name : qn_arena_strdup(&scope->arena, queue->name);
        struct qn_search_place *places = qn_vec_grow(scope->places, scope->count, &scope->capacity,
                                                     sizeof(struct qn_search_place));
        scope->places = places != NULL ? places : scope->places;
        if (name == NULL || places == NULL) {
            scope->no_memory = true;
            return false;
        }
        places[scope->count++] = (struct qn_search_place){name, state, queue->counts[i]};
        scope->total += queue->counts[i];
    }
    return true;
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
    return status == QUERN_OK && scope->no_memory ? qn_error_nomem(err) : status;
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
    return numbers[STATE] >= QUERN_TASK_ACTIVE && numbers[STATE] <= QUERN_TASK_AGGREGATING &&
           numbers[PART] >= 0 && numbers[PART] <= INT8_MAX && numbers[RANK] >= 0 &&
           numbers[SEQ] >= 0 && numbers[NOW] > 0 && numbers[NOW] <= QN_MOMENT_MS_MAX &&
           numbers[SEARCHED] >= 0;
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
