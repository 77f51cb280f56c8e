/* SPDX-License-Identifier: MIT */
/* enqueue.c - `quern enqueue`: one task from the command line, or many from a file.
 *
 * The options fill one quern_task. With --from it is the template of every line (see import.c).
 * An option that is left out is 0, which is the default in that struct. With --wait the task's end
 * is awaited, and its result is printed in place of its id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/arena.h"
#include "cli/cli.h"
#include "cli/enqueue/import.h"
#include "cli/memory.h"
#include "cli/otlp/otlp.h"
#include "cli/output/json.h"
#include "cli/task_options.h"
#include "cli/wait/wait.h"
#include "message/id.h"
#include "task/limits.h"
#include "task/task.h"
#include "task/trace/trace_headers.h"

enum option {
    OPTION_ID = QN_TASK_OPTION_COUNT,
    OPTION_PROCESS_AT,
    OPTION_FROM,
    OPTION_WAIT,
    OPTION_WAIT_ROOM,
    OPTION_WAIT_BROKER,
    OPTION_WAIT_TIMEOUT,
    OPTION_OTLP /* and the one behind it */
};

static const struct qn_option options[] = {
    QN_TASK_OPTIONS,
    [OPTION_ID] = {"id", "ID", "your own id, unique in its queue", QN_OPTION_TEXT},
    [OPTION_PROCESS_AT] = {"process-at", "T", "at 2026-11-20T12:00:00Z or @1795000000 (also --at)",
                           QN_OPTION_MOMENT, .alias = "at"},
    [OPTION_FROM] = {"from", "FILE|-", "one task per line, as JSON; see the manual",
                     QN_OPTION_TEXT},
    [OPTION_WAIT] = {"wait", NULL, "wait for its end; print its result; 3 if it failed",
                     QN_OPTION_FLAG},
    [OPTION_WAIT_ROOM] = {"wait-room", "D", "wait this long while the queue is full",
                          QN_OPTION_DURATION, .unlisted = true},
    [OPTION_WAIT_BROKER] = {"wait-broker", "D", "wait this long for a broker that is away",
                            QN_OPTION_DURATION, .unlisted = true},
    [OPTION_WAIT_TIMEOUT] = {"wait-timeout", "D", "with --wait: give up after this time",
                             QN_OPTION_DURATION, .unlisted = true},
    QN_OTLP_OPTIONS(OPTION_OTLP),
};

/* The refusal as a document; the line on stderr comes, too. */
static void print_refusal(const quern_error *err, const quern_task_info *existing)
{
    json_t *object = qn_memory_must(
        json_pack("{s:s}", "status", err->code == QUERN_E_DUPLICATE ? "duplicate" : "conflict"));
    qn_json_set_text(object, "error", err->text);
    if (existing != NULL) {
        const char *id = quern_task_info_id(existing);
        qn_json_set_text(object, "existing_id", id);
    } else {
        (void)json_object_set_new(object, "existing_id", json_null());
    }
    (void)qn_json_print(object);
}

/* By the library's own rules, before anything is opened: a task that is refused makes no database
 * file. */
static int check_task(const struct qn_cli *cli, const quern_task *task)
{
    quern_error err;
    struct qn_task prepared;
    struct qn_id_source ids;
    struct qn_arena arena = {0};
    qn_id_source_init(&ids);
    const struct qn_task_terms terms = {.now_wall_ms = qn_clock_wall_ms(qn_clock_system()),
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                        .ids = &ids};
    quern_status status = qn_task_prepare(task, &terms, &arena, &prepared, &err);
    qn_arena_finish(&arena);
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(cli, &err);
}

static quern_client_options client_options(const struct qn_cli *cli, const struct qn_otlp *otlp)
{
    int64_t wait_ms = qn_args_number(&cli->args, OPTION_WAIT_BROKER, 0);
    return (quern_client_options){.room_wait_ms = qn_args_number(&cli->args, OPTION_WAIT_ROOM, 0),
                                  .connect_wait_ms = wait_ms,
                                  .tracer = qn_otlp_tracer(otlp),
                                  .no_wait = qn_cli_no_retry(cli)};
}

/* Waits for the end of the task, and prints its result, or the task as it is then. */
static int await_end(const struct qn_cli *cli, quern_client *client, const quern_task_info *stored)
{
    quern_task_info *info = NULL;
    int64_t timeout_ms = qn_args_number(&cli->args, OPTION_WAIT_TIMEOUT, -1);
    int exit_code = qn_wait_for_end(cli, client, quern_task_info_id(stored),
                                    qn_wait_until_mono_ns(timeout_ms), &info);
    const quern_task_info *known = info != NULL ? info : stored;
    if (cli->json) {
        json_t *object = qn_json_task(known);
        (void)json_object_set_new(object, "existing",
                                  json_boolean(quern_task_info_existing(stored)));
        int print_code = qn_json_print(object);
        exit_code = exit_code != QN_EXIT_OK ? exit_code : print_code;
    } else if (info != NULL) {
        qn_wait_print_result(info);
    }
    quern_task_info_free(info);
    return exit_code;
}

