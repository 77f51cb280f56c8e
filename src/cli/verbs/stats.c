/* SPDX-License-Identifier: MIT */
/* stats.c - `quern stats`: all queues at a glance, the sums, and the warnings of the broker, on one
 * screen of a terminal; with -v all queues there, too, and all facts of the broker. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/output/terminal.h"
#include "cli/service.h"
#include "cli/verbs/queue_show.h"
#include "cli/verbs/server_info.h"

#define LINES_OF_SUMS 12 /* with a blank line before and the prompt behind */

enum option { OPTION_VERBOSE };
static const struct qn_option options[] = {
    [OPTION_VERBOSE] = {"verbose", NULL, "all queues, and what the broker is", QN_OPTION_FLAG,
                        .letter = 'v'},
};

struct totals {
    uint64_t counts[QUERN_TASK_STATE_COUNT];
    uint64_t size;
    uint64_t processed_today;
    uint64_t failed_today;
};

struct lists {
    quern_queue_list *queues;
    quern_worker_list *workers; /* NULL: they could not be read */
};

static struct totals sum_up(const quern_queue_list *list)
{
    struct totals totals = {.size = 0};
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        for (size_t state = 0; state < QUERN_TASK_STATE_COUNT; state++) {
            totals.counts[state] += queue->counts[state];
        }
        totals.size += queue->size;
        totals.processed_today += queue->processed_today;
        totals.failed_today += queue->failed_today;
    }
    return totals;
}

/* On a terminal the rest of the screen beside sums, warnings and the prompt. 0: no limit. */
static size_t lines_for_queues(json_t *server_info)
{
    size_t height = qn_terminal_height(stdout);
    size_t used = LINES_OF_SUMS + qn_server_info_warning_lines(server_info);
    return height == 0 ? 0 : height > used + 4 ? height - used : 4;
}

static void print_stats(const struct qn_cli *cli, const struct lists *lists,
                        const struct totals *totals, json_t *server_info)
{
    bool verbose = qn_args_given(&cli->args, OPTION_VERBOSE);
    qn_queue_show_list_print(lists->queues, lists->workers,
                             verbose ? 0 : lines_for_queues(server_info));
    printf("\n");
    qn_queue_show_counts_print(totals->size, totals->counts);
    qn_field_number("processed today", (int64_t)totals->processed_today);
    qn_field_number("failed today", (int64_t)totals->failed_today);
    if (verbose) {
        printf("\n");
    }
    qn_server_info_print(server_info, !verbose);
}

static json_t *stats_json(const struct lists *lists, const struct totals *totals,
                          json_t *server_info)
{
    return json_pack("{s:o,s:{s:o,s:I,s:I,s:I},s:O}", "queues",
                     qn_queue_show_list_json(lists->queues, lists->workers), "totals", "counts",
                     qn_queue_show_counts_json(totals->counts), "size", (json_int_t)totals->size,
                     "processed_today", (json_int_t)totals->processed_today, "failed_today",
                     (json_int_t)totals->failed_today, "broker", server_info);
}

static int run_stats(struct qn_cli *cli)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    json_t *server_info = NULL;
    struct lists lists = {.queues = NULL};
    if (quern_inspector_queues(inspector, &lists.queues, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else {
        lists.workers = qn_service_workers(inspector);
        exit_code = qn_server_info_read(cli, inspector, &server_info);
    }
    if (exit_code == QN_EXIT_OK) {
        struct totals totals = sum_up(lists.queues);
        if (cli->json) {
            exit_code = qn_json_print(stats_json(&lists, &totals, server_info));
        } else {
            print_stats(cli, &lists, &totals, server_info);
        }
    }
    json_decref(server_info);
    quern_worker_list_free(lists.workers);
    quern_queue_list_free(lists.queues);
    quern_inspector_free(inspector);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "show all queues and the sums by state",
    .about = "On a terminal as many queues as fit the screen, those with the most tasks.",
    .example = "  quern stats\n  quern stats --json | jq .totals.counts.pending",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_stats,
}};
const struct qn_noun qn_noun_stats = {"stats", "show tasks by state and today's work", verbs, 1};
