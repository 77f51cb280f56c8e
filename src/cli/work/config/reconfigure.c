/* SPDX-License-Identifier: MIT */
/* reconfigure.c - see reconfigure.h.
 *
 * The command line, the environment and the file are read as at the start, beside the values in
 * use, and checked in the same way. Where they differ:
 *   - the log, the concurrency and the weights of queues change at once;
 *   - the broker, and what this worker is for others (its host, its leases), would mix up runs of
 *     two workers in one process: a stop and a start have to bring these, and until then nothing
 *     else that takes a restart;
 *   - everything else is read by the program that replaces this one in the same process
 *     (restart.h), where runs in children go on. */
#include "cli/work/config/reconfigure.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "cli/config/again.h"
#include "cli/memory.h"
#include "cli/work/config/commands.h"
#include "cli/work/config/settings.h"
#include "cli/work/options.h"
#include "cli/work/queues.h"

#define NAMES_SIZE 512

/* The values as they would be after a start now. */
struct fresh {
    struct qn_cli cli;
    struct qn_work work; /* only its queues */
    struct qn_work_settings settings;
    char why[QN_CONFIG_WHY_SIZE]; /* the first fault */
};

/* Names of options that have changed, with blanks between them. */
struct changes {
    char restart[NAMES_SIZE];
    char start[NAMES_SIZE];
    bool weights;
    bool concurrency;
};

static void keep_fault(quern_log_level level, const char *text, void *user)
{
    struct fresh *fresh = user;
    if (level >= QUERN_LOG_ERROR && fresh->why[0] == '\0') {
        (void)snprintf(fresh->why, sizeof fresh->why, "%s", text);
    }
}

int qn_work_reconfigure_check(struct qn_cli *cli)
{
    struct qn_work_settings settings;
    struct qn_work *work = qn_memory_must(qn_alloc_zero(1, sizeof *work));
    work->cli = cli;
    int exit_code = qn_work_settings_read(cli, &settings);
    exit_code = exit_code == QN_EXIT_OK ? qn_work_queues_read(work, OPTION_QUEUE) : exit_code;
    exit_code = exit_code == QN_EXIT_OK ? qn_work_commands_check(cli) : exit_code;
    qn_work_queues_finish(work);
    qn_free(work);
    return exit_code;
}

/* --- Reading ------------------------------------------------------------------------------ */

/* False: fresh->why has the reason. Finished by finish in any case. */
static bool read_fresh(const struct qn_work *work, struct fresh *fresh)
{
    struct qn_cli *cli = &fresh->cli;
    *fresh = (struct fresh){.work.cli = cli};
    cli->on_message = keep_fault;
    cli->message_user = fresh;
    if (!qn_again_read(work->cli, cli, fresh->why)) {
        return false;
    }
    fresh->work.concurrency = qn_work_settings_concurrency(cli);
    return qn_work_reconfigure_check(cli) == QN_EXIT_OK &&
           qn_work_settings_read(cli, &fresh->settings) == QN_EXIT_OK &&
           qn_work_queues_read(&fresh->work, OPTION_QUEUE) == QN_EXIT_OK;
}

static void finish(struct fresh *fresh)
{
    qn_work_queues_finish(&fresh->work);
    qn_again_finish(&fresh->cli);
}

/* --- Comparing ---------------------------------------------------------------------------- */

/* Whether the same queues are served, which may have other weights. */
static bool serves_same(const struct qn_work *work, const struct qn_work *other, bool *ret_weights)
{
    size_t found = 0;
    *ret_weights = false;
    for (size_t i = 0; i < work->queue_count; i++) {
        for (size_t k = 0; k < other->queue_count; k++) {
            if (strcmp(work->queues[i].name, other->queues[k].name) == 0) {
                found++;
                *ret_weights = *ret_weights || work->queues[i].weight != other->queues[k].weight;
            }
        }
    }
    return found == work->queue_count && found == other->queue_count;
}

static bool is_for_start(size_t option)
{
    switch (option) {
    case OPTION_LEASE:
    case OPTION_HOST:
    case OPTION_DRAIN:
    case OPTION_UNTIL_IDLE:
    case OPTION_CGROUP:
    case OPTION_HEALTH_PORT:
    case OPTION_CHILDREN + QN_WORK_CHILDREN_POOL:
        return true;
    default:
        return false;
    }
}

static bool is_of_log(size_t option)
{
    return option == OPTION_QUIET || option == OPTION_VERBOSE || option == OPTION_LOG_FORMAT;
}

static void add_name(char names[NAMES_SIZE], const char *name)
{
    size_t used = strlen(names);
    (void)snprintf(names + used, NAMES_SIZE - used, "%s%s", used > 0 ? " " : "", name);
}

