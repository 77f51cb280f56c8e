/* SPDX-License-Identifier: MIT */
/* queue_show.c - how queues look. All numbers are those of the inspector, but for the share of
 * failures, which is computed here. */
#include "cli/verbs/queue_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/service.h"

/* The order in which people think of them. */
static const quern_task_state states[] = {
    QUERN_TASK_PENDING,  QUERN_TASK_ACTIVE,    QUERN_TASK_SCHEDULED,   QUERN_TASK_RETRY,
    QUERN_TASK_ARCHIVED, QUERN_TASK_COMPLETED, QUERN_TASK_AGGREGATING,
};

/* A queue that no worker serves should be visible at a glance. */
static const char *workers_text(const quern_worker_list *workers, const char *queue, char out[24])
{
    size_t count = workers == NULL ? 0 : qn_service_count_workers(workers, queue);
    (void)snprintf(out, 24, "%zu", count);
    return workers == NULL ? "?" : count == 0 ? "none!" : out;
}

static const quern_queue_info *queue_at(const void *element)
{
    return *(const quern_queue_info *const *)element;
}

static int compare_sizes(const void *left, const void *right)
{
    uint64_t a = queue_at(left)->size;
    uint64_t b = queue_at(right)->size;
    return a != b ? (a < b) - (a > b) : strcmp(queue_at(left)->name, queue_at(right)->name);
}

static void add_row(struct qn_table *table, const quern_queue_info *queue,
                    const quern_worker_list *workers)
{
    char text[24];
    qn_table_text(table, queue->name);
    qn_table_text(table, queue->paused_at_ms != 0 ? "paused" : "running");
    qn_table_text(table, workers_text(workers, queue->name, text));
    for (size_t j = 0; j < QN_COUNT_OF(states); j++) {
        qn_table_number(table, queue->counts[states[j]]);
        if (states[j] == QUERN_TASK_PENDING) {
            qn_table_duration(table, queue->latency_ms);
        }
    }
}

enum { COLUMN_COUNT = 11 };

/* Where a terminal is too narrow for the names, columns that are all 0 are left out, from the
 * right. */
static void choose_columns(struct qn_column columns[COLUMN_COUNT],
                           const quern_queue_info *const *queues, size_t count)
{
    static const struct qn_column all[COLUMN_COUNT] = {
        {"QUEUE", .flexible = true}, {"STATE"},
        {"WORKERS", .right = true},  {"PENDING", .right = true},
        {"LATENCY", .right = true},  {"ACTIVE", .right = true},
        {"SCHED", .right = true},    {"RETRY", .right = true},
        {"ARCH", .right = true},     {"COMPL", .right = true},
        {"GROUP", .right = true},
    };
    memcpy(columns, all, sizeof all);
    unsigned spare = QN_SPARE_MAX;
    for (size_t j = QN_COUNT_OF(states) - 1; j > 0; j--) { /* but PENDING */
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++) {
            sum += queues[i]->counts[states[j]] > 0 ? 1 : 0;
        }
        if (sum == 0) {
            columns[COLUMN_COUNT - QN_COUNT_OF(states) + j].spare = spare;
            spare = spare > 1 ? spare - 1 : 1;
        }
    }
}

void qn_queue_show_list_print(const quern_queue_list *list, const quern_worker_list *workers,
                              size_t lines_max)
{
    size_t count = quern_queue_list_size(list);
    size_t shown = count;
    const quern_queue_info **queues = qn_memory_must(qn_alloc_zero(count + 1, sizeof *queues));
    for (size_t i = 0; i < count; i++) {
        queues[i] = quern_queue_list_at(list, i);
    }
    if (lines_max > 0 && count + 1 > lines_max) {
        shown = lines_max > 3 ? lines_max - 2 : 1; /* the titles and the last line take two */
        qsort(queues, count, sizeof *queues, compare_sizes);
    }
    struct qn_column columns[COLUMN_COUNT];
    struct qn_table table;
    choose_columns(columns, queues, shown);
    qn_table_init(&table, columns, COLUMN_COUNT);
    for (size_t i = 0; i < shown; i++) {
        add_row(&table, queues[i], workers);
    }
    qn_table_print(&table);
    if (shown < count) {
        printf("... and %zu smaller %s: quern queue list\n", count - shown,
               qn_plural(count - shown, "queue", "queues"));
    }
    qn_free(queues);
    qn_table_finish(&table);
}

void qn_queue_show_counts_print(uint64_t size, const uint64_t counts[QUERN_TASK_STATE_COUNT])
{
    qn_field_number("tasks", (int64_t)size);
    for (size_t i = 0; i < QN_COUNT_OF(states); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "  %s", quern_task_state_name(states[i]));
        qn_field_number(name, (int64_t)counts[states[i]]);
    }
}

