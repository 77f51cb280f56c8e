/* SPDX-License-Identifier: MIT */
/* start.c - the first lines of a worker: the broker, its queues and its durability, and warnings.
 *
 * It waits for the broker as the worker itself would, since the broker is asked for these facts. */
#include "cli/work/start.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "broker/broker.h"
#include "cli/memory.h"
#include "cli/work/await.h"
#include "cli/work/descriptors.h"
#include "cli/work/queues.h"

struct start_info {
    const struct qn_work *work;
    char durability[256];
};

static void keep_item(const char *name, const char *text, void *user)
{
    struct start_info *info = user;
    if (strcmp(name, "durability") == 0) {
        (void)snprintf(info->durability, sizeof info->durability, "%s", text);
    } else if (qn_str_starts_with(name, "warning")) {
        qn_cli_warn(info->work->cli, "warning: %s", text);
    }
}

/* Tasks in groups wait for an aggregator. A worker that has one logs the groups that it does not
 * serve. */
static void warn_of_groups(const struct qn_work *work, const quern_queue_list *list)
{
    for (size_t i = 0; !work->aggregates && i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        uint64_t count = queue->counts[QUERN_TASK_AGGREGATING];
        if (count > 0) {
            qn_cli_warn(work->cli,
                        "queue %s holds %" PRIu64 " %s in groups, and no aggregator serves them;"
                        " run them with: quern task run --all --state aggregating --queue %s",
                        queue->name, count, qn_plural(count, "task", "tasks"), queue->name);
        }
    }
}

static void report_start(const struct qn_work *work, const char *url, const char *durability)
{
    char broker[256];
    struct qn_buf queues;
    qn_url_redact(url, broker, sizeof broker);
    qn_buf_init(&queues, (size_t)QN_QUEUES_MAX * (QN_SERVED_NAME_SIZE_MAX + 16));
    for (size_t i = 0; i < work->queue_count; i++) {
        if (qn_buf_printf(&queues, " %s=%" PRIu32, work->queues[i].name, work->queues[i].weight) !=
            QUERN_OK) {
            qn_memory_exhausted();
        }
    }
    qn_cli_message(work->cli, "broker %s, %s %s%s, concurrency %" PRIu32 ", durability %s", broker,
                   work->strict ? "strict" : "weighted",
                   qn_plural(work->queue_count, "queue", "queues"), qn_buf_text(&queues),
                   work->concurrency, durability);
    qn_buf_finish(&queues);
}

static int report_with(const struct qn_work *work, quern_inspector *inspector, const char *url,
                       const char *durability)
{
    quern_queue_list *list = NULL;
    quern_error err;
    if (qn_work_queues_list(work, inspector, &list, &err) != QUERN_OK) {
        report_start(work, url, durability); /* damaged data stop no worker */
        return QN_EXIT_OK;
    }
    int exit_code = qn_work_queues_check_names(work, list);
    if (exit_code == QN_EXIT_OK) {
        report_start(work, url, durability);
        qn_work_descriptors_warn(work->cli, work->concurrency);
        warn_of_groups(work, list);
    }
    quern_queue_list_free(list);
    return exit_code;
}

int qn_work_start(struct qn_work *work, const char *url)
{
    quern_inspector *inspector = NULL;
    int exit_code = qn_work_await(work->cli, !work->no_retry, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    struct start_info info = {.work = work, .durability = "not known"};
    quern_status status = quern_inspector_broker(inspector, keep_item, &info, &err);
    if (status != QUERN_OK && !qn_broker_may_come(url, status)) {
        exit_code = qn_cli_fail(work->cli, &err);
    } else {
        exit_code = report_with(work, inspector, url, info.durability);
    }
    quern_inspector_free(inspector);
    return exit_code;
}
