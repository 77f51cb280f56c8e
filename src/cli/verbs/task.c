/* SPDX-License-Identifier: MIT */
/* task.c - `quern task inspect`, and the table of all task verbs.
 *
 * list is in task_list.c; run, archive, delete and cancel are in task_act.c; save and replay are in
 * cli/replay. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/replay/replay.h"
#include "cli/replay/save.h"
#include "cli/verbs/task/edit.h"
#include "cli/verbs/task/explain.h"
#include "cli/verbs/task/export.h"
#include "cli/verbs/task/move.h"
#include "cli/verbs/task/runs.h"
#include "cli/verbs/task_act.h"
#include "cli/verbs/task_list.h"
#include "cli/wait/wait.h"
#include "inspect/explain/explain.h"
#include "task/limits.h"

enum inspect_option { INSPECT_QUEUE, INSPECT_PAYLOAD, INSPECT_RESULT };
static const struct qn_option inspect_options[] = {
    [INSPECT_QUEUE] = {"queue", "NAME", "the queue it is in (default: all)", QN_OPTION_TEXT},
    [INSPECT_PAYLOAD] = {"payload", NULL, "print the payload only, byte by byte", QN_OPTION_FLAG},
    [INSPECT_RESULT] = {"result", NULL, "print the result only, byte by byte", QN_OPTION_FLAG},
};

/* --- inspect --------------------------------------------------------------------------- */

static void print_times(const quern_task_info *info)
{
    qn_field_moment("enqueued at", quern_task_info_enqueued_at_ms(info));
    qn_field_moment("due at", quern_task_info_due_at_ms(info));
    qn_field_moment("archived at", quern_task_info_archived_at_ms(info));
    qn_field_moment("kept until", quern_task_info_expires_at_ms(info));
    qn_field_moment("grouped at", quern_task_info_grouped_at_ms(info));
    qn_field_moment("started at", quern_task_info_started_at_ms(info));
    qn_field_moment("failed at", quern_task_info_failed_at_ms(info));
    qn_field_moment("completed at", quern_task_info_completed_at_ms(info));
    qn_field_moment("deadline", quern_task_info_deadline_at_ms(info));
    qn_field_moment("start by", quern_task_info_start_by_at_ms(info));
    qn_field_limit("timeout", quern_task_info_timeout_ms(info));
    qn_field_run_limits(quern_task_info_kill_after_ms(info), quern_task_info_cpu_ms(info),
                        quern_task_info_memory_max(info));
    qn_field_duration("retention", quern_task_info_retention_ms(info));
}

static void print_given(const char *name, const char *text)
{
    if (text[0] != '\0') {
        qn_field_text(name, text);
    }
}

static void print_runs(const quern_task_info *info)
{
    char retried[96];
    int64_t retry_max = quern_task_info_retry_max(info);
    (void)snprintf(retried, sizeof retried,
                   retry_max < 0 ? "%" PRId64 ", retry-max never" : "%" PRId64 " of %" PRId64,
                   quern_task_info_retry_count(info), retry_max);
    qn_field_text("retried", retried);
    if (quern_task_info_crash_count(info) > 0) {
        qn_field_number("crashes", quern_task_info_crash_count(info));
    }
    const char *cause = quern_cause_name(quern_task_info_cause(info));
    if (quern_task_info_cause(info) != QUERN_CAUSE_NONE && cause != NULL) {
        qn_field_text("cause of run", cause);
    }
    print_given("worker", quern_task_info_worker(info));
    qn_field_moment("lease until", quern_task_info_lease_until_at_ms(info));
    if (quern_task_info_orphaned(info)) {
        qn_field_text("orphaned", "its lease has expired; it waits for recovery");
    }
    if (quern_task_info_progress(info) >= 0) {
        char progress[320];
        (void)snprintf(progress, sizeof progress, "%" PRId32 "%% %s",
                       quern_task_info_progress(info), quern_task_info_progress_note(info));
        qn_field_text("progress", progress);
    }
}

