/* SPDX-License-Identifier: MIT */
/* zygote.c - the process that has the handlers of a shared object: this program, executed again.
 *
 * Its messages are the facts alone: the worker that started it repeats them, with its own name in
 * front. */
#include "cli/handlers/zygote.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/vec.h"
#include "cli/handlers/load.h"
#include "cli/memory.h"
#include "pool/prefork/warden/warden.h"
#include "pool/prefork/zygote_internal.h"
#include "worker/prefork/nursery.h"
#include "worker/run/mux.h"

enum { EXIT_CUT_OFF = QN_EXIT_CONFIG + 1 }; /* it cannot reach the worker any more */

enum option { OPTION_HANDLERS, OPTION_UNKNOWN, OPTION_NO_NEW_PRIVS, OPTION_POLICIES };
const struct qn_option qn_handlers_zygote_options[QN_HANDLERS_ZYGOTE_OPTION_COUNT] = {
    [OPTION_HANDLERS] = {"handlers", "FILE", "as of work", QN_OPTION_TEXT},
    [OPTION_UNKNOWN] = {"unknown", "WHAT", "as of work", QN_OPTION_TEXT},
    [OPTION_NO_NEW_PRIVS] = {"no-new-privs", NULL, "as of work", QN_OPTION_FLAG},
    QN_POLICY_OPTIONS(OPTION_POLICIES),
};

bool qn_handlers_zygote_unknown(const char *name, bool *ret_known, quern_outcome *ret_outcome)
{
    bool archives = name != NULL && strcmp(name, "archive") == 0;
    bool retries = name != NULL && strcmp(name, "retry") == 0;
    *ret_known = archives || retries || name == NULL || strcmp(name, "leave") == 0;
    *ret_outcome = archives ? QUERN_ARCHIVE : QUERN_RETRY;
    return archives || retries;
}

static bool prepare(const struct qn_args *args)
{
    return !qn_args_given(args, OPTION_NO_NEW_PRIVS) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* Whether the descriptor is still the file that it was. */
static bool is_same(int fd, const struct stat *before)
{
    struct stat after = {0};
    return fstat(fd, &after) == 0 && before->st_dev == after.st_dev &&
           before->st_ino == after.st_ino;
}

static quern_status register_all(const struct qn_args *args, int warden_fd, quern_mux *mux,
                                 quern_error *err)
{
    bool known = false;
    quern_outcome outcome = QUERN_RETRY;
    const char *path = qn_args_text(args, OPTION_HANDLERS);
    struct stat socket = {0};
    struct stat warden = {0};
    bool was_there = fstat(QN_ZYGOTE_SERVE_FD, &socket) == 0 && fstat(warden_fd, &warden) == 0;
    quern_status status = qn_handlers_load(path != NULL ? path : "", mux, err);
    if (was_there && (!is_same(QN_ZYGOTE_SERVE_FD, &socket) || !is_same(warden_fd, &warden))) {
        _exit(EXIT_CUT_OFF); /* stderr may be another's, too */
    }
    if (status == QUERN_OK &&
        qn_handlers_zygote_unknown(qn_args_text(args, OPTION_UNKNOWN), &known, &outcome)) {
        status = quern_mux_not_found(mux, outcome, err);
    }
    return status;
}

static int serve(struct qn_cli *cli, int warden_fd, quern_mux *mux)
{
    quern_error err = {.text = ""};
    quern_status status = register_all(&cli->args, warden_fd, mux, &err);
    for (size_t i = 0; status == QUERN_OK && i < qn_mux_count(mux); i++) {
        int exit_code = qn_policies_apply(cli, OPTION_POLICIES, qn_mux_at(mux, i)->pattern, mux);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
    }
    status = status == QUERN_OK ? qn_nursery_serve(mux, warden_fd, &err) : status;
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return QN_EXIT_CONFIG;
    }
    return QN_EXIT_OK;
}

