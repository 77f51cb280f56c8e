/* SPDX-License-Identifier: MIT */
/* match.c - --match of `quern task list|run|archive|delete|cancel|edit|move`, and of `quern trash`.
 *
 * A page reports how far the search has come, and the cursor to continue with. An action counts
 * first, shows some of the tasks and asks; a task that changed before its turn is left alone and
 * counted. While it works a terminal shows how far it is. */
#include "cli/verbs/task/match.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/enqueue/progress.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/terminal.h"

/* A fault of the query is one of the command line. */
static int fail(const struct qn_cli *cli, const quern_error *err)
{
    return err->code == QUERN_E_INVALID ? qn_cli_usage(cli, "%s", err->text)
                                        : qn_cli_fail(cli, err);
}

/* Borrows the tasks of the list; the caller frees the array. */
static const quern_task_info **tasks_of(const quern_task_list *list)
{
    size_t count = quern_task_list_size(list);
    const quern_task_info **tasks = qn_memory_must(qn_alloc_zero(count + 1, sizeof(void *)));
    for (size_t i = 0; i < count; i++) {
        tasks[i] = quern_task_list_at(list, i);
    }
    return tasks;
}

/* --- A page ------------------------------------------------------------------------------ */

static void report_search(const struct qn_cli *cli, const quern_task_list *list)
{
    size_t count = quern_task_list_size(list);
    uint64_t searched = quern_task_list_searched(list);
    const char *cursor = quern_task_list_cursor(list);
    if (cursor == NULL) {
        qn_cli_message(cli, "%zu %s; searched %" PRIu64 ", which is all", count,
                       qn_plural(count, "task", "tasks"), searched);
        return;
    }
    qn_cli_message(cli, "%zu %s; searched %" PRIu64 " of %" PRIu64 "; continue with --cursor '%s'",
                   count, qn_plural(count, "task", "tasks"), searched, quern_task_list_total(list),
                   cursor);
}

static int print_document(const quern_task_list *list, const quern_task_info *const *tasks)
{
    json_t *document =
        json_pack("{s:o,s:I,s:I}", "tasks", qn_task_table_array(tasks, quern_task_list_size(list)),
                  "searched", (json_int_t)quern_task_list_searched(list), "total",
                  (json_int_t)quern_task_list_total(list));
    document = qn_memory_must(document);
    if (quern_task_list_cursor(list) != NULL) {
        qn_json_set_text(document, "cursor", quern_task_list_cursor(list));
    }
    return qn_json_print(document);
}

int qn_task_match_list(const struct qn_cli *cli, quern_inspector *inspector,
                       const quern_search *search, const struct qn_task_table *shape)
{
    quern_error err;
    quern_task_list *list = NULL;
    if (quern_inspector_search(inspector, search, &list, &err) != QUERN_OK) {
        return fail(cli, &err);
    }
    const quern_task_info **tasks = tasks_of(list);
    int exit_code = QN_EXIT_OK;
    if (cli->json) {
        exit_code = print_document(list, tasks);
    } else {
        qn_task_table_print(shape, tasks, quern_task_list_size(list));
        report_search(cli, list);
    }
    qn_free(tasks);
    quern_task_list_free(list);
    return exit_code;
}

/* --- An action --------------------------------------------------------------------------- */

/* The first tasks that match. */
static int read_sample(const struct qn_cli *cli, quern_inspector *inspector,
                       const quern_search *search, quern_task_list **ret_list)
{
    quern_error err;
    quern_search first = *search;
    first.limit = QN_TASK_MATCH_SAMPLE;
    return quern_inspector_search(inspector, &first, ret_list, &err) == QUERN_OK ? QN_EXIT_OK
                                                                                 : fail(cli, &err);
}

static void print_sample(const quern_task_list *list, const quern_search *search)
{
    const quern_task_info **tasks = tasks_of(list);
    const struct qn_task_table shape = {.in_trash = search->in_trash != 0};
    qn_task_table_print(&shape, tasks, quern_task_list_size(list));
    qn_free(tasks);
}

/* As a table on the terminal; where stdout is none, it is for data. */
void qn_task_match_sample(const struct qn_cli *cli, const quern_search *search,
                          const quern_task_list *sample, uint64_t matched)
{
    size_t count = quern_task_list_size(sample);
    bool as_table = qn_terminal_width(stdout) > 0 && !cli->json;
    if (as_table) {
        print_sample(sample, search);
        (void)fflush(stdout);
    }
    for (size_t i = 0; !as_table && i < count; i++) {
        const quern_task_info *info = quern_task_list_at(sample, i);
        qn_cli_message(cli, "%s  %s  %s  %s", quern_task_info_id(info),
                       quern_task_state_name(quern_task_info_state(info)),
                       quern_task_info_queue(info), quern_task_info_type(info));
    }
    if (matched > count && count > 0) {
        qn_cli_message(cli, "and %" PRIu64 " more", matched - count);
    }
}

