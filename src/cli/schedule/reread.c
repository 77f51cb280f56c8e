/* SPDX-License-Identifier: MIT */
/* reread.c - see reread.h.
 *
 * A signal handler can do none of this, so a thread does. Which files and broker a scheduler has is
 * fixed when it starts; the log says so where these have changed. */
#include "cli/schedule/reread.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/thread.h"
#include "cli/config/again.h"
#include "cli/memory.h"

#define NAMES_SIZE 256

struct qn_schedule_reread {
    const struct qn_cli *cli;
    struct qn_work_log *log;
    int (*read)(const struct qn_cli *cli, struct qn_work_settings *settings);
    pthread_t thread;
    sem_t asked;
    atomic_bool ends;
};

/* What is read, and its first fault. */
struct fresh {
    struct qn_cli cli;
    struct qn_work_settings settings;
    char why[QN_CONFIG_WHY_SIZE];
};

static void keep_fault(quern_log_level level, const char *text, void *user)
{
    struct fresh *fresh = user;
    if (level >= QUERN_LOG_ERROR && fresh->why[0] == '\0') {
        (void)snprintf(fresh->why, sizeof fresh->why, "%s", text);
    }
}

static bool is_of_log(const char *name)
{
    return strcmp(name, "quiet") == 0 || strcmp(name, "verbose") == 0 ||
           strcmp(name, "log-format") == 0;
}

static void add_name(char names[NAMES_SIZE], const char *name)
{
    size_t used = strlen(names);
    (void)snprintf(names + used, NAMES_SIZE - used, "%s%s", used > 0 ? " " : "", name);
}

static void apply(struct qn_schedule_reread *own, const struct fresh *fresh)
{
    char names[NAMES_SIZE] = "";
    const char *applied = qn_work_settings_apply(&fresh->settings, own->log) ? "log" : "";
    QN_LOG(&own->log->lines, QUERN_LOG_INFO, "configuration read again",
           QN_LOG_TEXT("file", own->cli->config_path), QN_LOG_TEXT("options", applied));
    if (qn_again_moves(own->cli, &fresh->cli)) {
        add_name(names, qn_args_globals[QN_GLOBAL_BROKER].name);
    }
    for (size_t i = 0; i < own->cli->verb->option_count; i++) {
        const char *name = own->cli->verb->options[i].name;
        if (!is_of_log(name) && qn_again_differs(own->cli, &fresh->cli, i)) {
            add_name(names, name);
        }
    }
    if (names[0] != '\0') {
        QN_LOG(&own->log->lines, QUERN_LOG_WARN,
               "values of the configuration wait for a stop and a start",
               QN_LOG_TEXT("file", own->cli->config_path), QN_LOG_TEXT("options", names));
    }
}

static void read_again(struct qn_schedule_reread *own)
{
    struct fresh *fresh = qn_memory_must(qn_alloc_zero(1, sizeof *fresh));
    fresh->cli.on_message = keep_fault;
    fresh->cli.message_user = fresh;
    if (qn_again_read(own->cli, &fresh->cli, fresh->why) &&
        own->read(&fresh->cli, &fresh->settings) == QN_EXIT_OK) {
        apply(own, fresh);
    } else {
        QN_LOG(&own->log->lines, QUERN_LOG_WARN, "configuration not used, the old values stay",
               QN_LOG_TEXT("error", fresh->why));
    }
    qn_again_finish(&fresh->cli);
    qn_free(fresh);
}

static void *serve(void *user)
{
    struct qn_schedule_reread *own = user;
    for (;;) {
        while (sem_wait(&own->asked) != 0) {
        }
        if (atomic_load(&own->ends)) {
            return NULL;
        }
        read_again(own);
    }
}

struct qn_schedule_reread *qn_schedule_reread_start(const struct qn_cli *cli,
                                                    struct qn_work_log *log,
                                                    int (*read)(const struct qn_cli *cli,
                                                                struct qn_work_settings *settings))
{
    quern_error err;
    struct qn_schedule_reread *own =
        cli->config_path != NULL ? qn_alloc_zero(1, sizeof *own) : NULL;
    if (own == NULL) {
        return NULL;
    }
    own->cli = cli;
    own->log = log;
    own->read = read;
    (void)sem_init(&own->asked, 0, 0);
    if (qn_thread_start(&own->thread, "quern-config", serve, own, &err) != QUERN_OK) {
        (void)sem_destroy(&own->asked);
        qn_free(own);
        return NULL;
    }
    return own;
}

void qn_schedule_reread_ask(struct qn_schedule_reread *reread)
{
    if (reread != NULL) {
        (void)sem_post(&reread->asked);
    }
}

void qn_schedule_reread_stop(struct qn_schedule_reread *reread)
{
    if (reread != NULL) {
        atomic_store(&reread->ends, true);
        (void)sem_post(&reread->asked);
        (void)pthread_join(reread->thread, NULL);
        (void)sem_destroy(&reread->asked);
        qn_free(reread);
    }
}
