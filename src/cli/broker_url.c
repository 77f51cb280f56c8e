/* SPDX-License-Identifier: MIT */
/* broker_url.c - finds the broker of a command, and opens it.
 *
 * Order: --broker, QUERN_BROKER, the configuration (config/broker.c knows which of these is
 * stronger), REDIS_URL (which hosts set for a server), the default file: below the home directory,
 * or, for a service without one, in the directory that its manager has made. The default's
 * directories are made with mode 0700 by commands that enqueue or work, because tasks may be
 * confidential. Failure paths: no home directory and a wrong URL are configuration (78); a broker
 * that cannot be reached or does not exist is not available (69). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/service_dir.h"
#include "task/name.h"

#define PATH_SIZE_MAX 4096

/* Makes each missing directory above the file. */
static int make_directories(const struct qn_cli *cli, char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, 0700);
        if (failed != 0 && errno != EEXIST) {
            qn_cli_message(cli, "cannot create the directory %s: %s", path, strerror(errno));
            return QN_EXIT_BROKER;
        }
        *slash = '/';
    }
    return QN_EXIT_OK;
}

static int default_path(struct qn_cli *cli)
{
    struct qn_buf path;
    qn_buf_init(&path, PATH_SIZE_MAX);
    const char *data_home = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    quern_status status = QUERN_E_NOT_FOUND;
    char state[PATH_SIZE_MAX];
    bool has_home = home != NULL && home[0] == '/' && home[1] != '\0'; /* "/": that of no user */
    if (data_home != NULL && data_home[0] == '/') {
        status = qn_buf_printf(&path, "%s/quern/quern.db", data_home);
    } else if (!has_home &&
               qn_service_dir_join("STATE_DIRECTORY", "quern.db", state, sizeof state)) {
        status = qn_buf_append_text(&path, state);
    } else if (home != NULL && home[0] == '/') {
        status = qn_buf_printf(&path, "%s/.local/share/quern/quern.db", home);
    }
    if (status != QUERN_OK) {
        qn_buf_finish(&path);
        qn_cli_message(cli, "no home directory for the default database: give --broker URL");
        return QN_EXIT_CONFIG;
    }
    cli->broker_url = qn_memory_must(qn_secret_strdup(qn_buf_text(&path)));
    qn_buf_finish(&path);
    return QN_EXIT_OK;
}

/* A command would be alone with tasks in its own memory. */
static int check_shared(const struct qn_cli *cli, const char *url)
{
    if (!qn_str_starts_with(url, "memory:")) {
        return QN_EXIT_OK;
    }
    qn_cli_message(cli, "broker memory: is for tests within one program, no other process sees its "
                        "tasks: name a file");
    return QN_EXIT_CONFIG;
}

/* NULL: none is named. */
static const char *from_elsewhere(const struct qn_cli *cli)
{
    if (cli->configured_url != NULL) {
        return cli->configured_url;
    }
    const char *ours = getenv("QUERN_BROKER");
    const char *theirs = getenv("REDIS_URL");
    if (ours != NULL && ours[0] != '\0') {
        return ours;
    }
    return theirs != NULL && theirs[0] != '\0' ? theirs : NULL;
}

int qn_cli_broker_url(struct qn_cli *cli, bool create, const char **ret_url)
{
    const char *given = cli->args.globals[QN_GLOBAL_BROKER].text;
    const char *env = from_elsewhere(cli);
    if (given != NULL) {
        *ret_url = given;
        return check_shared(cli, given);
    }
    bool is_default = env == NULL;
    int exit_code = QN_EXIT_OK;
    if (cli->broker_url == NULL) {
        exit_code =
            is_default ? default_path(cli) : qn_cli_url_with_password(cli, env, &cli->broker_url);
    }
    if (exit_code == QN_EXIT_OK && create && is_default) {
        exit_code = make_directories(cli, cli->broker_url);
    }
    if (exit_code == QN_EXIT_OK) {
        *ret_url = cli->broker_url;
        exit_code = check_shared(cli, cli->broker_url);
    }
    return exit_code;
}

/* The directory of a database file, when there is none; the caller's. NULL: it is there, or the
 * broker is no file. */
