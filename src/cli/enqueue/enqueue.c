/* SPDX-License-Identifier: MIT */
/* enqueue.c - `quern enqueue`: one task from the command line, or many from a file.
 *
 * The options fill one quern_task. With --from it is the template of every line (see import.c).
 * An option that is left out is 0, which is the default in that struct. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/enqueue/import.h"
#include "cli/enqueue/policy.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "message/id.h"
#include "task/limits.h"
#include "task/task.h"

enum option {
    OPTION_QUEUE,
    OPTION_ID,
    OPTION_RETRY_MAX,
    OPTION_TIMEOUT,
    OPTION_DEADLINE,
    OPTION_START_WITHIN,
    OPTION_DELAY,
    OPTION_PROCESS_AT,
    OPTION_UNIQUE,
    OPTION_UNIQUE_KEY,
    OPTION_UNIQUE_UNTIL,
    OPTION_ON_DUPLICATE,
    OPTION_RETENTION,
    OPTION_GROUP,
    OPTION_LIMIT_KEY,
    OPTION_HEADER,
    OPTION_FROM,
    OPTION_WAIT_ROOM,
    OPTION_PRIORITY
};

static const struct qn_option options[] = {
    [OPTION_QUEUE] = {"queue", "NAME", "into this queue (default: default)", QN_OPTION_TEXT},
    [OPTION_ID] = {"id", "ID", "your own id, unique in its queue", QN_OPTION_TEXT},
    [OPTION_RETRY_MAX] = {"retry-max", "N", "retries after failures (25), or never; also --retry",
                          QN_OPTION_COUNT, .max = INT32_MAX, .alias = "retry", .never = true},
    [OPTION_TIMEOUT] = {"timeout", "D", "limit of one run (30m), or never", QN_OPTION_DURATION,
                        .never = true},
    [OPTION_DEADLINE] = {"deadline", "T", "not started, and cancelled, after T", QN_OPTION_MOMENT},
    [OPTION_START_WITHIN] = {"start-within", "D", "archived unless it starts this long after due",
                             QN_OPTION_DURATION},
    [OPTION_DELAY] = {"delay", "D", "run it after this delay: 90, 1h30m, 2d (also --in)",
                      QN_OPTION_DURATION, .alias = "in"},
    [OPTION_PROCESS_AT] = {"process-at", "T", "at 2026-11-20T12:00:00Z or @1795000000 (also --at)",
                           QN_OPTION_MOMENT, .alias = "at"},
    [OPTION_UNIQUE] = {"unique", "D", "refuse an equal task this long; more in the manual",
                       QN_OPTION_DURATION, .min = 1000},
    [OPTION_UNIQUE_KEY] = {"unique-key", "KEY", "equal is what has this key in its queue",
                           QN_OPTION_TEXT, .unlisted = true},
    [OPTION_UNIQUE_UNTIL] = {"unique-until", "WHEN", "done, started, removed, ended, or expired",
                             QN_OPTION_TEXT, .unlisted = true},
    [OPTION_ON_DUPLICATE] = {"on-duplicate", "WHAT", "fail, ignore, replace its data, or debounce",
                             QN_OPTION_TEXT, .unlisted = true},
    [OPTION_RETENTION] = {"retention", "D", "keep the finished task and its result this long",
                          QN_OPTION_DURATION},
    [OPTION_GROUP] = {"group", "NAME", "store it as part of this group", QN_OPTION_TEXT},
    [OPTION_LIMIT_KEY] = {"limit-key", "KEY", "whose it is: keys take turns, have limits",
                          QN_OPTION_TEXT},
    [OPTION_HEADER] = {"header", "K=V", "a header; may be repeated", QN_OPTION_TEXT,
                       .repeats = true},
    [OPTION_FROM] = {"from", "FILE|-", "one task per line, as JSON; see the manual",
                     QN_OPTION_TEXT},
    [OPTION_WAIT_ROOM] = {"wait-room", "D", "wait this long while the queue is full",
                          QN_OPTION_DURATION},
    [OPTION_PRIORITY] = {"priority", "N", "-100 to 100: higher ones start first (SQLite only)",
                         QN_OPTION_COUNT, .min = -QN_PRIORITY_MAX, .max = QN_PRIORITY_MAX},
};

/* The K=V texts, cut in two. Freed as one block. */
struct headers {
    quern_header entries[QN_HEADER_COUNT_MAX];
    char *texts[QN_HEADER_COUNT_MAX];
    size_t count;
};

