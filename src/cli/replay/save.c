/* SPDX-License-Identifier: MIT */
/* save.c - `quern task save`: prints a stored task as a line for `quern task replay`. */
#include "cli/replay/save.h"

#include "cli/output/json.h"
#include "cli/replay/task_file.h"

enum save_option { SAVE_QUEUE };
const struct qn_option qn_save_options[QN_SAVE_OPTION_COUNT] = {
    [SAVE_QUEUE] = {"queue", "NAME", "the queue it is in (default: all)", QN_OPTION_TEXT},
};

int qn_save(struct qn_cli *cli)
{
    quern_error err;
    quern_inspector *inspector = NULL;
    quern_task_info *info = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    const char *queue = qn_args_text(&cli->args, SAVE_QUEUE);
    const char *id = qn_args_operand(&cli->args, 0);
    if (quern_inspector_task_short(inspector, queue, id, &info, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else {
        exit_code = qn_json_print(qn_task_file_json(info));
    }
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    return exit_code;
}