static char *missing_directory(const char *url)
{
    struct qn_url parsed;
    if (url == NULL || qn_url_parse(url, &parsed, NULL) != QUERN_OK) {
        return NULL;
    }
    bool is_file = parsed.scheme[0] == '\0' || strcmp(parsed.scheme, "sqlite") == 0;
    char *directory = is_file ? qn_memory_must(qn_str_dup(parsed.path)) : NULL;
    qn_url_finish(&parsed);
    char *slash = directory != NULL ? strrchr(directory, '/') : NULL;
    if (slash != NULL && slash != directory) {
        *slash = '\0';
        if (access(directory, F_OK) != 0 && errno == ENOENT) {
            return directory;
        }
    }
    qn_free(directory);
    return NULL;
}

/* Commands make the directories of the default file, and of no other. */
static void report_missing_directory(const struct qn_cli *cli, const char *directory,
                                     const char *text)
{
    bool is_default =
        cli->args.globals[QN_GLOBAL_BROKER].text == NULL && from_elsewhere(cli) == NULL;
    if (is_default) {
        qn_cli_message(cli, "%s (the first enqueue or work creates it)", text);
    } else {
        qn_cli_message(cli, "%s (create it first: mkdir -p '%s')", text, directory);
    }
}

int qn_cli_open_failed(const struct qn_cli *cli, const quern_error *err)
{
    if (err->code == QUERN_E_NOT_FOUND) {
        qn_cli_message(cli, "%s (the first enqueue or work creates it)", err->text);
        return QN_EXIT_BROKER;
    }
    const char *given = cli->args.globals[QN_GLOBAL_BROKER].text;
    char *missing = err->code == QUERN_E_CONNECT
                        ? missing_directory(given != NULL ? given : cli->broker_url)
                        : NULL;
    if (missing != NULL) {
        report_missing_directory(cli, missing, err->text);
        qn_free(missing);
        return QN_EXIT_BROKER;
    }
    qn_cli_report_error(cli, err);
    if (err->code == QUERN_E_INVALID || err->code == QUERN_E_UNSUPPORTED) {
        return QN_EXIT_CONFIG;
    }
    if (err->code == QUERN_E_TIMEOUT) {
        return QN_EXIT_BROKER;
    }
    return qn_cli_exit_code(err->code);
}

bool qn_cli_will_make_file(const char *url)
{
    struct qn_url parsed;
    if (qn_url_parse(url, &parsed, NULL) != QUERN_OK) {
        return false;
    }
    bool is_file = parsed.scheme[0] == '\0' || strcmp(parsed.scheme, "sqlite") == 0;
    bool missing = is_file && access(parsed.path, F_OK) != 0 && errno == ENOENT;
    qn_url_finish(&parsed);
    return missing;
}

void qn_cli_report_made(const struct qn_cli *cli, bool made, const char *url)
{
    if (made) {
        char shown[PATH_SIZE_MAX];
        qn_url_redact(url, shown, sizeof shown);
        qn_cli_message(cli, "created the database %s", shown);
    }
}

bool qn_cli_no_retry(const struct qn_cli *cli)
{
    return cli->args.globals[QN_GLOBAL_NO_RETRY].text != NULL;
}

int qn_cli_open_client(struct qn_cli *cli, const quern_client_options *options,
                       quern_client **ret_client)
{
    const char *url = NULL;
    int exit_code = qn_cli_broker_url(cli, true, &url);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    bool makes = qn_cli_will_make_file(url);
    if (quern_client_open(url, options, ret_client, &err) != QUERN_OK) {
        return qn_cli_open_failed(cli, &err);
    }
    qn_cli_report_made(cli, makes, url);
    return QN_EXIT_OK;
}

int qn_cli_open_inspector(struct qn_cli *cli, bool create, quern_inspector **ret_inspector)
{
    const char *url = NULL;
    int exit_code = qn_cli_broker_url(cli, create, &url);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_error err;
    quern_inspector_options options = {.create = create};
    bool makes = create && qn_cli_will_make_file(url);
    if (quern_inspector_open(url, &options, ret_inspector, &err) != QUERN_OK) {
        return qn_cli_open_failed(cli, &err);
    }
    qn_cli_report_made(cli, makes, url);
    return QN_EXIT_OK;
}

void qn_cli_warn_odd_queue(const struct qn_cli *cli, quern_inspector *inspector, const char *name,
                           const char *advice)
{
    quern_queue_list *list = NULL;
    if (!qn_name_is_odd(name) || quern_inspector_queues(inspector, &list, NULL) != QUERN_OK) {
        return;
    }
    bool is_there = false;
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        is_there = is_there || strcmp(quern_queue_list_at(list, i)->name, name) == 0;
    }
    quern_queue_list_free(list);
    if (!is_there) {
        qn_cli_message(cli, "this makes a queue with the name '%s'; %s", name, advice);
    }
}
