/* SPDX-License-Identifier: MIT */
/* work.c - `quern work`: a worker whose handlers are shell commands.
 *
 * The broker is opened (and made, when it is a file), one line names the queues and the durability,
 * the worker runs until a signal or, with --drain or --until-idle, until there is nothing to do;
 * end.c then judges what has failed. Runs that do not end within the shutdown timeout are cancelled
 * and go back; where a command does not even end then, what its thread uses is not freed. */
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "cli/handlers/policies.h"
#include "cli/handlers/zygote.h"
#include "cli/memory.h"
#include "cli/supervise/notify.h"
#include "cli/work/config/commands.h"
#include "cli/work/config/reconfigure.h"
#include "cli/work/config/settings.h"
#include "cli/work/end.h"
#include "cli/work/handlers.h"
#include "cli/work/options.h"
#include "cli/work/probe/health.h"
#include "cli/work/queues.h"
#include "cli/work/restart.h"
#include "cli/work/signal.h"
#include "cli/work/start.h"
#include "cli/work/work.h"
#include "worker/hand_over/hand_over.h"
#include "worker/prefork/nursery.h"

/* --- Options -------------------------------------------------------------------------- */

/* work->mux; beside a zygote that of the zygote, to which commands are added. */
static int make_mux(struct qn_work *work)
{
    const struct qn_args *args = &work->cli->args;
    const struct qn_work_handlers_options places = {
        .handlers = OPTION_HANDLERS,
        .children = OPTION_CHILDREN,
        .unknown = OPTION_UNKNOWN,
        .no_new_privs = OPTION_NO_NEW_PRIVS,
        .policies = OPTION_POLICIES,
    };
    int exit_code = qn_policies_check(work->cli, OPTION_POLICIES);
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_work_handlers_open(work, places);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (work->zygote != NULL) {
        return qn_work_commands_fill(work->cli, quern_zygote_mux(work->zygote));
    }
    if (!qn_args_given(args, OPTION_EXEC) && !qn_args_given(args, OPTION_AGGREGATE) &&
        !qn_args_given(args, OPTION_EXEC_LOOP)) {
        return qn_cli_usage(work->cli, "nothing to run: give --exec PATTERN=COMMAND, --exec-loop,"
                                       " --handlers or --aggregate");
    }
    quern_error err;
    if (quern_mux_new(&work->mux, &err) != QUERN_OK) {
        return qn_cli_fail(work->cli, &err);
    }
    return qn_work_commands_fill(work->cli, work->mux);
}

/* --- Running --------------------------------------------------------------------------- */

static void on_log(quern_log_level level, const char *line, void *user)
{
    struct qn_work *work = user;
    qn_work_log_line(level, line, &work->log);
}

static void on_log_level(quern_log_level level, void *user)
{
    struct qn_work *work = user;
    qn_work_log_level(level, &work->log);
}

static void on_run(const quern_run_report *report, void *user)
{
    struct qn_work *work = user;
    qn_work_log_run(report, &work->log);
    qn_work_end_note_run(work, report);
}

/* The library's zero is its default. */
static int64_t stage_ms(const struct qn_args *args, enum qn_work_option option)
{
    int64_t ms = qn_args_number(args, option, 0);
    return ms == 0 && qn_args_given(args, option) ? 1 : ms;
}

static quern_worker_options worker_options(struct qn_work *work)
{
    const struct qn_args *args = &work->cli->args;
    return (quern_worker_options){
        .queues = work->queues,
        .queue_count = work->queue_count,
        .concurrency = work->concurrency,
        .strict_priority = work->strict,
        .drain = work->drain,
        .until_idle = work->until_idle,
        .host = qn_args_text(args, OPTION_HOST),
        .shutdown_timeout_ms = stage_ms(args, OPTION_SHUTDOWN_TIMEOUT),
        .soft_shutdown_timeout_ms = stage_ms(args, OPTION_SOFT_SHUTDOWN_TIMEOUT),
        .child_cgroup = qn_args_text(args, OPTION_CGROUP),
        .prefetch_max = (int32_t)qn_args_number(args, OPTION_PREFETCH, 0),
        .lease_ms = qn_args_number(args, OPTION_LEASE, 0),
        .stall_timeout_ms = qn_args_number(args, OPTION_STALL_TIMEOUT, 0),
        .no_wait = work->no_retry,
        .tracer = qn_otlp_tracer(work->otlp),
        .on_log = on_log,
        .on_run = on_run,
        .on_log_level = on_log_level,
        .user = work,
    };
}

