/* SPDX-License-Identifier: MIT */
/* error.c - `quern error list|run|archive`: failed tasks by the kind of their error.
 *
 * Tasks whose errors differ in numbers, ids and addresses only have one fingerprint, and are one
 * group. An action reads the failed tasks again, notes those of the group, asks, and then changes
 * each by its id: one that is gone, or whose state no longer allows it, is left alone and counted.
 * One that has failed with another error meanwhile is not told apart. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/verbs/error/groups.h"

enum { SCAN_MAX = 100000, ACT_SCAN_MAX = 10000000, LIMIT = 30, FINGERPRINT_SIZE_MIN = 6 };

enum option { OPTION_MATCH, OPTION_QUEUE, OPTION_LIMIT, OPTION_YES = OPTION_LIMIT, OPTION_DRY_RUN };

/* clang-format off */
#define SCOPE_OPTIONS \
    [OPTION_MATCH] = {"match", "QUERY", "only tasks that fulfil it, as of task list", \
                      QN_OPTION_TEXT}, \
    [OPTION_QUEUE] = {"queue", "NAME", "only in this queue (default: all)", QN_OPTION_TEXT}
/* clang-format on */

static const struct qn_option list_options[] = {
    SCOPE_OPTIONS,
    [OPTION_LIMIT] = {"limit", "N", "so many groups, the largest (30)", QN_OPTION_COUNT, .min = 1,
                      .max = QN_GROUPS_MAX},
};
static const struct qn_option act_options[] = {
    SCOPE_OPTIONS,
    [OPTION_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},
    [OPTION_DRY_RUN] = {"dry-run", NULL, "only count", QN_OPTION_FLAG},
};
#undef SCOPE_OPTIONS

static int fail(const struct qn_cli *cli, const quern_error *err)
{
    return err->code == QUERN_E_INVALID ? qn_cli_usage(cli, "%s", err->text)
                                        : qn_cli_fail(cli, err);
}

/* --- list ------------------------------------------------------------------------------- */

static void write_fingerprint(uint64_t fingerprint, char out[17])
{
    (void)snprintf(out, 17, "%016" PRIx64, fingerprint);
}

static size_t shown_count(const struct qn_cli *cli, const struct qn_error_groups *groups)
{
    size_t limit = (size_t)qn_args_number(&cli->args, OPTION_LIMIT, LIMIT);
    return groups->count < limit ? groups->count : limit;
}

static void print_groups(const struct qn_cli *cli, const struct qn_error_groups *groups)
{
    static const struct qn_column columns[] = {
        {"FINGERPRINT"}, {"TASKS", .right = true},   {"ARCHIVED", .right = true},
        {"LAST"},        {"TYPE", .flexible = true}, {"ERROR", .flexible = true},
    };
    struct qn_table table;
    char fingerprint[17];
    int64_t now_ms = qn_clock_wall_ms(qn_clock_system());
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < shown_count(cli, groups); i++) {
        const struct qn_error_group *group = &groups->items[i];
        write_fingerprint(group->fingerprint, fingerprint);
        qn_table_text(&table, fingerprint);
        qn_table_number(&table, group->retry + group->archived);
        qn_table_number(&table, group->archived);
        qn_table_relative(&table, group->last_at_ms, now_ms);
        qn_table_text(&table, group->type);
        qn_table_text(&table, group->text);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
    qn_cli_message(cli, "%zu %s; searched %" PRIu64 " of %" PRIu64 " tasks", groups->count,
                   qn_plural(groups->count, "group", "groups"), groups->searched, groups->total);
}

static json_t *group_json(const struct qn_error_group *group)
{
    char fingerprint[17];
    int64_t first_at_ms = group->first_at_ms == INT64_MAX ? 0 : group->first_at_ms;
    write_fingerprint(group->fingerprint, fingerprint);
    json_t *object = qn_memory_must(
        json_pack("{s:s,s:I,s:I,s:o,s:o}", "fingerprint", fingerprint, "retry",
                  (json_int_t)group->retry, "archived", (json_int_t)group->archived, "first_at_ms",
                  qn_json_moment(first_at_ms), "last_at_ms", qn_json_moment(group->last_at_ms)));
    qn_json_set_text(object, "error", group->text);
    qn_json_set_text(object, "type", group->type);
    qn_json_set_text(object, "queue", group->queue);
    qn_json_set_text(object, "id", group->id);
    return object;
}