static void print_brake(const quern_queue_info *queue)
{
    if (queue->braked_hosts == 0) {
        return;
    }
    char when[32] = "now";
    char text[96];
    int64_t wait_ms = queue->probe_at_ms - qn_clock_wall_ms(qn_clock_system());
    if (wait_ms > 0) {
        (void)snprintf(when, sizeof when, "in ");
        qn_duration_format(wait_ms, when + strlen(when), sizeof when - strlen(when));
    }
    (void)snprintf(text, sizeof text, "on %" PRIu32 " %s, next probe %s", queue->braked_hosts,
                   qn_plural(queue->braked_hosts, "host", "hosts"), when);
    qn_field_text("braked", text);
}

void qn_queue_show_print(const quern_queue_info *queue, const quern_worker_list *workers)
{
    char text[24];
    qn_field_text("queue", queue->name);
    qn_field_text("state", queue->paused_at_ms != 0 ? "paused" : "running");
    qn_field_moment("paused at", queue->paused_at_ms);
    print_brake(queue);
    if (queue->max_pending > 0) {
        qn_field_number("max pending", queue->max_pending);
    }
    qn_field_text("workers", workers_text(workers, queue->name, text));
    qn_queue_show_counts_print(queue->size, queue->counts);
    qn_field_number("groups", (int64_t)queue->group_count);
    qn_field_duration("latency", queue->latency_ms);
    qn_field_number("processed today", (int64_t)queue->processed_today);
    qn_field_number("failed today", (int64_t)queue->failed_today);
    qn_field_number("processed", (int64_t)queue->processed_total);
    qn_field_number("failed", (int64_t)queue->failed_total);
    qn_field_number("trimmed", (int64_t)queue->trimmed_total);
    if (queue->memory_bytes >= 0) {
        qn_field_size("memory", (uint64_t)queue->memory_bytes);
    }
}

void qn_queue_show_history_print(const quern_day *days, size_t count)
{
    static const struct qn_column columns[] = {
        {"DAY"},
        {"PROCESSED", .right = true},
        {"FAILED", .right = true},
        {"FAILED %", .right = true},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < count; i++) {
        char share[32] = "";
        if (days[i].processed > 0) {
            (void)snprintf(share, sizeof share, "%.2f",
                           100.0 * (double)days[i].failed / (double)days[i].processed);
        }
        qn_table_text(&table, days[i].date);
        qn_table_number(&table, days[i].processed);
        qn_table_number(&table, days[i].failed);
        qn_table_text(&table, share);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *qn_queue_show_counts_json(const uint64_t counts[QUERN_TASK_STATE_COUNT])
{
    json_t *object = json_object();
    for (size_t i = 0; i < QN_COUNT_OF(states); i++) {
        (void)json_object_set_new(object, quern_task_state_name(states[i]),
                                  number(counts[states[i]]));
    }
    return object;
}

json_t *qn_queue_show_json(const quern_queue_info *queue, const quern_worker_list *workers)
{
    json_t *object =
        json_pack("{s:o,s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "counts",
                  qn_queue_show_counts_json(queue->counts), "size", number(queue->size), "paused",
                  queue->paused_at_ms != 0, "paused_at_ms", qn_json_moment(queue->paused_at_ms),
                  "processed_today", number(queue->processed_today), "failed_today",
                  number(queue->failed_today), "processed_total", number(queue->processed_total),
                  "failed_total", number(queue->failed_total), "group_count",
                  number(queue->group_count), "latency_ms", json_integer(queue->latency_ms),
                  "trimmed_total", number(queue->trimmed_total), "braked_hosts",
                  number(queue->braked_hosts), "probe_at_ms", qn_json_moment(queue->probe_at_ms));
    qn_memory_must(object);
    qn_json_set_text(object, "name", queue->name);
    (void)json_object_set_new(object, "max_pending",
                              queue->max_pending > 0 ? json_integer(queue->max_pending)
                                                     : json_null());
    if (workers != NULL) {
        (void)json_object_set_new(object, "workers",
                                  number(qn_service_count_workers(workers, queue->name)));
    }
    if (queue->memory_bytes >= 0) {
        (void)json_object_set_new(object, "memory_bytes", json_integer(queue->memory_bytes));
    }
    return object;
}

json_t *qn_queue_show_list_json(const quern_queue_list *list, const quern_worker_list *workers)
{
    json_t *array = json_array();
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        (void)json_array_append_new(array,
                                    qn_queue_show_json(quern_queue_list_at(list, i), workers));
    }
    return array;
}

json_t *qn_queue_show_history_json(const quern_day *days, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(array, json_pack("{s:s,s:o,s:o}", "date", days[i].date,
                                                     "processed", number(days[i].processed),
                                                     "failed", number(days[i].failed)));
    }
    return array;
}
