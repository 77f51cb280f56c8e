/* SPDX-License-Identifier: MIT */
/* queue.c - `quern queue`: list, inspect, pause, resume, remove, history.
 *
 * All verbs go through the inspector. A queue exists once a task was put into it or a worker has
 * served it; other names are "no such queue" (exit code 1). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "cli/service.h"
#include "cli/verbs/queue_show.h"

#define HISTORY_DAYS_DEFAULT 10
#define HISTORY_DAYS_MAX 90

enum remove_option { REMOVE_FORCE, REMOVE_YES };
static const struct qn_option remove_options[] = {
    [REMOVE_FORCE] = {"force", NULL, "also with tasks in it, which are deleted", QN_OPTION_FLAG},
    [REMOVE_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},
};

enum history_option { HISTORY_DAYS };
static const struct qn_option history_options[] = {
    [HISTORY_DAYS] = {"days", "N", "so many days, today first (10, at most 90)", QN_OPTION_COUNT,
                      .min = 1, .max = HISTORY_DAYS_MAX},
};

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
            qn_queue_show_list_print(list, workers);
        }
    }
    quern_worker_list_free(workers);
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

/* The queue of the list with this name; NULL, and said so, when there is none. */
static const quern_queue_info *find_queue(const struct qn_cli *cli, const quern_queue_list *list,
                                          const char *name)
{
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        if (strcmp(queue->name, name) == 0) {
            return queue;
        }
    }
    qn_cli_message(cli, "no queue '%s'", name);
    return NULL;
}

static int run_inspect(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_queue_list *list = NULL;
    quern_worker_list *workers = NULL;
    const quern_queue_info *queue = NULL;
    if (quern_inspector_queues(inspector, &list, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if ((queue = find_queue(cli, list, qn_args_operand(&cli->args, 0))) == NULL) {
        exit_code = QN_EXIT_FAILURE;
    } else {
        workers = qn_service_workers(inspector);
        if (cli->json) {
            exit_code = qn_json_print(qn_queue_show_json(queue, workers));
        } else {
            qn_queue_show_print(queue, workers);
        }
    }
    quern_worker_list_free(workers);
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

/* What was done to which queue, on stdout. */
static int report_done(const struct qn_cli *cli, const char *done)
{
    const char *name = qn_args_operand(&cli->args, 0);
    if (cli->json) {
        json_t *object = qn_memory_must(json_object());
        qn_json_set_bytes(object, "queue", name, strlen(name));
        qn_json_set_bytes(object, "done", done, strlen(done));
        return qn_json_print(object);
    }
    char *safe = qn_text_safe(name, strlen(name));
    printf("%s %s\n", safe, done);
    qn_free(safe);
    return QN_EXIT_OK;
}

static int steer(struct qn_cli *cli,
                 quern_status (*act)(quern_inspector *, const char *, quern_error *),
                 const char *done)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    if (act(inspector, qn_args_operand(&cli->args, 0), &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else {
        exit_code = report_done(cli, done);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_pause(struct qn_cli *cli)
{
    return steer(cli, quern_inspector_pause, "paused");
}

static int run_resume(struct qn_cli *cli)
{
    return steer(cli, quern_inspector_resume, "resumed");
}

static bool confirm_remove(struct qn_cli *cli, quern_inspector *inspector, const char *name,
                           int *ret_exit)
{
    quern_error err;
    quern_queue_list *list = NULL;
    if (quern_inspector_queues(inspector, &list, &err) != QUERN_OK) {
        *ret_exit = qn_cli_fail(cli, &err);
        return false;
    }
    const quern_queue_info *queue = find_queue(cli, list, name);
    bool yes = false;
    if (queue == NULL) {
        *ret_exit = QN_EXIT_FAILURE;
    } else if (qn_args_given(&cli->args, REMOVE_YES)) {
        yes = true;
    } else {
        yes = qn_cli_confirm(cli, ret_exit, "Remove queue %s with %" PRIu64 " %s?", name,
                             queue->size, queue->size == 1 ? "task" : "tasks");
    }
    quern_queue_list_free(list);
    return yes;
}

static int run_remove(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    const char *name = qn_args_operand(&cli->args, 0);
    if (confirm_remove(cli, inspector, name, &exit_code)) {
        quern_error err;
        bool force = qn_args_given(&cli->args, REMOVE_FORCE);
        exit_code = quern_inspector_remove_queue(inspector, name, force, &err) == QUERN_OK
                        ? report_done(cli, "removed")
                        : qn_cli_fail(cli, &err);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_history(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_day days[HISTORY_DAYS_MAX];
    size_t count = (size_t)qn_args_number(&cli->args, HISTORY_DAYS, HISTORY_DAYS_DEFAULT);
    if (quern_inspector_history(inspector, qn_args_operand(&cli->args, 0), count, days, &err) !=
        QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        exit_code = qn_json_print(qn_queue_show_history_json(days, count));
    } else {
        qn_queue_show_history_print(days, count);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list all queues with their tasks by state and their latency",
     .about = "Latency: how long the oldest pending task has waited.",
     .example = "  quern queue list\n  quern queue list --json | jq '.[].name'",
     .run = run_list},
    {.name = "inspect",
     .operands = "QUEUE",
     .summary = "show one queue",
     .example = "  quern queue inspect default",
     .operand_min = 1,
     .operand_max = 1,
     .run = run_inspect},
    {.name = "pause",
     .operands = "QUEUE",
     .summary = "stop starting tasks of a queue; running ones end",
     .about = "No task of it starts later than 1 s after this command returned.",
     .example = "  quern queue pause media",
     .operand_min = 1,
     .operand_max = 1,
     .run = run_pause},
    {.name = "resume",
     .operands = "QUEUE",
     .summary = "end the pause of a queue",
     .example = "  quern queue resume media",
     .operand_min = 1,
     .operand_max = 1,
     .run = run_resume},
    {.name = "remove",
     .operands = "QUEUE",
     .summary = "remove a queue; with --force also its tasks",
     .about = "Active tasks are never removed: the queue is refused while it has some.",
     .example = "  quern queue remove old --force --yes",
     .options = remove_options,
     .option_count = QN_COUNT_OF(remove_options),
     .operand_min = 1,
     .operand_max = 1,
     .run = run_remove},
    {.name = "history",
     .operands = "QUEUE",
     .summary = "show how many tasks were processed and failed, by day (UTC)",
     .example = "  quern queue history default --days 30",
     .options = history_options,
     .option_count = QN_COUNT_OF(history_options),
     .operand_min = 1,
     .operand_max = 1,
     .run = run_history},
};
const struct qn_noun qn_noun_queue = {"queue", "list, inspect, pause, resume or remove queues",
                                      verbs, QN_COUNT_OF(verbs)};
