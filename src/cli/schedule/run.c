/* SPDX-License-Identifier: MIT */
/* run.c - `quern schedule run`: a scheduler as a service.
 *
 * Happy path: the scheduler runs until a signal. TERM, INT and QUIT end it, HUP lets it read its
 * files and time zones again; both are blocked until there is a scheduler. It logs that it is ready
 * when it leads, or knows of another one that does. A broker that is not there is waited for, as by
 * `quern work`. */
#include "cli/schedule/run.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/text/moment.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/schedule/reread.h"
#include "cli/schedule/ticks.h"
#include "cli/schedule/watch.h"
#include "cli/service_dir.h"
#include "cli/supervise/notify.h"
#include "cli/work/config/settings.h"
#include "cli/work/log.h"
#include "quern/scheduler.h"

#define FILES_MAX 64 /* of a scheduler */
#define PATH_SIZE_MAX 4096

enum option {
    OPTION_FILE,
    OPTION_ZONE,
    OPTION_ALLOW_EMPTY,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_LOG_FORMAT
};

const struct qn_option qn_schedule_run_options[QN_SCHEDULE_RUN_OPTION_COUNT] = {
    [OPTION_FILE] = {"file", "FILE", "store its entries, and again when it changes", QN_OPTION_TEXT,
                     .repeats = true},
    [OPTION_ZONE] = {"zone", "ZONE", "time zone of entries in files without one (UTC)",
                     QN_OPTION_TEXT},
    [OPTION_ALLOW_EMPTY] = {"allow-empty", NULL, "a file without entries removes its stored ones",
                            QN_OPTION_FLAG},
    [OPTION_QUIET] = {"quiet", NULL, "log warnings and errors only", QN_OPTION_FLAG},
    [OPTION_VERBOSE] = {"verbose", NULL, "log each tick", QN_OPTION_FLAG},
    [OPTION_LOG_FORMAT] = {"log-format", "FORMAT", "text (default), logfmt or json",
                           QN_OPTION_TEXT},
};

/* --- Signals -------------------------------------------------------------------------- */

/* A handler has no argument. */
static quern_scheduler *_Atomic steered;
static struct qn_schedule_reread *_Atomic reread;

static void on_signal(int number)
{
    int saved = errno;
    quern_scheduler *scheduler = atomic_load(&steered);
    if (number == SIGHUP) {
        quern_scheduler_reload(scheduler);
        qn_schedule_reread_ask(atomic_load(&reread));
    } else {
        quern_scheduler_stop(scheduler);
    }
    errno = saved;
}

static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};

static void list_signals(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    for (size_t i = 0; i < QN_COUNT_OF(numbers); i++) {
        (void)sigaddset(ret_set, numbers[i]);
    }
}

