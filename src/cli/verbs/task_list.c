/* SPDX-License-Identifier: MIT */
/* task_list.c - `quern task list`: one page of the tasks that match.
 *
 * The broker filters and cuts the page out, unless --since, --sort or a second --state is given:
 * then up to GATHER_MAX tasks that match the other options are read, and the page is cut out here.
 * How many there are in all is reported on stderr, so that stdout stays data. On a terminal ids are
 * shortened, unless --wide is given. */
#include "cli/verbs/task_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/moment.h"
#include "base/text/plural.h"
#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/verbs/task/match.h"
#include "cli/verbs/task/table.h"
#include "cli/verbs/task_act.h"

#define PAGE_SIZE_DEFAULT 30
#define PAGE_SIZE_MAX 10000
#define GATHER_PAGE_SIZE 1000
#define GATHER_MAX 10000 /* with their payloads they are in memory at once */
#define GATHER_LISTS_MAX (GATHER_MAX / GATHER_PAGE_SIZE + QUERN_TASK_STATE_COUNT)

enum option {
    OPTION_QUEUE,
    OPTION_STATE,
    OPTION_TYPE,
    OPTION_TEXT,
    OPTION_GROUP,
    OPTION_SINCE,
    OPTION_SORT,
    OPTION_PAGE,
    OPTION_LIMIT,
    OPTION_UTC,
    OPTION_WIDE,
    OPTION_MATCH,
    OPTION_CURSOR,
    OPTION_SCAN
};
const struct qn_option qn_task_list_options[QN_TASK_LIST_OPTION_COUNT] = {
    [OPTION_QUEUE] = {"queue", "NAME", "only this queue", QN_OPTION_TEXT},
    [OPTION_STATE] = {"state", "STATE", "pending, active, retry, ...; may be repeated",
                      QN_OPTION_TEXT, .repeats = true},
    [OPTION_TYPE] = {"type", "TYPE", "exactly this type, or image:* for a prefix", QN_OPTION_TEXT},
    [OPTION_TEXT] = {"text", "TEXT", "in the payload or the last error (also --search)",
                     QN_OPTION_TEXT, .alias = "search"},
    [OPTION_GROUP] = {"group", "NAME", "only this group", QN_OPTION_TEXT},
    [OPTION_SINCE] = {"since", "WHEN", "only what happened since: 1h30m, or a moment",
                      QN_OPTION_TEXT},
    [OPTION_SORT] = {"sort", "KEY", "by at, enqueued, changed (newest first) or type",
                     QN_OPTION_TEXT},
    [OPTION_PAGE] = {"page", "N", "from 1 on", QN_OPTION_COUNT, .min = 1, .max = INT32_MAX},
    [OPTION_LIMIT] = {"limit", "N", "tasks on a page (30, at most 10000; also --size)",
                      QN_OPTION_COUNT, .min = 1, .max = PAGE_SIZE_MAX, .alias = "size"},
    [OPTION_UTC] = {"utc", NULL, "moments in UTC, not how long ago", QN_OPTION_FLAG},
    [OPTION_WIDE] = {"wide", NULL, "whole ids and all columns, also on a terminal", QN_OPTION_FLAG},
    [OPTION_MATCH] = {"match", "QUERY", "that fulfil it: 'error ~ timeout and age < 2h'",
                      QN_OPTION_TEXT},
    [OPTION_CURSOR] = {"cursor", "CURSOR", "with --match: continue there", QN_OPTION_TEXT},
    [OPTION_SCAN] = {"scan", "N", "with --match: look at so many tasks (30000)", QN_OPTION_COUNT,
                     .min = 1, .max = QN_TASK_MATCH_SCAN_MAX},
};

typedef int compare_tasks(const void *left, const void *right);

struct listing {
    const struct qn_cli *cli;
    quern_inspector *inspector;
    quern_task_filter filter; /* offset and limit are those of the page */
    int32_t states[QUERN_TASK_STATE_COUNT];
    size_t state_count; /* 0: all */
    int64_t since_ms;   /* 0: always */
    compare_tasks *compare;
    quern_task_list *lists[GATHER_LISTS_MAX]; /* own the tasks */
    size_t list_count;
    const quern_task_info **tasks; /* that match */
    size_t task_count;
    size_t read_count; /* before --since */
    bool is_cut;       /* more match than were read */
};

/* --- Order ------------------------------------------------------------------------------- */

static const quern_task_info *task_at(const void *element)
{
    return *(const quern_task_info *const *)element;
}

static int64_t later(int64_t left_ms, int64_t right_ms)
{
    return left_ms > right_ms ? left_ms : right_ms;
}

