/* SPDX-License-Identifier: MIT */
/* task_act.c - changes tasks by hand.
 *
 * One id is done at once. With --all every task that matches is changed, queue by queue in bounded
 * transactions; before that the person is asked, with the number of tasks, or says --yes. What
 * somebody enqueues between the question and the answer is included: the count is what matched when
 * it was asked, the report says how many it were. */
#include "cli/verbs/task_act.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/output/json.h"
#include "task/lifecycle.h"

#define COUNT_PAGE_SIZE 1000

enum option {
    OPTION_QUEUE,
    OPTION_ALL,
    OPTION_STATE,
    OPTION_TYPE,
    OPTION_TEXT,
    OPTION_GROUP,
    OPTION_YES,
    OPTION_THEN
};

/* clang-format off */
#define ACT_OPTIONS \
    [OPTION_QUEUE] = {"queue", "NAME", "only in this queue (default: all)", QN_OPTION_TEXT}, \
    [OPTION_ALL] = {"all", NULL, "all that match, in place of one ID", QN_OPTION_FLAG}, \
    [OPTION_STATE] = {"state", "STATE", "with --all: in this state", QN_OPTION_TEXT}, \
    [OPTION_TYPE] = {"type", "TYPE", "with --all: of this type, or image:*", QN_OPTION_TEXT}, \
    [OPTION_TEXT] = {"text", "TEXT", "with --all: in the payload or the error", QN_OPTION_TEXT}, \
    [OPTION_GROUP] = {"group", "NAME", "with --all: of this group", QN_OPTION_TEXT}, \
    [OPTION_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG}
/* clang-format on */

const struct qn_option qn_task_act_options[QN_TASK_ACT_OPTION_COUNT] = {ACT_OPTIONS};
const struct qn_option qn_task_act_cancel_options[QN_TASK_CANCEL_OPTION_COUNT] = {
    ACT_OPTIONS,
    [OPTION_THEN] = {"then", "retry|archive", "what becomes of it (retry)", QN_OPTION_TEXT},
};
#undef ACT_OPTIONS

/* How an action is asked for and reported. */
struct action {
    quern_action action;
    const char *ask;  /* "Delete" */
    const char *done; /* "deleted" */
};

int qn_task_act_read_state(const struct qn_cli *cli, const char *name, int32_t *ret_state)
{
    const char *names[QUERN_TASK_STATE_COUNT];
    size_t count = 0;
    if (name == NULL) {
        *ret_state = 0;
        return QN_EXIT_OK;
    }
    quern_task_state state = qn_state_parse(name);
    if (state != 0) {
        *ret_state = (int32_t)state;
        return QN_EXIT_OK;
    }
    for (int i = QUERN_TASK_ACTIVE; i <= QUERN_TASK_AGGREGATING; i++) {
        names[count++] = quern_task_state_name((quern_task_state)i);
    }
    const char *nearest = qn_cli_nearest(name, names, count);
    if (nearest != NULL) {
        return qn_cli_usage(cli, "no state '%s'; did you mean '%s'?", name, nearest);
    }
    return qn_cli_usage(cli,
                        "no state '%s': pending, active, scheduled, retry, archived, "
                        "completed or aggregating",
                        name);
}

static int report_count(const struct qn_cli *cli, const struct action *action, uint64_t count,
                        bool complete)
{
    if (cli->json) {
        return qn_json_print(json_pack("{s:s,s:I,s:o*}", "done", action->done, "count",
                                       (json_int_t)count, "complete",
                                       complete ? NULL : json_false()));
    }
    printf("%" PRIu64 " %s %s%s\n", count, count == 1 ? "task" : "tasks", action->done,
           complete ? "" : "; others that match are left as they were");
    return QN_EXIT_OK;
}