/* One worker, which continues the one before if there was one. *ret_state_fd: what it has handed
 * over; -1: nothing, it has ended. */
static int run_one(struct qn_work *work, const char *url, int *ret_state_fd)
{
    quern_error err;
    quern_worker *worker = NULL;
    *ret_state_fd = -1;
    quern_worker_options worker_opts = worker_options(work);
    qn_work_handlers_set(work, OPTION_CHILDREN, &worker_opts);
    quern_status status = quern_worker_new(url, work->mux, &worker_opts, &worker, &err);
    if (status == QUERN_OK && work->estate.data != NULL) {
        status = qn_hand_over_adopt(worker, &work->estate, &err);
    }
    if (status == QUERN_E_INVALID) { /* the URL was right: an option of the command line is not */
        return qn_cli_usage(work->cli, "%s", err.text);
    }
    if (status != QUERN_OK) {
        quern_worker_free(worker);
        return qn_cli_open_failed(work->cli, &err);
    }
    qn_work_signal_start(worker);
    qn_work_health_of(work, worker, false);
    status = quern_worker_run(worker, &err);
    qn_work_signal_stop();
    if (status == QUERN_OK && qn_hand_over_take(worker, ret_state_fd)) {
        qn_work_health_stop(work);
        qn_work_health_of(work, NULL, false);
        quern_worker_free(worker);
        return QN_EXIT_OK;
    }
    quern_worker_stats stats;
    qn_work_health_of(work, NULL, true);
    quern_worker_get_stats(worker, &stats);
    qn_work_end_report(work, &stats);
    if (status == QUERN_E_TIMEOUT) {
        /* Handlers still run on threads that use the worker: nothing may be freed under them. */
        qn_cli_message(work->cli, "%s", err.text);
        (void)fflush(stdout);
        _exit(QN_EXIT_FAILURE);
    }
    int code = status == QUERN_OK ? qn_work_end_judge(work, &stats) : qn_cli_fail(work->cli, &err);
    quern_worker_free(worker);
    return code;
}

/* Before there are threads: only then it can be forked. Handlers have one of their own. */
static int start_zygote(struct qn_work *work)
{
    const struct qn_args *args = &work->cli->args;
    bool has_commands = qn_args_given(args, OPTION_EXEC) || qn_args_given(args, OPTION_EXEC_LOOP) ||
                        qn_args_given(args, OPTION_AGGREGATE);
    quern_error err;
    quern_status status = QUERN_OK;
    if (work->handlers.path == NULL) {
        status = quern_zygote_start(work->mux, NULL, &work->zygote, &err);
    } else if (has_commands) {
        status = qn_nursery_add_commands(work->zygote, &err);
    }
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(work->cli, &err);
}

static int prepare(struct qn_work *work)
{
    int exit_code = qn_work_queues_read(work, OPTION_QUEUE);
    exit_code = exit_code == QN_EXIT_OK ? make_mux(work) : exit_code;
    return exit_code == QN_EXIT_OK ? start_zygote(work) : exit_code;
}

/* The configuration first: with other values the program is replaced, and reads the rest again. */
static bool reload(quern_worker *worker, void *user)
{
    return qn_work_reconfigure(user, worker) || qn_work_handlers_reload(worker, user);
}

static void serve(struct qn_work *work)
{
    const struct qn_work_signal_service service = {.reload = work->reloads ? reload : NULL,
                                                   .check = qn_work_restart_check};
    qn_work_signal_serve(&service, work);
}

/* Ends commands that stay, and the zygotes, as far as no child of them goes on. */
static void finish_mux(struct qn_work *work)
{
    qn_work_handlers_finish(work);
    quern_mux_free(work->mux);
    work->mux = NULL;
}

/* Its thread begins here, after zygotes were forked, and lives as long as the worker. */
static int run_traced(struct qn_work *work, const char *url, int *ret_state_fd)
{
    *ret_state_fd = -1;
    int exit_code = qn_otlp_open(work->cli, OPTION_OTLP, on_log, work, &work->otlp);
    exit_code = exit_code == QN_EXIT_OK ? run_one(work, url, ret_state_fd) : exit_code;
    qn_otlp_close(work->otlp);
    work->otlp = NULL;
    return exit_code;
}