/* The last thing that happened to it and is known. */
static int64_t changed_at_ms(const quern_task_info *info)
{
    int64_t at_ms =
        later(quern_task_info_enqueued_at_ms(info), quern_task_info_started_at_ms(info));
    at_ms = later(at_ms, quern_task_info_failed_at_ms(info));
    at_ms = later(at_ms, quern_task_info_completed_at_ms(info));
    return later(at_ms, quern_task_info_archived_at_ms(info));
}

static int compare_numbers(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

static int compare_at(const void *left, const void *right)
{
    return compare_numbers(qn_task_table_dated_at_ms(task_at(left)),
                           qn_task_table_dated_at_ms(task_at(right)));
}

static int compare_enqueued(const void *left, const void *right)
{
    return compare_numbers(quern_task_info_enqueued_at_ms(task_at(right)),
                           quern_task_info_enqueued_at_ms(task_at(left)));
}

static int compare_changed(const void *left, const void *right)
{
    return compare_numbers(changed_at_ms(task_at(right)), changed_at_ms(task_at(left)));
}

static int compare_type(const void *left, const void *right)
{
    return strcmp(quern_task_info_type(task_at(left)), quern_task_info_type(task_at(right)));
}

static const struct {
    const char *name;
    compare_tasks *compare;
} sort_keys[] = {
    {"at", compare_at},
    {"enqueued", compare_enqueued},
    {"changed", compare_changed},
    {"type", compare_type},
};

/* --- The command line -------------------------------------------------------------------- */

static int read_sort(struct listing *listing, const char *name)
{
    for (size_t i = 0; name != NULL && i < QN_COUNT_OF(sort_keys); i++) {
        if (strcmp(sort_keys[i].name, name) == 0) {
            listing->compare = sort_keys[i].compare;
            return QN_EXIT_OK;
        }
    }
    return name == NULL ? QN_EXIT_OK
                        : qn_cli_usage(listing->cli,
                                       "--sort: '%s' is not at, enqueued, changed or type", name);
}

static int read_since(struct listing *listing, const char *text)
{
    quern_error err;
    int64_t ms = 0;
    if (text == NULL) {
        return QN_EXIT_OK;
    }
    if (qn_duration_parse(text, &ms, NULL) == QUERN_OK) {
        listing->since_ms = qn_clock_wall_ms(qn_clock_system()) - ms;
        return QN_EXIT_OK;
    }
    if (qn_moment_parse(text, &listing->since_ms, &err) != QUERN_OK) {
        return qn_cli_usage(listing->cli, "--since: '%s' is neither a duration nor a moment", text);
    }
    return QN_EXIT_OK;
}

static int read_states(struct listing *listing)
{
    const char *name = NULL;
    for (size_t i = 0; (name = qn_args_repeat(&listing->cli->args, OPTION_STATE, i)) != NULL; i++) {
        int32_t state = 0;
        int exit_code = qn_task_act_read_state(listing->cli, name, &state);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
        bool twice = false;
        for (size_t j = 0; j < listing->state_count; j++) {
            twice = twice || listing->states[j] == state;
        }
        if (!twice) {
            listing->states[listing->state_count++] = state;
        }
    }
    return QN_EXIT_OK;
}

static int read_options(struct listing *listing)
{
    const struct qn_args *args = &listing->cli->args;
    listing->filter = (quern_task_filter){
        .queue = qn_args_text(args, OPTION_QUEUE),
        .type = qn_args_text(args, OPTION_TYPE),
        .group = qn_args_text(args, OPTION_GROUP),
        .text = qn_args_text(args, OPTION_TEXT),
        .limit = (uint64_t)qn_args_number(args, OPTION_LIMIT, PAGE_SIZE_DEFAULT),
    };
    quern_task_filter *filter = &listing->filter;
    filter->offset = (uint64_t)(qn_args_number(args, OPTION_PAGE, 1) - 1) * filter->limit;
    int exit_code = read_states(listing);
    if (exit_code == QN_EXIT_OK) {
        exit_code = read_since(listing, qn_args_text(args, OPTION_SINCE));
    }
    return exit_code == QN_EXIT_OK ? read_sort(listing, qn_args_text(args, OPTION_SORT))
                                   : exit_code;
}

/* --- Reading ----------------------------------------------------------------------------- */

/* Reads one page of the broker and keeps what --since lets through. */
static int read_page(struct listing *listing, const quern_task_filter *filter, size_t *ret_size)
{
    quern_error err;
    quern_task_list *list = NULL;
    if (quern_inspector_tasks(listing->inspector, filter, &list, &err) != QUERN_OK) {
        return qn_cli_fail(listing->cli, &err);
    }
    listing->lists[listing->list_count++] = list;
    *ret_size = quern_task_list_size(list);
    listing->read_count += *ret_size;
    listing->tasks = qn_memory_must(
        qn_realloc(listing->tasks, (listing->task_count + *ret_size + 1) * sizeof(void *)));
    for (size_t i = 0; i < *ret_size; i++) {
        const quern_task_info *info = quern_task_list_at(list, i);
        if (changed_at_ms(info) >= listing->since_ms) {
            listing->tasks[listing->task_count++] = info;
        }
    }
    return QN_EXIT_OK;
}

/* All that match, up to GATHER_MAX, in order. */
static int gather(struct listing *listing)
{
    quern_task_filter filter = listing->filter;
    filter.limit = GATHER_PAGE_SIZE;
    size_t passes = listing->state_count > 0 ? listing->state_count : 1;
    for (size_t i = 0; i < passes && !listing->is_cut; i++) {
        filter.state = listing->state_count > 0 ? listing->states[i] : 0;
        filter.offset = 0;
        size_t size = 0;
        do {
            int exit_code = read_page(listing, &filter, &size);
            if (exit_code != QN_EXIT_OK) {
                return exit_code;
            }
            filter.offset += size;
            listing->is_cut = listing->read_count >= GATHER_MAX;
        } while (size == GATHER_PAGE_SIZE && !listing->is_cut);
    }
    if (listing->compare != NULL && listing->task_count > 1) {
        qsort(listing->tasks, listing->task_count, sizeof(void *), listing->compare);
    }
    return QN_EXIT_OK;
}

/* How many match, if the counts of the queues are enough for that; false: they are not. */
static bool count_all(const struct listing *listing, uint64_t *ret_total)
{
    const quern_task_filter *filter = &listing->filter;
    quern_queue_list *list = NULL;
    uint64_t total = 0;
    if (filter->type != NULL || filter->group != NULL || filter->text != NULL ||
        quern_inspector_queues(listing->inspector, &list, NULL) != QUERN_OK) {
        return false;
    }
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        if (filter->queue == NULL || strcmp(filter->queue, queue->name) == 0) {
            total += filter->state == 0 ? queue->size : queue->counts[filter->state];
        }
    }
    quern_queue_list_free(list);
    *ret_total = total;
    return true;
}

