/* SPDX-License-Identifier: MIT */
/* next.c - `quern schedule next` and `check`: ticks of stored entries, expressions and files. */
#include "cli/schedule/next.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/plural.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/schedule/show.h"
#include "cli/schedule/ticks.h"
#include "schedule/conf.h"

#define NEXT_DEFAULT 5
#define CHECK_TICKS 3
#define ORIGIN "file:" /* of the entries of a file that is only checked */

enum next_option { NEXT_CRON, NEXT_ZONE, NEXT_COUNT, NEXT_FROM, NEXT_QUEUE };
const struct qn_option qn_next_options[QN_NEXT_OPTION_COUNT] = {
    [NEXT_CRON] = {"cron", "C", "of this expression, in place of a stored entry", QN_OPTION_TEXT},
    [NEXT_ZONE] = {"zone", "Z", "the time zone of --cron (UTC)", QN_OPTION_TEXT},
    [NEXT_COUNT] = {"count", "N", "so many (5, at most 1000)", QN_OPTION_COUNT, .min = 1,
                    .max = QN_TICKS_MAX, .letter = 'n'},
    [NEXT_FROM] = {"from", "T", "after 2026-11-20T12:00:00Z or @1795000000 (now)",
                   QN_OPTION_MOMENT},
    [NEXT_QUEUE] = {"queue", "NAME", "its queue, where several have such an entry", QN_OPTION_TEXT},
};
enum check_option { CHECK_ZONE };
const struct qn_option qn_next_check_options[QN_NEXT_CHECK_OPTION_COUNT] = {
    [CHECK_ZONE] = {"zone", "Z", "of entries without one, as for `schedule run` (UTC)",
                    QN_OPTION_TEXT},
};

/* --- next -------------------------------------------------------------------------------- */

static int print_ticks(const struct qn_cli *cli, const struct qn_ticks_clock *ticks,
                       int64_t after_ms)
{
    int64_t found[QN_TICKS_MAX];
    size_t most = (size_t)qn_args_number(&cli->args, NEXT_COUNT, NEXT_DEFAULT);
    size_t count = qn_ticks_find(ticks, after_ms, found, most);
    if (cli->json) {
        return qn_json_print(qn_ticks_json(ticks, found, count));
    }
    if (count > 0) {
        qn_ticks_print(ticks, found, count);
    }
    if (count < most) {
        qn_cli_message(cli, count == 0 ? "there is no tick within five years"
                                       : "there is no tick within five years after these");
    }
    return QN_EXIT_OK;
}

static int next_of(const struct qn_cli *cli, const quern_entry *entry, int64_t created_at_ms,
                   int64_t after_ms)
{
    struct qn_ticks_clock ticks;
    quern_error err;
    if (qn_ticks_init(&ticks, entry, created_at_ms, &err) != QUERN_OK) {
        return qn_ticks_refuse(cli, &err);
    }
    int exit_code = print_ticks(cli, &ticks, after_ms);
    qn_ticks_finish(&ticks);
    return exit_code;
}

static int next_of_stored(struct qn_cli *cli, int64_t after_ms)
{
    quern_inspector *inspector = NULL;
    quern_entry_list *list = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_show_find(cli, inspector, qn_args_text(&cli->args, NEXT_QUEUE),
                                 qn_args_operand(&cli->args, 0), &list);
    }
    if (exit_code == QN_EXIT_OK) {
        const quern_entry_info *info = quern_entry_list_at(list, 0);
        const quern_entry entry = {.cron = info->cron, .zone = info->zone};
        if (info->paused_at_ms != 0) {
            qn_cli_message(cli, "entry \"%s\" is paused: these are its ticks if it were not",
                           info->name);
        }
        exit_code = next_of(cli, &entry, info->created_at_ms,
                            info->last_at_ms > after_ms ? info->last_at_ms : after_ms);
    }
    quern_entry_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

int qn_next_run(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const quern_entry entry = {.cron = qn_args_text(args, NEXT_CRON),
                               .zone = qn_args_text(args, NEXT_ZONE)};
    bool is_stored = args->operand_count > 0;
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    int64_t after_ms = qn_args_number(args, NEXT_FROM, now_ms);
    if (is_stored == (entry.cron != NULL)) {
        return qn_cli_usage(cli, "name either an entry or an expression with --cron");
    }
    if (is_stored && entry.zone != NULL) {
        return qn_cli_usage(cli, "--zone is for --cron: an entry has its own");
    }
    if (!is_stored && qn_args_given(args, NEXT_QUEUE)) {
        return qn_cli_usage(cli, "--queue is for a stored entry");
    }
    return is_stored ? next_of_stored(cli, after_ms) : next_of(cli, &entry, after_ms, after_ms);
}

/* --- check ------------------------------------------------------------------------------- */

