/* SPDX-License-Identifier: MIT */
/* replay_run.c - `quern internal replay`: a worker that runs the one task of a scratch broker once.
 *
 * It is the process that a debugger sees, so the handlers of a shared object run in it, on one
 * thread, and not in a child. It stops with the report of its first run, and does not print the
 * outcome: that is in the broker, where replay.c finds it also when this process has died. Time
 * passes while a debugger holds it, so leases are long and nothing that is slow is taken for stuck.
 */
#include "cli/replay/replay_run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/handlers/load.h"
#include "cli/work/log.h"
#include "cli/work/signal.h"

#define LEASE_MS (7 * 24 * 3600 * INT64_C(1000))

enum option { OPTION_EXEC, OPTION_HANDLERS, OPTION_QUEUE };

const struct qn_option qn_replay_run_options[QN_REPLAY_RUN_OPTION_COUNT] = {
    [OPTION_EXEC] = {"exec", "COMMAND", "as of task replay", QN_OPTION_TEXT},
    [OPTION_HANDLERS] = {"handlers", "FILE", "as of task replay", QN_OPTION_TEXT},
    [OPTION_QUEUE] = {"queue", "NAME", "the queue of the task", QN_OPTION_TEXT},
};

struct replay_run {
    quern_worker *worker;
    struct qn_work_log log;
};

/* Of what the log has for information, only what a command wrote. */
static void on_log(quern_log_level level, const char *line, void *user)
{
    struct replay_run *run = user;
    if (level > QUERN_LOG_INFO || strstr(line, " stderr=") != NULL) {
        qn_work_log_line(level, line, &run->log);
    }
}

/* A task that crashes is pending again at once; it must not be taken before on_run stops the
 * worker, so CONT does not resume this one: a debugger sends it to each process that it leaves. */
static quern_outcome run_once(quern_run *task_run, const quern_task *task, quern_handler next,
                              void *next_user, void *user)
{
    const struct replay_run *run = user;
    quern_worker_quiet(run->worker);
    return next(task_run, task, next_user);
}

static void on_run(const quern_run_report *report, void *user)
{
    const struct replay_run *run = user;
    (void)report;
    quern_worker_stop(run->worker);
}

static quern_status fill_mux(const struct qn_args *args, quern_mux *mux, struct replay_run *run,
                             quern_error *err)
{
    const char *command = qn_args_text(args, OPTION_EXEC);
    const char *path = qn_args_text(args, OPTION_HANDLERS);
    quern_status status = quern_mux_not_found(mux, QUERN_ARCHIVE, err);
    if (status == QUERN_OK) {
        status = quern_mux_use(mux, run_once, run, err);
    }
    if (status == QUERN_OK && path != NULL) {
        status = qn_handlers_load(path, mux, err);
    }
    if (status == QUERN_OK && command != NULL) {
        const quern_exec_options options = {.log_stderr = true};
        status = quern_mux_exec(mux, "*", command, &options, err);
    }
    return status;
}

static quern_status run_worker(struct qn_cli *cli, const char *url, const quern_mux *mux,
                               struct replay_run *run, quern_error *err)
{
    const quern_queue queue = {.name = qn_args_text(&cli->args, OPTION_QUEUE)};
    const quern_worker_options options = {
        .queues = &queue,
        .queue_count = 1,
        .concurrency = 1,
        .until_idle = true,
        .no_wait = true,
        .lease_ms = LEASE_MS,
        .shutdown_timeout_ms = 1, /* of a run that a signal interrupts */
        .stuck_timeout_ms = -1,
        .on_log = on_log,
        .on_run = on_run,
        .user = run,
    };
    quern_status status = quern_worker_new(url, mux, &options, &run->worker, err);
    if (status == QUERN_OK) {
        qn_work_signal_start(run->worker);
        (void)signal(SIGTSTP, SIG_DFL);
        (void)signal(SIGCONT, SIG_DFL); /* see run_once */
        status = quern_worker_run(run->worker, err);
        qn_work_signal_stop();
    }
    return status;
}

int qn_replay_run(struct qn_cli *cli)
{
    quern_error err;
    quern_mux *mux = NULL;
    const char *url = NULL;
    struct replay_run run = {.log.level_min = QUERN_LOG_INFO};
    int exit_code = qn_cli_broker_url(cli, false, &url);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    (void)snprintf(cli->where, sizeof cli->where, "task replay");
    qn_work_log_init(&run.log);
    quern_status status = quern_mux_new(&mux, &err);
    if (status == QUERN_OK) {
        status = fill_mux(&cli->args, mux, &run, &err);
    }
    qn_work_signal_hold(); /* not before: an object that hangs as it is loaded must be killed */
    if (status == QUERN_OK) {
        status = run_worker(cli, url, mux, &run, &err);
    }
    if (status != QUERN_OK) {
        qn_cli_message(cli, "%s", err.text);
    }
    if (status != QUERN_E_TIMEOUT) { /* else a thread still uses them */
        quern_worker_free(run.worker);
        quern_mux_free(mux);
    }
    qn_work_log_finish(&run.log);
    return status == QUERN_OK ? QN_EXIT_OK : QN_EXIT_FAILURE;
}
