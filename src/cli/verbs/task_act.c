/* SPDX-License-Identifier: MIT */
/* task_act.c - changes tasks by hand.
 *
 * Ids are done at once, one after the other: one that cannot be changed (it does not exist, its
 * state forbids it) does not stop the others, a broker that fails does. With --all every task that
 * matches is changed, queue by queue in bounded transactions; before that the user sees some of
 * them and must confirm their number, or give --yes. Tasks that are enqueued between the question
 * and the answer are included: the question has the number that matched then, the report the
 * number that was changed. */
#include "cli/verbs/task_act.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/short_id.h"
#include "cli/output/text.h"
#include "cli/verbs/task/match.h"
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
    OPTION_MATCH,
    OPTION_DRY_RUN,
    OPTION_THEN,                  /* of cancel */
    OPTION_NO_TRASH = OPTION_THEN /* of delete */
};

/* clang-format off */
#define ACT_OPTIONS \
    [OPTION_QUEUE] = {"queue", "NAME", "only in this queue (default: all)", QN_OPTION_TEXT}, \
    [OPTION_ALL] = {"all", NULL, "all that match, in place of IDs", QN_OPTION_FLAG}, \
    [OPTION_STATE] = {"state", "STATE", "with --all: in this state", QN_OPTION_TEXT}, \
    [OPTION_TYPE] = {"type", "TYPE", "with --all: of this type, or image:*", QN_OPTION_TEXT}, \
    [OPTION_TEXT] = {"text", "TEXT", "with --all: in the payload or the error", QN_OPTION_TEXT}, \
    [OPTION_GROUP] = {"group", "NAME", "with --all: of this group", QN_OPTION_TEXT}, \
    [OPTION_YES] = {"yes", NULL, "do not ask", QN_OPTION_FLAG}, \
    [OPTION_MATCH] = {"match", "QUERY", "all that fulfil it, as of task list", QN_OPTION_TEXT}, \
    [OPTION_DRY_RUN] = {"dry-run", NULL, "only count, and show some of them", QN_OPTION_FLAG}
/* clang-format on */

const struct qn_option qn_task_act_options[QN_TASK_ACT_OPTION_COUNT] = {ACT_OPTIONS};
const struct qn_option qn_task_act_cancel_options[QN_TASK_CANCEL_OPTION_COUNT] = {
    ACT_OPTIONS,
    [OPTION_THEN] = {"then", "retry|archive", "what happens to it (retry)", QN_OPTION_TEXT},
};
const struct qn_option qn_task_act_delete_options[QN_TASK_DELETE_OPTION_COUNT] = {
    ACT_OPTIONS,
    [OPTION_NO_TRASH] = {"no-trash", NULL, "for good: do not keep it for a day", QN_OPTION_FLAG},
};
#undef ACT_OPTIONS

/* The texts for the question and the report of an action. */
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
    quern_task_state state = qn_lifecycle_parse(name);
    if (state != 0) {
        *ret_state = (int32_t)state;
        return QN_EXIT_OK;
    }
    for (int i = QUERN_TASK_ACTIVE; i <= QUERN_TASK_AGGREGATING; i++) {
        names[count++] = quern_task_state_name((quern_task_state)i);
    }
    const char *nearest = qn_cli_nearest(name, names, count);
    if (nearest != NULL) {
        return qn_cli_usage(cli, "unknown state '%s'; did you mean '%s'?", name, nearest);
    }
    return qn_cli_usage(cli,
                        "unknown state '%s': pending, active, scheduled, retry, archived, "
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
    printf("%" PRIu64 " %s %s%s\n", count, qn_plural(count, "task", "tasks"), action->done,
           complete ? "" : "; others that match were not changed");
    return QN_EXIT_OK;
}

/* --- By id ----------------------------------------------------------------------------- */

struct by_id {
    const struct qn_cli *cli;
    quern_inspector *inspector;
    const struct action *action;
    json_t *tasks;  /* with --json: the result for each id; else NULL */
    bool is_single; /* one whole id: only the number of tasks is reported */
    uint64_t count;
    int worst; /* exit code */
};

static void note_id(struct by_id *by_id, const char *id, const quern_error *failure)
{
    if (by_id->tasks != NULL) {
        json_t *task =
            qn_memory_must(json_pack("{s:o}", "ok", json_boolean(failure == NULL ? 1 : 0)));
        qn_json_set_text(task, "id", id);
        if (failure != NULL) {
            qn_json_set_text(task, "error", failure->text);
        }
        (void)json_array_append_new(by_id->tasks, task);
    } else if (failure == NULL && !by_id->is_single) {
        char *safe = qn_text_safe(id, strlen(id));
        printf("%s %s\n", safe, by_id->action->done);
        qn_free(safe);
    }
}