/* Those that came before take effect now. */
static void steer(quern_scheduler *scheduler)
{
    sigset_t set;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    atomic_store(&steered, scheduler);
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&ignore.sa_mask);
    for (size_t i = 0; i < QN_COUNT_OF(numbers); i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a reader of the log that goes away ends nothing */
    list_signals(&set);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A handler that runs now, on the thread that calls this, has ended when it returns. */
static void ignore_reload(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* --- The log --------------------------------------------------------------------------- */

static int read_log(const struct qn_cli *cli, struct qn_work_settings *ret_settings)
{
    const struct qn_args *args = &cli->args;
    const char *format = qn_args_text(args, OPTION_LOG_FORMAT);
    struct qn_work_settings settings = {.format = QN_LOG_FORMAT_TEXT};
    if (qn_args_given(args, OPTION_QUIET) && qn_args_given(args, OPTION_VERBOSE)) {
        return qn_cli_usage(cli, "--quiet and --verbose exclude each other");
    }
    if (format != NULL && !qn_work_log_find_format(format, &settings.format)) {
        return qn_cli_usage(cli, "--log-format: '%s' is not text, logfmt or json", format);
    }
    settings.verbose = qn_args_given(args, OPTION_VERBOSE);
    settings.level_min = settings.verbose                    ? QUERN_LOG_DEBUG
                         : qn_args_given(args, OPTION_QUIET) ? QUERN_LOG_WARN
                                                             : QUERN_LOG_INFO;
    *ret_settings = settings;
    return QN_EXIT_OK;
}

int qn_schedule_run_check(struct qn_cli *cli)
{
    struct qn_work_settings settings;
    return read_log(cli, &settings);
}

/* --- Running -------------------------------------------------------------------------- */

struct running {
    struct qn_cli *cli;
    struct qn_work_log log;
    const char *files[FILES_MAX];
    char *owned[FILES_MAX]; /* of these, those that are not words of the line */
    size_t file_count;
};

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct running *running = user;
    qn_work_log_line(level, line, &running->log);
}

static const char *outcome_of(const quern_tick *tick)
{
    return tick->vetoed ? "vetoed" : tick->is_duplicate ? "duplicate" : "enqueued";
}

static void after(const quern_tick *tick, void *user)
{
    struct running *running = user;
    char at[64];
    qn_moment_format(tick->at_ms, at, sizeof at);
    if (running->cli->json) {
        json_t *object =
            json_pack("{s:s,s:s,s:s,s:s,s:b,s:s}", "entry", tick->name, "queue", tick->queue, "id",
                      tick->id, "at", at, "missed", tick->missed, "outcome", outcome_of(tick));
        (void)qn_json_print(qn_memory_must(object));
        (void)fflush(stdout);
    }
    if (running->log.verbose) {
        QN_LOG(&running->log.lines, QUERN_LOG_DEBUG, "tick was sent",
               QN_LOG_TEXT("entry", tick->name), QN_LOG_TEXT("queue", tick->queue),
               QN_LOG_TEXT("at", at), QN_LOG_TEXT("outcome", outcome_of(tick)));
    }
}

static int run_scheduler(struct running *running, const char *url)
{
    const struct qn_args *args = &running->cli->args;
    const quern_scheduler_options options = {
        .zone = qn_args_text(args, OPTION_ZONE),
        .files = running->file_count > 0 ? running->files : NULL,
        .file_count = running->file_count,
        .no_wait = qn_cli_no_retry(running->cli),
        .allow_empty = qn_args_given(args, OPTION_ALLOW_EMPTY),
        .on_log = on_log,
        .after = after,
        .user = running,
    };
    quern_error err;
    quern_scheduler *scheduler = NULL;
    bool makes = qn_cli_will_make_file(url);
    quern_status status = quern_scheduler_new(url, &options, &scheduler, &err);
    if (status == QUERN_E_NOT_FOUND && options.zone != NULL) {
        return qn_ticks_refuse(running->cli, &err);
    }
    if (status != QUERN_OK) {
        return qn_cli_open_failed(running->cli, &err);
    }
    qn_cli_report_made(running->cli, makes && !qn_cli_will_make_file(url), url);
    struct qn_schedule_reread *own =
        qn_schedule_reread_start(running->cli, &running->log, read_log);
    atomic_store(&reread, own);
    steer(scheduler);
    struct qn_schedule_watch *watch = qn_schedule_watch_start(scheduler);
    status = quern_scheduler_run(scheduler, &err);
    ignore_reload();
    atomic_store(&steered, NULL);
    atomic_store(&reread, NULL);
    qn_schedule_reread_stop(own);
    qn_schedule_watch_stop(watch);
    quern_scheduler_free(scheduler);
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(running->cli, &err);
}

/* A file in the directory that the service manager has for configuration; NULL: it is not there. */
static char *find_configured(const char *name)
{
    char path[PATH_SIZE_MAX];
    bool is_there = name[0] != '/' && access(name, F_OK) != 0 &&
                    qn_service_dir_join("CONFIGURATION_DIRECTORY", name, path, sizeof path) &&
                    access(path, F_OK) == 0;
    return is_there ? qn_memory_must(qn_str_dup(path)) : NULL;
}

static int read_files(struct running *running)
{
    const char *text = NULL;
    while ((text = qn_args_repeat(&running->cli->args, OPTION_FILE, running->file_count)) != NULL) {
        if (running->file_count == FILES_MAX) {
            return qn_cli_usage(running->cli, "--file: more than %d files", FILES_MAX);
        }
        char *path = find_configured(text);
        running->owned[running->file_count] = path;
        running->files[running->file_count++] = path != NULL ? path : text;
    }
    return QN_EXIT_OK;
}

static int open_and_run(struct running *running)
{
    const char *url = NULL;
    char shown[256];
    int exit_code = read_files(running);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_cli_broker_url(running->cli, true, &url);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (running->log.level_min <= QUERN_LOG_INFO) {
        qn_url_redact(url, shown, sizeof shown);
        qn_cli_message(running->cli, "broker %s, %zu %s", shown, running->file_count,
                       qn_plural(running->file_count, "file", "files"));
    }
    return run_scheduler(running, url);
}

static void log_message(quern_log_level level, const char *text, void *user)
{
    struct running *running = user;
    qn_log_event(&running->log.lines, level, text, NULL, 0);
}

int qn_schedule_run(struct qn_cli *cli)
{
    int exit_code = QN_EXIT_OK;
    struct qn_work_settings settings;
    sigset_t set;
    list_signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    qn_notify_take();
    exit_code = read_log(cli, &settings);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    struct running *running = qn_memory_must(qn_alloc_zero(1, sizeof *running));
    running->cli = cli;
    qn_work_log_init(&running->log);
    (void)qn_work_settings_apply(&settings, &running->log);
    cli->on_message = running->log.format != QN_LOG_FORMAT_TEXT ? log_message : NULL;
    cli->message_user = running;
    exit_code = open_and_run(running);
    cli->on_message = NULL;
    qn_work_log_finish(&running->log);
    for (size_t i = 0; i < running->file_count; i++) {
        qn_free(running->owned[i]);
    }
    qn_free(running);
    return exit_code;
}