/* Where the next program cannot be executed, this one takes over from itself. It has no threads
 * then, as at its start. */
static int run_worker(struct qn_work *work, const char *url)
{
    int state_fd = -1;
    int exit_code = run_traced(work, url, &state_fd);
    while (state_fd >= 0) {
        qn_work_signal_serve_end();
        finish_mux(work);
        qn_work_queues_finish(work);
        qn_work_restart_exec(work, state_fd);
        exit_code = qn_work_restart_take(work, state_fd);
        exit_code = exit_code == QN_EXIT_OK ? prepare(work) : exit_code;
        state_fd = -1;
        if (exit_code == QN_EXIT_OK) {
            serve(work);
            qn_work_health_start(work);
            exit_code = run_traced(work, url, &state_fd);
        }
    }
    return exit_code;
}

static int open_and_run(struct qn_work *work)
{
    const char *url = NULL;
    int exit_code = qn_cli_broker_url(work->cli, true, &url);
    if (work->only_checks) {
        return exit_code;
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_work_health_open(work, qn_args_text(&work->cli->args, OPTION_HEALTH_PORT));
    }
    if (exit_code == QN_EXIT_OK) {
        qn_work_health_start(work);
    }
    /* The worker that it continues has asked the broker; this one waits for none of that. */
    if (exit_code == QN_EXIT_OK && work->estate.data == NULL) {
        exit_code = qn_work_queues_check(work, url);
        exit_code = exit_code == QN_EXIT_OK ? qn_work_start(work, url) : exit_code;
    }
    return exit_code == QN_EXIT_OK ? run_worker(work, url) : exit_code;
}

static int run_work(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const char *format = qn_args_text(args, OPTION_LOG_FORMAT);
    struct qn_work_settings settings;
    qn_work_signal_hold();
    struct qn_work *work = qn_memory_must(qn_alloc_zero(1, sizeof *work));
    work->cli = cli;
    work->concurrency = qn_work_settings_concurrency(cli);
    work->strict = qn_args_given(args, OPTION_STRICT);
    work->drain = qn_args_given(args, OPTION_DRAIN);
    work->until_idle = qn_args_given(args, OPTION_UNTIL_IDLE);
    work->aggregates = qn_args_given(args, OPTION_AGGREGATE);
    work->no_retry = qn_cli_no_retry(work->cli);
    work->log.json = cli->json;
    qn_work_log_init(&work->log);
    bool is_known = format != NULL && qn_work_log_set_format(&work->log, format);
    (void)is_known; /* else text, for the faults that come next */
    cli->on_message = qn_work_log_message;
    cli->message_user = &work->log;
    qn_notify_take();
    int exit_code = qn_work_settings_read(cli, &settings);
    if (exit_code == QN_EXIT_OK) {
        (void)qn_work_settings_apply(&settings, &work->log);
        work->reloads = settings.reloads;
        exit_code = qn_work_restart_read(work);
    }
    exit_code = exit_code == QN_EXIT_OK ? prepare(work) : exit_code;
    if (exit_code == QN_EXIT_OK) {
        serve(work);
        qn_work_signal_end_early(cli, work->estate.data != NULL);
        exit_code = open_and_run(work);
    }
    qn_work_signal_release();
    qn_work_signal_serve_end();
    qn_work_health_finish(work);
    cli->on_message = NULL;
    qn_work_log_finish(&work->log);
    qn_work_queues_finish(work);
    qn_work_end_finish(work);
    qn_estate_finish(&work->estate);
    finish_mux(work);
    qn_free(work);
    return exit_code;
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "run tasks with shell commands: exit 0 done, 75 retry, 65 archive; fd 3: progress",
    .example = "  quern work --exec 'image:=./resize' --queue media=3 --queue default",
    .options = qn_work_options,
    .option_count = QN_WORK_OPTION_COUNT,
    .run = run_work,
    .check = qn_work_reconfigure_check,
}};
const struct qn_noun qn_noun_work = {"work", "run tasks with shell commands", verbs, 1};
