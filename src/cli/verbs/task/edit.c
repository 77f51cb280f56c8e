/* SPDX-License-Identifier: MIT */
/* edit.c - `quern task edit`: changes the payload, the moment or options of tasks that wait.
 *
 * Of several ids each is tried, until the broker fails: it is read, and written only if it is still
 * as it was read. */
#include "cli/verbs/task/edit.h"

#include <stdio.h>
#include <string.h>

#include "cli/memory.h"
#include "cli/output/short_id.h"
#include "cli/task_options.h"
#include "cli/verbs/task/by_id.h"
#include "cli/verbs/task/match.h"
#include "cli/verbs/task_act.h"
#include "quern/search.h"
#include "task/limits.h"

enum option {
    EDIT_QUEUE,
    EDIT_PAYLOAD,
    EDIT_DELAY,
    EDIT_PROCESS_AT,
    EDIT_RETRY_MAX,
    EDIT_TIMEOUT,
    EDIT_DEADLINE,
    EDIT_RETENTION,
    EDIT_BACKOFF,
    EDIT_KILL_AFTER,
    EDIT_CPU,
    EDIT_MEMORY,
    EDIT_PRIORITY,
    EDIT_MATCH,
    EDIT_STATE,
    EDIT_YES,
    EDIT_DRY_RUN
};
const struct qn_option qn_edit_options[QN_EDIT_OPTION_COUNT] = {
    [EDIT_QUEUE] = {"queue", "NAME", "the queue it is in (default: all)", QN_OPTION_TEXT},
    [EDIT_PAYLOAD] = {"payload", "TEXT|-", "the new payload; -: from stdin", QN_OPTION_TEXT},
    [EDIT_DELAY] = {"delay", "D", "due this long from now (also --in)", QN_OPTION_DURATION,
                    .min = 1, .alias = "in"},
    [EDIT_PROCESS_AT] = {"process-at", "T", "due at this moment (also --at)", QN_OPTION_MOMENT,
                         .alias = "at"},
    [EDIT_RETRY_MAX] = {"retry-max", "N", "retries after failures, or never", QN_OPTION_COUNT,
                        .max = INT32_MAX, .alias = "retry", .never = true},
    [EDIT_TIMEOUT] = {"timeout", "D", "limit of one run, or never", QN_OPTION_DURATION,
                      .never = true},
    [EDIT_DEADLINE] = {"deadline", "T", "not started, and cancelled, after T; or never",
                       QN_OPTION_MOMENT, .never = true},
    [EDIT_RETENTION] = {"retention", "D", "keep it this long when it is done, or never",
                        QN_OPTION_DURATION, .never = true},
    [EDIT_BACKOFF] = {"backoff", "WHAT", "asynq, fixed:D or exponential:D[:CAP]", QN_OPTION_TEXT},
    [EDIT_KILL_AFTER] = {"kill-after", "D", "of one run, as of enqueue, or never",
                         QN_OPTION_DURATION, .unlisted = true, .never = true},
    [EDIT_CPU] = {"cpu", "D", "of one run, as of enqueue, or never", QN_OPTION_DURATION,
                  .unlisted = true, .never = true},
    [EDIT_MEMORY] = {"memory", "SIZE", "of one run, as of enqueue, or never", QN_OPTION_SIZE,
                     .unlisted = true, .never = true},
    [EDIT_PRIORITY] = {"priority", "N", "-100 to 100 (SQLite only)", QN_OPTION_COUNT,
                       .min = -QN_PRIORITY_MAX, .max = QN_PRIORITY_MAX},
    [EDIT_MATCH] = {"match", "QUERY", "all that fulfil it, as of task list", QN_OPTION_TEXT},
    [EDIT_STATE] = {"state", "STATE", "with --match: in this state", QN_OPTION_TEXT},
    [EDIT_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},
    [EDIT_DRY_RUN] = {"dry-run", NULL, "with --match: only count and show some", QN_OPTION_FLAG},
};

/* The rules that the table of options cannot express. */
static int check_options(const struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    bool by_match = qn_args_given(args, EDIT_MATCH);
    bool for_match = qn_args_given(args, EDIT_DRY_RUN) || qn_args_given(args, EDIT_STATE);
    if (by_match == (args->operand_count > 0)) {
        return qn_cli_usage(cli, "give either IDs or --match");
    }
    if (!by_match && for_match) {
        return qn_cli_usage(cli, "--state and --dry-run go with --match");
    }
    if (qn_args_given(args, EDIT_DELAY) && qn_args_given(args, EDIT_PROCESS_AT)) {
        return qn_cli_usage(cli, "--delay and --process-at exclude each other");
    }
    for (size_t i = EDIT_PAYLOAD; i <= EDIT_PRIORITY; i++) {
        if (qn_args_given(args, i)) {
            return QN_EXIT_OK;
        }
    }
    return qn_cli_usage(cli, "say what is to be changed: --payload, --delay, ...");
}