/* The next ticks of an entry that a file defines. */
static size_t find_ticks(const struct qn_schedule_entry *entry, int64_t now_ms,
                         struct qn_ticks_clock *ticks, int64_t found[CHECK_TICKS])
{
    const quern_entry given = {.cron = entry->cron, .zone = entry->zone};
    quern_error err;
    size_t count = 0;
    if (qn_ticks_init(ticks, &given, now_ms, &err) == QUERN_OK) {
        count = qn_ticks_find(ticks, now_ms, found, CHECK_TICKS);
        if (count == 0) {
            qn_ticks_finish(ticks);
        }
    }
    return count;
}

static void print_entries(const struct qn_conf *conf, int64_t now_ms)
{
    static const struct qn_column columns[] = {
        {"NAME", .flexible = true},
        {"QUEUE", .flexible = true},
        {"TYPE", .flexible = true, .spare = 2},
        {"CRON", .flexible = true},
        {"ZONE", .flexible = true, .spare = 1},
        {"NEXT"},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < conf->entry_count; i++) {
        const struct qn_schedule_entry *entry = &conf->entries[i];
        struct qn_ticks_clock ticks;
        int64_t found[CHECK_TICKS];
        size_t count = find_ticks(entry, now_ms, &ticks, found);
        for (size_t j = 0; j == 0 || j < count; j++) {
            qn_table_text(&table, j == 0 ? entry->name : " ");
            qn_table_text(&table, j == 0 ? entry->task.queue : " ");
            qn_table_text(&table, j == 0 ? entry->task.type : " ");
            qn_table_text(&table, j == 0 ? entry->cron : " ");
            qn_table_text(&table, j == 0 ? entry->zone : " ");
            qn_table_moment(&table, j < count ? found[j] * 1000 : 0);
        }
        if (count > 0) {
            qn_ticks_finish(&ticks);
        }
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static int print_json(const struct qn_conf *conf, int64_t now_ms)
{
    json_t *entries = qn_memory_must(json_array());
    json_t *faults = qn_memory_must(json_array());
    for (size_t i = 0; i < conf->entry_count; i++) {
        const struct qn_schedule_entry *entry = &conf->entries[i];
        struct qn_ticks_clock ticks;
        int64_t found[CHECK_TICKS];
        size_t count = find_ticks(entry, now_ms, &ticks, found);
        json_t *object = qn_memory_must(json_object());
        qn_json_set_text(object, "name", entry->name);
        qn_json_set_text(object, "queue", entry->task.queue);
        qn_json_set_text(object, "type", entry->task.type);
        qn_json_set_text(object, "cron", entry->cron);
        qn_json_set_text(object, "zone", entry->zone);
        (void)json_object_set_new(object, "next",
                                  count > 0 ? qn_ticks_json(&ticks, found, count) : json_array());
        (void)json_array_append_new(entries, object);
        if (count > 0) {
            qn_ticks_finish(&ticks);
        }
    }
    for (size_t i = 0; i < conf->fault_count; i++) {
        const struct qn_conf_fault *fault = &conf->faults[i];
        json_t *object = qn_memory_must(json_pack("{s:I}", "line", (json_int_t)fault->line));
        qn_json_set_text(object, "name", fault->name);
        qn_json_set_text(object, "fault", fault->text);
        (void)json_array_append_new(faults, object);
    }
    return qn_json_print(
        qn_memory_must(json_pack("{s:o,s:o}", "entries", entries, "faults", faults)));
}

static int report(const struct qn_cli *cli, const char *path, const struct qn_conf *conf)
{
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    int exit_code = QN_EXIT_OK;
    if (cli->json) {
        exit_code = print_json(conf, now_ms);
    } else {
        print_entries(conf, now_ms);
    }
    for (size_t i = 0; i < conf->fault_count; i++) {
        const struct qn_conf_fault *fault = &conf->faults[i];
        qn_cli_message(cli, "%s:%zu: %s%s%s%s", path, fault->line,
                       fault->name[0] == '\0' ? "" : "[", fault->name,
                       fault->name[0] == '\0' ? "" : "] ", fault->text);
    }
    qn_cli_message(cli, "%zu %s, %zu %s", conf->entry_count,
                   qn_plural(conf->entry_count, "entry", "entries"), conf->fault_count,
                   qn_plural(conf->fault_count, "fault", "faults"));
    return exit_code == QN_EXIT_OK && conf->fault_count > 0 ? QN_EXIT_DATA : exit_code;
}

int qn_next_check(struct qn_cli *cli)
{
    const char *path = qn_args_operand(&cli->args, 0);
    struct qn_zones zones;
    struct qn_conf conf = {.entry_count = 0};
    quern_error err;
    if (qn_zones_init(&zones, NULL, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    const struct qn_conf_terms terms = {.origin = ORIGIN,
                                        .default_zone = qn_args_text(&cli->args, CHECK_ZONE),
                                        .zones = &zones,
                                        .now_ms = qn_clock_wall_ms(qn_clock_system())};
    int exit_code = qn_conf_read(path, &terms, &conf, &err) == QUERN_OK ? report(cli, path, &conf)
                                                                        : qn_cli_fail(cli, &err);
    qn_conf_finish(&conf);
    qn_zones_finish(&zones);
    return exit_code;
}