static int read_headers(const struct qn_cli *cli, struct headers *headers)
{
    const char *text = NULL;
    while ((text = qn_args_repeat(&cli->args, OPTION_HEADER, headers->count)) != NULL) {
        if (headers->count == QN_HEADER_COUNT_MAX) {
            return qn_cli_usage(cli, "--header: at most %d", QN_HEADER_COUNT_MAX);
        }
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text) {
            return qn_cli_usage(cli, "--header: '%s' is not NAME=VALUE", text);
        }
        char *copy = qn_memory_must(qn_str_dup(text));
        copy[equals - text] = '\0';
        headers->texts[headers->count] = copy;
        headers->entries[headers->count++] =
            (quern_header){.name = copy, .value = copy + (equals - text) + 1};
    }
    return QN_EXIT_OK;
}

static void free_headers(struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        qn_free(headers->texts[i]);
    }
}

static quern_task task_of_options(const struct qn_args *args, const struct headers *headers)
{
    return (quern_task){
        .queue = qn_args_text(args, OPTION_QUEUE),
        .id = qn_args_text(args, OPTION_ID),
        .retry_max = qn_args_number(args, OPTION_RETRY_MAX, 0),
        .timeout_ms = qn_args_number(args, OPTION_TIMEOUT, 0),
        .deadline_at_ms = qn_args_number(args, OPTION_DEADLINE, 0),
        .delay_ms = qn_args_number(args, OPTION_DELAY, 0),
        .process_at_ms = qn_args_number(args, OPTION_PROCESS_AT, 0),
        .unique_ms = qn_args_number(args, OPTION_UNIQUE, 0),
        .unique_key = qn_args_text(args, OPTION_UNIQUE_KEY),
        .retention_ms = qn_args_number(args, OPTION_RETENTION, 0),
        .group = qn_args_text(args, OPTION_GROUP),
        .start_within_ms = qn_args_number(args, OPTION_START_WITHIN, 0),
        .priority = (int32_t)qn_args_number(args, OPTION_PRIORITY, 0),
        .limit_key = qn_args_text(args, OPTION_LIMIT_KEY),
        .headers = headers->count > 0 ? headers->entries : NULL,
        .header_count = headers->count,
    };
}

/* Reads the payload from stdin; one byte more than the limit, so that the library refuses it. */
static int read_stdin(const struct qn_cli *cli, struct qn_buf *payload)
{
    char block[65536];
    size_t size = 0;
    while ((size = fread(block, 1, sizeof block, stdin)) > 0) {
        quern_status status = qn_buf_append(payload, block, size);
        if (status != QUERN_OK) {
            qn_cli_message(cli, "the payload on stdin is more than %zu bytes", payload->size_max);
            return status == QUERN_E_FULL ? QN_EXIT_DATA : QN_EXIT_TEMPORARY;
        }
    }
    if (ferror(stdin) != 0) {
        qn_cli_message(cli, "cannot read stdin");
        return QN_EXIT_FAILURE;
    }
    return QN_EXIT_OK;
}