static void print_task(const quern_task_info *info)
{
    const char *state = quern_task_state_name(quern_task_info_state(info));
    size_t size = 0;
    qn_field_text("id", quern_task_info_id(info));
    qn_field_text("queue", quern_task_info_queue(info));
    qn_field_text("type", quern_task_info_type(info));
    qn_field_text("state", state != NULL ? state : "unknown");
    print_given("group", quern_task_info_group(info));
    if (quern_task_info_priority(info) != 0) {
        qn_field_number("priority", quern_task_info_priority(info));
    }
    print_given("limit key", quern_task_info_limit_key(info));
    print_times(info);
    print_runs(info);
    const char *error = quern_task_info_error(info);
    if (error != NULL && error[0] != '\0') {
        qn_field_lines("error", error);
    }
    const quern_header *headers = quern_task_info_headers(info);
    for (size_t i = 0; i < quern_task_info_header_count(info); i++) {
        char name[QN_NAME_SIZE_MAX + 16];
        (void)snprintf(name, sizeof name, "header %s", headers[i].name);
        char *safe = qn_text_safe(name, strlen(name));
        qn_field_text(safe, headers[i].value == NULL ? "" : headers[i].value);
        qn_free(safe);
    }
    const void *data = quern_task_info_payload(info, &size);
    qn_field_document("payload", data, size);
    data = quern_task_info_result(info, &size);
    if (data != NULL) {
        qn_field_document("result", data, size);
    }
}

struct inspection {
    struct qn_cli *cli;
    quern_inspector *inspector;
    json_t *documents; /* with --json and several ids: one for each id; else NULL */
    size_t printed;    /* pages of text */
};

/* Why it waits; NULL: it does not, or this could not be read. */
static const struct qn_reason *reason_of(const struct inspection *inspection,
                                         const quern_task_info *info, struct qn_reasons *reasons)
{
    if (qn_explain_task(inspection->inspector, info, reasons, NULL) != QUERN_OK) {
        return NULL;
    }
    for (size_t i = 0; i < reasons->count; i++) {
        if (reasons->items[i].holds_up) {
            return &reasons->items[i];
        }
    }
    return NULL;
}

static json_t *task_json(const quern_task_info *info, const struct qn_reason *reason)
{
    json_t *object = qn_memory_must(qn_json_task(info));
    (void)json_object_set_new(object, "lease_until_at_ms",
                              qn_json_moment(quern_task_info_lease_until_at_ms(info)));
    (void)json_object_set_new(object, "runs", qn_task_runs_json(info));
    qn_json_set_text(object, "waits_because", reason != NULL ? reason->because : "");
    qn_json_set_text(object, "what_to_do", reason != NULL ? reason->advice : "");
    return object;
}

static int show_task(struct inspection *inspection, const quern_task_info *info)
{
    struct qn_reasons reasons;
    const struct qn_reason *reason = reason_of(inspection, info, &reasons);
    if (inspection->cli->json) {
        json_t *object = task_json(info, reason);
        if (inspection->documents == NULL) {
            return qn_json_print(object);
        }
        (void)json_array_append_new(inspection->documents, object);
        return QN_EXIT_OK;
    }
    if (inspection->printed++ > 0) {
        printf("\n");
    }
    print_task(info);
    if (reason != NULL) {
        print_given("waits because", reason->because);
        print_given("what to do", reason->advice);
    }
    qn_task_runs_print(info);
    return QN_EXIT_OK;
}

/* The bytes as they are stored, for other programs: nothing is added, not even a line end. */
static int print_bytes(const struct qn_cli *cli, const quern_task_info *info)
{
    bool is_result = qn_args_given(&cli->args, INSPECT_RESULT);
    size_t size = 0;
    const void *data =
        is_result ? quern_task_info_result(info, &size) : quern_task_info_payload(info, &size);
    if (is_result && data == NULL) {
        qn_cli_message(cli, "task %s has no result", quern_task_info_id(info));
        return QN_EXIT_FAILURE;
    }
    if (size > 0) {
        (void)fwrite(data, 1, size, stdout); /* a failure shows at the end, in qn_terminal_finish */
    }
    return QN_EXIT_OK;
}

