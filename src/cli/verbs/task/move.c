/* SPDX-License-Identifier: MIT */
/* move.c - `quern task move`: puts tasks into another queue. */
#include "cli/verbs/task/move.h"

#include "cli/verbs/task/by_id.h"
#include "cli/verbs/task/match.h"
#include "cli/verbs/task_act.h"
#include "quern/search.h"

enum option { MOVE_TO, MOVE_QUEUE, MOVE_MATCH, MOVE_STATE, MOVE_YES, MOVE_DRY_RUN };
const struct qn_option qn_move_options[QN_MOVE_OPTION_COUNT] = {
    [MOVE_TO] = {"to", "QUEUE", "where they go; made if there is none", QN_OPTION_TEXT},
    [MOVE_QUEUE] = {"queue", "NAME", "where they are (default: all queues)", QN_OPTION_TEXT},
    [MOVE_MATCH] = {"match", "QUERY", "all that fulfil it, as of task list", QN_OPTION_TEXT},
    [MOVE_STATE] = {"state", "STATE", "with --match: in this state", QN_OPTION_TEXT},
    [MOVE_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG},
    [MOVE_DRY_RUN] = {"dry-run", NULL, "with --match: only count and show some", QN_OPTION_FLAG},
};

/* The rules that the table of options cannot express. */
static int check_options(const struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    bool by_match = qn_args_given(args, MOVE_MATCH);
    bool for_match = qn_args_given(args, MOVE_DRY_RUN) || qn_args_given(args, MOVE_STATE);
    if (by_match == (args->operand_count > 0)) {
        return qn_cli_usage(cli, "give either IDs or --match");
    }
    if (!by_match && for_match) {
        return qn_cli_usage(cli, "--state and --dry-run go with --match");
    }
    if (!qn_args_given(args, MOVE_TO)) {
        return qn_cli_usage(cli, "missing --to QUEUE");
    }
    return QN_EXIT_OK;
}

static quern_status move_one(quern_inspector *inspector, const quern_task_info *info,
                             const void *user, quern_error *err)
{
    return quern_inspector_task_move(inspector, quern_task_info_queue(info),
                                     quern_task_info_id(info), user, err);
}

static quern_status move_all(quern_inspector *inspector, const quern_search *search,
                             quern_matching *ret_matching, const void *user, quern_error *err)
{
    return quern_inspector_move_matching(inspector, user, search, ret_matching, err);
}

static int move_matching(const struct qn_cli *cli, quern_inspector *inspector)
{
    quern_search search = {.match = qn_args_text(&cli->args, MOVE_MATCH),
                           .queue = qn_args_text(&cli->args, MOVE_QUEUE)};
    const struct qn_task_match_act act = {
        .apply = move_all,
        .user = qn_args_text(&cli->args, MOVE_TO),
        .refused_one = "has a state that does not allow it, or would clash with a task there",
        .refused_many = "have a state that does not allow it, or would clash with tasks there",
        .ask = "Move",
        .done = "moved",
        .yes = qn_args_given(&cli->args, MOVE_YES),
        .dry_run = qn_args_given(&cli->args, MOVE_DRY_RUN)};
    int exit_code =
        qn_task_act_read_state(cli, qn_args_text(&cli->args, MOVE_STATE), &search.state);
    return exit_code == QN_EXIT_OK ? qn_task_match_act(cli, inspector, &search, &act) : exit_code;
}

int qn_move_run(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = check_options(cli);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &inspector);
    }
    if (exit_code == QN_EXIT_OK && qn_args_given(&cli->args, MOVE_MATCH)) {
        exit_code = move_matching(cli, inspector);
    } else if (exit_code == QN_EXIT_OK) {
        const struct qn_by_id by_id = {.queue = qn_args_text(&cli->args, MOVE_QUEUE),
                                       .act = move_one,
                                       .user = qn_args_text(&cli->args, MOVE_TO),
                                       .done = "moved"};
        exit_code = qn_by_id_run(cli, inspector, &by_id);
    }
    quern_inspector_free(inspector);
    return exit_code;
}
