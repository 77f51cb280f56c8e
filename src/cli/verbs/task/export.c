/* SPDX-License-Identifier: MIT */
/* export.c - `quern task export`: prints the tasks that fulfil a query, one line of JSON each.
 *
 * The lines are those of `quern task save`, which `quern enqueue --from` takes. Tasks are read page
 * by page, so memory is bounded; while tasks move, one may be left out or come twice, and the
 * second of these is refused when they are enqueued. */
#include "cli/verbs/task/export.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/replay/task_file.h"
#include "cli/verbs/task/match.h"
#include "cli/verbs/task_act.h"

#define PAGE_SIZE 500

enum option { EXPORT_MATCH, EXPORT_QUEUE, EXPORT_STATE };
const struct qn_option qn_export_options[QN_EXPORT_OPTION_COUNT] = {
    [EXPORT_MATCH] = {"match", "QUERY", "that fulfil it, as of task list (default: all)",
                      QN_OPTION_TEXT},
    [EXPORT_QUEUE] = {"queue", "NAME", "only in this queue (default: all)", QN_OPTION_TEXT},
    [EXPORT_STATE] = {"state", "STATE", "only in this state (default: all)", QN_OPTION_TEXT},
};

/* Prints the page; false: stdout failed, which shows at the end. */
static bool print_page(const quern_task_list *list)
{
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        (void)qn_json_print(qn_task_file_json(quern_task_list_at(list, i)));
    }
    return ferror(stdout) == 0;
}

static int export_all(const struct qn_cli *cli, quern_inspector *inspector, quern_search search)
{
    quern_error err;
    uint64_t count = 0;
    char *cursor = NULL;
    bool goes_on = true;
    while (goes_on) {
        quern_task_list *list = NULL;
        search.cursor = cursor;
        if (quern_inspector_search(inspector, &search, &list, &err) != QUERN_OK) {
            qn_free(cursor);
            return err.code == QUERN_E_INVALID ? qn_cli_usage(cli, "%s", err.text)
                                               : qn_cli_fail(cli, &err);
        }
        const char *next = quern_task_list_cursor(list);
        count += quern_task_list_size(list);
        goes_on = print_page(list) && next != NULL;
        qn_free(cursor);
        cursor = next == NULL ? NULL : qn_memory_must(qn_str_dup(next));
        quern_task_list_free(list);
    }
    qn_free(cursor);
    qn_cli_message(cli, "%" PRIu64 " %s", count, qn_plural(count, "task", "tasks"));
    return QN_EXIT_OK;
}

int qn_export_run(struct qn_cli *cli)
{
    int32_t state = 0;
    quern_inspector *inspector = NULL;
    int exit_code = qn_task_act_read_state(cli, qn_args_text(&cli->args, EXPORT_STATE), &state);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &inspector);
    }
    if (exit_code == QN_EXIT_OK) {
        const quern_search search = {.match = qn_args_text(&cli->args, EXPORT_MATCH),
                                     .queue = qn_args_text(&cli->args, EXPORT_QUEUE),
                                     .state = state,
                                     .limit = PAGE_SIZE,
                                     .scan_max = QN_TASK_MATCH_SCAN_MAX};
        exit_code = export_all(cli, inspector, search);
    }
    quern_inspector_free(inspector);
    return exit_code;
}
