/* SPDX-License-Identifier: MIT */
/* steer.c - sends commands to workers, and reports what became of each.
 *
 * The workers of the line are looked up once: by id, by the beginning of an id, or by HOST:PID.
 * Each gets the command (quern_inspector_command), whose answer is waited for; one that is not
 * found, refuses or has died does not keep it from the others. */
#include "cli/verbs/worker/steer.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/text.h"
#include "quern/command.h"
#include "task/limits.h"

#define LOOK_MS 100     /* while a worker is waited for that stops */
#define SHORT_ID_SIZE 8 /* as of task ids */

enum option { OPTION_ALL, OPTION_TIMEOUT, OPTION_OWN };

/* clang-format off */
#define STEER_OPTIONS \
    [OPTION_ALL] = {"all", NULL, "all workers of the broker, but for those of Go", \
                    QN_OPTION_FLAG}, \
    [OPTION_TIMEOUT] = {"timeout", "D", "wait this long for each answer (5s)", \
                        QN_OPTION_DURATION, .min = 1}
/* clang-format on */

const struct qn_option qn_worker_steer_options[QN_STEER_OPTION_COUNT] = {STEER_OPTIONS};
const struct qn_option qn_worker_stop_options[QN_STEER_OPTION_COUNT + 1] = {
    STEER_OPTIONS,
    [OPTION_OWN] = {"wait", NULL, "wait until it has ended, not only for its answer",
                    QN_OPTION_FLAG},
};
const struct qn_option qn_worker_resize_options[QN_STEER_OPTION_COUNT + 1] = {
    STEER_OPTIONS,
    [OPTION_OWN] = {"concurrency", "N", "so many runs at a time", QN_OPTION_COUNT, .min = 1,
                    .max = QN_CONCURRENCY_MAX},
};
const struct qn_option qn_worker_log_level_options[QN_STEER_OPTION_COUNT + 1] = {
    STEER_OPTIONS,
    [OPTION_OWN] = {"level", "LEVEL", "debug, info, warn or error", QN_OPTION_TEXT},
};
#undef STEER_OPTIONS

struct steering {
    const struct qn_cli *cli;
    quern_inspector *inspector;
    const quern_worker_list *list; /* as they were at first */
    quern_worker_command command;
    const char *done; /* "quiet" */
    bool awaits_end;
    json_t *documents; /* with --json; else NULL */
    size_t count;      /* that were done */
    int worst;         /* exit code */
};

/* --- Which workers ---------------------------------------------------------------------- */

static bool is_at(const quern_worker_info *worker, const char *text)
{
    char place[512];
    (void)snprintf(place, sizeof place, "%s:%" PRId64, worker->host, worker->pid);
    return strcmp(place, text) == 0;
}

static bool is_meant(const quern_worker_info *worker, const char *text)
{
    return strcmp(worker->id, text) == 0 || is_at(worker, text) ||
           (strlen(text) >= SHORT_ID_SIZE && qn_str_starts_with(worker->id, text));
}

/* The one of this text; NULL: none, or several (then *ret_several). */
static const quern_worker_info *find(const struct steering *steering, const char *text,
                                     bool *ret_several)
{
    const quern_worker_info *found = NULL;
    *ret_several = false;
    for (size_t i = 0; i < quern_worker_list_size(steering->list); i++) {
        const quern_worker_info *worker = quern_worker_list_at(steering->list, i);
        if (strcmp(worker->id, text) == 0) {
            *ret_several = false;
            return worker;
        }
        if (is_meant(worker, text)) {
            *ret_several = found != NULL;
            found = worker;
        }
    }
    return *ret_several ? NULL : found;
}

/* --- One of them ------------------------------------------------------------------------ */

static void note(struct steering *steering, const char *id, const char *error)
{
    if (steering->documents != NULL) {
        json_t *object = qn_memory_must(json_pack("{s:b}", "ok", error == NULL));
        qn_json_set_text(object, "id", id);
        if (error != NULL) {
            qn_json_set_text(object, "error", error);
        }
        (void)json_array_append_new(steering->documents, object);
    } else if (error == NULL) {
        char *safe = qn_text_safe(id, strlen(id));
        printf("%s %s\n", safe, steering->done);
        (void)fflush(stdout);
        qn_free(safe);
    }
}

static void note_failure(struct steering *steering, const char *id, const quern_error *err)
{
    int exit_code = qn_cli_fail(steering->cli, err);
    note(steering, id, err->text);
    steering->worst = exit_code > steering->worst ? exit_code : steering->worst;
}

static quern_status is_listed(quern_inspector *inspector, const char *id, bool *ret_listed,
                              quern_error *err)
{
    quern_worker_list *list = NULL;
    quern_status status = quern_inspector_workers(inspector, &list, err);
    *ret_listed = false;
    for (size_t i = 0; status == QUERN_OK && i < quern_worker_list_size(list); i++) {
        *ret_listed = *ret_listed || strcmp(quern_worker_list_at(list, i)->id, id) == 0;
    }
    quern_worker_list_free(list);
    return status;
}

/* Without --timeout as long as it takes. */
static quern_status await_end(const struct steering *steering, const char *id, quern_error *err)
{
    int64_t began_ns = qn_clock_mono_ns();
    bool listed = true;
    quern_status status = is_listed(steering->inspector, id, &listed, err);
    while (status == QUERN_OK && listed) {
        int64_t waited_ms = (qn_clock_mono_ns() - began_ns) / QN_NS_PER_MS;
        if (steering->command.timeout_ms != 0 && waited_ms >= steering->command.timeout_ms) {
            return qn_error_set(err, QUERN_E_TIMEOUT, "worker %s drains, and has not ended yet",
                                id);
        }
        (void)poll(NULL, 0, LOOK_MS);
        status = is_listed(steering->inspector, id, &listed, err);
    }
    return status;
}