static int read_edit(const struct qn_cli *cli, struct qn_task_parts *parts,
                     quern_task_edit *ret_edit)
{
    const struct qn_args *args = &cli->args;
    quern_task task = {.payload = NULL};
    int exit_code = check_options(cli);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_options_payload(cli, qn_args_text(args, EDIT_PAYLOAD), parts, &task);
    }
    const char *backoff = qn_args_text(args, EDIT_BACKOFF);
    if (exit_code == QN_EXIT_OK && backoff != NULL) {
        exit_code = qn_task_options_backoff(cli, backoff, &task.retry);
    }
    *ret_edit = (quern_task_edit){.payload = task.payload,
                                  .payload_size = task.payload_size,
                                  .set_payload = qn_args_given(args, EDIT_PAYLOAD),
                                  .set_priority = qn_args_given(args, EDIT_PRIORITY),
                                  .priority = (int32_t)qn_args_number(args, EDIT_PRIORITY, 0),
                                  .delay_ms = qn_args_number(args, EDIT_DELAY, 0),
                                  .process_at_ms = qn_args_number(args, EDIT_PROCESS_AT, 0),
                                  .retry_max = qn_args_number(args, EDIT_RETRY_MAX, 0),
                                  .timeout_ms = qn_args_number(args, EDIT_TIMEOUT, 0),
                                  .deadline_at_ms = qn_args_number(args, EDIT_DEADLINE, 0),
                                  .retention_ms = qn_args_number(args, EDIT_RETENTION, 0),
                                  .kill_after_ms = qn_args_number(args, EDIT_KILL_AFTER, 0),
                                  .cpu_ms = qn_args_number(args, EDIT_CPU, 0),
                                  .memory_max = qn_args_number(args, EDIT_MEMORY, 0),
                                  .set_retry = backoff != NULL,
                                  .retry = task.retry};
    return exit_code;
}

static quern_status edit_one(quern_inspector *inspector, const quern_task_info *info,
                             const void *user, quern_error *err)
{
    quern_task_edit edit = *(const quern_task_edit *)user;
    edit.seen = info;
    return quern_inspector_task_edit(inspector, quern_task_info_queue(info),
                                     quern_task_info_id(info), &edit, err);
}

static quern_status edit_all(quern_inspector *inspector, const quern_search *search,
                             quern_matching *ret_matching, const void *user, quern_error *err)
{
    return quern_inspector_edit_matching(inspector, user, search, ret_matching, err);
}

static int edit_matching(const struct qn_cli *cli, quern_inspector *inspector,
                         const quern_task_edit *edit)
{
    quern_search search = {.match = qn_args_text(&cli->args, EDIT_MATCH),
                           .queue = qn_args_text(&cli->args, EDIT_QUEUE)};
    const struct qn_task_match_act act = {.apply = edit_all,
                                          .user = edit,
                                          .ask = "Edit",
                                          .done = "edited",
                                          .yes = qn_args_given(&cli->args, EDIT_YES),
                                          .dry_run = qn_args_given(&cli->args, EDIT_DRY_RUN)};
    int exit_code =
        qn_task_act_read_state(cli, qn_args_text(&cli->args, EDIT_STATE), &search.state);
    return exit_code == QN_EXIT_OK ? qn_task_match_act(cli, inspector, &search, &act) : exit_code;
}

int qn_edit_run(struct qn_cli *cli)
{
    quern_task_edit edit;
    struct qn_task_parts parts;
    quern_inspector *inspector = NULL;
    qn_task_parts_init(&parts);
    int exit_code = read_edit(cli, &parts, &edit);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &inspector);
    }
    if (exit_code == QN_EXIT_OK && qn_args_given(&cli->args, EDIT_MATCH)) {
        exit_code = edit_matching(cli, inspector, &edit);
    } else if (exit_code == QN_EXIT_OK) {
        const struct qn_by_id by_id = {.queue = qn_args_text(&cli->args, EDIT_QUEUE),
                                       .act = edit_one,
                                       .user = &edit,
                                       .done = "edited"};
        exit_code = qn_by_id_run(cli, inspector, &by_id);
    }
    quern_inspector_free(inspector);
    qn_task_parts_finish(&parts);
    return exit_code;
}