/* --- Printing ---------------------------------------------------------------------------- */

static struct qn_task_table table_of(const struct listing *listing, bool is_all)
{
    const struct qn_args *args = &listing->cli->args;
    return (struct qn_task_table){.wide = qn_args_given(args, OPTION_WIDE),
                                  .utc = qn_args_given(args, OPTION_UTC),
                                  .one_state = qn_args_repeat(args, OPTION_STATE, 0) != NULL &&
                                               qn_args_repeat(args, OPTION_STATE, 1) == NULL,
                                  .one_queue = qn_args_given(args, OPTION_QUEUE),
                                  .is_all = is_all};
}

/* "12 tasks", or which part of them the page is. */
static void report_total(const struct listing *listing, size_t shown, bool known, uint64_t total)
{
    const struct qn_cli *cli = listing->cli;
    uint64_t first = listing->filter.offset + 1;
    uint64_t last = listing->filter.offset + shown;
    int64_t next = qn_args_number(&cli->args, OPTION_PAGE, 1) + 1;
    if (shown == 0 && listing->filter.offset > 0) {
        char match[48] = "";
        if (known) {
            (void)snprintf(match, sizeof match, " of %" PRIu64 " %s", total,
                           qn_plural(total, "task", "tasks"));
        }
        qn_cli_message(cli, "page %" PRId64 " is behind the last page%s", next - 1, match);
    } else if (known && total <= last && listing->filter.offset == 0) {
        qn_cli_message(cli, "%zu %s", shown, qn_plural(shown, "task", "tasks"));
    } else if (known && total <= last) {
        qn_cli_message(cli, "tasks %" PRIu64 " to %" PRIu64 " of %" PRIu64, first, last, last);
    } else if (known) {
        qn_cli_message(cli,
                       "tasks %" PRIu64 " to %" PRIu64 " of %" PRIu64 "; more: --page %" PRId64,
                       first, last, total, next);
    } else {
        qn_cli_message(cli,
                       "tasks %" PRIu64 " to %" PRIu64
                       "; the page is full; there may be more: --page %" PRId64,
                       first, last, next);
    }
    if (listing->is_cut) {
        qn_cli_message(cli,
                       "only the first %zu that match were read; narrow it down by --queue,"
                       " --state or --type",
                       listing->read_count);
    }
}