/* False: the broker failed, and would fail for the next one, too. */
static bool steer(struct steering *steering, const char *id)
{
    quern_error err;
    steering->command.worker_id = id;
    quern_status status = quern_inspector_command(steering->inspector, &steering->command, &err);
    if (status == QUERN_OK && steering->awaits_end) {
        status = await_end(steering, id, &err);
    }
    if (status == QUERN_OK) {
        steering->count++;
        note(steering, id, NULL);
        return true;
    }
    note_failure(steering, id, &err);
    return status == QUERN_E_NOT_FOUND || status == QUERN_E_STATE ||
           status == QUERN_E_UNSUPPORTED || status == QUERN_E_TIMEOUT;
}

static bool steer_named(struct steering *steering, const char *text)
{
    bool several = false;
    const quern_worker_info *worker = find(steering, text, &several);
    if (several) {
        quern_error err;
        (void)qn_error_set(&err, QUERN_E_STATE, "several workers are meant by %s", text);
        note_failure(steering, text, &err);
        return true;
    }
    return steer(steering, worker != NULL ? worker->id : text);
}

/* --- All of them ------------------------------------------------------------------------ */

static void steer_all(struct steering *steering)
{
    bool goes_on = true;
    size_t sent = 0;
    for (size_t i = 0; goes_on && i < quern_worker_list_size(steering->list); i++) {
        const quern_worker_info *worker = quern_worker_list_at(steering->list, i);
        if (worker->takes_commands) {
            sent++;
            goes_on = steer(steering, worker->id);
        }
    }
    if (sent == 0) {
        qn_cli_message(steering->cli, "no worker here takes commands; see `quern worker list`");
    }
}

static int report(const struct steering *steering)
{
    if (steering->documents != NULL) {
        int print_code =
            qn_json_print(json_pack("{s:s,s:I,s:o}", "done", steering->done, "count",
                                    (json_int_t)steering->count, "workers", steering->documents));
        return steering->worst != QN_EXIT_OK ? steering->worst : print_code;
    }
    return steering->worst;
}

static int steer_line(struct steering *steering)
{
    const struct qn_args *args = &steering->cli->args;
    quern_worker_list *list = NULL;
    quern_error err;
    if (quern_inspector_workers(steering->inspector, &list, &err) != QUERN_OK) {
        return qn_cli_fail(steering->cli, &err);
    }
    steering->list = list;
    steering->documents = steering->cli->json ? qn_memory_must(json_array()) : NULL;
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < args->operand_count; i++) {
        goes_on = steer_named(steering, qn_args_operand(args, i));
    }
    if (qn_args_given(args, OPTION_ALL)) {
        steer_all(steering);
    }
    int exit_code = report(steering);
    quern_worker_list_free(list);
    return exit_code;
}

static int run(struct qn_cli *cli, quern_worker_command command, const char *done, bool awaits_end)
{
    struct steering steering = {
        .cli = cli, .command = command, .done = done, .awaits_end = awaits_end};
    bool all = qn_args_given(&cli->args, OPTION_ALL);
    if (all == (cli->args.operand_count > 0)) {
        return qn_cli_usage(cli, all ? "--all and workers exclude each other"
                                     : "give workers as `quern worker list` shows them, or --all");
    }
    steering.command.timeout_ms = qn_args_number(&cli->args, OPTION_TIMEOUT, 0);
    int exit_code = qn_cli_open_inspector(cli, false, &steering.inspector);
    if (exit_code == QN_EXIT_OK) {
        exit_code = steer_line(&steering);
    }
    quern_inspector_free(steering.inspector);
    return exit_code;
}

int qn_worker_steer_quiet(struct qn_cli *cli)
{
    return run(cli, (quern_worker_command){.order = QUERN_ORDER_QUIET}, "quiet", false);
}

int qn_worker_steer_resume(struct qn_cli *cli)
{
    return run(cli, (quern_worker_command){.order = QUERN_ORDER_RESUME}, "resumed", false);
}

int qn_worker_steer_stop(struct qn_cli *cli)
{
    bool awaits_end = qn_args_given(&cli->args, OPTION_OWN);
    return run(cli, (quern_worker_command){.order = QUERN_ORDER_STOP},
               awaits_end ? "ended" : "stops", awaits_end);
}

int qn_worker_steer_resize(struct qn_cli *cli)
{
    const quern_worker_command command = {.order = QUERN_ORDER_RESIZE,
                                          .concurrency =
                                              (uint32_t)qn_args_number(&cli->args, OPTION_OWN, 0)};
    return command.concurrency == 0 ? qn_cli_usage(cli, "missing --concurrency N")
                                    : run(cli, command, "resized", false);
}

int qn_worker_steer_log_level(struct qn_cli *cli)
{
    const char *text = qn_args_text(&cli->args, OPTION_OWN);
    for (int level = QUERN_LOG_DEBUG; text != NULL && level <= QUERN_LOG_ERROR; level++) {
        if (strcmp(qn_log_level_name((quern_log_level)level), text) == 0) {
            return run(cli,
                       (quern_worker_command){.order = QUERN_ORDER_LOG_LEVEL, .log_level = level},
                       "changed", false);
        }
    }
    return qn_cli_usage(cli, "%s",
                        text == NULL ? "missing --level LEVEL"
                                     : "a level is debug, info, warn or error");
}
