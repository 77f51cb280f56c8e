/* SPDX-License-Identifier: MIT */
/* worker.c - `quern worker list`: the workers whose heartbeats came, and their runs; and the table
 * of all verbs of workers. Commands to them are in worker/steer.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/short_id.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "cli/service.h"
#include "cli/verbs/worker/steer.h"

enum list_option { LIST_UTC };
static const struct qn_option list_options[] = {
    [LIST_UTC] = {"utc", NULL, "moments in UTC in place of elapsed times", QN_OPTION_FLAG},
};

static void add_moment(const struct qn_cli *cli, struct qn_table *table, int64_t at_ms)
{
    if (qn_args_given(&cli->args, LIST_UTC)) {
        qn_table_moment(table, at_ms);
    } else {
        qn_table_relative(table, at_ms, qn_clock_wall_ms(qn_clock_system()));
    }
}

static void print_workers(const struct qn_cli *cli, const quern_worker_list *list)
{
    static const struct qn_column columns[] = {
        {"WORKER", .flexible = true},
        {"HOST", .flexible = true},
        {"PID", .right = true},
        {"STATUS"},
        {"RUNS", .right = true},
        {"QUEUES", .flexible = true},
        {"STARTED"},
        {"HEARTBEAT"},
        {"EXCHANGE"},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < quern_worker_list_size(list); i++) {
        const quern_worker_info *worker = quern_worker_list_at(list, i);
        char runs[64];
        int used =
            snprintf(runs, sizeof runs, "%zu/%" PRIu32, worker->run_count, worker->concurrency);
        if (worker->hung > 0) {
            (void)snprintf(runs + used, sizeof runs - (size_t)used, ", %" PRIu32 " %s",
                           worker->hung, qn_plural(worker->hung, "hangs", "hang"));
        }
        qn_table_text(&table, worker->id);
        qn_table_text(&table, worker->host);
        qn_table_number(&table, (uint64_t)worker->pid);
        qn_table_text(&table, qn_service_status_name(worker->status));
        qn_table_text(&table, runs);
        qn_table_text(&table, worker->queues);
        add_moment(cli, &table, worker->started_at_ms);
        add_moment(cli, &table, worker->heartbeat_at_ms);
        add_moment(cli, &table, worker->exchanged_at_ms);
    }
    qn_table_print(&table);
    qn_table_finish(&table);
}

static void print_runs(const struct qn_cli *cli, const quern_worker_list *list)
{
    static const struct qn_column columns[] = {
        {"RUNS NOW"}, {"TYPE", .flexible = true},   {"QUEUE", .flexible = true}, {"STARTED"},
        {"UNTIL"},    {"WORKER", .flexible = true},
    };
    struct qn_table table;
    qn_table_init(&table, columns, QN_COUNT_OF(columns));
    for (size_t i = 0; i < quern_worker_list_size(list); i++) {
        const quern_worker_info *worker = quern_worker_list_at(list, i);
        for (size_t j = 0; j < worker->run_count; j++) {
            const quern_worker_run_info *run = &worker->runs[j];
            const char *id = run->id;
            size_t id_size =
                qn_terminal_width(stdout) > 0 ? qn_short_id_size(&id, 1, false) : SIZE_MAX;
            qn_short_id_cell(&table, id, id_size);
            qn_table_text(&table, run->type);
            qn_table_text(&table, run->queue);
            add_moment(cli, &table, run->started_at_ms);
            add_moment(cli, &table, run->deadline_at_ms);
            qn_table_text(&table, worker->id);
        }
    }
    if (table.cell_count > 0) {
        printf("\n");
        qn_table_print(&table);
    }
    qn_table_finish(&table);
}

/* On stderr, as `task list` has it: stdout stays data. */
static void report_total(const struct qn_cli *cli, const quern_worker_list *list)
{
    size_t count = quern_worker_list_size(list);
    size_t runs = 0;
    for (size_t i = 0; i < count; i++) {
        runs += quern_worker_list_at(list, i)->run_count;
    }
    qn_cli_message(cli, "%zu %s, %zu %s", count, qn_plural(count, "worker", "workers"), runs,
                   qn_plural(runs, "run", "runs"));
}

static json_t *run_json(const quern_worker_run_info *run)
{
    json_t *object =
        qn_memory_must(json_pack("{s:o,s:o}", "started_at_ms", qn_json_moment(run->started_at_ms),
                                 "deadline_at_ms", qn_json_moment(run->deadline_at_ms)));
    qn_json_set_text(object, "id", run->id);
    qn_json_set_text(object, "type", run->type);
    qn_json_set_text(object, "queue", run->queue);
    return object;
}

