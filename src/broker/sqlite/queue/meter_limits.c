/* SPDX-License-Identifier: MIT */
/* meter_limits.c - the limits that a meter has, as they are stored. */
#include "broker/sqlite/queue/meter_limits.h"

#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/sqlite/queue/meter_sql.h"
#include "broker/sqlite/store/query.h"

/* So many limits of a scope are read at once: with one of each key, and some of their own, the keys
 * that a lease looks at need no query each. */
#define SET_MAX 32

/* As anything may stand in the file, each number is brought into its range. */
static struct qn_limit column_limit(const struct qn_query *query, bool rate)
{
    sqlite3_stmt *row = query->statement;
    return (struct qn_limit){
        .count = qn_number_clamp(sqlite3_column_int64(row, 2), rate ? 1 : 0, QN_LIMIT_COUNT_MAX),
        .period_ms =
            rate ? qn_number_clamp(sqlite3_column_int64(row, 3), 1, QN_LIMIT_PERIOD_MS_MAX) : 0,
        .burst = rate ? qn_number_clamp(sqlite3_column_int64(row, 4), 0, QN_LIMIT_COUNT_MAX) : 0};
}

/* Its own limit goes before that of each. */
static void note_limit(struct qn_meter *meter, const char *name, const struct qn_limit *limit)
{
    bool own = strcmp(name, meter->of.name) == 0;
    if (limit->period_ms > 0 && (own || !meter->has_starts)) {
        meter->starts = *limit;
        meter->has_starts = true;
    } else if (limit->period_ms == 0 && (own || !meter->has_runs)) {
        meter->runs = *limit;
        meter->has_runs = true;
    }
}

static quern_status query_limits(struct qn_meters *meters, struct qn_meter *meter, const char *each,
                                 quern_error *err)
{
    struct qn_query query = qn_query_start(meters->conn, sql_meter_limits);
    qn_query_int(&query, meter->of.queue_no);
    qn_query_int(&query, meter->of.scope);
    qn_query_text(&query, meter->of.name);
    qn_query_text(&query, each);
    while (qn_query_row(&query)) {
        const struct qn_limit limit =
            column_limit(&query, sqlite3_column_int64(query.statement, 1) != 0);
        note_limit(meter, qn_query_column_text(&query, 0), &limit);
    }
    return qn_query_finish(&query, err);
}

struct qn_limit_set {
    struct qn_limit_set *next;
    int64_t queue_no;
    int32_t scope;
    bool many; /* more than have room here: each meter reads its own */
    size_t count;
    struct {
        const char *name;
        struct qn_limit limit;
    } items[SET_MAX];
};

static quern_status read_set(struct qn_meters *meters, struct qn_limit_set *set, quern_error *err)
{
    bool memory = true;
    struct qn_query query = qn_query_start(meters->conn, sql_meter_limits_few);
    qn_query_int(&query, set->queue_no);
    qn_query_int(&query, set->scope);
    qn_query_int(&query, SET_MAX + 1);
    while (memory && !set->many && qn_query_row(&query)) {
        set->many = set->count == SET_MAX;
        if (!set->many) {
            const char *name = qn_arena_strdup(&meters->arena, qn_query_column_text(&query, 0));
            memory = name != NULL;
            set->items[set->count].name = name;
            set->items[set->count++].limit =
                column_limit(&query, sqlite3_column_int64(query.statement, 1) != 0);
        }
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

static quern_status find_set(struct qn_meters *meters, const struct qn_meter_owner *of,
                             struct qn_limit_set **ret_set, quern_error *err)
{
    struct qn_limit_set *set = meters->sets;
    while (set != NULL && (set->queue_no != of->queue_no || set->scope != of->scope)) {
        set = set->next;
    }
    *ret_set = set;
    if (set != NULL) {
        return QUERN_OK;
    }
    set = qn_arena_alloc(&meters->arena, sizeof *set);
    if (set == NULL) {
        return qn_error_nomem(err);
    }
    *set =
        (struct qn_limit_set){.next = meters->sets, .queue_no = of->queue_no, .scope = of->scope};
    quern_status status = read_set(meters, set, err);
    meters->sets = status == QUERN_OK ? set : meters->sets;
    *ret_set = set;
    return status;
}

quern_status qn_meter_limits_read(struct qn_meters *meters, struct qn_meter *meter,
                                  quern_error *err)
{
    struct qn_limit_set *set = NULL;
    if (meter->of.scope == QUERN_LIMIT_SEMAPHORE) { /* "*" is a name there */
        return query_limits(meters, meter, meter->of.name, err);
    }
    quern_status status = find_set(meters, &meter->of, &set, err);
    if (status == QUERN_OK && set->many) {
        return query_limits(meters, meter, QN_LIMIT_EACH, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < set->count; i++) {
        const char *name = set->items[i].name;
        if (strcmp(name, meter->of.name) == 0 || strcmp(name, QN_LIMIT_EACH) == 0) {
            note_limit(meter, name, &set->items[i].limit);
        }
    }
    return status;
}
