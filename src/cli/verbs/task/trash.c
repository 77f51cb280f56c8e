/* SPDX-License-Identifier: MIT */
/* trash.c - `quern trash`: list, restore, empty.
 *
 * What `quern task delete` has deleted stays here for a day. Ids are restored one after the other;
 * --match and --all ask first, as actions of `quern task` do. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "cli/verbs/task/match.h"

#define SHORT_ID_SIZE_MIN 8

enum list_option {
    LIST_QUEUE,
    LIST_MATCH,
    LIST_LIMIT,
    LIST_CURSOR,
    LIST_SCAN,
    LIST_UTC,
    LIST_WIDE
};
static const struct qn_option list_options[] = {
    [LIST_QUEUE] = {"queue", "NAME", "only of this queue (default: all)", QN_OPTION_TEXT},
    [LIST_MATCH] = {"match", "QUERY", "those that fulfil it, as of task list", QN_OPTION_TEXT},
    [LIST_LIMIT] = {"limit", "N", "tasks in a page (30)", QN_OPTION_COUNT, .min = 1, .max = 10000},
    [LIST_CURSOR] = {"cursor", "TEXT", "continue where a page ended", QN_OPTION_TEXT},
    [LIST_SCAN] = {"scan", "N", "tasks to look at (30000)", QN_OPTION_COUNT, .min = 1,
                   .max = QN_TASK_MATCH_SCAN_MAX},
    [LIST_UTC] = {"utc", NULL, "moments in place of distances from now", QN_OPTION_FLAG},
    [LIST_WIDE] = {"wide", NULL, "whole ids and texts, however narrow it is", QN_OPTION_FLAG},
};

enum act_option { ACT_QUEUE, ACT_MATCH, ACT_YES, ACT_DRY_RUN, ACT_ALL };
#define ACT_OPTIONS                                                                                \
    [ACT_QUEUE] = {"queue", "NAME", "only of this queue (default: all)", QN_OPTION_TEXT},          \
    [ACT_MATCH] = {"match", "QUERY", "all that fulfil it, as of task list", QN_OPTION_TEXT},       \
    [ACT_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},                                       \
    [ACT_DRY_RUN] = {"dry-run", NULL, "only count and show some", QN_OPTION_FLAG}
static const struct qn_option empty_options[] = {ACT_OPTIONS};
static const struct qn_option restore_options[] = {
    ACT_OPTIONS,
    [ACT_ALL] = {"all", NULL, "all that are in the trash", QN_OPTION_FLAG},
};
#undef ACT_OPTIONS

static int run_list(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    quern_inspector *inspector = NULL;
    const quern_search search = {
        .match = qn_args_text(args, LIST_MATCH),
        .queue = qn_args_text(args, LIST_QUEUE),
        .in_trash = 1,
        .cursor = qn_args_text(args, LIST_CURSOR),
        .limit = (uint64_t)qn_args_number(args, LIST_LIMIT, 0),
        .scan_max = (uint64_t)qn_args_number(args, LIST_SCAN, 0),
    };
    const struct qn_task_table shape = {.wide = qn_args_given(args, LIST_WIDE),
                                        .utc = qn_args_given(args, LIST_UTC),
                                        .one_queue = search.queue != NULL,
                                        .in_trash = true};
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_match_list(cli, inspector, &search, &shape);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

/* --- restore ----------------------------------------------------------------------------- */

/* The only deleted task whose id begins so; NULL: there is none, or several. */
static quern_task_list *find_short(quern_inspector *inspector, const char *queue, const char *id)
{
    char match[64];
    quern_task_list *list = NULL;
    size_t size = strlen(id);
    if (size < SHORT_ID_SIZE_MIN || size > 36 || strspn(id, "0123456789abcdef-") != size) {
        return NULL;
    }
    (void)snprintf(match, sizeof match, "id = '%s*'", id);
    const quern_search search = {.match = match,
                                 .queue = queue,
                                 .in_trash = 1,
                                 .limit = 2,
                                 .scan_max = QN_TASK_MATCH_SCAN_MAX};
    if (quern_inspector_search(inspector, &search, &list, NULL) != QUERN_OK) {
        return NULL;
    }
    if (quern_task_list_size(list) != 1) {
        quern_task_list_free(list);
        return NULL;
    }
    return list;
}

static quern_status restore_one(quern_inspector *inspector, const char *queue, const char *id,
                                quern_error *err)
{
    quern_status status = quern_inspector_act(inspector, QUERN_ACTION_RESTORE, queue, id, err);
    quern_task_list *list = status == QUERN_E_NOT_FOUND ? find_short(inspector, queue, id) : NULL;
    if (list != NULL) {
        const quern_task_info *info = quern_task_list_at(list, 0);
        status = quern_inspector_act(inspector, QUERN_ACTION_RESTORE, quern_task_info_queue(info),
                                     quern_task_info_id(info), err);
        quern_task_list_free(list);
    }
    return status;
}