static int act_one(const struct qn_cli *cli, quern_inspector *inspector,
                   const struct action *action)
{
    quern_error err;
    if (quern_inspector_act(inspector, action->action, qn_args_text(&cli->args, OPTION_QUEUE),
                            qn_args_operand(&cli->args, 0), &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    return report_count(cli, action, 1, true);
}

/* --- All that match -------------------------------------------------------------------- */

/* Calls `each` with the filter set to each queue it means. */
static int for_each_queue(const struct qn_cli *cli, quern_inspector *inspector,
                          quern_task_filter *filter,
                          int (*each)(const struct qn_cli *, quern_inspector *,
                                      const quern_task_filter *, void *),
                          void *user)
{
    if (filter->queue != NULL) {
        return each(cli, inspector, filter, user);
    }
    quern_error err;
    quern_queue_list *list = NULL;
    if (quern_inspector_queues(inspector, &list, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    int exit_code = QN_EXIT_OK;
    for (size_t i = 0; i < quern_queue_list_size(list) && exit_code == QN_EXIT_OK; i++) {
        filter->queue = quern_queue_list_at(list, i)->name;
        exit_code = each(cli, inspector, filter, user);
    }
    filter->queue = NULL;
    quern_queue_list_free(list);
    return exit_code;
}

static int count_matches(const struct qn_cli *cli, quern_inspector *inspector,
                         const quern_task_filter *filter, void *user)
{
    uint64_t *count = user;
    quern_task_filter page = *filter;
    page.limit = COUNT_PAGE_SIZE;
    size_t size = COUNT_PAGE_SIZE;
    for (page.offset = 0; size == COUNT_PAGE_SIZE; page.offset += size) {
        quern_error err;
        quern_task_list *list = NULL;
        if (quern_inspector_tasks(inspector, &page, &list, &err) != QUERN_OK) {
            return qn_cli_fail(cli, &err);
        }
        size = quern_task_list_size(list);
        *count += size;
        quern_task_list_free(list);
    }
    return QN_EXIT_OK;
}

struct bulk {
    const struct action *action;
    uint64_t count;
};

static int act_on_queue(const struct qn_cli *cli, quern_inspector *inspector,
                        const quern_task_filter *filter, void *user)
{
    struct bulk *bulk = user;
    quern_error err;
    uint64_t count = 0;
    quern_status status =
        quern_inspector_act_all(inspector, bulk->action->action, filter, &count, &err);
    bulk->count += count;
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(cli, &err);
}

static bool confirm_all(const struct qn_cli *cli, quern_inspector *inspector,
                        const struct action *action, quern_task_filter *filter, int *ret_exit)
{
    uint64_t count = 0;
    if (qn_args_given(&cli->args, OPTION_YES)) {
        return true;
    }
    *ret_exit = for_each_queue(cli, inspector, filter, count_matches, &count);
    if (*ret_exit != QN_EXIT_OK) {
        return false;
    }
    return qn_cli_confirm(cli, ret_exit, "%s %" PRIu64 " %s %s of %s%s?", action->ask, count,
                          quern_task_state_name((quern_task_state)filter->state),
                          count == 1 ? "task" : "tasks",
                          filter->queue != NULL ? "queue " : "all queues",
                          filter->queue != NULL ? filter->queue : "");
}

static int act_all(const struct qn_cli *cli, quern_inspector *inspector,
                   const struct action *action, quern_task_filter *filter)
{
    int exit_code = QN_EXIT_OK;
    if (!confirm_all(cli, inspector, action, filter, &exit_code)) {
        return exit_code;
    }
    struct bulk bulk = {.action = action};
    exit_code = for_each_queue(cli, inspector, filter, act_on_queue, &bulk);
    int reported = report_count(cli, action, bulk.count, exit_code == QN_EXIT_OK);
    return exit_code != QN_EXIT_OK ? exit_code : reported;
}

/* --- The verbs ------------------------------------------------------------------------- */

/* What the table of options cannot say; fills the filter. */
static int read_filter(const struct qn_cli *cli, const char *state_default,
                       quern_task_filter *filter)
{
    const struct qn_args *args = &cli->args;
    bool all = qn_args_given(args, OPTION_ALL);
    const char *state =
        qn_args_given(args, OPTION_STATE) ? qn_args_text(args, OPTION_STATE) : state_default;
    if (all == (args->operand_count == 1)) {
        return qn_cli_usage(cli, "wants either an ID or --all");
    }
    if (!all && (qn_args_given(args, OPTION_STATE) || qn_args_given(args, OPTION_TYPE) ||
                 qn_args_given(args, OPTION_TEXT) || qn_args_given(args, OPTION_GROUP))) {
        return qn_cli_usage(cli, "--state, --type, --text and --group go with --all");
    }
    if (all && state == NULL) {
        return qn_cli_usage(cli, "--all wants --state too");
    }
    *filter = (quern_task_filter){
        .queue = qn_args_text(args, OPTION_QUEUE),
        .type = qn_args_text(args, OPTION_TYPE),
        .text = qn_args_text(args, OPTION_TEXT),
        .group = qn_args_text(args, OPTION_GROUP),
    };
    return qn_task_act_read_state(cli, state, &filter->state);
}

static int act(struct qn_cli *cli, const struct action *action, const char *state_default)
{
    quern_task_filter filter = {.state = 0};
    quern_inspector *inspector = NULL;
    int exit_code = read_filter(cli, state_default, &filter);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &inspector);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    exit_code = qn_args_given(&cli->args, OPTION_ALL) ? act_all(cli, inspector, action, &filter)
                                                      : act_one(cli, inspector, action);
    quern_inspector_free(inspector);
    return exit_code;
}

int qn_task_act_run(struct qn_cli *cli)
{
    return act(cli, &(struct action){QUERN_ACTION_RUN, "Run", "made pending"}, NULL);
}

int qn_task_act_archive(struct qn_cli *cli)
{
    return act(cli, &(struct action){QUERN_ACTION_ARCHIVE, "Archive", "archived"}, NULL);
}

int qn_task_act_delete(struct qn_cli *cli)
{
    return act(cli, &(struct action){QUERN_ACTION_DELETE, "Delete", "deleted"}, NULL);
}

int qn_task_act_cancel(struct qn_cli *cli)
{
    const char *then = qn_args_text(&cli->args, OPTION_THEN);
    struct action action = {QUERN_ACTION_CANCEL_RETRY, "Cancel", "asked to stop"};
    if (then != NULL && strcmp(then, "archive") == 0) {
        action.action = QUERN_ACTION_CANCEL_ARCHIVE;
    } else if (then != NULL && strcmp(then, "retry") != 0) {
        return qn_cli_usage(cli, "--then: '%s' is neither retry nor archive", then);
    }
    return act(cli, &action, "active");
}