static int print_document(const struct qn_cli *cli, const struct qn_error_groups *groups)
{
    json_t *array = qn_memory_must(json_array());
    for (size_t i = 0; i < shown_count(cli, groups); i++) {
        (void)json_array_append_new(array, group_json(&groups->items[i]));
    }
    return qn_json_print(json_pack("{s:o,s:I,s:I}", "groups", array, "searched",
                                   (json_int_t)groups->searched, "total",
                                   (json_int_t)groups->total));
}

static int run_list(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    struct qn_error_groups groups;
    const struct qn_error_scope scope = {.match = qn_args_text(&cli->args, OPTION_MATCH),
                                         .queue = qn_args_text(&cli->args, OPTION_QUEUE),
                                         .scan_max = SCAN_MAX};
    if (qn_error_groups_read(inspector, &scope, &groups, &err) != QUERN_OK) {
        exit_code = fail(cli, &err);
    } else {
        qn_error_groups_sort(&groups);
        if (cli->json) {
            exit_code = print_document(cli, &groups);
        } else {
            print_groups(cli, &groups);
        }
    }
    qn_error_groups_finish(&groups);
    quern_inspector_free(inspector);
    return exit_code;
}

/* --- run, archive ----------------------------------------------------------------------- */

struct named {
    char *queue;
    char *id;
};

struct acting {
    const struct qn_cli *cli;
    quern_inspector *inspector;
    quern_action action;
    const char *ask;
    const char *done;
    struct named *items;
    size_t count;
    size_t capacity;
    uint64_t fingerprint; /* of the group; 0: none is found yet */
    bool is_ambiguous;
};

/* Whether the operand is the beginning of it. */
static bool is_meant(const struct qn_cli *cli, uint64_t fingerprint)
{
    char text[17];
    write_fingerprint(fingerprint, text);
    return qn_str_starts_with(text, qn_args_operand(&cli->args, 0));
}

static bool note_task(const quern_task_info *info, uint64_t fingerprint, void *user)
{
    struct acting *acting = user;
    bool takes_archived = acting->action == QUERN_ACTION_RUN;
    if (!is_meant(acting->cli, fingerprint) ||
        (quern_task_info_state(info) == QUERN_TASK_ARCHIVED && !takes_archived)) {
        return true;
    }
    acting->is_ambiguous =
        acting->is_ambiguous || (acting->count > 0 && fingerprint != acting->fingerprint);
    acting->fingerprint = fingerprint;
    acting->items = qn_memory_must(
        qn_vec_grow(acting->items, acting->count, &acting->capacity, sizeof *acting->items));
    acting->items[acting->count++] =
        (struct named){qn_memory_must(qn_str_dup(quern_task_info_queue(info))),
                       qn_memory_must(qn_str_dup(quern_task_info_id(info)))};
    return true;
}

static int report(const struct acting *acting, uint64_t done)
{
    uint64_t changed = acting->count - done;
    if (acting->cli->json) {
        return qn_json_print(json_pack("{s:s,s:I,s:I}", "done", acting->done, "count",
                                       (json_int_t)done, "changed", (json_int_t)changed));
    }
    printf("%" PRIu64 " %s %s", done, qn_plural(done, "task", "tasks"), acting->done);
    if (changed > 0) {
        printf("; %" PRIu64 " had changed meanwhile", changed);
    }
    printf("\n");
    return QN_EXIT_OK;
}

static int apply(const struct acting *acting)
{
    uint64_t done = 0;
    for (size_t i = 0; i < acting->count; i++) {
        quern_error err;
        const struct named *task = &acting->items[i];
        quern_status status =
            quern_inspector_act(acting->inspector, acting->action, task->queue, task->id, &err);
        if (status != QUERN_OK && status != QUERN_E_NOT_FOUND && status != QUERN_E_STATE) {
            (void)report(acting, done);
            return qn_cli_fail(acting->cli, &err);
        }
        done += status == QUERN_OK ? 1 : 0;
    }
    return report(acting, done);
}

