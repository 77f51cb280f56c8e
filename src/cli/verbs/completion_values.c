/* SPDX-License-Identifier: MIT */
/* completion_values.c - `quern completion queues|entries|ids|active|contexts`: what a completion
 * script offers.
 *
 * A user waits for it at the tab key: so a broker that does not answer is given up soon, after
 * LIMIT_S the process ends whatever it waits for or reads, and at most TASKS_MAX ids are read. A
 * name that would be taken for an option, or that could harm a terminal (of a Go program), is left
 * out. */
#include "cli/verbs/completion_values.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/str.h"
#include "base/text/utf8.h"
#include "cli/config/broker.h"
#include "cli/config/config.h"
#include "cli/output/json.h"

#define CONNECT_MS 1000
#define COMMAND_MS 2000
#define TASKS_MAX 200
#define LIMIT_S 3

static void on_limit(int number)
{
    static const char text[] = "quern: completion: the broker took too long\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)number;
    (void)written;
    _exit(QN_EXIT_FAILURE);
}

/* Until all is read; reading may end at any moment. */
static void limit_process(void)
{
    const struct sigaction action = {.sa_handler = on_limit};
    sigset_t alarm_only;
    (void)sigemptyset(&alarm_only);
    (void)sigaddset(&alarm_only, SIGALRM);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &alarm_only, NULL); /* it may have been inherited */
    (void)alarm(LIMIT_S);
}

bool qn_completion_values_know(const char *kind)
{
    return strcmp(kind, "queues") == 0 || strcmp(kind, "entries") == 0 ||
           strcmp(kind, "ids") == 0 || strcmp(kind, "active") == 0 || strcmp(kind, "contexts") == 0;
}

static void print_value(json_t *values, const char *text)
{
    bool is_option = text[0] == '-';
    if (is_option || qn_str_has_control(text) || qn_str_has_bidi(text) ||
        !qn_utf8_valid(text, strlen(text))) {
        return;
    }
    if (values != NULL) {
        (void)json_array_append_new(values, json_string(text));
    } else {
        (void)puts(text);
    }
}

static quern_status print_queues(quern_inspector *inspector, json_t *values, quern_error *err)
{
    quern_queue_list *list = NULL;
    quern_status status = quern_inspector_queues(inspector, &list, err);
    (void)alarm(0);
    for (size_t i = 0; status == QUERN_OK && i < quern_queue_list_size(list); i++) {
        print_value(values, quern_queue_list_at(list, i)->name);
    }
    quern_queue_list_free(list);
    return status;
}

static quern_status print_entries(quern_inspector *inspector, json_t *values, quern_error *err)
{
    quern_entry_list *list = NULL;
    quern_status status = quern_inspector_entries(inspector, NULL, NULL, &list, err);
    (void)alarm(0);
    for (size_t i = 0; status == QUERN_OK && i < quern_entry_list_size(list); i++) {
        print_value(values, quern_entry_list_at(list, i)->name);
    }
    quern_entry_list_free(list);
    return status;
}

static quern_status print_ids(quern_inspector *inspector, int32_t state, json_t *values,
                              quern_error *err)
{
    quern_task_list *list = NULL;
    const quern_task_filter filter = {.state = state, .limit = TASKS_MAX};
    quern_status status = quern_inspector_tasks(inspector, &filter, &list, err);
    (void)alarm(0);
    for (size_t i = 0; status == QUERN_OK && i < quern_task_list_size(list); i++) {
        print_value(values, quern_task_info_id(quern_task_list_at(list, i)));
    }
    quern_task_list_free(list);
    return status;
}

static int print_contexts(struct qn_cli *cli)
{
    if (!qn_config_read(cli)) {
        qn_cli_message(cli, "%s", cli->config->why);
        return QN_EXIT_CONFIG;
    }
    json_t *values = cli->json ? json_array() : NULL;
    for (size_t i = 0; i < cli->config->ini.line_count; i++) {
        const struct qn_ini_line *line = &cli->config->ini.lines[i];
        const char *name = line->key == NULL ? qn_config_context_name(line->section) : NULL;
        if (name != NULL) {
            print_value(values, name);
        }
    }
    return values == NULL ? QN_EXIT_OK : qn_json_print(values);
}

int qn_completion_values_print(struct qn_cli *cli, const char *kind)
{
    const quern_inspector_options options = {.connect_timeout_ms = CONNECT_MS,
                                             .command_timeout_ms = COMMAND_MS};
    const char *url = NULL;
    quern_inspector *inspector = NULL;
    quern_error err;
    if (strcmp(kind, "contexts") == 0) {
        return print_contexts(cli);
    }
    limit_process();
    int exit_code = qn_config_use(cli);
    exit_code = exit_code == QN_EXIT_OK ? qn_cli_broker_url(cli, false, &url) : exit_code;
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_inspector_open(url, &options, &inspector, &err) != QUERN_OK) {
        return qn_cli_open_failed(cli, &err);
    }
    json_t *values = cli->json ? json_array() : NULL;
    quern_status status =
        strcmp(kind, "queues") == 0 ? print_queues(inspector, values, &err)
        : strcmp(kind, "entries") == 0
            ? print_entries(inspector, values, &err)
            : print_ids(inspector, strcmp(kind, "active") == 0 ? QUERN_TASK_ACTIVE : 0, values,
                        &err);
    quern_inspector_free(inspector);
    if (status != QUERN_OK) {
        json_decref(values);
        return qn_cli_fail(cli, &err);
    }
    return values == NULL ? QN_EXIT_OK : qn_json_print(values);
}