/* As it stands, else as the short id of a task: then *ret_info is that task, for the caller to
 * free. So a whole id costs one request. One that names the millisecond alone is refused. */
static quern_status act_on_task(const struct by_id *by_id, const char *id,
                                quern_task_info **ret_info, quern_error *err)
{
    quern_task_info *info = NULL;
    quern_action action = by_id->action->action;
    const char *queue = qn_args_text(&by_id->cli->args, OPTION_QUEUE);
    quern_status status = quern_inspector_act(by_id->inspector, action, queue, id, err);
    if (status != QUERN_E_NOT_FOUND) {
        return status;
    }
    quern_error found_err;
    quern_status found = quern_inspector_task_short(by_id->inspector, queue, id, &info, &found_err);
    if (found == QUERN_OK && !qn_short_id_is_enough(quern_task_info_id(info), strlen(id))) {
        status = qn_error_set(err, QUERN_E_STATE,
                              "%s is too short to change a task: give %d characters or more of %s",
                              id, QN_SHORT_ID_TIMED_SIZE, quern_task_info_id(info));
        quern_task_info_free(info);
        return status;
    }
    if (found == QUERN_OK) {
        *ret_info = info;
        return quern_inspector_act(by_id->inspector, action, quern_task_info_queue(info),
                                   quern_task_info_id(info), err);
    }
    if (found != QUERN_E_NOT_FOUND) {
        *err = found_err;
        status = found;
    }
    return status;
}

/* False: the broker failed, and would fail for the next one, too. */
static bool act_on_id(struct by_id *by_id, const char *id)
{
    quern_error err;
    quern_task_info *info = NULL;
    quern_status status = act_on_task(by_id, id, &info, &err);
    by_id->is_single = by_id->is_single && info == NULL;
    note_id(by_id, info != NULL ? quern_task_info_id(info) : id, status == QUERN_OK ? NULL : &err);
    quern_task_info_free(info);
    if (status == QUERN_OK) {
        by_id->count++;
        return true;
    }
    int exit_code = qn_cli_fail(by_id->cli, &err);
    by_id->worst = exit_code > by_id->worst ? exit_code : by_id->worst;
    return status == QUERN_E_NOT_FOUND || status == QUERN_E_STATE || status == QUERN_E_INVALID ||
           status == QUERN_E_UNSUPPORTED;
}

