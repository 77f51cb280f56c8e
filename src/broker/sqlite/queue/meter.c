/* SPDX-License-Identifier: MIT */
/* meter.c - what is used of the limits of a queue, in one transaction. */
#include "broker/sqlite/queue/meter.h"

#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/hash.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/meter_limits.h"
#include "broker/sqlite/queue/meter_sql.h"
#include "broker/sqlite/store/query.h"

#define SLOT_SIZE 4 /* bytes */
#define BUCKETS 256

void qn_meters_init(struct qn_meters *meters, struct qn_conn *conn, int64_t now_ms)
{
    *meters = (struct qn_meters){.conn = conn, .now_ms = now_ms};
}

void qn_meters_finish(struct qn_meters *meters)
{
    qn_arena_finish(&meters->arena);
    qn_free(meters->items);
    qn_free(meters->bound);
    *meters = (struct qn_meters){0};
}

/* --- Reading --------------------------------------------------------------------------- */

static quern_status count_by(struct qn_meters *meters, const struct qn_meter *meter,
                             const char *sql, int64_t *running, quern_error *err)
{
    struct qn_query query = qn_query_start(meters->conn, sql);
    qn_query_int(&query, meter->of.queue_no);
    if (meter->of.scope != QUERN_LIMIT_QUEUE) {
        qn_query_text(&query, meter->of.name);
    }
    if (qn_query_row(&query)) {
        *running += sqlite3_column_int64(query.statement, 0);
    }
    return qn_query_finish(&query, err);
}

static quern_status count_running(struct qn_meters *meters, struct qn_meter *meter,
                                  quern_error *err)
{
    static const char *const own[] = {[QUERN_LIMIT_QUEUE] = sql_meter_running_queue,
                                      [QUERN_LIMIT_TYPE] = sql_meter_running_type,
                                      [QUERN_LIMIT_KEY] = sql_meter_running_key};
    static const char *const all[] = {[QUERN_LIMIT_QUEUE] = sql_meter_running_all,
                                      [QUERN_LIMIT_TYPE] = sql_meter_running_all_type,
                                      [QUERN_LIMIT_KEY] = sql_meter_running_all_key,
                                      [QUERN_LIMIT_SEMAPHORE] = sql_meter_running_semaphore};
    quern_status status = QUERN_OK;
    if (QN_BUG(LIMIT_SHARE_LOST)) {
        struct qn_query query = qn_query_start(meters->conn, sql_bug_meter_lost);
        qn_query_int(&query, meter->of.queue_no);
        meter->running = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        status = qn_query_finish(&query, err);
    }
    const char *const *counts = meter->of.queue_no == QN_METER_ALL ? all : own;
    return status == QUERN_OK
               ? count_by(meters, meter, counts[meter->of.scope], &meter->running, err)
               : status;
}

