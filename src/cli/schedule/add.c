/* SPDX-License-Identifier: MIT */
/* add.c - `quern schedule add`: stores an entry, or replaces one. */
#include "cli/schedule/add.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/schedule/show.h"
#include "cli/schedule/ticks.h"

#define TICKS_SHOWN 3

enum add_option {
    ADD_CRON = QN_TASK_OPTION_COUNT,
    ADD_TYPE,
    ADD_PAYLOAD,
    ADD_ZONE,
    ADD_MISFIRE,
    ADD_LATE,
    ADD_JITTER,
    ADD_REPLACE,
    ADD_FORCE
};

const struct qn_option qn_add_options[QN_ADD_OPTION_COUNT] = {
    QN_TASK_OPTIONS,
    [ADD_CRON] = {"cron", "C", "'30 2 * * *', six fields with seconds, '@every 90s'",
                  QN_OPTION_TEXT},
    [ADD_TYPE] = {"type", "TYPE", "of the task that each tick enqueues", QN_OPTION_TEXT},
    [ADD_PAYLOAD] = {"payload", "TEXT|-", "its payload; -: from stdin", QN_OPTION_TEXT},
    [ADD_ZONE] = {"zone", "Z", "the time zone of --cron, as Europe/Berlin (UTC)", QN_OPTION_TEXT},
    [ADD_MISFIRE] = {"misfire", "P", "missed ticks: once (the newest), skip, or 'all N'",
                     QN_OPTION_TEXT},
    [ADD_LATE] = {"late", "D", "a tick is missed when it is later than this (1m)",
                  QN_OPTION_DURATION},
    [ADD_JITTER] = {"jitter", "D", "delay each task by a time below this", QN_OPTION_DURATION},
    [ADD_REPLACE] = {"replace", NULL, "change the entry if there is one", QN_OPTION_FLAG},
    [ADD_FORCE] = {"force", NULL, "with --replace: also one of a file or a program",
                   QN_OPTION_FLAG},
};

static quern_entry entry_of_options(const struct qn_args *args)
{
    int64_t late_ms = qn_args_number(args, ADD_LATE, 0);
    return (quern_entry){
        .name = qn_args_operand(args, 0),
        .cron = qn_args_text(args, ADD_CRON),
        .zone = qn_args_text(args, ADD_ZONE),
        .misfire = qn_args_text(args, ADD_MISFIRE),
        .late_ms = late_ms == 0 && qn_args_given(args, ADD_LATE) ? -1 : late_ms,
        .jitter_ms = qn_args_number(args, ADD_JITTER, 0),
    };
}

/* By the library's own rules, before anything is opened: an entry that is refused makes no database
 * file. */
static int check_entry(const struct qn_cli *cli, const quern_entry *entry, const quern_task *task)
{
    struct qn_zones zones;
    struct qn_arena arena = {0};
    struct qn_schedule_entry made;
    quern_error err;
    const struct qn_entry_given given = {.name = entry->name,
                                         .cron = entry->cron,
                                         .zone = entry->zone,
                                         .misfire = entry->misfire,
                                         .late_ms = entry->late_ms,
                                         .jitter_ms = entry->jitter_ms,
                                         .task = *task};
    if (qn_zones_init(&zones, NULL, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    const struct qn_entry_terms terms = {.zones = &zones,
                                         .now_ms = qn_clock_wall_ms(qn_clock_system())};
    quern_status status = qn_entry_make(&given, &terms, &arena, &made, &err);
    qn_arena_finish(&arena);
    qn_zones_finish(&zones);
    return status == QUERN_OK ? QN_EXIT_OK : qn_ticks_refuse(cli, &err);
}

static int print_stored(struct qn_cli *cli, quern_inspector *inspector, const quern_entry *given,
                        const char *queue)
{
    quern_error err;
    struct qn_ticks_clock ticks;
    int64_t found[TICKS_SHOWN];
    quern_entry_list *list = NULL;
    int exit_code = qn_show_find(cli, inspector, queue, given->name, &list);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    const quern_entry_info *info = quern_entry_list_at(list, 0);
    if (qn_ticks_init(&ticks, given, info->created_at_ms, &err) != QUERN_OK) {
        quern_entry_list_free(list);
        return qn_cli_fail(cli, &err);
    }
    size_t count = qn_ticks_find(&ticks, info->last_at_ms, found, TICKS_SHOWN);
    if (cli->json) {
        json_t *object = qn_show_json(info);
        (void)json_object_set_new(object, "next", qn_ticks_json(&ticks, found, count));
        exit_code = qn_json_print(object);
    } else if (count > 0) {
        qn_ticks_print(&ticks, found, count);
    } else {
        qn_cli_warn(cli, "there is no tick within five years");
    }
    qn_ticks_finish(&ticks);
    quern_entry_list_free(list);
    return exit_code;
}

static int add(struct qn_cli *cli, const quern_entry *entry, const quern_task *task)
{
    const struct qn_args *args = &cli->args;
    quern_entry_put what = qn_args_given(args, ADD_FORCE)     ? QUERN_ENTRY_FORCE
                           : qn_args_given(args, ADD_REPLACE) ? QUERN_ENTRY_REPLACE
                                                              : QUERN_ENTRY_ADD;
    quern_error err;
    quern_inspector *inspector = NULL;
    int exit_code = check_entry(cli, entry, task);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, true, &inspector);
    }
    if (exit_code == QN_EXIT_OK &&
        quern_inspector_put_entry(inspector, entry, task, what, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
        if (err.code == QUERN_E_CONFLICT) {
            qn_cli_message(cli, "use --replace to change it");
        } else if (err.code == QUERN_E_STATE) {
            qn_cli_message(cli, "use --force to change it all the same");
        }
    } else if (exit_code == QN_EXIT_OK) {
        exit_code =
            print_stored(cli, inspector, entry, task->queue == NULL ? "default" : task->queue);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

int qn_add_run(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const char *type = qn_args_text(args, ADD_TYPE);
    const quern_entry entry = entry_of_options(args);
    struct qn_task_parts parts;
    quern_task task;
    if (entry.cron == NULL || type == NULL) {
        return qn_cli_usage(cli, "missing --%s", entry.cron == NULL ? "cron" : "type");
    }
    if (qn_args_given(args, ADD_FORCE) && !qn_args_given(args, ADD_REPLACE)) {
        return qn_cli_usage(cli, "--force is for --replace");
    }
    qn_task_parts_init(&parts);
    int exit_code = qn_task_options_read(cli, &parts, &task);
    task.type = type;
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_options_payload(cli, qn_args_text(args, ADD_PAYLOAD), &parts, &task);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = add(cli, &entry, &task);
    }
    qn_task_parts_finish(&parts);
    return exit_code;
}
