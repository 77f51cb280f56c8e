/* SPDX-License-Identifier: MIT */
/* runs.c - the last runs of a task: when, how long, how each ended, where. */
#include "cli/verbs/task/runs.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text/duration.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/output/text.h"

static const char *end_of(const quern_past_run *run)
{
    const char *name = quern_run_end_name((quern_run_end)run->end);
    return name != NULL ? name : "unknown"; /* of a newer library */
}

static const char *cause_of(const quern_past_run *run)
{
    return run->cause == QUERN_CAUSE_NONE ? NULL : quern_cause_name((quern_cause)run->cause);
}

static int64_t took_ms_of(const quern_past_run *run)
{
    return run->started_at_ms == 0 ? -1 : run->ended_at_ms - run->started_at_ms;
}

/* "3", "SIGSEGV"; "": neither. */
static void format_exit(const quern_past_run *run, char out[24])
{
    const char *name = run->signal > 0 ? sigabbrev_np(run->signal) : NULL;
    out[0] = '\0';
    if (name != NULL) {
        (void)snprintf(out, 24, "SIG%s", name);
    } else if (run->signal > 0) {
        (void)snprintf(out, 24, "signal %d", (int)run->signal);
    } else if (run->exit_code >= 0) {
        (void)snprintf(out, 24, "%d", (int)run->exit_code);
    }
}

static void add_row(struct qn_table *table, const quern_past_run *run)
{
    char text[64] = "";
    qn_table_moment(table, run->started_at_ms);
    if (took_ms_of(run) >= 0) {
        qn_duration_format(took_ms_of(run), text, sizeof text);
    }
    qn_table_text(table, text);
    qn_table_text(table, cause_of(run));
    qn_table_text(table, end_of(run));
    format_exit(run, text);
    qn_table_text(table, text);
    text[0] = '\0';
    if (run->cpu_ms >= 0) {
        qn_duration_format(run->cpu_ms, text, sizeof text);
    }
    qn_table_text(table, text);
    text[0] = '\0';
    if (run->memory_bytes >= 0) {
        qn_text_of_size((uint64_t)run->memory_bytes, text);
    }
    qn_table_text(table, text);
    qn_table_text(table, run->worker);
    qn_table_text(table, run->error);
}

void qn_task_runs_print(const quern_task_info *info)
{
    static const struct qn_column columns[] = {
        {"STARTED"},
        {"TOOK", .right = true},
        {"CAUSE", .spare = 1},
        {"END"},
        {"EXIT", .spare = 2},
        {"CPU", .right = true, .spare = 4},
        {"MEMORY", .right = true, .spare = 4},
        {"WORKER", .flexible = true, .spare = 3},
        {"ERROR", .flexible = true},
    };
    struct qn_table table;
    size_t count = quern_task_info_run_count(info);
    if (count == 0) {
        return;
    }
    printf("past runs, the latest first:\n");
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < count; i++) {
        add_row(&table, quern_task_info_run_at(info, i));
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static json_t *number(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *run_json(const quern_past_run *run)
{
    json_t *object = qn_memory_must(json_object());
    const char *cause = cause_of(run);
    qn_json_set_text(object, "end", end_of(run));
    (void)json_object_set_new(object, "cause", cause != NULL ? json_string(cause) : json_null());
    (void)json_object_set_new(object, "started_at_ms", qn_json_moment(run->started_at_ms));
    (void)json_object_set_new(object, "ended_at_ms", qn_json_moment(run->ended_at_ms));
    (void)json_object_set_new(object, "took_ms", number(took_ms_of(run)));
    (void)json_object_set_new(object, "cpu_ms", number(run->cpu_ms));
    (void)json_object_set_new(object, "memory_bytes", number(run->memory_bytes));
    (void)json_object_set_new(object, "exit_code", number(run->exit_code));
    (void)json_object_set_new(object, "signal",
                              run->signal == 0 ? json_null() : json_integer(run->signal));
    qn_json_set_text(object, "worker", run->worker);
    qn_json_set_text(object, "error", run->error);
    return object;
}

json_t *qn_task_runs_json(const quern_task_info *info)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < quern_task_info_run_count(info); i++) {
        (void)json_array_append_new(array, run_json(quern_task_info_run_at(info, i)));
    }
    return array;
}