static void add_missing(json_t *documents, const char *id, const quern_error *err)
{
    json_t *object = qn_memory_must(json_object());
    qn_json_set_text(object, "id", id);
    qn_json_set_text(object, "error", err->text);
    (void)json_array_append_new(documents, object);
}

static int inspect(struct inspection *inspection, const char *id)
{
    struct qn_cli *cli = inspection->cli;
    bool is_raw =
        qn_args_given(&cli->args, INSPECT_PAYLOAD) || qn_args_given(&cli->args, INSPECT_RESULT);
    quern_error err;
    quern_task_info *info = NULL;
    if (quern_inspector_task_short(inspection->inspector, qn_args_text(&cli->args, INSPECT_QUEUE),
                                   id, &info, &err) != QUERN_OK) {
        if (inspection->documents != NULL) {
            add_missing(inspection->documents, id, &err);
        }
        return qn_cli_fail(cli, &err);
    }
    int exit_code = is_raw ? print_bytes(cli, info) : show_task(inspection, info);
    quern_task_info_free(info);
    return exit_code;
}

/* Of several tasks each is tried, until the broker fails; the exit code is the worst. */
static int run_inspect(struct qn_cli *cli)
{
    struct inspection inspection = {.cli = cli};
    size_t count = cli->args.operand_count;
    bool payload = qn_args_given(&cli->args, INSPECT_PAYLOAD);
    bool result = qn_args_given(&cli->args, INSPECT_RESULT);
    if (payload + result + cli->json > 1) {
        return qn_cli_usage(cli, "--payload, --result and --json exclude each other");
    }
    if (count > 1 && (payload || result)) {
        return qn_cli_usage(cli, "--payload and --result are for one task");
    }
    int worst = qn_cli_open_inspector(cli, false, &inspection.inspector);
    if (worst != QN_EXIT_OK) {
        return worst;
    }
    inspection.documents = cli->json && count > 1 ? qn_memory_must(json_array()) : NULL;
    for (size_t i = 0; i < count && (worst < QN_EXIT_USAGE || worst == QN_EXIT_DATA); i++) {
        int exit_code = inspect(&inspection, qn_args_operand(&cli->args, i));
        worst = exit_code > worst ? exit_code : worst;
    }
    if (inspection.documents != NULL) {
        (void)qn_json_print(inspection.documents);
    }
    quern_inspector_free(inspection.inspector);
    return worst;
}

/* --- The verbs ------------------------------------------------------------------------- */

#define ACT_VERB(verb_name, text, detail, shown, function)                                         \
    {                                                                                              \
        .name = (verb_name), .operands = "[ID...]", .summary = (text), .about = (detail),          \
        .example = (shown), .options = qn_task_act_options,                                        \
        .option_count = QN_TASK_ACT_OPTION_COUNT, .operand_max = SIZE_MAX, .run = (function)       \
    }

