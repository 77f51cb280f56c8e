/* SPDX-License-Identifier: MIT */
/* stats.c - `quern stats`: all queues at a glance, the sums, and what the broker reports about
 * itself. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/service.h"
#include "cli/verbs/queue_show.h"
#include "cli/verbs/server_info.h"

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

static void print_stats(const struct lists *lists, const struct totals *totals, json_t *server_info)
{
    qn_queue_show_list_print(lists->queues, lists->workers);
    printf("\n");
    qn_queue_show_counts_print(totals->size, totals->counts);
    qn_field_number("processed today", (int64_t)totals->processed_today);
    qn_field_number("failed today", (int64_t)totals->failed_today);
    printf("\n");
    qn_server_info_print(server_info);
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
            print_stats(&lists, &totals, server_info);
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
    .summary = "show all queues, the sums by state and the broker",
    .example = "  quern stats\n  quern stats --json | jq .totals.counts.pending",
    .run = run_stats,
}};
const struct qn_noun qn_noun_stats = {"stats", "show tasks by state, today's work, the broker",
                                      verbs, 1};
