/* SPDX-License-Identifier: MIT */
/* wait.c - waits for the end of tasks.
 *
 * The library sleeps until the broker reports an end (quern_client_wait). The exit code is the
 * outcome, so a shell can use a task as if it were a command: stdout is the result, as the handler
 * wrote it. Several tasks are waited for one after the other; the ends of those behind are not
 * missed, as tasks that have ended are read. */
#include "cli/wait/wait.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"

enum option { WAIT_QUEUE, WAIT_TIMEOUT };
const struct qn_option qn_wait_options[QN_WAIT_OPTION_COUNT] = {
    [WAIT_QUEUE] = {"queue", "NAME", "the queue it is in (default: all)", QN_OPTION_TEXT},
    [WAIT_TIMEOUT] = {"timeout", "D", "give up after this time (default: never)",
                      QN_OPTION_DURATION},
};

/* --- One task --------------------------------------------------------------------------- */

int64_t qn_wait_until_mono_ns(int64_t timeout_ms)
{
    int64_t now_ns = qn_clock_mono_ns();
    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now_ns) / QN_NS_PER_MS
               ? INT64_MAX
               : now_ns + timeout_ms * QN_NS_PER_MS;
}

static int64_t left_ms(int64_t until_mono_ns)
{
    int64_t left_ns = until_mono_ns - qn_clock_mono_ns();
    if (until_mono_ns == INT64_MAX) {
        return QUERN_TIMEOUT_NEVER;
    }
    return left_ns > 0 ? (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS : 0;
}

static void report_archived(const struct qn_cli *cli, const quern_task_info *info)
{
    const char *error = quern_task_info_error(info);
    bool has_error = error != NULL && error[0] != '\0';
    qn_cli_message(cli, "task %s is archived%s%s", quern_task_info_id(info),
                   has_error ? ": " : " without an error", has_error ? error : "");
}

int qn_wait_for_end(const struct qn_cli *cli, quern_client *client, const char *id,
                    int64_t until_mono_ns, quern_task_info **ret_info)
{
    quern_error err;
    quern_task_info *info = NULL;
    if (quern_client_wait(client, id, left_ms(until_mono_ns), &info, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    *ret_info = info;
    if (quern_task_info_state(info) == QUERN_TASK_COMPLETED) {
        return QN_EXIT_OK;
    }
    report_archived(cli, info);
    return QN_EXIT_TASKS_FAILED;
}

void qn_wait_print_result(const quern_task_info *info)
{
    size_t size = 0;
    const void *data = quern_task_info_result(info, &size);
    if (data != NULL && size > 0) {
        (void)fwrite(data, 1, size, stdout); /* a failure shows at the end, in qn_terminal_finish */
    }
}

/* --- The verb --------------------------------------------------------------------------- */

struct waiting {
    struct qn_cli *cli;
    quern_inspector *inspector; /* for ids that are short */
    quern_client *client;
    json_t *documents; /* with --json; else NULL */
    int64_t until_mono_ns;
};

static void print_end(struct waiting *waiting, const quern_task_info *info)
{
    if (waiting->documents != NULL) {
        (void)json_array_append_new(waiting->documents, qn_memory_must(qn_json_task(info)));
    } else if (waiting->cli->args.operand_count == 1) {
        qn_wait_print_result(info);
    } else {
        const char *id = quern_task_info_id(info);
        char *safe = qn_text_safe(id, strlen(id));
        printf("%s %s\n", safe, quern_task_state_name(quern_task_info_state(info)));
        (void)fflush(stdout);
        qn_free(safe);
    }
}

/* One that is not there, or has not ended: only among several. */
static void note_missing(struct waiting *waiting, const char *id, const char *error)
{
    if (waiting->documents != NULL && waiting->cli->args.operand_count > 1) {
        json_t *object = qn_memory_must(json_object());
        qn_json_set_text(object, "id", id);
        qn_json_set_text(object, "error", error);
        (void)json_array_append_new(waiting->documents, object);
    }
}

static int wait_for(struct waiting *waiting, const char *given)
{
    quern_error err;
    quern_task_info *info = NULL;
    const char *queue = qn_args_text(&waiting->cli->args, WAIT_QUEUE);
    if (quern_inspector_task_short(waiting->inspector, queue, given, &info, &err) != QUERN_OK) {
        note_missing(waiting, given, err.text);
        return qn_cli_fail(waiting->cli, &err);
    }
    char *id = qn_memory_must(qn_str_dup(quern_task_info_id(info)));
    quern_task_info_free(info);
    info = NULL;
    int exit_code =
        qn_wait_for_end(waiting->cli, waiting->client, id, waiting->until_mono_ns, &info);
    if (info != NULL) {
        print_end(waiting, info);
    } else {
        note_missing(waiting, id, exit_code == QN_EXIT_TEMPORARY ? "has not ended" : "is gone");
    }
    quern_task_info_free(info);
    qn_free(id);
    return exit_code;
}

static int wait_for_all(struct waiting *waiting)
{
    int worst = QN_EXIT_OK;
    const struct qn_args *args = &waiting->cli->args;
    waiting->documents = waiting->cli->json ? qn_memory_must(json_array()) : NULL;
    for (size_t i = 0; i < args->operand_count && worst < QN_EXIT_BROKER; i++) {
        int exit_code = wait_for(waiting, qn_args_operand(args, i));
        worst = exit_code > worst ? exit_code : worst;
    }
    if (waiting->documents != NULL && args->operand_count == 1) {
        json_t *only = json_incref(json_array_get(waiting->documents, 0));
        json_decref(waiting->documents);
        return only == NULL || qn_json_print(only) == QN_EXIT_OK ? worst : QN_EXIT_FAILURE;
    }
    if (waiting->documents != NULL) {
        (void)qn_json_print(waiting->documents);
    }
    return worst;
}

int qn_wait_run(struct qn_cli *cli)
{
    struct waiting waiting = {.cli = cli};
    const quern_client_options how = {.no_wait = qn_cli_no_retry(cli)};
    waiting.until_mono_ns = qn_wait_until_mono_ns(qn_args_number(&cli->args, WAIT_TIMEOUT, -1));
    int exit_code = qn_cli_open_inspector(cli, false, &waiting.inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_client(cli, &how, &waiting.client);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = wait_for_all(&waiting);
    }
    quern_client_free(waiting.client);
    quern_inspector_free(waiting.inspector);
    return exit_code;
}