/* status: of the enqueue, which stored it. */
static int print_stored(const struct qn_cli *cli, const quern_task_info *info, quern_status status)
{
    if (!cli->json) {
        printf("%s\n", quern_task_info_id(info));
        return QN_EXIT_OK;
    }
    json_t *object = qn_json_task(info);
    (void)json_object_set_new(object, "existing", json_boolean(quern_task_info_existing(info)));
    if (status != QUERN_OK) {
        qn_json_set_text(object, "status", quern_status_name(status));
    }
    return qn_json_print(object);
}

static int enqueue_one(struct qn_cli *cli, const quern_task *task, const quern_client_options *how)
{
    quern_client *client = NULL;
    int exit_code = check_task(cli, task);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_client(cli, how, &client);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_task_info *info = NULL;
    quern_status status = quern_client_enqueue(client, task, &info, &err);
    bool stored = status == QUERN_OK || (status == QUERN_E_NOT_REPLICATED && info != NULL);
    if (status != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    }
    if (!stored) {
        if (cli->json && (err.code == QUERN_E_DUPLICATE || err.code == QUERN_E_CONFLICT)) {
            print_refusal(&err, info);
        }
    } else {
        int end_code = qn_args_given(&cli->args, OPTION_WAIT) ? await_end(cli, client, info)
                                                              : print_stored(cli, info, status);
        exit_code = exit_code != QN_EXIT_OK ? exit_code : end_code;
    }
    quern_task_info_free(info);
    quern_client_free(client);
    return exit_code;
}

static int enqueue_operands(struct qn_cli *cli, struct qn_task_parts *parts, quern_task *task,
                            const quern_client_options *how)
{
    task->type = qn_args_operand(&cli->args, 0);
    int exit_code = qn_task_options_payload(cli, qn_args_operand(&cli->args, 1), parts, task);
    return exit_code == QN_EXIT_OK ? enqueue_one(cli, task, how) : exit_code;
}

/* The rules that the table of options cannot express. */
static int check_options(const struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const char *from = qn_args_text(args, OPTION_FROM);
    if (from == NULL && args->operand_count == 0) {
        return qn_cli_usage(cli, "missing TYPE (or use --from FILE)");
    }
    if (from != NULL && args->operand_count > 0) {
        return qn_cli_usage(cli, "--from takes the type from each line: leave '%s' out",
                            qn_args_operand(args, 0));
    }
    if (qn_cli_no_retry(cli) && qn_args_given(args, OPTION_WAIT_BROKER)) {
        return qn_cli_usage(cli, "--no-retry and --wait-broker exclude each other");
    }
    if (from != NULL && qn_args_given(args, OPTION_ID)) {
        return qn_cli_usage(cli, "--id cannot be given for all lines of --from");
    }
    if (from != NULL && qn_args_given(args, OPTION_WAIT)) {
        return qn_cli_usage(cli, "--wait is for one task, not for all lines of --from");
    }
    if (qn_args_given(args, OPTION_WAIT_TIMEOUT) && !qn_args_given(args, OPTION_WAIT)) {
        return qn_cli_usage(cli, "--wait-timeout needs --wait");
    }
    if (qn_args_given(args, QN_TASK_DELAY) && qn_args_given(args, OPTION_PROCESS_AT)) {
        return qn_cli_usage(cli, "--delay and --process-at exclude each other");
    }
    return QN_EXIT_OK;
}

/* What runs this program may have a trace of its own, as the handler of a task has. A header that
 * was given wins. */
static void continue_trace(quern_task *task)
{
    const struct qn_trace_headers headers = {task->headers, task->header_count};
    if (qn_trace_headers_parent(headers) == NULL) {
        task->traceparent = getenv("TRACEPARENT");
        task->tracestate = getenv("TRACESTATE");
    }
}

static int run_enqueue(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    struct qn_task_parts parts;
    quern_task task;
    qn_task_parts_init(&parts);
    int exit_code = check_options(cli);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_options_read(cli, &parts, &task);
    }
    if (exit_code == QN_EXIT_OK) {
        const char *from = qn_args_text(args, OPTION_FROM);
        task.id = qn_args_text(args, OPTION_ID);
        task.process_at_ms = qn_args_number(args, OPTION_PROCESS_AT, 0);
        if (qn_args_given(args, OPTION_WAIT) && task.retention_ms == 0) {
            task.retention_ms = QN_WAIT_RETENTION_MS;
        }
        continue_trace(&task);
        struct qn_otlp *otlp = NULL;
        exit_code = qn_otlp_open(cli, OPTION_OTLP, NULL, NULL, &otlp);
        const quern_client_options how = client_options(cli, otlp);
        if (exit_code == QN_EXIT_OK) {
            exit_code = from != NULL ? qn_import(cli, from, &task, &how)
                                     : enqueue_operands(cli, &parts, &task, &how);
        }
        qn_otlp_close(otlp);
    }
    qn_task_parts_finish(&parts);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "TYPE [PAYLOAD|-]",
    .summary = "put a task (payload -: from stdin), or a file of tasks, into a queue; print ids",
    .example = "  quern enqueue image:resize '{\"id\":7}' --queue media --delay 5m",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .operand_max = 2,
    .run = run_enqueue,
}};
const struct qn_noun qn_noun_enqueue = {"enqueue", "put a task, or a file of tasks, into a queue",
                                        verbs, 1};
