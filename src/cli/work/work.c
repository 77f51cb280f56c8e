/* SPDX-License-Identifier: MIT */
/* work.c - `quern work`: a worker whose handlers are shell commands.
 *
 * Happy path: the broker is opened (and made, when it is a file), one line names the queues and the
 * durability, the worker runs until a signal or, with --drain, until its queues are empty. Failure
 * paths: a broker that cannot be opened is reported before anything runs. Runs that do not end
 * within the shutdown timeout are cancelled and go back to their queues; a command that does not
 * even end then leaves the exit code 1, and the process without freeing what its thread still
 * uses. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "broker/broker.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/work/await.h"
#include "cli/work/limit.h"
#include "cli/work/log.h"
#include "cli/work/signal.h"
#include "quern/worker.h"
#include "task/limits.h"
#include "task/name.h"

enum option {
    OPTION_EXEC,
    OPTION_QUEUE,
    OPTION_STRICT,
    OPTION_CONCURRENCY,
    OPTION_DRAIN,
    OPTION_SHUTDOWN_TIMEOUT,
    OPTION_LEASE,
    OPTION_HOST,
    OPTION_UNKNOWN,
    OPTION_NO_WAIT,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_LOG_FORMAT,
    OPTION_ON_HUP,
    OPTION_LOG_STDERR
};

static const struct qn_option options[] = {
    [OPTION_EXEC] = {"exec", "PATTERN=COMMAND", "run such tasks by /bin/sh -c COMMAND",
                     QN_OPTION_TEXT, .repeats = true},
    [OPTION_QUEUE] = {"queue", "NAME[=WEIGHT]", "queue to serve, with its weight (default 1)",
                      QN_OPTION_TEXT, .repeats = true},
    [OPTION_STRICT] = {"strict", NULL, "a lower weight only when higher ones are empty",
                       QN_OPTION_FLAG},
    [OPTION_CONCURRENCY] = {"concurrency", "N", "runs at a time (one per CPU)", QN_OPTION_COUNT,
                            .min = 1, .max = QN_CONCURRENCY_MAX},
    [OPTION_DRAIN] = {"drain", NULL, "end when the queues are empty", QN_OPTION_FLAG},
    [OPTION_SHUTDOWN_TIMEOUT] = {"shutdown-timeout", "D", "wait so long for runs to end (8s)",
                                 QN_OPTION_DURATION},
    [OPTION_LEASE] = {"lease", "D", "a dead worker's tasks are free after it (30s)",
                      QN_OPTION_DURATION, .min = QN_LEASE_MS_MIN},
    [OPTION_HOST] = {"host", "NAME", "count deaths of runs under this name (host name)",
                     QN_OPTION_TEXT},
    [OPTION_UNKNOWN] = {"unknown", "WHAT", "other types: leave (to others), retry or archive",
                        QN_OPTION_TEXT},
    [OPTION_NO_WAIT] = {"no-wait", NULL, "end (69, 75) when the broker is not there yet",
                        QN_OPTION_FLAG},
    [OPTION_QUIET] = {"quiet", NULL, "log warnings and errors only", QN_OPTION_FLAG},
    [OPTION_VERBOSE] = {"verbose", NULL, "log every run and more", QN_OPTION_FLAG},
    [OPTION_LOG_FORMAT] = {"log-format", "FORMAT", "text (default), logfmt or json",
                           QN_OPTION_TEXT},
    [OPTION_LOG_STDERR] = {"log-stderr", NULL, "log stderr of commands that succeed, too",
                           QN_OPTION_FLAG},
    [OPTION_ON_HUP] = {"on-hup", "drain|reload", "what SIGHUP does (drain)", QN_OPTION_TEXT},
};

struct work {
    struct qn_cli *cli;
    quern_queue queues[QN_QUEUES_MAX];
    char *names[QN_QUEUES_MAX]; /* owned */
    size_t queue_count;
    uint32_t concurrency;
    bool strict;
    bool drain;
    struct qn_work_log log;
};

/* --- Options -------------------------------------------------------------------------- */

static bool serves(const struct work *work, const char *queue)
{
    for (size_t i = 0; i < work->queue_count; i++) {
        if (strcmp(work->queues[i].name, queue) == 0) {
            return true;
        }
    }
    return false;
}