int qn_handlers_zygote_run(struct qn_cli *cli)
{
    quern_error err = {.text = ""};
    quern_mux *mux = NULL;
    if (!prepare(&cli->args)) {
        (void)fprintf(stderr, "--no-new-privs: %s\n", strerror(errno));
        return QN_EXIT_CONFIG;
    }
    int warden_fd = 0;
    if (qn_warden_start(&warden_fd, &err) != QUERN_OK || quern_mux_new(&mux, &err) != QUERN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return QN_EXIT_CONFIG;
    }
    int exit_code = serve(cli, warden_fd, mux);
    quern_mux_free(mux);
    return exit_code;
}

/* The words of the command line of a zygote, owned. */
struct words {
    char **at; /* NULL behind the last */
    size_t count;
    size_t capacity;
};

/* name "": no option; value NULL: none. */
static void add_word(struct words *words, const char *name, const char *value)
{
    bool is_option = name[0] != '\0';
    bool has_value = value != NULL;
    size_t size = strlen(name) + (has_value ? strlen(value) : 0) + sizeof "--=";
    char *word = qn_memory_must(qn_alloc(size));
    (void)snprintf(word, size, "%s%s%s%s", is_option ? "--" : "", name,
                   is_option && has_value ? "=" : "", has_value ? value : "");
    words->at = qn_memory_must(
        qn_vec_grow(words->at, words->count + 1, &words->capacity, sizeof *words->at));
    words->at[words->count++] = word;
    words->at[words->count] = NULL;
}

static void finish_words(struct words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        qn_free(words->at[i]);
    }
    qn_free(words->at);
}

static struct words command_line(const struct qn_handlers_zygote_start *start)
{
    const struct qn_args *args = &start->cli->args;
    struct words words = {0};
    add_word(&words, "", "quern");
    add_word(&words, "", "internal");
    add_word(&words, "", "zygote");
    add_word(&words, "handlers", start->path);
    add_word(&words, "unknown", start->unknown != NULL ? start->unknown : "leave");
    if (start->no_new_privs) {
        add_word(&words, "no-new-privs", NULL);
    }
    for (size_t i = 0; i < QN_POLICY_COUNT; i++) {
        const char *text;
        size_t place = start->policies + i;
        for (size_t k = 0; (text = qn_args_repeat(args, place, k)) != NULL; k++) {
            add_word(&words, args->options[place].name, text);
        }
    }
    return words;
}

/* What the library reports is about the program; the reader asks about the object. A zygote that
 * ends with QN_EXIT_CONFIG has said why in whole sentences. */
static void explain(const char *self, const char *path, quern_error *err)
{
    char text[sizeof err->text];
    char reported[PATH_MAX + 64];
    char cut_off[PATH_MAX + 64];
    size_t size = strlen(self);
    (void)snprintf(cut_off, sizeof cut_off, "%s ended before it served (exit code %d)", self,
                   EXIT_CUT_OFF);
    (void)snprintf(text, sizeof text, "%s", err->text);
    int reported_size =
        snprintf(reported, sizeof reported, "%s ended before it served (exit code %d): ", self,
                 QN_EXIT_CONFIG);
    if (err->code == QUERN_E_TIMEOUT) {
        (void)qn_error_set(err, err->code, "%s: loading it takes over 10 s", path);
    } else if (strncmp(text, cut_off, strlen(cut_off)) == 0) {
        (void)qn_error_set(err, err->code,
                           "%s: while it is loaded it closes descriptors that are not its own",
                           path);
    } else if (strncmp(text, reported, (size_t)reported_size) == 0) {
        (void)qn_error_set(err, err->code, "%s", text + reported_size);
    } else if (strncmp(text, self, size) == 0) {
        (void)qn_error_set(err, err->code, "%s: the process that loads it%s", path, text + size);
    }
}

quern_status qn_handlers_zygote_open(const struct qn_handlers_zygote_start *start,
                                     quern_zygote **ret_zygote, quern_error *err)
{
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "/proc/self/exe cannot be read");
    }
    self[size] = '\0';
    if (access(self, X_OK) != 0) { /* it was replaced; this name is ours all the same */
        (void)snprintf(self, sizeof self, "/proc/self/exe");
    }
    struct words words = command_line(start);
    quern_status status = quern_zygote_exec(self, words.at, NULL, ret_zygote, err);
    finish_words(&words);
    if (status != QUERN_OK) {
        explain(self, start->path, err);
    }
    return status;
}