/* The patterns as an array; null: not known. */
static json_t *types_json(const char *types)
{
    json_t *array = types == NULL ? json_null() : json_array();
    while (types != NULL && types[0] != '\0') {
        size_t size = strcspn(types, "\n");
        (void)json_array_append_new(array, qn_memory_must(json_stringn(types, size)));
        types += size + (types[size] == '\n' ? 1 : 0);
    }
    return array;
}

static json_t *worker_json(const quern_worker_info *worker)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < worker->run_count; i++) {
        (void)json_array_append_new(runs, run_json(&worker->runs[i]));
    }
    json_t *object = qn_memory_must(json_pack(
        "{s:I,s:o,s:o,s:I,s:b,s:o}", "pid", (json_int_t)worker->pid, "started_at_ms",
        qn_json_moment(worker->started_at_ms), "heartbeat_at_ms",
        qn_json_moment(worker->heartbeat_at_ms), "concurrency", (json_int_t)worker->concurrency,
        "strict_priority", worker->strict_priority, "runs", runs));
    (void)json_object_set_new(object, "takes_commands", json_boolean(worker->takes_commands));
    (void)json_object_set_new(object, "hung", json_integer(worker->hung));
    (void)json_object_set_new(object, "exchanged_at_ms", qn_json_moment(worker->exchanged_at_ms));
    (void)json_object_set_new(object, "types", types_json(worker->types));
    qn_json_set_text(object, "id", worker->id);
    qn_json_set_text(object, "host", worker->host);
    qn_json_set_text(object, "status", qn_service_status_name(worker->status));
    qn_json_set_text(object, "queues", worker->queues);
    return object;
}

static int run_list(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_worker_list *list = NULL;
    if (quern_inspector_workers(inspector, &list, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < quern_worker_list_size(list); i++) {
            (void)json_array_append_new(array, worker_json(quern_worker_list_at(list, i)));
        }
        exit_code = qn_json_print(array);
    } else {
        print_workers(cli, list);
        print_runs(cli, list);
        report_total(cli, list);
    }
    quern_worker_list_free(list);
    quern_inspector_free(inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list the workers, their queues and what they run now",
     .about = "STARTED is the time since the start, UNTIL the time that a run has left,\n"
              "EXCHANGE the time since the broker last answered a request for tasks.",
     .example = "  quern worker list",
     .options = list_options,
     .option_count = QN_COUNT_OF(list_options),
     .run = run_list},
    {.name = "quiet",
     .operands = "[WORKER...]",
     .summary = "let workers take no more tasks; their runs go on",
     .about = "WORKER is an id, its first 8 characters or more, or HOST:PID.",
     .example = "  quern worker quiet 0199f3a1-7c2e-7d43 web-3:4711",
     .options = qn_worker_steer_options,
     .option_count = QN_STEER_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_worker_steer_quiet},
    {.name = "resume",
     .operands = "[WORKER...]",
     .summary = "let workers take tasks again",
     .about = "WORKER is an id, its first 8 characters or more, or HOST:PID.",
     .example = "  quern worker resume --all",
     .options = qn_worker_steer_options,
     .option_count = QN_STEER_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_worker_steer_resume},
    {.name = "stop",
     .operands = "[WORKER...]",
     .summary = "let workers end, as SIGTERM does: they drain first",
     .about = "A second stop ends the drain. A supervisor may start them again.",
     .example = "  quern worker stop 0199f3a1-7c2e-7d43 --wait",
     .options = qn_worker_stop_options,
     .option_count = QN_STEER_OPTION_COUNT + 1,
     .operand_max = SIZE_MAX,
     .run = qn_worker_steer_stop},
    {.name = "resize",
     .operands = "[WORKER...]",
     .summary = "change how many tasks workers run at a time, until they end",
     .about = "No run is ended for it: of too many, each ends as usual.",
     .example = "  quern worker resize 0199f3a1-7c2e-7d43 --concurrency 32",
     .options = qn_worker_resize_options,
     .option_count = QN_STEER_OPTION_COUNT + 1,
     .operand_max = SIZE_MAX,
     .run = qn_worker_steer_resize},
    {.name = "log-level",
     .operands = "[WORKER...]",
     .summary = "change what workers log, until they end",
     .about = "WORKER is an id, its first 8 characters or more, or HOST:PID.",
     .example = "  quern worker log-level 0199f3a1-7c2e-7d43 --level debug",
     .options = qn_worker_log_level_options,
     .option_count = QN_STEER_OPTION_COUNT + 1,
     .operand_max = SIZE_MAX,
     .run = qn_worker_steer_log_level},
};
const struct qn_noun qn_noun_worker = {"worker", "list, quiet, resume, stop, resize, log-level",
                                       verbs, QN_COUNT_OF(verbs)};