/* Against the values that the process was started with, but for what can change while it runs. */
static void compare(const struct qn_work *work, const struct fresh *fresh, struct changes *changes)
{
    const struct qn_cli *now = work->cli;
    const struct qn_cli *next = &fresh->cli;
    *changes = (struct changes){.weights = false};
    if (qn_again_moves(now, next)) {
        add_name(changes->start, qn_args_globals[QN_GLOBAL_BROKER].name);
    }
    for (size_t i = QN_GLOBAL_JSON; i <= QN_GLOBAL_NO_RETRY; i++) {
        if ((now->args.globals[i].text == NULL) != (next->args.globals[i].text == NULL)) {
            add_name(changes->restart, qn_args_globals[i].name);
        }
    }
    changes->concurrency = work->concurrency != fresh->work.concurrency;
    bool is_same = serves_same(work, &fresh->work, &changes->weights);
    if (!is_same || (work->strict && changes->weights)) {
        add_name(changes->restart, qn_work_options[OPTION_QUEUE].name);
        changes->weights = false;
    }
    for (size_t i = 0; i < QN_WORK_OPTION_COUNT; i++) {
        if (i != OPTION_QUEUE && i != OPTION_CONCURRENCY && !is_of_log(i) &&
            qn_again_differs(now, next, i)) {
            add_name(is_for_start(i) ? changes->start : changes->restart, qn_work_options[i].name);
        }
    }
}

/* --- Applying ----------------------------------------------------------------------------- */

static bool set_weights(struct qn_work *work, quern_worker *worker, const struct fresh *fresh)
{
    quern_error err;
    quern_status status =
        quern_worker_set_weights(worker, fresh->work.queues, fresh->work.queue_count, &err);
    for (size_t i = 0; status == QUERN_OK && i < work->queue_count; i++) {
        for (size_t k = 0; k < fresh->work.queue_count; k++) {
            if (strcmp(work->queues[i].name, fresh->work.queues[k].name) == 0) {
                work->queues[i].weight = fresh->work.queues[k].weight;
            }
        }
    }
    return status == QUERN_OK;
}

static bool resize(struct qn_work *work, quern_worker *worker, const struct fresh *fresh)
{
    quern_error err;
    bool is_set = quern_worker_resize(worker, fresh->work.concurrency, &err) == QUERN_OK;
    work->concurrency = is_set ? fresh->work.concurrency : work->concurrency;
    return is_set;
}

static void log_names(struct qn_work *work, quern_log_level level, const char *message,
                      const char *names)
{
    QN_LOG(&work->log.lines, level, message, QN_LOG_TEXT("file", work->cli->config_path),
           QN_LOG_TEXT("options", names));
}

static void apply_now(struct qn_work *work, quern_worker *worker, const struct fresh *fresh,
                      const struct changes *changes)
{
    char applied[NAMES_SIZE] = "";
    if (qn_work_settings_apply(&fresh->settings, &work->log)) {
        add_name(applied, "log");
    }
    if (changes->weights && set_weights(work, worker, fresh)) {
        add_name(applied, qn_work_options[OPTION_QUEUE].name);
    }
    if (changes->concurrency && resize(work, worker, fresh)) {
        add_name(applied, qn_work_options[OPTION_CONCURRENCY].name);
    }
    log_names(work, QUERN_LOG_INFO, "configuration read again", applied);
}

static void log_start(struct qn_work *work, const struct changes *changes)
{
    log_names(work, QUERN_LOG_WARN, "values of the configuration wait for a stop and a start",
              changes->start);
}

bool qn_work_reconfigure_has_file(const struct qn_work *work)
{
    return work->cli->config_path != NULL;
}

bool qn_work_reconfigure(struct qn_work *work, quern_worker *worker)
{
    struct changes changes;
    bool must_restart = false;
    if (!qn_work_reconfigure_has_file(work) || worker == NULL) {
        return false; /* none, or it will be read with the worker's start */
    }
    struct fresh *fresh = qn_memory_must(qn_alloc_zero(1, sizeof *fresh));
    if (!read_fresh(work, fresh)) {
        QN_LOG(&work->log.lines, QUERN_LOG_WARN, "configuration not used, the old values stay",
               QN_LOG_TEXT("error", fresh->why));
    } else {
        compare(work, fresh, &changes);
        apply_now(work, worker, fresh, &changes);
        must_restart = changes.start[0] == '\0' && changes.restart[0] != '\0';
        if (must_restart) {
            log_names(work, QUERN_LOG_INFO, "configuration has other values, the worker restarts",
                      changes.restart);
        } else if (changes.start[0] != '\0') {
            add_name(changes.start, changes.restart);
            log_start(work, &changes);
        }
    }
    finish(fresh);
    qn_free(fresh);
    return must_restart;
}

bool qn_work_reconfigure_may_restart(struct qn_work *work)
{
    struct changes changes = {.weights = false};
    if (!qn_work_reconfigure_has_file(work)) {
        return true;
    }
    struct fresh *fresh = qn_memory_must(qn_alloc_zero(1, sizeof *fresh));
    if (read_fresh(work, fresh)) {
        compare(work, fresh, &changes);
    } /* else the new program will refuse, and say why */
    bool may = changes.start[0] == '\0';
    if (!may) {
        log_start(work, &changes);
    }
    finish(fresh);
    qn_free(fresh);
    return may;
}