/* Each is tried, until the broker fails. */
static int restore_ids(struct qn_cli *cli, quern_inspector *inspector)
{
    quern_error err;
    uint64_t count = 0;
    int worst = QN_EXIT_OK;
    json_t *tasks = qn_memory_must(json_array());
    for (size_t i = 0; i < cli->args.operand_count && worst < QN_EXIT_USAGE; i++) {
        const char *id = qn_args_operand(&cli->args, i);
        quern_status status = restore_one(inspector, qn_args_text(&cli->args, ACT_QUEUE), id, &err);
        json_t *task = qn_memory_must(json_pack("{s:o}", "ok", json_boolean(status == QUERN_OK)));
        qn_json_set_text(task, "id", id);
        if (status == QUERN_OK) {
            count++;
        } else {
            int exit_code = qn_cli_fail(cli, &err);
            worst = exit_code > worst ? exit_code : worst;
            qn_json_set_text(task, "error", err.text);
        }
        (void)json_array_append_new(tasks, task);
    }
    if (cli->json) {
        (void)qn_json_print(json_pack("{s:s,s:I,s:o}", "done", "restored", "count",
                                      (json_int_t)count, "tasks", tasks));
        return worst;
    }
    json_decref(tasks);
    printf("%" PRIu64 " %s restored\n", count, count == 1 ? "task" : "tasks");
    return worst;
}

static int act_matching(struct qn_cli *cli, const struct qn_task_match_act *act)
{
    const struct qn_args *args = &cli->args;
    quern_inspector *inspector = NULL;
    const quern_search search = {.match = qn_args_text(args, ACT_MATCH),
                                 .queue = qn_args_text(args, ACT_QUEUE),
                                 .in_trash = 1};
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_match_act(cli, inspector, &search, act);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_restore(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    bool all = qn_args_given(args, ACT_ALL);
    bool by_match = qn_args_given(args, ACT_MATCH);
    bool dry_run = qn_args_given(args, ACT_DRY_RUN);
    if (all + by_match + (args->operand_count > 0) != 1) {
        return qn_cli_usage(cli, "give either IDs or --all or --match");
    }
    if (dry_run && args->operand_count > 0) {
        return qn_cli_usage(cli, "--dry-run goes with --match and --all");
    }
    if (all || by_match) {
        const struct qn_task_match_act act = {
            .action = QUERN_ACTION_RESTORE,
            .refused_one = "would clash with another task's id or lock",
            .refused_many = "would clash with other tasks' ids or locks",
            .ask = "Restore",
            .done = "restored",
            .yes = qn_args_given(args, ACT_YES),
            .dry_run = dry_run};
        return act_matching(cli, &act);
    }
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = restore_ids(cli, inspector);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_empty(struct qn_cli *cli)
{
    const struct qn_task_match_act act = {.action = QUERN_ACTION_DELETE,
                                          .ask = "Delete for good",
                                          .done = "deleted for good",
                                          .yes = qn_args_given(&cli->args, ACT_YES),
                                          .dry_run = qn_args_given(&cli->args, ACT_DRY_RUN)};
    return act_matching(cli, &act);
}

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list deleted tasks: the latest first, a page of them",
     .about = "`quern task delete` puts tasks here; after a day they are gone.",
     .example = "  quern trash list --match 'type = mail:* and error ~ timeout'",
     .options = list_options,
     .option_count = QN_COUNT_OF(list_options),
     .run = run_list},
    {.name = "restore",
     .operands = "[ID...]",
     .summary = "restore deleted tasks, to the state and moment that they had",
     .about = "One stays in the trash if another task has its id or its unique lock by now.",
     .example = "  quern trash restore --match 'queue = mail' --yes",
     .options = restore_options,
     .option_count = QN_COUNT_OF(restore_options),
     .operand_max = SIZE_MAX,
     .run = run_restore},
    {.name = "empty",
     .operands = "",
     .summary = "delete what is in the trash for good, all or by a query",
     .about = "What a day-old trash holds goes by itself.",
     .example = "  quern trash empty --queue mail --yes",
     .options = empty_options,
     .option_count = QN_COUNT_OF(empty_options),
     .run = run_empty},
};
const struct qn_noun qn_noun_trash = {"trash", "deleted tasks: list, restore or empty", verbs,
                                      QN_COUNT_OF(verbs)};
