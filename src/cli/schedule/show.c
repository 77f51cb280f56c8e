/* SPDX-License-Identifier: MIT */
/* show.c - `quern schedule show` and `history`. */
#include "cli/schedule/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/schedule/ticks.h"
#include "task/policy.h"

#define TICKS_SHOWN 5
#define EVENTS_SHOWN 5
#define HISTORY_DEFAULT 20

enum show_option { SHOW_QUEUE };
const struct qn_option qn_show_options[QN_SHOW_OPTION_COUNT] = {
    [SHOW_QUEUE] = {"queue", "NAME", "its queue, where several have such an entry", QN_OPTION_TEXT},
};
enum history_option { HISTORY_QUEUE, HISTORY_COUNT };
const struct qn_option qn_show_history_options[QN_SHOW_HISTORY_OPTION_COUNT] = {
    [HISTORY_QUEUE] = {"queue", "NAME", "its queue; needed for one that was removed",
                       QN_OPTION_TEXT},
    [HISTORY_COUNT] = {"count", "N", "so many, the newest first (20, at most 1000)",
                       QN_OPTION_COUNT, .min = 1, .max = QN_TICK_HISTORY_MAX, .letter = 'n'},
};

/* --- What other verbs use ---------------------------------------------------------------- */

const char *qn_show_state(const quern_entry_info *entry, int64_t now_ms)
{
    if (entry->fault != NULL) {
        return "error";
    }
    if (entry->paused_at_ms != 0) {
        return "paused";
    }
    if (entry->last_at_ms > now_ms + QN_ENTRY_LATE_MS) {
        return "ahead";
    }
    if (entry->next_at_ms == 0) {
        return "never";
    }
    return entry->next_at_ms + QN_ENTRY_LATE_MS < now_ms ? "overdue" : "ok";
}

json_t *qn_show_json(const quern_entry_info *entry)
{
    json_t *object = qn_memory_must(json_pack(
        "{s:o,s:o,s:o,s:o,s:I,s:I,s:I}", "created_at_ms", qn_json_moment(entry->created_at_ms),
        "paused_at_ms", qn_json_moment(entry->paused_at_ms), "last_at_ms",
        qn_json_moment(entry->last_at_ms), "next_at_ms", qn_json_moment(entry->next_at_ms), "runs",
        (json_int_t)entry->run_count, "late_ms", (json_int_t)entry->late_ms, "jitter_ms",
        (json_int_t)entry->jitter_ms));
    qn_json_set_text(object, "name", entry->name);
    qn_json_set_text(object, "queue", entry->queue);
    qn_json_set_text(object, "type", entry->type);
    qn_json_set_text(object, "cron", entry->cron);
    qn_json_set_text(object, "zone", entry->zone);
    qn_json_set_text(object, "origin", entry->origin);
    qn_json_set_text(object, "misfire", entry->misfire);
    qn_json_set_text(object, "state", qn_show_state(entry, qn_clock_wall_ms(qn_clock_system())));
    if (entry->fault != NULL) {
        qn_json_set_text(object, "fault", entry->fault);
    } else {
        (void)json_object_set_new(object, "fault", json_null());
    }
    return object;
}