static void report_refused(const struct qn_cli *cli, const struct qn_task_match_act *act,
                           const quern_matching *matching)
{
    const char *one =
        act->refused_one != NULL ? act->refused_one : "is in a state that does not allow it";
    const char *many =
        act->refused_many != NULL ? act->refused_many : "are in a state that does not allow it";
    if (matching->refused > 0) {
        qn_cli_message(cli, "%" PRIu64 " more %s: left alone", matching->refused,
                       qn_plural(matching->refused, one, many));
    }
}

static quern_status apply(const struct qn_task_match_act *act, quern_inspector *inspector,
                          const quern_search *search, quern_matching *ret_matching,
                          quern_error *err)
{
    return act->apply != NULL
               ? act->apply(inspector, search, ret_matching, act->user, err)
               : quern_inspector_act_matching(inspector, act->action, search, ret_matching, err);
}

int qn_task_match_dry_run(const struct qn_cli *cli, const struct qn_task_match_act *act,
                          const quern_search *search, const quern_matching *counted,
                          const quern_task_list *sample)
{
    const quern_task_info **tasks = tasks_of(sample);
    size_t count = quern_task_list_size(sample);
    int exit_code = QN_EXIT_OK;
    if (cli->json) {
        exit_code = qn_json_print(
            json_pack("{s:b,s:s,s:I,s:I,s:I,s:o}", "dry_run", 1, "done", act->done, "count",
                      (json_int_t)counted->done, "matched", (json_int_t)counted->matched, "refused",
                      (json_int_t)counted->refused, "sample", qn_task_table_array(tasks, count)));
    } else {
        print_sample(sample, search);
        qn_cli_message(cli, "%" PRIu64 " %s would be %s", counted->done,
                       qn_plural(counted->done, "task", "tasks"), act->done);
        report_refused(cli, act, counted);
    }
    qn_free(tasks);
    return exit_code;
}

struct prepared {
    const struct qn_task_match_act *act;
    uint64_t whole; /* how many will be changed; 0: not known */
    struct qn_progress progress;
};

/* False: it ends here, with *ret_exit. */
static bool prepare(const struct qn_cli *cli, quern_inspector *inspector,
                    const quern_search *search, struct prepared *prepared, int *ret_exit)
{
    quern_error err;
    quern_matching counted = {0};
    quern_task_list *sample = NULL;
    const struct qn_task_match_act *act = prepared->act;
    if (act->yes && !act->dry_run) {
        return true;
    }
    quern_search dry = *search;
    dry.dry_run = 1;
    if (apply(act, inspector, &dry, &counted, &err) != QUERN_OK) {
        *ret_exit = fail(cli, &err);
        return false;
    }
    *ret_exit = read_sample(cli, inspector, search, &sample);
    if (*ret_exit != QN_EXIT_OK) {
        return false;
    }
    bool goes_on = false;
    if (act->dry_run) {
        *ret_exit = qn_task_match_dry_run(cli, act, search, &counted, sample);
    } else if (counted.done == 0) {
        goes_on = true; /* it reports that */
    } else {
        qn_task_match_sample(cli, search, sample, counted.matched);
        report_refused(cli, act, &counted);
        goes_on = qn_cli_confirm(cli, ret_exit, "%s %" PRIu64 " %s?", act->ask, counted.done,
                                 qn_plural(counted.done, "task", "tasks"));
    }
    prepared->whole = counted.done;
    quern_task_list_free(sample);
    return goes_on;
}

static void draw(const struct quern_matching *so_far, void *user)
{
    struct prepared *prepared = user;
    qn_progress_show(&prepared->progress, so_far->done, so_far->done, prepared->whole);
}

static int report_result(const struct qn_cli *cli, const struct qn_task_match_act *act,
                         const quern_matching *result, bool complete)
{
    if (cli->json) {
        return qn_json_print(json_pack(
            "{s:s,s:I,s:I,s:I,s:I,s:o*}", "done", act->done, "count", (json_int_t)result->done,
            "matched", (json_int_t)result->matched, "changed", (json_int_t)result->changed,
            "refused", (json_int_t)result->refused, "complete", complete ? NULL : json_false()));
    }
    printf("%" PRIu64 " %s %s%s\n", result->done, qn_plural(result->done, "task", "tasks"),
           act->done, complete ? "" : "; others that match were not changed");
    if (result->changed > 0) {
        qn_cli_message(cli, "%" PRIu64 " more had changed by then: left alone", result->changed);
    }
    report_refused(cli, act, result);
    return QN_EXIT_OK;
}

int qn_task_match_act(const struct qn_cli *cli, quern_inspector *inspector,
                      const quern_search *search, const struct qn_task_match_act *act)
{
    quern_error err;
    quern_matching result = {0};
    struct prepared prepared = {.act = act};
    quern_search drawn = *search;
    int exit_code = QN_EXIT_OK;
    if (!prepare(cli, inspector, search, &prepared, &exit_code)) {
        return exit_code;
    }
    drawn.on_progress = draw;
    drawn.user = &prepared;
    qn_progress_start(&prepared.progress);
    quern_status status = apply(act, inspector, &drawn, &result, &err);
    qn_progress_stop(&prepared.progress);
    if (status != QUERN_OK) {
        exit_code = fail(cli, &err);
    }
    if (status == QUERN_OK || result.done > 0) {
        (void)report_result(cli, act, &result, status == QUERN_OK);
    }
    return exit_code;
}