static int print_page(const struct listing *listing, bool gathered)
{
    const quern_task_filter *filter = &listing->filter;
    uint64_t total = listing->task_count;
    size_t skipped = 0;
    size_t shown = listing->task_count;
    if (gathered) {
        skipped = filter->offset < total ? (size_t)filter->offset : listing->task_count;
        shown -= skipped;
        shown = shown > filter->limit ? (size_t)filter->limit : shown;
    }
    const quern_task_info *const *tasks = listing->tasks + skipped;
    if (listing->cli->json) {
        return qn_task_table_json(tasks, shown);
    }
    bool known = gathered;
    if (!gathered) {
        total = filter->offset + shown;
        known = shown < filter->limit && (shown > 0 || filter->offset == 0);
        known = known || count_all(listing, &total);
    }
    bool is_all = known && shown == total && listing->since_ms == 0 && listing->state_count == 0 &&
                  filter->queue == NULL && filter->type == NULL && filter->group == NULL &&
                  filter->text == NULL;
    const struct qn_task_table table = table_of(listing, is_all && !listing->is_cut);
    qn_task_table_print(&table, tasks, shown);
    report_total(listing, shown, known, total);
    return QN_EXIT_OK;
}

static int list_tasks(struct listing *listing)
{
    bool gathered = listing->since_ms != 0 || listing->compare != NULL || listing->state_count > 1;
    size_t size = 0;
    listing->filter.state = listing->state_count == 1 ? listing->states[0] : 0;
    int exit_code = gathered ? gather(listing) : read_page(listing, &listing->filter, &size);
    return exit_code == QN_EXIT_OK ? print_page(listing, gathered) : exit_code;
}

/* --- By a query -------------------------------------------------------------------------- */

/* With --match the query does what these do. */
static int refuse_filters(const struct listing *listing)
{
    static const struct {
        enum option option;
        const char *instead;
    } others[] = {
        {OPTION_TYPE, "write it into the query: type = image:*"},
        {OPTION_TEXT, "write it into the query: text ~ timeout"},
        {OPTION_GROUP, "write it into the query: group = NAME"},
        {OPTION_SINCE, "write it into the query: age < 1h30m"},
        {OPTION_SORT, "the order of a search is that of the queues"},
        {OPTION_PAGE, "continue with --cursor"},
    };
    for (size_t i = 0; i < QN_COUNT_OF(others); i++) {
        if (qn_args_given(&listing->cli->args, others[i].option)) {
            return qn_cli_usage(listing->cli, "--%s does not go with --match; %s",
                                qn_task_list_options[others[i].option].name, others[i].instead);
        }
    }
    return listing->state_count > 1
               ? qn_cli_usage(listing->cli, "with --match, several states go into the query: "
                                            "(state = retry or state = archived)")
               : QN_EXIT_OK;
}

static int list_matching(const struct listing *listing)
{
    const struct qn_args *args = &listing->cli->args;
    int exit_code = refuse_filters(listing);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    const quern_search search = {
        .match = qn_args_text(args, OPTION_MATCH),
        .queue = listing->filter.queue,
        .state = listing->state_count == 1 ? listing->states[0] : 0,
        .cursor = qn_args_text(args, OPTION_CURSOR),
        .limit = listing->filter.limit,
        .scan_max = (uint64_t)qn_args_number(args, OPTION_SCAN, 0),
    };
    const struct qn_task_table table = table_of(listing, false);
    return qn_task_match_list(listing->cli, listing->inspector, &search, &table);
}

static int list(struct listing *listing)
{
    const struct qn_args *args = &listing->cli->args;
    if (qn_args_given(args, OPTION_MATCH)) {
        return list_matching(listing);
    }
    if (qn_args_given(args, OPTION_CURSOR) || qn_args_given(args, OPTION_SCAN)) {
        return qn_cli_usage(listing->cli, "--cursor and --scan go with --match");
    }
    return list_tasks(listing);
}

int qn_task_list_run(struct qn_cli *cli)
{
    struct listing *listing = qn_memory_must(qn_alloc_zero(1, sizeof *listing));
    listing->cli = cli;
    int exit_code = read_options(listing);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_open_inspector(cli, false, &listing->inspector);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = list(listing);
    }
    for (size_t i = 0; i < listing->list_count; i++) {
        quern_task_list_free(listing->lists[i]);
    }
    qn_free(listing->tasks);
    quern_inspector_free(listing->inspector);
    qn_free(listing);
    return exit_code;
}