int qn_show_find(const struct qn_cli *cli, quern_inspector *inspector, const char *queue,
                 const char *name, quern_entry_list **ret_list)
{
    quern_error err;
    quern_entry_list *list = NULL;
    if (quern_inspector_entries(inspector, queue, name, &list, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    size_t count = quern_entry_list_size(list);
    if (count == 1) {
        *ret_list = list;
        return QN_EXIT_OK;
    }
    if (count == 0) {
        qn_cli_message(cli, "no entry \"%s\"%s%s", name, queue == NULL ? "" : " in queue ",
                       queue == NULL ? "" : queue);
    } else {
        qn_cli_message(cli, "entry \"%s\" is in %zu queues: name one of them with --queue", name,
                       count);
    }
    quern_entry_list_free(list);
    return QN_EXIT_FAILURE;
}

/* --- history ----------------------------------------------------------------------------- */

/* The state of a task that an event enqueued; "gone": it is not there any more. */
static const char *task_state(quern_inspector *inspector, const char *queue, const char *id)
{
    quern_task_info *info = NULL;
    if (id[0] == '\0') {
        return "";
    }
    if (quern_inspector_task(inspector, queue, id, &info, NULL) != QUERN_OK) {
        return "gone";
    }
    const char *name = quern_task_state_name(quern_task_info_state(info));
    quern_task_info_free(info);
    return name == NULL ? "unknown" : name;
}

static const char *kind_name(const quern_entry_event *event)
{
    const char *name = quern_entry_event_kind_name((quern_entry_event_kind)event->kind);
    return name == NULL ? "unknown" : name;
}

struct events {
    quern_inspector *inspector;
    const char *queue; /* NULL: the states of tasks are not looked up */
    const quern_entry_history *history;
    size_t count; /* so many of them */
};

static void print_events(const struct events *events)
{
    static const struct qn_column columns[] = {
        {"TICK"},  {"AT", .spare = 1},      {"WHAT"}, {"PASSED OVER", .right = true, .spare = 2},
        {"STATE"}, {"TASK", .whole = true},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < events->count; i++) {
        const quern_entry_event *event = quern_entry_history_at(events->history, i);
        qn_table_moment(&table, event->tick_at_ms);
        qn_table_moment(&table, event->at_ms);
        qn_table_text(&table, kind_name(event));
        qn_table_number(&table, event->skipped);
        qn_table_text(&table, task_state(events->inspector, events->queue, event->id));
        qn_table_text(&table, event->id);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static json_t *events_json(const struct events *events)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < events->count; i++) {
        const quern_entry_event *event = quern_entry_history_at(events->history, i);
        json_t *object = qn_memory_must(
            json_pack("{s:o,s:o,s:s,s:I,s:s}", "tick_at_ms", qn_json_moment(event->tick_at_ms),
                      "at_ms", qn_json_moment(event->at_ms), "what", kind_name(event),
                      "passed_over", (json_int_t)event->skipped, "state",
                      task_state(events->inspector, events->queue, event->id)));
        qn_json_set_text(object, "id", event->id);
        (void)json_array_append_new(array, object);
    }
    return array;
}

static void hint_at_queue(const struct qn_cli *cli, quern_inspector *inspector, const char *name)
{
    quern_entry_list *list = NULL;
    if (quern_inspector_entries(inspector, NULL, name, &list, NULL) == QUERN_OK &&
        quern_entry_list_size(list) == 0) {
        qn_cli_message(cli, "if it was removed, its history needs --queue");
    }
    quern_entry_list_free(list);
}

static int show_history(struct qn_cli *cli, quern_inspector *inspector)
{
    const char *name = qn_args_operand(&cli->args, 0);
    const char *queue = qn_args_text(&cli->args, HISTORY_QUEUE);
    size_t most = (size_t)qn_args_number(&cli->args, HISTORY_COUNT, HISTORY_DEFAULT);
    quern_error err;
    quern_entry_list *list = NULL;
    quern_entry_history *history = NULL;
    if (queue == NULL) {
        int exit_code = qn_show_find(cli, inspector, NULL, name, &list);
        if (exit_code != QN_EXIT_OK) {
            hint_at_queue(cli, inspector, name);
            return exit_code;
        }
        queue = quern_entry_list_at(list, 0)->queue;
    }
    int exit_code = QN_EXIT_OK;
    if (quern_inspector_entry_history(inspector, queue, name, &history, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else {
        size_t count = quern_entry_history_size(history);
        const struct events events = {inspector, queue, history, count < most ? count : most};
        if (cli->json) {
            exit_code = qn_json_print(events_json(&events));
        } else {
            print_events(&events);
            qn_cli_message(cli, "%zu of %zu %s", events.count, count,
                           qn_plural(count, "event", "events"));
        }
    }
    quern_entry_history_free(history);
    quern_entry_list_free(list);
    return exit_code;
}

int qn_show_history(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = show_history(cli, inspector);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

/* --- show -------------------------------------------------------------------------------- */

static void print_given(const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        qn_field_text(name, text);
    }
}

static void print_task(const quern_task *task)
{
    print_given("group", task->group);
    print_given("limit key", task->limit_key);
    if (task->priority != 0) {
        qn_field_number("priority", task->priority);
    }
    if (task->retry_max < 0) {
        qn_field_text("retry max", "never");
    } else {
        qn_field_number("retry max", task->retry_max);
    }
    qn_field_duration("delay", task->delay_ms);
    qn_field_limit("timeout", task->timeout_ms);
    qn_field_moment("deadline", task->deadline_at_ms);
    qn_field_duration("start within", task->start_within_ms);
    qn_field_run_limits(task->kill_after_ms, task->cpu_ms, task->memory_max);
    if (task->unique_ms != 0) {
        qn_field_duration("unique", task->unique_ms);
        print_given("unique key", task->unique_key);
        qn_field_text("unique until", qn_policy_until_word(task->unique_until));
        qn_field_text("on duplicate", qn_policy_on_duplicate_word(task->on_duplicate));
    }
    qn_field_duration("retention", task->retention_ms);
    for (size_t i = 0; i < task->header_count; i++) {
        char name[QN_NAME_SIZE_MAX + 16];
        (void)snprintf(name, sizeof name, "header %s", task->headers[i].name);
        char *safe = qn_text_safe(name, strlen(name));
        print_given(safe, task->headers[i].value);
        qn_free(safe);
    }
    qn_field_document("payload", task->payload, task->payload_size);
}

static void print_entry(const quern_entry_info *entry)
{
    qn_field_text("name", entry->name);
    qn_field_text("queue", entry->queue);
    qn_field_text("type", entry->type);
    qn_field_text("state", qn_show_state(entry, qn_clock_wall_ms(qn_clock_system())));
    print_given("fault", entry->fault);
    qn_field_text("cron", entry->cron);
    print_given("zone", entry->zone);
    qn_field_text("origin", entry->origin);
    qn_field_moment("created at", entry->created_at_ms);
    qn_field_moment("paused at", entry->paused_at_ms);
    qn_field_moment("done up to", entry->last_at_ms);
    qn_field_number("runs", (int64_t)entry->run_count);
    qn_field_text("misfire", entry->misfire);
    if (entry->late_ms < 0) {
        qn_field_text("late", "0");
    } else {
        qn_field_duration("late", entry->late_ms);
    }
    qn_field_duration("jitter", entry->jitter_ms);
    if (entry->fault == NULL) {
        print_task(entry->task);
    }
}

static json_t *task_json(const quern_task *task)
{
    json_t *headers = qn_memory_must(json_object());
    for (size_t i = 0; i < task->header_count; i++) {
        qn_json_set_text(headers, task->headers[i].name, task->headers[i].value);
    }
    json_t *object = qn_memory_must(json_pack(
        "{s:I,s:I,s:I,s:o,s:I,s:I,s:I,s:i,s:o}", "retry_max", (json_int_t)task->retry_max,
        "delay_ms", (json_int_t)task->delay_ms, "timeout_ms", (json_int_t)task->timeout_ms,
        "deadline_at_ms", qn_json_moment(task->deadline_at_ms), "start_within_ms",
        (json_int_t)task->start_within_ms, "unique_ms", (json_int_t)task->unique_ms, "retention_ms",
        (json_int_t)task->retention_ms, "priority", (int)task->priority, "headers", headers));
    json_t *limits = qn_memory_must(
        json_pack("{s:I,s:I,s:I}", "kill_after_ms", (json_int_t)task->kill_after_ms, "cpu_ms",
                  (json_int_t)task->cpu_ms, "memory_max", (json_int_t)task->memory_max));
    (void)json_object_update_new(object, limits);
    qn_json_set_text(object, "type", task->type);
    qn_json_set_text(object, "unique_key", task->unique_key);
    qn_json_set_text(object, "unique_until", qn_policy_until_word(task->unique_until));
    qn_json_set_text(object, "on_duplicate", qn_policy_on_duplicate_word(task->on_duplicate));
    qn_json_set_text(object, "group", task->group);
    qn_json_set_text(object, "limit_key", task->limit_key);
    qn_json_set_bytes(object, "payload", task->payload, task->payload_size);
    return object;
}

/* The next ticks of an entry that has any. */
static size_t find_ticks(struct qn_ticks_clock *ticks, const quern_entry_info *entry,
                         int64_t found[TICKS_SHOWN])
{
    const quern_entry given = {.cron = entry->cron, .zone = entry->zone};
    quern_error err;
    if (entry->fault != NULL || entry->paused_at_ms != 0 ||
        qn_ticks_init(ticks, &given, entry->created_at_ms, &err) != QUERN_OK) {
        return 0;
    }
    size_t count = qn_ticks_find(ticks, entry->last_at_ms, found, TICKS_SHOWN);
    if (count == 0) {
        qn_ticks_finish(ticks);
    }
    return count;
}

static int print_all(const struct qn_cli *cli, const quern_entry_info *entry,
                     const struct events *events)
{
    struct qn_ticks_clock ticks;
    int64_t found[TICKS_SHOWN];
    int exit_code = QN_EXIT_OK;
    size_t count = find_ticks(&ticks, entry, found);
    if (cli->json) {
        json_t *object = qn_show_json(entry);
        json_t *next = count > 0 ? qn_ticks_json(&ticks, found, count) : json_array();
        (void)json_object_set_new(object, "next", next);
        (void)json_object_set_new(object, "events", events_json(events));
        if (entry->fault == NULL) {
            (void)json_object_set_new(object, "task", task_json(entry->task));
        }
        exit_code = qn_json_print(object);
    } else {
        print_entry(entry);
        if (count > 0) {
            printf("\n");
            qn_ticks_print(&ticks, found, count);
        }
        if (events->count > 0) {
            printf("\n");
            print_events(events);
        }
    }
    if (count > 0) {
        qn_ticks_finish(&ticks);
    }
    return exit_code;
}

int qn_show_run(struct qn_cli *cli)
{
    const char *name = qn_args_operand(&cli->args, 0);
    quern_error err;
    quern_inspector *inspector = NULL;
    quern_entry_list *list = NULL;
    quern_entry_history *history = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_show_find(cli, inspector, qn_args_text(&cli->args, SHOW_QUEUE), name, &list);
    }
    if (exit_code == QN_EXIT_OK) {
        const quern_entry_info *entry = quern_entry_list_at(list, 0);
        if (quern_inspector_entry_history(inspector, entry->queue, name, &history, &err) !=
            QUERN_OK) {
            exit_code = qn_cli_fail(cli, &err);
        } else {
            size_t count = quern_entry_history_size(history);
            const struct events events = {inspector, entry->queue, history,
                                          count < EVENTS_SHOWN ? count : EVENTS_SHOWN};
            exit_code = print_all(cli, entry, &events);
        }
    }
    quern_entry_history_free(history);
    quern_entry_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}