static int act_by_id(const struct qn_cli *cli, quern_inspector *inspector,
                     const struct action *action)
{
    struct by_id by_id = {.cli = cli, .inspector = inspector, .action = action};
    size_t count = cli->args.operand_count;
    by_id.tasks = cli->json ? qn_memory_must(json_array()) : NULL;
    by_id.is_single = count == 1;
    bool going = true;
    for (size_t i = 0; i < count && going; i++) {
        going = act_on_id(&by_id, qn_args_operand(&cli->args, i));
        if (!going && i + 1 < count) {
            qn_cli_message(cli, "%zu more not tried", count - i - 1);
        }
    }
    if (by_id.is_single && by_id.count == 1) {
        json_decref(by_id.tasks);
        return report_count(cli, action, 1, true);
    }
    if (cli->json) {
        (void)qn_json_print(json_pack("{s:s,s:I,s:o}", "done", action->done, "count",
                                      (json_int_t)by_id.count, "tasks", by_id.tasks));
    }
    return by_id.worst;
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

static struct qn_task_match_act match_act_of(const struct qn_cli *cli, const struct action *action)
{
    return (struct qn_task_match_act){.action = action->action,
                                      .ask = action->ask,
                                      .done = action->done,
                                      .yes = qn_args_given(&cli->args, OPTION_YES),
                                      .dry_run = qn_args_given(&cli->args, OPTION_DRY_RUN)};
}

static bool ask_all(const struct qn_cli *cli, const struct action *action,
                    const quern_task_filter *filter, uint64_t count, int *ret_exit)
{
    return qn_cli_confirm(cli, ret_exit, "%s %" PRIu64 " %s %s of %s%s?", action->ask, count,
                          quern_task_state_name((quern_task_state)filter->state),
                          qn_plural(count, "task", "tasks"),
                          filter->queue != NULL ? "queue " : "all queues",
                          filter->queue != NULL ? filter->queue : "");
}

/* False: it ends here, with *ret_exit. */
static bool confirm_all(const struct qn_cli *cli, quern_inspector *inspector,
                        const struct action *action, quern_task_filter *filter, int *ret_exit)
{
    quern_error err;
    uint64_t count = 0;
    quern_task_list *sample = NULL;
    quern_task_filter first = *filter;
    const quern_search search = {.queue = filter->queue};
    const struct qn_task_match_act act = match_act_of(cli, action);
    if (act.yes && !act.dry_run) {
        return true;
    }
    *ret_exit = for_each_queue(cli, inspector, filter, count_matches, &count);
    if (*ret_exit != QN_EXIT_OK) {
        return false;
    }
    first.limit = QN_TASK_MATCH_SAMPLE;
    if (quern_inspector_tasks(inspector, &first, &sample, &err) != QUERN_OK) {
        *ret_exit = qn_cli_fail(cli, &err);
        return false;
    }
    bool goes_on = false;
    if (act.dry_run) {
        bool allowed = qn_lifecycle_allows((quern_task_state)filter->state, action->action);
        const quern_matching counted = {
            .matched = count, .done = allowed ? count : 0, .refused = allowed ? 0 : count};
        *ret_exit = qn_task_match_dry_run(cli, &act, &search, &counted, sample);
    } else {
        qn_task_match_sample(cli, &search, sample, count);
        goes_on = ask_all(cli, action, filter, count, ret_exit);
    }
    quern_task_list_free(sample);
    return goes_on;
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

/* With --match only the queue and the state are left to options. */
static int read_match(const struct qn_cli *cli, quern_task_filter *filter)
{
    const struct qn_args *args = &cli->args;
    if (qn_args_given(args, OPTION_TYPE) || qn_args_given(args, OPTION_TEXT) ||
        qn_args_given(args, OPTION_GROUP)) {
        return qn_cli_usage(cli, "with --match, type, text and group go into the query: "
                                 "type = mail:* and text ~ timeout");
    }
    *filter = (quern_task_filter){.queue = qn_args_text(args, OPTION_QUEUE)};
    return qn_task_act_read_state(cli, qn_args_text(args, OPTION_STATE), &filter->state);
}

/* The rules that the table of options cannot express; fills the filter. */
static int read_filter(const struct qn_cli *cli, const char *state_default,
                       quern_task_filter *filter)
{
    const struct qn_args *args = &cli->args;
    bool all = qn_args_given(args, OPTION_ALL);
    const char *state =
        qn_args_given(args, OPTION_STATE) ? qn_args_text(args, OPTION_STATE) : state_default;
    bool by_match = qn_args_given(args, OPTION_MATCH);
    if (all + by_match + (args->operand_count > 0) != 1) {
        return qn_cli_usage(cli, "give either IDs or --all or --match");
    }
    if (by_match) {
        return read_match(cli, filter);
    }
    if (!all && qn_args_given(args, OPTION_DRY_RUN)) {
        return qn_cli_usage(cli, "--dry-run goes with --all and --match");
    }
    if (!all && (qn_args_given(args, OPTION_STATE) || qn_args_given(args, OPTION_TYPE) ||
                 qn_args_given(args, OPTION_TEXT) || qn_args_given(args, OPTION_GROUP))) {
        return qn_cli_usage(cli, "--state, --type, --text and --group go with --all");
    }
    if (all && state == NULL) {
        return qn_cli_usage(cli, "--all needs --state, too");
    }
    *filter = (quern_task_filter){
        .queue = qn_args_text(args, OPTION_QUEUE),
        .type = qn_args_text(args, OPTION_TYPE),
        .text = qn_args_text(args, OPTION_TEXT),
        .group = qn_args_text(args, OPTION_GROUP),
    };
    return qn_task_act_read_state(cli, state, &filter->state);
}

static int act_matching(const struct qn_cli *cli, quern_inspector *inspector,
                        const struct action *action, const quern_task_filter *filter)
{
    const quern_search search = {.match = qn_args_text(&cli->args, OPTION_MATCH),
                                 .queue = filter->queue,
                                 .state = filter->state};
    const struct qn_task_match_act act = match_act_of(cli, action);
    return qn_task_match_act(cli, inspector, &search, &act);
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
    if (qn_args_given(&cli->args, OPTION_MATCH)) {
        exit_code = act_matching(cli, inspector, action, &filter);
    } else {
        exit_code = qn_args_given(&cli->args, OPTION_ALL) ? act_all(cli, inspector, action, &filter)
                                                          : act_by_id(cli, inspector, action);
    }
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
    quern_action action =
        qn_args_given(&cli->args, OPTION_NO_TRASH) ? QUERN_ACTION_DELETE : QUERN_ACTION_TRASH;
    return act(cli, &(struct action){action, "Delete", "deleted"}, NULL);
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
