/* SPDX-License-Identifier: MIT */
/* list.c - `quern schedule list`: the stored entries, and the scheduler that leads. */
#include "cli/schedule/list.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/plural.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/schedule/show.h"

enum list_option { LIST_QUEUE, LIST_UTC, LIST_WIDE };
const struct qn_option qn_list_options[QN_LIST_OPTION_COUNT] = {
    [LIST_QUEUE] = {"queue", "NAME", "the entries of this queue (default: of all)", QN_OPTION_TEXT},
    [LIST_UTC] = {"utc", NULL, "moments in UTC in place of elapsed times", QN_OPTION_FLAG},
    [LIST_WIDE] = {"wide", NULL, "all columns in full, however narrow the terminal is",
                   QN_OPTION_FLAG},
};

static void print_table(const struct qn_cli *cli, const quern_entry_list *list, int64_t now_ms)
{
    static const struct qn_column columns[] = {
        {"NAME", .flexible = true},
        {"QUEUE", .flexible = true},
        {"CRON", .flexible = true},
        {"ZONE", .flexible = true, .spare = 2},
        {"NEXT"},
        {"LAST", .spare = 1},
        {"RUNS", .right = true, .spare = 3},
        {"STATE", .flexible = true},
        {"ORIGIN", .flexible = true, .spare = 4},
    };
    bool utc = qn_args_given(&cli->args, LIST_UTC);
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    table.wide = qn_args_given(&cli->args, LIST_WIDE);
    for (size_t i = 0; i < quern_entry_list_size(list); i++) {
        const quern_entry_info *entry = quern_entry_list_at(list, i);
        /* Before the first tick it is the moment of its creation. */
        int64_t last_at_ms = entry->last_at_ms > entry->created_at_ms ? entry->last_at_ms : 0;
        qn_table_text(&table, entry->name);
        qn_table_text(&table, entry->queue);
        qn_table_text(&table, entry->cron);
        qn_table_text(&table, entry->zone);
        if (utc) {
            qn_table_moment(&table, entry->next_at_ms);
            qn_table_moment(&table, last_at_ms);
        } else {
            qn_table_relative(&table, entry->next_at_ms, now_ms);
            qn_table_relative(&table, last_at_ms, now_ms);
        }
        qn_table_number(&table, entry->run_count);
        qn_table_text(&table, entry->fault != NULL ? entry->fault : qn_show_state(entry, now_ms));
        qn_table_text(&table, entry->origin);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

/* On stderr, as `task list` has it: stdout stays data. */
static void report_total(const struct qn_cli *cli, const quern_entry_list *list, int64_t now_ms)
{
    size_t count = quern_entry_list_size(list);
    size_t paused = 0;
    size_t faulty = 0;
    char more[96] = "";
    for (size_t i = 0; i < count; i++) {
        const char *state = qn_show_state(quern_entry_list_at(list, i), now_ms);
        paused += strcmp(state, "paused") == 0 ? 1 : 0;
        faulty += strcmp(state, "error") == 0 ? 1 : 0;
    }
    int used = paused > 0 ? snprintf(more, sizeof more, ", %zu paused", paused) : 0;
    if (faulty > 0) {
        (void)snprintf(more + used, sizeof more - (size_t)used, ", %zu with an error", faulty);
    }
    qn_cli_message(cli, "%zu %s%s", count, qn_plural(count, "entry", "entries"), more);
    const char *leader = quern_entry_list_leader(list);
    if (leader[0] != '\0') {
        qn_cli_message(cli, "%s leads", leader);
    } else if (count > paused) {
        qn_cli_message(cli, "no scheduler runs: start one with 'quern schedule run'");
    }
}

static int print_json(const quern_entry_list *list)
{
    json_t *entries = qn_memory_must(json_array());
    json_t *object = qn_memory_must(json_object());
    const char *leader = quern_entry_list_leader(list);
    for (size_t i = 0; i < quern_entry_list_size(list); i++) {
        (void)json_array_append_new(entries, qn_show_json(quern_entry_list_at(list, i)));
    }
    (void)json_object_set_new(object, "entries", entries);
    if (leader[0] == '\0') {
        (void)json_object_set_new(object, "leader", json_null());
    } else {
        qn_json_set_text(object, "leader", leader);
    }
    return qn_json_print(object);
}

int qn_list_run(struct qn_cli *cli)
{
    quern_error err;
    quern_inspector *inspector = NULL;
    quern_entry_list *list = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_entries(inspector, qn_args_text(&cli->args, LIST_QUEUE), NULL, &list,
                                &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        exit_code = print_json(list);
    } else {
        int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
        print_table(cli, list, now_ms);
        report_total(cli, list, now_ms);
    }
    quern_entry_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}
