/* SPDX-License-Identifier: MIT */
/* ticks.c - the next ticks of an expression, and how they look. */
#include "cli/schedule/ticks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/moment.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"

#define LOCAL_SIZE 64

int qn_ticks_refuse(const struct qn_cli *cli, const quern_error *err)
{
    int exit_code = qn_cli_fail(cli, err);
    return err->code == QUERN_E_NOT_FOUND ? QN_EXIT_DATA : exit_code;
}

quern_status qn_ticks_init(struct qn_ticks_clock *ticks, const quern_entry *entry,
                           int64_t created_at_ms, quern_error *err)
{
    const struct qn_entry_given given = {
        .name = "next", .cron = entry->cron, .zone = entry->zone, .task = {.type = "next"}};
    *ticks = (struct qn_ticks_clock){.arena = {0}};
    quern_status status = qn_zones_init(&ticks->zones, NULL, err);
    if (status != QUERN_OK) {
        return status;
    }
    const struct qn_entry_terms terms = {.zones = &ticks->zones, .now_ms = created_at_ms};
    status = qn_entry_make(&given, &terms, &ticks->arena, &ticks->entry, err);
    if (status == QUERN_OK) {
        ticks->entry.created_at_ms = created_at_ms;
        status = qn_entry_read_clock(&ticks->entry, &ticks->zones, &ticks->clock, err);
    }
    if (status != QUERN_OK) {
        qn_ticks_finish(ticks);
        return status;
    }
    ticks->terms = qn_entry_plan_terms(&ticks->entry, &ticks->clock);
    return QUERN_OK;
}

void qn_ticks_finish(struct qn_ticks_clock *ticks)
{
    qn_arena_finish(&ticks->arena);
    qn_zones_finish(&ticks->zones);
}

size_t qn_ticks_find(const struct qn_ticks_clock *ticks, int64_t after_ms, int64_t *ret_ticks,
                     size_t count)
{
    int64_t at_s = qn_civil_floor_div(after_ms, 1000);
    size_t found = 0;
    while (found < count && qn_entry_next(&ticks->terms, at_s, &at_s)) {
        ret_ticks[found++] = at_s;
    }
    return found;
}

/* "2026-03-29 03:00:00 +02:00". */
static void format_local(const struct qn_zone *zone, int64_t at_s, char out[LOCAL_SIZE])
{
    struct qn_civil civil;
    int32_t offset = qn_zone_offset(zone, at_s);
    int minutes = abs(offset) / QN_CIVIL_MINUTE_S;
    qn_zone_to_civil(zone, at_s, &civil);
    (void)snprintf(out, LOCAL_SIZE, "%04" PRId64 "-%02d-%02d %02d:%02d:%02d %c%02d:%02d",
                   civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second,
                   offset < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

/* Whether the clocks of the zone change between two ticks. */
static bool is_changed(const struct qn_ticks_clock *ticks, const int64_t *found, size_t index)
{
    const struct qn_zone *zone = ticks->clock.zone;
    return index > 0 &&
           qn_zone_offset(zone, found[index - 1]) != qn_zone_offset(zone, found[index]);
}

void qn_ticks_print(const struct qn_ticks_clock *ticks, const int64_t *found, size_t count)
{
    static const struct qn_column columns[] = {{"NEXT"}, {"UTC"}, {"IN"}, {"CLOCKS"}};
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    struct qn_table table;
    bool changes = false;
    for (size_t i = 0; i < count; i++) {
        changes = changes || is_changed(ticks, found, i);
    }
    size_t column_count = QN_COUNT_OF(columns) - (changes ? 0 : 1);
    qn_table_init(&table, columns, column_count);
    for (size_t i = 0; i < count; i++) {
        char local[LOCAL_SIZE];
        format_local(ticks->clock.zone, found[i], local);
        qn_table_text(&table, local);
        qn_table_moment(&table, found[i] * 1000);
        qn_table_relative(&table, found[i] * 1000, now_ms);
        if (changes) {
            qn_table_text(&table, is_changed(ticks, found, i) ? "changed before" : "");
        }
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

json_t *qn_ticks_json(const struct qn_ticks_clock *ticks, const int64_t *found, size_t count)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < count; i++) {
        char local[LOCAL_SIZE];
        char utc[LOCAL_SIZE];
        format_local(ticks->clock.zone, found[i], local);
        qn_moment_format(found[i] * 1000, utc, sizeof utc);
        json_t *tick =
            json_pack("{s:I,s:s,s:s,s:b}", "at_ms", (json_int_t)found[i] * 1000, "utc", utc,
                      "local", local, "clocks_changed", is_changed(ticks, found, i));
        (void)json_array_append_new(array, qn_memory_must(tick));
    }
    return array;
}
