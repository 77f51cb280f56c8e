/* SPDX-License-Identifier: MIT */
/* queue.c - `quern queue`: list, inspect, pause, resume, set, remove, history.
 *
 * All verbs go through the inspector. A queue exists once a task was put into it or a worker has
 * served it; other names are "no such queue" (exit code 1). */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "cli/service.h"
#include "cli/verbs/queue_show.h"
#include "inspect/queues.h"

#define HISTORY_DAYS_DEFAULT 10
#define HISTORY_DAYS_MAX 90

enum remove_option { REMOVE_FORCE, REMOVE_YES };
static const struct qn_option remove_options[] = {
    [REMOVE_FORCE] = {"force", NULL, "also with tasks in it, which are deleted", QN_OPTION_FLAG},
    [REMOVE_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},
};

enum set_option { SET_MAX_PENDING };
static const struct qn_option set_options[] = {
    [SET_MAX_PENDING] = {"max-pending", "N|none",
                         "refuse tasks beyond N pending and scheduled ones", QN_OPTION_TEXT},
};

enum history_option { HISTORY_DAYS };
static const struct qn_option history_options[] = {
    [HISTORY_DAYS] = {"days", "N", "this many days, today first (10, at most 90)", QN_OPTION_COUNT,
                      .min = 1, .max = HISTORY_DAYS_MAX},
};

/* On stderr, as `task list` has it: stdout stays data. */
static void report_total(const struct qn_cli *cli, const quern_queue_list *list)
{
    size_t count = quern_queue_list_size(list);
    uint64_t tasks = 0;
    for (size_t i = 0; i < count; i++) {
        tasks += quern_queue_list_at(list, i)->size;
    }
    qn_cli_message(cli, "%zu %s, %" PRIu64 " %s", count, qn_plural(count, "queue", "queues"), tasks,
                   qn_plural(tasks, "task", "tasks"));
}

