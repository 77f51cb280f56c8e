/* SPDX-License-Identifier: MIT */
/* handlers.c - the zygote of a worker, and its successors.
 *
 * A reload starts a new zygote beside the old one. Only if that could load the object, and serves
 * the same patterns, it takes over: new children come from it. With other patterns, or other
 * options of them, the worker has to choose its tasks again, so the whole program is replaced as on
 * USR2 (restart.c); its children run on. Otherwise nothing has changed. */
#include "cli/work/handlers.h"

#include <stdio.h>
#include <string.h>

#include "cli/handlers/zygote.h"
#include "cli/work/probe/health.h"
#include "worker/prefork/nursery.h"

/* Whether --child-runs and --child-rss make sense, if they are given. */
static bool may_recycle(const struct qn_work *work, size_t children)
{
    const struct qn_args *args = &work->cli->args;
    bool has_rss = qn_args_given(args, children + QN_WORK_CHILDREN_RSS);
    if (has_rss && qn_args_number(args, children + QN_WORK_CHILDREN_RSS, 0) == 0) {
        (void)qn_cli_usage(work->cli, "--child-rss: 0 is refused: leave it out for no limit");
        return false;
    }
    if (work->handlers.path == NULL &&
        (has_rss || qn_args_given(args, children + QN_WORK_CHILDREN_RUNS))) {
        (void)qn_cli_usage(work->cli, "--child-runs, --child-rss: need --handlers FILE");
        return false;
    }
    return true;
}

int qn_work_handlers_open(struct qn_work *work, struct qn_work_handlers_options options)
{
    struct qn_cli *cli = work->cli;
    const char *pool = qn_args_text(&cli->args, options.children + QN_WORK_CHILDREN_POOL);
    work->handlers = (struct qn_handlers_zygote_start){
        .cli = cli,
        .path = qn_args_text(&cli->args, options.handlers),
        .unknown = qn_args_text(&cli->args, options.unknown),
        .no_new_privs = qn_args_given(&cli->args, options.no_new_privs),
        .policies = options.policies,
    };
    if (pool != NULL && strcmp(pool, "prefork") != 0 && strcmp(pool, "threads") != 0) {
        return qn_cli_usage(cli, "--pool: '%s' is not prefork or threads", pool);
    }
    bool is_prefork = pool != NULL && strcmp(pool, "prefork") == 0;
    if (!may_recycle(work, options.children)) {
        return QN_EXIT_USAGE;
    }
    if (work->handlers.path == NULL) {
        return is_prefork ? qn_cli_usage(cli, "--pool prefork: needs --handlers FILE; commands are"
                                              " processes in any pool")
                          : QN_EXIT_OK;
    }
    if (pool != NULL && !is_prefork) {
        return qn_cli_usage(cli, "--handlers: run in the prefork pool only");
    }
    quern_error err;
    if (qn_handlers_zygote_open(&work->handlers, &work->zygote, &err) != QUERN_OK) {
        qn_cli_message(cli, "--handlers: %s", err.text);
        return err.code == QUERN_E_FULL || err.code == QUERN_E_NOMEM ? QN_EXIT_TEMPORARY
                                                                     : QN_EXIT_CONFIG;
    }
    return QN_EXIT_OK;
}

void qn_work_handlers_set(const struct qn_work *work, size_t children,
                          quern_worker_options *options)
{
    const struct qn_args *args = &work->cli->args;
    bool in_children = work->handlers.path != NULL;
    options->pool = in_children ? QUERN_POOL_PREFORK : QUERN_POOL_THREADS;
    options->zygote = work->zygote;
    options->child_runs_max = (uint32_t)qn_args_number(args, children + QN_WORK_CHILDREN_RUNS, 0);
    options->child_rss_max = (uint64_t)qn_args_number(args, children + QN_WORK_CHILDREN_RSS, 0);
}

static void say(struct qn_work *work, quern_log_level level, const char *text)
{
    qn_work_log_message(level, text, &work->log);
}

/* False: there is nothing of that kind. */
static bool reload_certificates(struct qn_work *work, quern_worker *worker)
{
    quern_error err;
    quern_status status =
        worker == NULL ? QUERN_E_STATE : quern_worker_reload_certificates(worker, &err);
    if (status == QUERN_E_STATE || status == QUERN_E_UNSUPPORTED) {
        return false; /* or the broker is opened in a moment, and reads them then */
    }
    if (status == QUERN_OK) {
        say(work, QUERN_LOG_INFO, "certificates reloaded");
        return true;
    }
    char text[sizeof err.text + 64];
    (void)snprintf(text, sizeof text, "certificates not reloaded, the old ones stay: %s", err.text);
    say(work, QUERN_LOG_WARN, text);
    return true;
}

static bool reload_all(struct qn_work *work, quern_worker *worker)
{
    quern_error err;
    quern_zygote *zygote = NULL;
    bool had_certificates = reload_certificates(work, worker);
    if (work->handlers.path == NULL) {
        if (!had_certificates && work->cli->config_path == NULL) {
            say(work, QUERN_LOG_INFO,
                "nothing to reload; restart the worker to change its options");
        }
        return false;
    }
    if (worker == NULL) { /* it has not started, or has ended */
        return false;
    }
    quern_status status = qn_handlers_zygote_open(&work->handlers, &zygote, &err);
    bool must_restart = status == QUERN_OK && !qn_nursery_equal(work->zygote, zygote);
    if (status == QUERN_OK && !must_restart) {
        status = quern_worker_reload(worker, zygote, &err);
    }
    quern_zygote_free(zygote);
    if (must_restart) {
        say(work, QUERN_LOG_INFO, "handlers have other patterns or options, the worker restarts");
    } else if (status == QUERN_OK) {
        say(work, QUERN_LOG_INFO, "handlers reloaded");
    } else {
        char text[sizeof err.text + 64];
        (void)snprintf(text, sizeof text, "handlers not reloaded, the old ones stay: %s", err.text);
        say(work, QUERN_LOG_WARN, text);
    }
    return must_restart;
}

bool qn_work_handlers_reload(quern_worker *worker, void *user)
{
    struct qn_work *work = user;
    qn_work_health_reload(work, true);
    bool must_restart = reload_all(work, worker);
    qn_work_health_reload(work, false); /* a restart is a reload of its own */
    return must_restart;
}

void qn_work_handlers_finish(struct qn_work *work)
{
    quern_zygote_free(work->zygote);
    work->zygote = NULL;
}
