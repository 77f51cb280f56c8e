/* SPDX-License-Identifier: MIT */
/* queues.c - the queues of --queue: their names and weights, and which of them are refused. */
#include "cli/work/queues.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "broker/broker.h"
#include "cli/memory.h"
#include "inspect/queues.h"
#include "task/name.h"

static bool is_served(const struct qn_work *work, const char *queue)
{
    for (size_t i = 0; i < work->queue_count; i++) {
        if (strcmp(work->queues[i].name, queue) == 0) {
            return true;
        }
    }
    return false;
}

static int add_queue(struct qn_work *work, const char *text)
{
    if (work->queue_count == QN_QUEUES_MAX) {
        return qn_cli_usage(work->cli, "--queue: at most %d", QN_QUEUES_MAX);
    }
    uint32_t weight = 1;
    const char *equals = strrchr(text, '=');
    if (equals != NULL) {
        char *end = NULL;
        unsigned long number = strtoul(equals + 1, &end, 10);
        if (equals[1] < '0' || equals[1] > '9' || *end != '\0' || number < 1 ||
            number > QN_WEIGHT_MAX) {
            return qn_cli_usage(work->cli, "--queue: the weight in '%s' is not between 1 and %d",
                                text, QN_WEIGHT_MAX);
        }
        weight = (uint32_t)number;
    }
    char *name = qn_memory_must(qn_str_dup(text));
    if (equals != NULL) {
        name[equals - text] = '\0';
    }
    bool twice = is_served(work, name);
    work->names[work->queue_count] = name;
    work->queues[work->queue_count++] = (quern_queue){.name = name, .weight = weight};
    return twice ? qn_cli_usage(work->cli, "--queue: '%s' is given twice", name) : QN_EXIT_OK;
}

int qn_work_queues_read(struct qn_work *work, size_t option)
{
    const char *text = NULL;
    for (size_t i = 0; (text = qn_args_repeat(&work->cli->args, option, i)) != NULL; i++) {
        int exit_code = add_queue(work, text);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
    }
    return work->queue_count == 0 ? add_queue(work, "default") : QN_EXIT_OK;
}

static int refuse_odd_name(const struct qn_work *work, const char *name)
{
    return qn_cli_usage(work->cli,
                        "--queue: there is no queue '%s'; give each queue its own --queue, "
                        "without commas and patterns",
                        name);
}

/* Before anything is opened, or made: a file that is not there holds no queue. */
int qn_work_queues_check(const struct qn_work *work, const char *url)
{
    bool makes = qn_cli_will_make_file(url);
    for (size_t i = 0; i < work->queue_count; i++) {
        quern_error err;
        if (makes && qn_name_is_odd(work->queues[i].name)) {
            return refuse_odd_name(work, work->queues[i].name);
        }
        quern_status status = qn_broker_check_queue(url, work->queues[i].name, &err);
        if (status == QUERN_E_INVALID) {
            return qn_cli_usage(work->cli, "--queue: %s", err.text);
        }
        if (status != QUERN_OK) {
            return qn_cli_fail(work->cli, &err);
        }
    }
    return QN_EXIT_OK;
}

quern_status qn_work_queues_list(const struct qn_work *work, quern_inspector *inspector,
                                 quern_queue_list **ret_list, quern_error *err)
{
    const char *names[QN_QUEUES_MAX];
    for (size_t i = 0; i < work->queue_count; i++) {
        names[i] = work->queues[i].name;
    }
    return qn_inspect_queues(inspector, (struct qn_names){names, work->queue_count}, ret_list, err);
}

static bool is_listed(const quern_queue_list *list, const char *name)
{
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        if (strcmp(quern_queue_list_at(list, i)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The library refuses these, too, but does not know the option. */
int qn_work_queues_check_names(const struct qn_work *work, const quern_queue_list *list)
{
    for (size_t i = 0; i < work->queue_count; i++) {
        const char *name = work->queues[i].name;
        if (qn_name_is_odd(name) && !is_listed(list, name)) {
            return refuse_odd_name(work, name);
        }
    }
    return QN_EXIT_OK;
}

void qn_work_queues_finish(struct qn_work *work)
{
    for (size_t i = 0; i < work->queue_count; i++) {
        qn_free(work->names[i]);
    }
    work->queue_count = 0;
}