static int act_on_group(struct acting *acting)
{
    const struct qn_cli *cli = acting->cli;
    int exit_code = QN_EXIT_OK;
    if (acting->is_ambiguous) {
        qn_cli_message(cli, "several groups begin with %s: give more of it",
                       qn_args_operand(&cli->args, 0));
        return QN_EXIT_FAILURE;
    }
    if (acting->count == 0) {
        qn_cli_message(cli, "no failed task has the fingerprint %s",
                       qn_args_operand(&cli->args, 0));
        return QN_EXIT_FAILURE;
    }
    if (qn_args_given(&cli->args, OPTION_DRY_RUN)) {
        return cli->json ? qn_json_print(json_pack("{s:s,s:I}", "would_be", acting->done, "count",
                                                   (json_int_t)acting->count))
                         : (printf("%zu %s would be %s\n", acting->count,
                                   qn_plural(acting->count, "task", "tasks"), acting->done) < 0);
    }
    if (!qn_args_given(&cli->args, OPTION_YES) &&
        !qn_cli_confirm(cli, &exit_code, "%s %zu %s?", acting->ask, acting->count,
                        qn_plural(acting->count, "task", "tasks"))) {
        return exit_code;
    }
    return apply(acting);
}

static int act(struct qn_cli *cli, quern_action action, const char *ask, const char *done)
{
    struct acting acting = {.cli = cli, .action = action, .ask = ask, .done = done};
    if (strlen(qn_args_operand(&cli->args, 0)) < FINGERPRINT_SIZE_MIN) {
        return qn_cli_usage(cli, "give at least %d digits of the fingerprint",
                            FINGERPRINT_SIZE_MIN);
    }
    int exit_code = qn_cli_open_inspector(cli, false, &acting.inspector);
    if (exit_code == QN_EXIT_OK) {
        quern_error err;
        const struct qn_error_scope scope = {.match = qn_args_text(&cli->args, OPTION_MATCH),
                                             .queue = qn_args_text(&cli->args, OPTION_QUEUE),
                                             .scan_max = ACT_SCAN_MAX,
                                             .on_task = note_task,
                                             .user = &acting};
        exit_code = qn_error_groups_read(acting.inspector, &scope, NULL, &err) == QUERN_OK
                        ? act_on_group(&acting)
                        : fail(cli, &err);
    }
    for (size_t i = 0; i < acting.count; i++) {
        qn_free(acting.items[i].queue);
        qn_free(acting.items[i].id);
    }
    qn_free(acting.items);
    quern_inspector_free(acting.inspector);
    return exit_code;
}

static int run_run(struct qn_cli *cli)
{
    return act(cli, QUERN_ACTION_RUN, "Run", "made pending");
}

static int run_archive(struct qn_cli *cli)
{
    return act(cli, QUERN_ACTION_ARCHIVE, "Archive", "archived");
}

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list failed tasks by the kind of their error, the largest first",
     .about = "Errors are of one kind if they differ in numbers, ids and addresses only.",
     .example = "  quern error list --queue mail",
     .options = list_options,
     .option_count = QN_COUNT_OF(list_options),
     .run = run_list},
    {.name = "run",
     .operands = "FINGERPRINT",
     .summary = "make all failed tasks of a kind pending now",
     .about = "Of a fingerprint the first 6 digits or more are enough.",
     .example = "  quern error run 5f8a21c09b",
     .options = act_options,
     .option_count = QN_COUNT_OF(act_options),
     .operand_min = 1,
     .operand_max = 1,
     .run = run_run},
    {.name = "archive",
     .operands = "FINGERPRINT",
     .summary = "archive all tasks of a kind that wait for a retry",
     .about = "Of a fingerprint the first 6 digits or more are enough.",
     .example = "  quern error archive 5f8a21c09b --dry-run",
     .options = act_options,
     .option_count = QN_COUNT_OF(act_options),
     .operand_min = 1,
     .operand_max = 1,
     .run = run_archive},
};
const struct qn_noun qn_noun_error = {"error", "failed tasks by their error: list, run or archive",
                                      verbs, QN_COUNT_OF(verbs)};