static int add_queue(struct work *work, const char *text)
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
            return qn_cli_usage(work->cli, "--queue: the weight in '%s' is not 1 to %d", text,
                                QN_WEIGHT_MAX);
        }
        weight = (uint32_t)number;
    }
    char *name = qn_memory_must(qn_strdup(text));
    if (equals != NULL) {
        name[equals - text] = '\0';
    }
    bool twice = serves(work, name);
    work->names[work->queue_count] = name;
    work->queues[work->queue_count++] = (quern_queue){.name = name, .weight = weight};
    return twice ? qn_cli_usage(work->cli, "--queue: '%s' is given twice", name) : QN_EXIT_OK;
}

static int read_queues(struct work *work)
{
    const char *text = NULL;
    for (size_t i = 0; (text = qn_args_repeat(&work->cli->args, OPTION_QUEUE, i)) != NULL; i++) {
        int exit_code = add_queue(work, text);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
    }
    return work->queue_count == 0 ? add_queue(work, "default") : QN_EXIT_OK;
}

static int refuse_odd_name(const struct work *work, const char *name)
{
    return qn_cli_usage(work->cli,
                        "--queue: there is no queue '%s'; give each queue its own --queue, "
                        "without commas and patterns",
                        name);
}

/* Before anything is opened, or made: a file that is not there holds no queue. */
static int check_queues(const struct work *work, const char *url)
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

static int add_command(const struct qn_cli *cli, quern_mux *mux, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') {
        return qn_cli_usage(cli, "--exec: '%s' is not PATTERN=COMMAND", text);
    }
    char *pattern = qn_memory_must(qn_strdup(text));
    pattern[equals - text] = '\0';
    quern_error err;
    int exit_code = QN_EXIT_OK;
    size_t size = strlen(pattern);
    const quern_exec_options exec_options = {.log_stderr =
                                                 qn_args_given(&cli->args, OPTION_LOG_STDERR)};
    if (quern_mux_exec(mux, pattern, equals + 1, &exec_options, &err) != QUERN_OK) {
        exit_code = qn_cli_usage(cli, "--exec: %s", err.text);
    } else if (size > 1 && pattern[size - 1] == '*') {
        qn_cli_message(cli,
                       "--exec: '%s' stands for types with that star; for all that begin so "
                       "write '%.*s'",
                       pattern, (int)size - 1, pattern);
    }
    qn_free(pattern);
    return exit_code;
}

/* The fate of tasks that no --exec serves. */
static int set_unknown(const struct qn_cli *cli, quern_mux *mux)
{
    const char *text = qn_args_text(&cli->args, OPTION_UNKNOWN);
    if (text == NULL || strcmp(text, "leave") == 0) {
        return QN_EXIT_OK;
    }
    bool archives = strcmp(text, "archive") == 0;
    if (!archives && strcmp(text, "retry") != 0) {
        return qn_cli_usage(cli, "--unknown: '%s' is not leave, retry or archive", text);
    }
    quern_error err;
    bool is_set =
        quern_mux_not_found(mux, archives ? QUERN_ARCHIVE : QUERN_RETRY, &err) == QUERN_OK;
    return is_set ? QN_EXIT_OK : qn_cli_fail(cli, &err);
}

static int make_mux(const struct qn_cli *cli, quern_mux **ret_mux)
{
    if (!qn_args_given(&cli->args, OPTION_EXEC)) {
        /* Such a worker would take every task only to fail it. */
        return qn_cli_usage(cli, "nothing to run: wants --exec PATTERN=COMMAND");
    }
    quern_error err;
    quern_mux *mux = NULL;
    if (quern_mux_new(&mux, &err) != QUERN_OK) {
        return qn_cli_fail(cli, &err);
    }
    const char *text = NULL;
    int exit_code = set_unknown(cli, mux);
    for (size_t i = 0; (text = qn_args_repeat(&cli->args, OPTION_EXEC, i)) != NULL; i++) {
        exit_code = exit_code == QN_EXIT_OK ? add_command(cli, mux, text) : exit_code;
    }
    if (exit_code != QN_EXIT_OK) {
        quern_mux_free(mux);
        return exit_code;
    }
    *ret_mux = mux;
    return QN_EXIT_OK;
}