/* The refusal as a document; the line on stderr comes, too. */
static void print_refusal(const quern_error *err, const quern_task_info *existing)
{
    json_t *object = qn_memory_must(
        json_pack("{s:s}", "status", err->code == QUERN_E_DUPLICATE ? "duplicate" : "conflict"));
    qn_json_set_bytes(object, "error", err->text, strlen(err->text));
    if (existing != NULL) {
        const char *id = quern_task_info_id(existing);
        qn_json_set_bytes(object, "existing_id", id, strlen(id));
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

static int enqueue_one(struct qn_cli *cli, const quern_task *task)
{
    quern_client *client = NULL;
    int exit_code = check_task(cli, task);
    if (exit_code == QN_EXIT_OK) {
        const quern_client_options how = {.room_wait_ms =
                                              qn_args_number(&cli->args, OPTION_WAIT_ROOM, 0)};
        exit_code = qn_cli_open_client(cli, &how, &client);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_task_info *info = NULL;
    if (quern_client_enqueue(client, task, &info, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
        if (cli->json && (err.code == QUERN_E_DUPLICATE || err.code == QUERN_E_CONFLICT)) {
            print_refusal(&err, info);
        }
    } else if (cli->json) {
        exit_code = qn_json_print(qn_json_task(info));
    } else {
        printf("%s\n", quern_task_info_id(info));
    }
    quern_task_info_free(info);
    quern_client_free(client);
    return exit_code;
}

static int enqueue_operands(struct qn_cli *cli, quern_task *task)
{
    const char *payload = qn_args_operand(&cli->args, 1);
    struct qn_buf input;
    qn_buf_init(&input, QN_PAYLOAD_SIZE_MAX);
    int exit_code = QN_EXIT_OK;
    task->type = qn_args_operand(&cli->args, 0);
    if (payload != NULL && strcmp(payload, "-") == 0) {
        exit_code = read_stdin(cli, &input);
        task->payload = input.size > 0 ? input.data : ""; /* empty is not the same as none */
        task->payload_size = input.size;
    } else if (payload != NULL) {
        task->payload = payload;
        task->payload_size = strlen(payload);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = enqueue_one(cli, task);
    }
    qn_buf_finish(&input);
    return exit_code;
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
    if (from != NULL && qn_args_given(args, OPTION_ID)) {
        return qn_cli_usage(cli, "--id cannot be given for all lines of --from");
    }
    if (qn_args_given(args, OPTION_DELAY) && qn_args_given(args, OPTION_PROCESS_AT)) {
        return qn_cli_usage(cli, "--delay and --process-at exclude each other");
    }
    /* In C "" is none; here it is a variable of a script that is empty by mistake. */
    if (qn_args_given(args, OPTION_GROUP) && qn_args_text(args, OPTION_GROUP)[0] == '\0') {
        return qn_cli_usage(cli, "--group: must not be empty");
    }
    return QN_EXIT_OK;
}

static int read_policies(const struct qn_cli *cli, quern_task *task)
{
    const char *until = qn_args_text(&cli->args, OPTION_UNIQUE_UNTIL);
    const char *policy = qn_args_text(&cli->args, OPTION_ON_DUPLICATE);
    if (until != NULL && !qn_policy_until(until, &task->unique_until)) {
        return qn_cli_usage(cli, "--unique-until: '%s' is not " QN_POLICY_UNTIL, until);
    }
    if (policy != NULL && !qn_policy_on_duplicate(policy, &task->on_duplicate)) {
        return qn_cli_usage(cli, "--on-duplicate: '%s' is not " QN_POLICY_ON_DUPLICATE, policy);
    }
    return QN_EXIT_OK;
}

static int run_enqueue(struct qn_cli *cli)
{
    struct headers headers = {.count = 0};
    int exit_code = check_options(cli);
    if (exit_code == QN_EXIT_OK) {
        exit_code = read_headers(cli, &headers);
    }
    if (exit_code == QN_EXIT_OK) {
        quern_task task = task_of_options(&cli->args, &headers);
        const char *from = qn_args_text(&cli->args, OPTION_FROM);
        int64_t room_wait_ms = qn_args_number(&cli->args, OPTION_WAIT_ROOM, 0);
        exit_code = read_policies(cli, &task);
        if (exit_code == QN_EXIT_OK) {
            exit_code = from != NULL ? qn_import(cli, from, &task, room_wait_ms)
                                     : enqueue_operands(cli, &task);
        }
    }
    free_headers(&headers);
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