static int run_list(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_queue_list *list = NULL;
    quern_worker_list *workers = NULL;
    if (quern_inspector_queues(inspector, &list, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else {
        workers = qn_service_workers(inspector);
        if (cli->json) {
            exit_code = qn_json_print(qn_queue_show_list_json(list, workers));
        } else {
            qn_queue_show_list_print(list, workers, 0);
            report_total(cli, list);
        }
    }
    quern_worker_list_free(workers);
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

/* --- One or more queues by name -------------------------------------------------------------- */

struct by_name {
    struct qn_cli *cli;
    quern_inspector *inspector;
    json_t *documents; /* with --json and several names: one for each; else NULL */
    size_t printed;    /* pages of text */
};

/* The action of a verb on one queue; reports its errors, returns the exit code. */
typedef int act_on_name(struct by_name *by_name, const char *name);

/* Of several queues each is tried, until the broker fails; the exit code is the worst. create: the
 * broker's file is made if it does not exist. */
static int for_each_name(struct qn_cli *cli, bool create, act_on_name *act)
{
    struct by_name by_name = {.cli = cli};
    size_t count = cli->args.operand_count;
    int worst = qn_cli_open_inspector(cli, create, &by_name.inspector);
    if (worst != QN_EXIT_OK) {
        return worst;
    }
    by_name.documents = cli->json && count > 1 ? qn_memory_must(json_array()) : NULL;
    for (size_t i = 0; i < count && (worst < QN_EXIT_USAGE || worst == QN_EXIT_DATA); i++) {
        int exit_code = act(&by_name, qn_args_operand(&cli->args, i));
        worst = exit_code > worst ? exit_code : worst;
    }
    if (by_name.documents != NULL) {
        (void)qn_json_print(by_name.documents);
    }
    quern_inspector_free(by_name.inspector);
    return worst;
}

static int add_document(struct by_name *by_name, json_t *take_document)
{
    if (by_name->documents == NULL) {
        return qn_json_print(take_document);
    }
    (void)json_array_append_new(by_name->documents, qn_memory_must(take_document));
    return QN_EXIT_OK;
}

static void begin_page(struct by_name *by_name)
{
    if (by_name->printed++ > 0) {
        printf("\n");
    }
}

/* How many entries of schedules the queue has; -1: not known. */
static int64_t count_entries(quern_inspector *inspector, const char *queue)
{
    quern_error err;
    quern_entry_list *list = NULL;
    if (quern_inspector_entries(inspector, queue, NULL, &list, &err) != QUERN_OK) {
        return -1;
    }
    int64_t count = (int64_t)quern_entry_list_size(list);
    quern_entry_list_free(list);
    return count;
}

static int show_queue(struct by_name *by_name, const quern_queue_info *queue,
                      const quern_worker_list *workers)
{
    int64_t entries = count_entries(by_name->inspector, queue->name);
    if (by_name->cli->json) {
        json_t *object = qn_queue_show_json(queue, workers);
        (void)json_object_set_new(object, "entries",
                                  entries < 0 ? json_null() : json_integer(entries));
        return add_document(by_name, object);
    }
    begin_page(by_name);
    qn_queue_show_print(queue, workers);
    if (entries >= 0) {
        qn_field_number("entries", entries);
    }
    return QN_EXIT_OK;
}

static int inspect(struct by_name *by_name, const char *name)
{
    struct qn_cli *cli = by_name->cli;
    quern_error err;
    quern_queue_list *list = NULL;
    quern_worker_list *workers = NULL;
    const quern_queue_info *queue = NULL;
    int exit_code = QN_EXIT_OK;
    const struct qn_names names = {.items = &name, .count = 1};
    if (qn_inspect_queues(by_name->inspector, names, &list, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if ((queue = quern_queue_list_at(list, 0)) == NULL) {
        qn_cli_message(cli, "no queue \"%s\"", name);
        exit_code = QN_EXIT_FAILURE;
    } else {
        workers = qn_service_workers(by_name->inspector);
        exit_code = show_queue(by_name, queue, workers);
    }
    quern_worker_list_free(workers);
    quern_queue_list_free(list);
    return exit_code;
}

static int run_inspect(struct qn_cli *cli)
{
    return for_each_name(cli, false, inspect);
}

/* The action and the queue, on stdout. */
static int report_done(struct by_name *by_name, const char *name, const char *done)
{
    if (by_name->cli->json) {
        json_t *object = qn_memory_must(json_object());
        qn_json_set_text(object, "queue", name);
        qn_json_set_text(object, "done", done);
        return add_document(by_name, object);
    }
    char *safe = qn_text_safe(name, strlen(name));
    printf("%s %s\n", safe, done);
    qn_free(safe);
    return QN_EXIT_OK;
}

/* Reports why the queue was left as it is, with --json on stdout, too. */
static int report_refused(struct by_name *by_name, const char *name, const quern_error *err)
{
    int exit_code = qn_cli_fail(by_name->cli, err);
    if (by_name->cli->json) {
        json_t *object = qn_memory_must(json_object());
        qn_json_set_text(object, "queue", name);
        qn_json_set_text(object, "error", err->text);
        (void)add_document(by_name, object);
    }
    return exit_code;
}

static int pause_queue(struct by_name *by_name, const char *name)
{
    quern_error err;
    return quern_inspector_pause(by_name->inspector, name, &err) == QUERN_OK
               ? report_done(by_name, name, "paused")
               : report_refused(by_name, name, &err);
}

static int resume_queue(struct by_name *by_name, const char *name)
{
    quern_error err;
    return quern_inspector_resume(by_name->inspector, name, &err) == QUERN_OK
               ? report_done(by_name, name, "resumed")
               : report_refused(by_name, name, &err);
}

static int run_pause(struct qn_cli *cli)
{
    return for_each_name(cli, false, pause_queue);
}

static int run_resume(struct qn_cli *cli)
{
    return for_each_name(cli, false, resume_queue);
}

/* A queue that is not there needs no question: the removal reports it. *ret_force: only tasks that
 * the user was asked about, or with --yes, are removed with it. */
static bool confirm_remove(const struct by_name *by_name, const char *name, bool *ret_force,
                           int *ret_exit)
{
    const struct qn_cli *cli = by_name->cli;
    quern_error err;
    quern_queue_list *list = NULL;
    const struct qn_names names = {.items = &name, .count = 1};
    if (qn_inspect_queues(by_name->inspector, names, &list, &err) != QUERN_OK) {
        *ret_exit = qn_cli_fail(cli, &err);
        return false;
    }
    const quern_queue_info *queue = quern_queue_list_at(list, 0);
    bool yes = qn_args_given(&cli->args, REMOVE_YES);
    *ret_force = qn_args_given(&cli->args, REMOVE_FORCE) && (yes || queue != NULL);
    if (queue == NULL) {
        yes = true;
    } else if (!yes) {
        yes = qn_cli_confirm(cli, ret_exit, "Remove queue %s with %" PRIu64 " %s?", name,
                             queue->size, qn_plural(queue->size, "task", "tasks"));
    }
    quern_queue_list_free(list);
    return yes;
}

static int remove_queue(struct by_name *by_name, const char *name)
{
    int exit_code = QN_EXIT_OK;
    bool force = false;
    if (!confirm_remove(by_name, name, &force, &exit_code)) {
        return exit_code;
    }
    quern_error err;
    return quern_inspector_remove_queue(by_name->inspector, name, force, &err) == QUERN_OK
               ? report_done(by_name, name, "removed")
               : report_refused(by_name, name, &err);
}

static int run_remove(struct qn_cli *cli)
{
    return for_each_name(cli, false, remove_queue);
}

static bool read_settings(const struct qn_args *args, quern_queue_settings *ret_settings)
{
    const char *text = qn_args_text(args, SET_MAX_PENDING);
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t number = 0;
    if (strcmp(text, "none") == 0) {
        ret_settings->max_pending = QUERN_MAX_PENDING_NONE;
        return true;
    }
    bool ok = qn_number_take(&cursor, &number) && cursor.at == cursor.end && number > 0 &&
              number <= QUERN_MAX_PENDING_MAX;
    ret_settings->max_pending = (int64_t)number;
    return ok;
}

static int set_queue(struct by_name *by_name, const char *name)
{
    quern_error err;
    quern_queue_settings settings = {0};
    (void)read_settings(&by_name->cli->args, &settings); /* checked by run_set */
    qn_cli_warn_odd_queue(by_name->cli, by_name->inspector, name, "name each queue by itself");
    return quern_inspector_set_queue(by_name->inspector, name, &settings, &err) == QUERN_OK
               ? report_done(by_name, name, "set")
               : report_refused(by_name, name, &err);
}

static int run_set(struct qn_cli *cli)
{
    quern_queue_settings settings = {0};
    if (!qn_args_given(&cli->args, SET_MAX_PENDING)) {
        return qn_cli_usage(cli, "nothing to set: give --max-pending");
    }
    if (!read_settings(&cli->args, &settings)) {
        return qn_cli_usage(cli, "--max-pending: '%s' is not none or a number from 1 to %lld",
                            qn_args_text(&cli->args, SET_MAX_PENDING),
                            (long long)QUERN_MAX_PENDING_MAX);
    }
    return for_each_name(cli, true, set_queue);
}

static int show_history(struct by_name *by_name, const char *name)
{
    const struct qn_args *args = &by_name->cli->args;
    quern_error err;
    quern_day days[HISTORY_DAYS_MAX];
    size_t count = (size_t)qn_args_number(args, HISTORY_DAYS, HISTORY_DAYS_DEFAULT);
    if (quern_inspector_history(by_name->inspector, name, count, days, &err) != QUERN_OK) {
        return qn_cli_fail(by_name->cli, &err);
    }
    if (!by_name->cli->json) {
        begin_page(by_name);
        if (args->operand_count > 1) {
            qn_field_text("queue", name);
        }
        qn_queue_show_history_print(days, count);
        return QN_EXIT_OK;
    }
    json_t *history = qn_queue_show_history_json(days, count);
    if (args->operand_count > 1) {
        history = qn_memory_must(json_pack("{s:o}", "days", qn_memory_must(history)));
        qn_json_set_text(history, "queue", name);
    }
    return add_document(by_name, history);
}

static int run_history(struct qn_cli *cli)
{
    return for_each_name(cli, false, show_history);
}

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list all queues with their tasks by state and their latency",
     .about = "Latency: how long the oldest pending task has waited.",
     .example = "  quern queue list\n  quern queue list --json | jq '.[].name'",
     .run = run_list},
    {.name = "inspect",
     .operands = "QUEUE...",
     .summary = "show one queue, or several",
     .example = "  quern queue inspect default",
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_inspect},
    {.name = "pause",
     .operands = "QUEUE...",
     .summary = "stop starting tasks of a queue; running ones continue",
     .about = "No task of it starts later than 1 s after this command returned.",
     .example = "  quern queue pause media",
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_pause},
    {.name = "resume",
     .operands = "QUEUE...",
     .summary = "end the pause of a queue",
     .example = "  quern queue resume media",
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_resume},
    {.name = "set",
     .operands = "QUEUE...",
     .summary = "change the settings of a queue, which is made if it does not exist",
     .about = "An enqueue beyond --max-pending fails (exit code 75), or waits (--wait-room).\n"
              "Go's clients do not obey it.",
     .example = "  quern queue set mail --max-pending 10000\n"
                "  quern queue set mail --max-pending none",
     .options = set_options,
     .option_count = QN_COUNT_OF(set_options),
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_set},
    {.name = "remove",
     .operands = "QUEUE...",
     .summary = "remove a queue; with --force also its tasks",
     .about = "A queue with active tasks is refused, even with --force.",
     .example = "  quern queue remove old --force --yes",
     .options = remove_options,
     .option_count = QN_COUNT_OF(remove_options),
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_remove},
    {.name = "history",
     .operands = "QUEUE...",
     .summary = "show how many tasks were processed and failed, by day (UTC)",
     .example = "  quern queue history default --days 30",
     .options = history_options,
     .option_count = QN_COUNT_OF(history_options),
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_history},
};
const struct qn_noun qn_noun_queue = {"queue", "list, inspect, pause, resume, set or remove queues",
                                      verbs, QN_COUNT_OF(verbs)};