static const struct qn_verb verbs[] = {
    {.name = "list",
     .operands = "",
     .summary = "list tasks: one page of those that match all options",
     .about = "AT is when it is due, was archived, or is removed. On a terminal ids are short;\n"
              "all commands accept short ids.",
     .example = "  quern task list --state retry --state archived --since 1h --text timeout",
     .options = qn_task_list_options,
     .option_count = QN_TASK_LIST_OPTION_COUNT,
     .run = qn_task_list_run},
    {.name = "inspect",
     .operands = "ID...",
     .summary = "show everything about one task, or several",
     .about = "ID may be short, as `quern task list` shows it: the first 8 characters or more.",
     .example = "  quern task inspect 0199f3a1-7c2e-7d43-8a55-0d6f2e9b1c77",
     .options = inspect_options,
     .option_count = QN_COUNT_OF(inspect_options),
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = run_inspect},
    {.name = "explain",
     .operands = "ID...",
     .summary = "say why a task does not run, or what became of it",
     .about = "The first reason decides; the others hold, too.",
     .example = "  quern task explain 0199f3a1",
     .options = qn_task_explain_options,
     .option_count = QN_TASK_EXPLAIN_OPTION_COUNT,
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = qn_task_explain},
    {.name = "wait",
     .operands = "ID...",
     .summary = "wait until tasks have ended; print the result; exit 3 if one failed",
     .about = "It needs a --retention: a task without one is gone when it is done.",
     .example = "  quern task wait 0199f3a1 --timeout 5m",
     .options = qn_wait_options,
     .option_count = QN_WAIT_OPTION_COUNT,
     .operand_min = 1,
     .operand_max = SIZE_MAX,
     .run = qn_wait_run},
    {.name = "save",
     .operands = "ID",
     .summary = "print a task as one line of JSON, for a replay",
     .about = "The line can also be enqueued: quern enqueue --from FILE.",
     .example = "  quern task save 0199f3a1 > t.task",
     .options = qn_save_options,
     .option_count = QN_SAVE_OPTION_COUNT,
     .operand_min = 1,
     .operand_max = 1,
     .run = qn_save},
    {.name = "export",
     .operands = "",
     .summary = "print tasks as lines of JSON: all, or those of a query",
     .about = "The lines can be enqueued again: quern enqueue --from FILE.",
     .example = "  quern task export --match 'type = mail:*' > mail.jsonl",
     .options = qn_export_options,
     .option_count = QN_EXPORT_OPTION_COUNT,
     .run = qn_export_run},
    {.name = "replay",
     .operands = "FILE",
     .summary = "run a saved task once on a scratch broker, also in a debugger",
     .about = "Exit codes as of quern work --until-idle: 0 done, 3 the task failed or crashed.",
     .example = "  quern task replay t.task --handlers ./handlers.so --under gdb",
     .options = qn_replay_options,
     .option_count = QN_REPLAY_OPTION_COUNT,
     .operand_min = 1,
     .operand_max = 1,
     .run = qn_replay},
    ACT_VERB("run", "make tasks pending now: by their ids, or all of a state",
             "Not for tasks that are active or pending. Of several ids each is tried.",
             "  quern task run --all --state archived --queue default --yes", qn_task_act_run),
    ACT_VERB("archive", "archive tasks: by their ids, or all of a state",
             "Not for tasks that are active or archived.",
             "  quern task archive --all --state retry --type 'mail:*' --yes", qn_task_act_archive),
    {.name = "delete",
     .operands = "[ID...]",
     .summary = "delete tasks: by their ids, or all of a state",
     .about = "Not for active tasks. For a day `quern trash restore` brings them back.",
     .example = "  quern task delete --all --state completed --yes",
     .options = qn_task_act_delete_options,
     .option_count = QN_TASK_DELETE_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_task_act_delete},
    {.name = "edit",
     .operands = "[ID...]",
     .summary = "change the payload, the moment or options of tasks that wait",
     .about = "A task that was changed meanwhile stays. Not for active and completed ones.",
     .example = "  quern task edit 0199f3a1-7c2e-7d43-8a55 --payload '{\"n\":2}' --in 10m",
     .options = qn_edit_options,
     .option_count = QN_EDIT_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_edit_run},
    {.name = "move",
     .operands = "[ID...]",
     .summary = "put tasks that wait into another queue",
     .about = "With id, data, past, moment and unique lock. Not for active and completed ones.",
     .example = "  quern task move --match 'queue = mail and type = bulk:*' --to slow",
     .options = qn_move_options,
     .option_count = QN_MOVE_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_move_run},
    {.name = "cancel",
     .operands = "[ID...]",
     .summary = "cancel active tasks: by their ids, or all",
     .about = "Asks its worker to stop the run; --then chooses what happens to the task.",
     .example = "  quern task cancel 0199f3a1-7c2e-7d43-8a55-0d6f2e9b1c77 --then archive",
     .options = qn_task_act_cancel_options,
     .option_count = QN_TASK_CANCEL_OPTION_COUNT,
     .operand_max = SIZE_MAX,
     .run = qn_task_act_cancel},
};
#undef ACT_VERB
const struct qn_noun qn_noun_task = {
    "task", "list, inspect, explain, wait, export, replay, run, archive...", verbs,
    QN_COUNT_OF(verbs)};