static void unpack_slots(const unsigned char *bytes, size_t size, struct qn_limit_use *use)
{
    for (size_t i = 0; i < QN_LIMIT_SLOTS + 1 && (i + 1) * SLOT_SIZE <= size; i++) {
        const unsigned char *at = bytes + i * SLOT_SIZE;
        use->slots[i] =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
}

static quern_status read_use(struct qn_meters *meters, struct qn_meter *meter, quern_error *err)
{
    struct qn_query query = qn_query_start(meters->conn, sql_meter_use);
    qn_query_int(&query, meter->of.queue_no);
    qn_query_int(&query, meter->of.scope);
    qn_query_text(&query, meter->of.name);
    if (qn_query_row(&query)) {
        sqlite3_stmt *row = query.statement;
        struct qn_limit_use *use = &meter->use;
        use->period_ms = sqlite3_column_int64(row, 0);
        use->at_ms = qn_query_column_moment_ms(row, 1);
        use->debt = qn_number_clamp(sqlite3_column_int64(row, 2), 0,
                                    QN_LIMIT_COUNT_MAX * QN_LIMIT_PERIOD_MS_MAX);
        use->clear_at_ms = qn_query_column_moment_ms(row, 3);
        /* After the clock was turned back it must be written, or it would be as old tomorrow. */
        meter->changed = use->at_ms > meters->now_ms;
        use->bucket = sqlite3_column_type(row, 4) == SQLITE_NULL;
        const unsigned char *slots = sqlite3_column_blob(row, 4);
        if (slots != NULL) {
            unpack_slots(slots, (size_t)sqlite3_column_bytes(row, 4), use);
        }
    }
    return qn_query_finish(&query, err);
}

static quern_status read_meter(struct qn_meters *meters, struct qn_meter *meter, quern_error *err)
{
    bool is_semaphore = meter->of.scope == QUERN_LIMIT_SEMAPHORE;
    bool counts = is_semaphore && meter->of.queue_no == QN_METER_ALL;
    quern_status status = counts ? QUERN_OK : qn_meter_limits_read(meters, meter, err);
    if (status == QUERN_OK && (counts || (meter->has_runs && !is_semaphore))) {
        status = count_running(meters, meter, err);
    }
    if (status == QUERN_OK && meter->has_starts) {
        status = read_use(meters, meter, err);
    }
    return status;
}

static uint64_t bucket_of(const struct qn_meter_owner *of)
{
    uint64_t hash = qn_hash_part(QN_HASH_START, &of->queue_no, sizeof of->queue_no);
    hash = qn_hash_part(hash, &of->scope, sizeof of->scope);
    return qn_hash_part(hash, of->name, strlen(of->name)) % BUCKETS;
}

static struct qn_meter *find_known(const struct qn_meters *meters, const struct qn_meter_owner *of)
{
    struct qn_meter *meter = meters->buckets != NULL ? meters->buckets[bucket_of(of)] : NULL;
    while (meter != NULL && (meter->of.queue_no != of->queue_no || meter->of.scope != of->scope ||
                             strcmp(meter->of.name, of->name) != 0)) {
        meter = meter->same;
    }
    return meter;
}

static bool make_buckets(struct qn_meters *meters)
{
    if (meters->buckets == NULL) {
        size_t size = BUCKETS * sizeof(struct qn_meter *);
        meters->buckets = qn_arena_alloc(&meters->arena, size);
        if (meters->buckets != NULL) {
            memset(meters->buckets, 0, size);
        }
    }
    return meters->buckets != NULL;
}

static void add_meter(struct qn_meters *meters, struct qn_meter *meter)
{
    struct qn_meter **bucket = &meters->buckets[bucket_of(&meter->of)];
    meter->same = *bucket;
    *bucket = meter;
    meters->items[meters->count++] = meter;
}

static quern_status find_or_read(struct qn_meters *meters, struct qn_meter_owner of,
                                 struct qn_meter **ret_meter, quern_error *err)
{
    *ret_meter = find_known(meters, &of);
    if (*ret_meter != NULL) {
        return QUERN_OK;
    }
    struct qn_meter **items =
        qn_vec_grow(meters->items, meters->count, &meters->capacity, sizeof(struct qn_meter *));
    meters->items = items != NULL ? items : meters->items;
    struct qn_meter *meter = qn_arena_alloc(&meters->arena, sizeof *meter);
    const char *copy = qn_arena_strdup(&meters->arena, of.name);
    if (items == NULL || meter == NULL || copy == NULL || !make_buckets(meters)) {
        return qn_error_nomem(err);
    }
    *meter = (struct qn_meter){.of = of};
    meter->of.name = copy;
    quern_status status = read_meter(meters, meter, err);
    if (status == QUERN_OK) {
        add_meter(meters, meter);
        *ret_meter = meter;
    }
    return status;
}

quern_status qn_meters_find(struct qn_meters *meters, struct qn_meter_owner of,
                            struct qn_meter **ret_meter, quern_error *err)
{
    struct qn_meter *meter = NULL;
    quern_status status = find_or_read(meters, of, &meter, err);
    if (status == QUERN_OK && of.scope == QUERN_LIMIT_SEMAPHORE && meter->holders == NULL) {
        const struct qn_meter_owner all = {QN_METER_ALL, of.scope, of.name};
        status = find_or_read(meters, all, &meter->holders, err);
    }
    *ret_meter = meter;
    return status;
}

/* --- Semaphores ------------------------------------------------------------------------ */

static quern_status read_semaphores(struct qn_meters *meters, struct qn_semaphores *semaphores,
                                    quern_error *err)
{
    quern_status status = QUERN_OK;
    struct qn_query query = qn_query_start(meters->conn, sql_meter_semaphores);
    qn_query_int(&query, semaphores->queue_no);
    while (status == QUERN_OK && qn_query_row(&query)) {
        struct qn_meter *meter = NULL;
        const struct qn_meter_owner of = {semaphores->queue_no, QUERN_LIMIT_SEMAPHORE,
                                          qn_query_column_text(&query, 0)};
        status = qn_meters_find(meters, of, &meter, err);
        if (status == QUERN_OK) {
            meter->next = semaphores->first;
            semaphores->first = meter;
        }
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

static quern_status find_semaphores(struct qn_meters *meters, int64_t queue_no,
                                    struct qn_meter **ret_first, quern_error *err)
{
    for (struct qn_semaphores *one = meters->semaphores; one != NULL; one = one->next) {
        if (one->queue_no == queue_no) {
            *ret_first = one->first;
            return QUERN_OK;
        }
    }
    struct qn_semaphores *made = qn_arena_alloc(&meters->arena, sizeof *made);
    if (made == NULL) {
        return qn_error_nomem(err);
    }
    *made = (struct qn_semaphores){.next = meters->semaphores, .queue_no = queue_no};
    quern_status status = read_semaphores(meters, made, err);
    meters->semaphores = status == QUERN_OK ? made : meters->semaphores;
    *ret_first = made->first;
    return status;
}

/* --- Using ----------------------------------------------------------------------------- */

/* Adds the meter to those that bind the task in hand. */
static quern_status bind(struct qn_meters *meters, struct qn_meter *meter, quern_error *err)
{
    struct qn_meter **bound =
        qn_vec_grow(meters->bound, meters->bound_count, &meters->bound_capacity, sizeof bound[0]);
    if (bound == NULL) {
        return qn_error_nomem(err);
    }
    meters->bound = bound;
    meters->bound[meters->bound_count++] = meter;
    return QUERN_OK;
}

/* Binds those of task->queue_no, which may be QN_METER_ALL. */
static quern_status bind_kinds(struct qn_meters *meters, const struct qn_metered *task,
                               quern_error *err)
{
    const char *const names[] = {"", task->type, task->key};
    quern_status status = QUERN_OK;
    for (int32_t scope = QUERN_LIMIT_QUEUE; status == QUERN_OK && scope <= QUERN_LIMIT_KEY;
         scope++) {
        struct qn_meter *meter = NULL;
        const char *name = names[scope - QUERN_LIMIT_QUEUE];
        bool none = name == NULL || (scope == QUERN_LIMIT_KEY && name[0] == '\0');
        int64_t bits = qn_meter_bit(scope, false) | qn_meter_bit(scope, true);
        if (none || (task->limits & bits) == 0) {
            continue;
        }
        const struct qn_meter_owner of = {task->queue_no, scope, name};
        status = qn_meters_find(meters, of, &meter, err);
        if (status == QUERN_OK) {
            status = bind(meters, meter, err);
        }
    }
    return status;
}

static quern_status bind_semaphores(struct qn_meters *meters, int64_t queue_no, quern_error *err)
{
    struct qn_meter *meter = NULL;
    quern_status status = find_semaphores(meters, queue_no, &meter, err);
    for (; status == QUERN_OK && meter != NULL; meter = meter->next) {
        status = bind(meters, meter, err);
    }
    return status;
}

static quern_status bind_all(struct qn_meters *meters, const struct qn_metered *task,
                             quern_error *err)
{
    struct qn_metered as_of_all = *task;
    as_of_all.queue_no = QN_METER_ALL;
    as_of_all.limits = task->limits >> QN_METER_ALL_SHIFT;
    meters->bound_count = 0;
    quern_status status = bind_kinds(meters, task, err);
    if (status == QUERN_OK && as_of_all.limits != 0) {
        status = bind_kinds(meters, &as_of_all, err);
    }
    return status == QUERN_OK && (task->limits & QN_METER_SEMAPHORES) != 0
               ? bind_semaphores(meters, task->queue_no, err)
               : status;
}

quern_status qn_meters_room(struct qn_meters *meters, const struct qn_metered *task,
                            int64_t *ret_room, int64_t *ret_wait_ms, quern_error *err)
{
    quern_status status = bind_all(meters, task, err);
    int64_t least = INT64_MAX;
    int64_t wait_ms = 0;
    bool for_an_end = false;
    for (size_t i = 0; status == QUERN_OK && i < meters->bound_count; i++) {
        struct qn_meter *meter = meters->bound[i];
        if (meter->has_runs) {
            int64_t more = QN_BUG(LIMIT_OFF_BY_ONE) ? 1 : 0;
            int64_t room = meter->runs.count - *qn_meter_running(meter) + more;
            least = room < least ? room : least;
            for_an_end = for_an_end || room <= 0;
        }
        if (meter->has_starts) {
            int64_t room = qn_limit_room(&meter->starts, &meter->use, meters->now_ms);
            int64_t wait = qn_limit_wait_ms(&meter->starts, &meter->use, meters->now_ms);
            least = room < least ? room : least;
            wait_ms = wait > wait_ms ? wait : wait_ms;
        }
    }
    *ret_room = least > 0 ? least : 0;
    *ret_wait_ms = for_an_end ? 0 : wait_ms;
    return status;
}

quern_status qn_meters_take(struct qn_meters *meters, const struct qn_metered *task,
                            quern_error *err)
{
    quern_status status = bind_all(meters, task, err);
    for (size_t i = 0; status == QUERN_OK && i < meters->bound_count; i++) {
        struct qn_meter *meter = meters->bound[i];
        if ((QN_BUG(ALL_COUNTED_APART) && meter->of.queue_no == QN_METER_ALL) ||
            (QN_BUG(TOKENS_COUNTED_APART) && meter->holders != NULL)) {
            continue;
        }
        (*qn_meter_running(meter))++;
        if (meter->has_starts) {
            qn_limit_take(&meter->starts, &meter->use, meters->now_ms);
            meter->changed = true;
        }
    }
    return status;
}

quern_status qn_meters_give_back(struct qn_meters *meters, const struct qn_metered *task,
                                 int64_t age_ms, quern_error *err)
{
    quern_status status = bind_all(meters, task, err);
    for (size_t i = 0; status == QUERN_OK && i < meters->bound_count; i++) {
        struct qn_meter *meter = meters->bound[i];
        if (meter->has_starts) {
            qn_limit_give_back(&meter->starts, &meter->use, meters->now_ms, age_ms);
            meter->changed = true;
        }
    }
    return status;
}

/* --- Writing --------------------------------------------------------------------------- */

static size_t pack_slots(const struct qn_limit_use *use, unsigned char *bytes)
{
    size_t size = 0;
    for (size_t i = 0; i < QN_LIMIT_SLOTS + 1; i++) {
        unsigned char *at = bytes + i * SLOT_SIZE;
        for (size_t byte = 0; byte < SLOT_SIZE; byte++) {
            at[byte] = (unsigned char)(use->slots[i] >> (8 * byte));
        }
        size = use->slots[i] != 0 ? (i + 1) * SLOT_SIZE : size;
    }
    return size;
}

static quern_status write_use(struct qn_meters *meters, struct qn_meter *meter, quern_error *err)
{
    unsigned char slots[(QN_LIMIT_SLOTS + 1) * SLOT_SIZE];
    struct qn_limit_use *use = &meter->use;
    int64_t clear_at_ms = qn_limit_clear_at_ms(&meter->starts, use, meters->now_ms);
    struct qn_query query = qn_query_start(meters->conn, sql_meter_use_write);
    qn_query_int(&query, meter->of.queue_no);
    qn_query_int(&query, meter->of.scope);
    qn_query_text(&query, meter->of.name);
    qn_query_int(&query, use->period_ms);
    qn_query_int(&query, use->at_ms);
    qn_query_int(&query, use->debt);
    qn_query_int(&query, use->clear_at_ms);
    qn_query_blob(&query, use->bucket ? NULL : slots, use->bucket ? 0 : pack_slots(use, slots));
    qn_query_int(&query, clear_at_ms);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_meters_write(struct qn_meters *meters, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < meters->count; i++) {
        if (meters->items[i]->changed) {
            status = write_use(meters, meters->items[i], err);
            meters->items[i]->changed = false;
        }
    }
    return status;
}