/* --- The lines of the start    -------------------------------------------------------- */

struct start_info {
    const struct work *work;
    char durability[128];
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

/* Tasks in groups wait for an aggregator, which no worker has yet. */
static void warn_of_groups(const struct work *work, const quern_queue_list *list)
{
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        uint64_t count = queue->counts[QUERN_TASK_AGGREGATING];
        if (count > 0 && serves(work, queue->name)) {
            qn_cli_warn(work->cli,
                        "queue %s holds %" PRIu64 " %s in groups, and no aggregator serves them;"
                        " run them by: quern task run --all --state aggregating --queue %s",
                        queue->name, count, qn_plural(count, "task", "tasks"), queue->name);
        }
    }
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
static int check_odd_names(const struct work *work, const quern_queue_list *list)
{
    for (size_t i = 0; i < work->queue_count; i++) {
        const char *name = work->queues[i].name;
        if (qn_name_is_odd(name) && !is_listed(list, name)) {
            return refuse_odd_name(work, name);
        }
    }
    return QN_EXIT_OK;
}

static void say_start(const struct work *work, const char *url, const char *durability)
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

static int introduce_with(const struct work *work, quern_inspector *inspector, const char *url,
                          const char *durability)
{
    quern_queue_list *list = NULL;
    quern_error err;
    if (quern_inspector_queues(inspector, &list, &err) != QUERN_OK) {
        say_start(work, url, durability); /* damaged data stop no worker */
        return QN_EXIT_OK;
    }
    int exit_code = check_odd_names(work, list);
    if (exit_code == QN_EXIT_OK) {
        say_start(work, url, durability);
        qn_work_limit_warn(work->cli, work->concurrency);
        warn_of_groups(work, list);
    }
    quern_queue_list_free(list);
    return exit_code;
}

/* *ret_ended: a signal came before the broker did. */
static int introduce(struct work *work, const char *url, bool *ret_ended)
{
    quern_inspector *inspector = NULL;
    bool wait = !qn_args_given(&work->cli->args, OPTION_NO_WAIT);
    int exit_code = qn_work_await(work->cli, wait, &inspector);
    *ret_ended = inspector == NULL;
    if (exit_code != QN_EXIT_OK || inspector == NULL) {
        return exit_code;
    }
    quern_error err;
    struct start_info info = {.work = work, .durability = "not known"};
    quern_status status = quern_inspector_broker(inspector, keep_item, &info, &err);
    if (status != QUERN_OK && !qn_broker_may_come(url, status)) {
        exit_code = qn_cli_fail(work->cli, &err);
    } else {
        exit_code = introduce_with(work, inspector, url, info.durability);
    }
    quern_inspector_free(inspector);
    return exit_code;
}

/* --- Running --------------------------------------------------------------------------- */

static quern_worker_options worker_options(struct work *work)
{
    const struct qn_args *args = &work->cli->args;
    int64_t shutdown_ms = qn_args_number(args, OPTION_SHUTDOWN_TIMEOUT, 0);
    if (shutdown_ms == 0 && qn_args_given(args, OPTION_SHUTDOWN_TIMEOUT)) {
        shutdown_ms = 1; /* the library's zero is its default */
    }
    return (quern_worker_options){
        .queues = work->queues,
        .queue_count = work->queue_count,
        .concurrency = work->concurrency,
        .strict_priority = work->strict,
        .drain = work->drain,
        .host = qn_args_text(args, OPTION_HOST),
        .shutdown_timeout_ms = shutdown_ms,
        .lease_ms = qn_args_number(args, OPTION_LEASE, 0),
        .no_wait = qn_args_given(args, OPTION_NO_WAIT),
        .on_log = qn_work_log_line,
        .on_run = qn_work_log_run,
        .user = &work->log,
    };
}

static void say_end(const struct work *work, quern_worker *worker)
{
    quern_worker_stats stats;
    quern_worker_get_stats(worker, &stats);
    if (work->log.level_min <= QUERN_LOG_INFO) {
        qn_cli_message(work->cli,
                       "done %" PRIu64 ", retried %" PRIu64 ", archived %" PRIu64
                       ", given back %" PRIu64 ", crashed %" PRIu64,
                       stats.done, stats.retried, stats.archived, stats.given_back, stats.crashed);
    }
}

static int run_worker(struct work *work, const char *url, const quern_mux *mux)
{
    quern_error err;
    quern_worker *worker = NULL;
    quern_worker_options worker_opts = worker_options(work);
    quern_status status = quern_worker_new(url, mux, &worker_opts, &worker, &err);
    if (status == QUERN_E_INVALID) { /* the URL was right: an option of the command line is not */
        return qn_cli_usage(work->cli, "%s", err.text);
    }
    if (status != QUERN_OK) {
        return qn_cli_open_failed(work->cli, &err);
    }
    qn_work_signal_start(worker);
    status = quern_worker_run(worker, &err);
    qn_work_signal_stop();
    say_end(work, worker);
    if (status == QUERN_E_TIMEOUT) {
        /* Handlers still run on threads that use the worker: nothing may be freed under them. */
        qn_cli_message(work->cli, "%s", err.text);
        (void)fflush(stdout);
        _exit(QN_EXIT_FAILURE);
    }
    int exit_code = status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(work->cli, &err);
    quern_worker_free(worker);
    return exit_code;
}

static int work_with(struct work *work)
{
    const char *url = NULL;
    quern_mux *mux = NULL;
    bool ended = false;
    int exit_code = read_queues(work);
    if (exit_code == QN_EXIT_OK) {
        exit_code = make_mux(work->cli, &mux);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_broker_url(work->cli, true, &url);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = check_queues(work, url);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = introduce(work, url, &ended);
    }
    if (exit_code == QN_EXIT_OK && !ended) {
        exit_code = run_worker(work, url, mux);
    }
    quern_mux_free(mux);
    return exit_code;
}

static int run_work(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    if (qn_args_given(args, OPTION_QUIET) && qn_args_given(args, OPTION_VERBOSE)) {
        return qn_cli_usage(cli, "--quiet and --verbose exclude each other");
    }
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t concurrency = qn_args_number(args, OPTION_CONCURRENCY, cpus > 0 ? cpus : 1);
    struct work *work = qn_memory_must(qn_alloc_zero(1, sizeof *work));
    work->cli = cli;
    work->concurrency = (uint32_t)concurrency;
    work->strict = qn_args_given(args, OPTION_STRICT);
    work->drain = qn_args_given(args, OPTION_DRAIN);
    work->log.json = cli->json;
    work->log.verbose = qn_args_given(args, OPTION_VERBOSE);
    work->log.level_min = work->log.verbose                   ? QUERN_LOG_DEBUG
                          : qn_args_given(args, OPTION_QUIET) ? QUERN_LOG_WARN
                                                              : QUERN_LOG_INFO;
    qn_work_log_init(&work->log);
    cli->on_message = qn_work_log_message;
    cli->message_user = &work->log;
    const char *format = qn_args_text(args, OPTION_LOG_FORMAT);
    const char *on_hup = qn_args_text(args, OPTION_ON_HUP);
    int exit_code = QN_EXIT_OK;
    qn_work_signal_await();
    bool reloads = on_hup != NULL && strcmp(on_hup, "reload") == 0;
    if (reloads) {
        qn_work_signal_reload_on_hup(&work->log);
    }
    if (format != NULL && !qn_work_log_set_format(&work->log, format)) {
        exit_code = qn_cli_usage(cli, "--log-format: '%s' is not text, logfmt or json", format);
    } else if (on_hup != NULL && !reloads && strcmp(on_hup, "drain") != 0) {
        exit_code = qn_cli_usage(cli, "--on-hup: '%s' is not drain or reload", on_hup);
    } else {
        exit_code = work_with(work);
    }
    qn_work_signal_reload_end();
    cli->on_message = NULL;
    qn_work_log_finish(&work->log);
    for (size_t i = 0; i < work->queue_count; i++) {
        qn_free(work->names[i]);
    }
    qn_free(work);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "run tasks with shell commands",
    .about = "PATTERN: a type, its beginning, or *. Exit 0: done, 75: retry, 65: archive.",
    .example = "  quern work --exec 'image:=./resize' --queue media=3 --queue default",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_work,
}};
const struct qn_noun qn_noun_work = {"work", "run tasks with shell commands", verbs, 1};
