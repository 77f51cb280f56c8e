/* SPDX-License-Identifier: MIT */
/* table.c - tasks as a table, and as JSON. On a terminal ids are shortened, unless --wide is given.
 */
#include "cli/verbs/task/table.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/short_id.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"

static int64_t later(int64_t left_ms, int64_t right_ms)
{
    return left_ms > right_ms ? left_ms : right_ms;
}

int64_t qn_task_table_dated_at_ms(const quern_task_info *info)
{
    int64_t at_ms = later(quern_task_info_due_at_ms(info), quern_task_info_archived_at_ms(info));
    at_ms = later(at_ms, quern_task_info_expires_at_ms(info));
    return later(at_ms, quern_task_info_grouped_at_ms(info));
}

/* How many characters of the ids are shown; SIZE_MAX: all. */
static size_t id_size(const struct qn_task_table *shape, const quern_task_info *const *tasks,
                      size_t count)
{
    if (shape->wide || qn_terminal_width(stdout) == 0) {
        return SIZE_MAX;
    }
    const char **ids = qn_memory_must(qn_alloc_zero(count + 1, sizeof *ids));
    for (size_t i = 0; i < count; i++) {
        ids[i] = quern_task_info_id(tasks[i]);
    }
    size_t size = qn_short_id_size(ids, count, shape->is_all);
    qn_free(ids);
    return size;
}

static void add_row(const struct qn_task_table *shape, struct qn_table *table,
                    const quern_task_info *info)
{
    size_t size = 0;
    char retried[64];
    const void *payload = quern_task_info_payload(info, &size);
    int64_t retry_max = quern_task_info_retry_max(info);
    (void)snprintf(retried, sizeof retried,
                   retry_max < 0 ? "%" PRId64 "/never" : "%" PRId64 "/%" PRId64,
                   quern_task_info_retry_count(info), retry_max);
    qn_table_text(table, quern_task_state_name(quern_task_info_state(info)));
    qn_table_text(table, quern_task_info_queue(info));
    qn_table_text(table, quern_task_info_type(info));
    qn_table_bytes(table, payload, size);
    qn_table_text(table, quern_task_info_error(info));
    qn_table_text(table, retried);
    int64_t at_ms =
        shape->in_trash ? quern_task_info_deleted_at_ms(info) : qn_task_table_dated_at_ms(info);
    if (shape->utc) {
        qn_table_moment(table, at_ms);
    } else {
        qn_table_relative(table, at_ms, qn_clock_wall_ms(qn_clock_system()));
    }
}

void qn_task_table_print(const struct qn_task_table *shape, const quern_task_info *const *tasks,
                         size_t count)
{
    /* The same word in each row is the first that a narrow terminal can do without. */
    const struct qn_column columns[] = {
        {"ID"},
        {"STATE", .spare = shape->one_state ? 3 : 0},
        {"QUEUE", .flexible = true, .spare = shape->one_queue ? 4 : 0},
        {"TYPE", .flexible = true},
        {"PAYLOAD", .flexible = true, .spare = 2},
        {"ERROR", .flexible = true},
        {"RETRIED", .right = true, .spare = 1},
        {shape->in_trash ? "DELETED" : "AT"},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    table.wide = shape->wide;
    size_t size = id_size(shape, tasks, count);
    for (size_t i = 0; i < count; i++) {
        qn_short_id_cell(&table, quern_task_info_id(tasks[i]), size);
        add_row(shape, &table, tasks[i]);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

json_t *qn_task_table_array(const quern_task_info *const *tasks, size_t count)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(array, qn_json_task(tasks[i]));
    }
    return array;
}

int qn_task_table_json(const quern_task_info *const *tasks, size_t count)
{
    return qn_json_print(qn_task_table_array(tasks, count));
}
