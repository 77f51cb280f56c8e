/* SPDX-License-Identifier: MIT */
/* zygote.c - the process that has the handlers of a shared object: this program, executed again.
 *
 * Its messages are the facts alone: the worker that started it repeats them, with its own name in
 * front. */
#include "cli/handlers/zygote.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/handlers/load.h"

enum option { OPTION_HANDLERS, OPTION_UNKNOWN };
const struct qn_option qn_handlers_zygote_options[QN_HANDLERS_ZYGOTE_OPTION_COUNT] = {
    [OPTION_HANDLERS] = {"handlers", "FILE", "as of work", QN_OPTION_TEXT},
    [OPTION_UNKNOWN] = {"unknown", "WHAT", "as of work", QN_OPTION_TEXT},
};

bool qn_handlers_zygote_unknown(const char *name, bool *ret_known, quern_outcome *ret_outcome)
{
    bool archives = name != NULL && strcmp(name, "archive") == 0;
    bool retries = name != NULL && strcmp(name, "retry") == 0;
    *ret_known = archives || retries || name == NULL || strcmp(name, "leave") == 0;
    *ret_outcome = archives ? QUERN_ARCHIVE : QUERN_RETRY;
    return archives || retries;
}

static quern_status serve(const struct qn_args *args, quern_mux *mux, quern_error *err)
{
    bool known = false;
    quern_outcome outcome = QUERN_RETRY;
    const char *path = qn_args_text(args, OPTION_HANDLERS);
    quern_status status = qn_handlers_load(path != NULL ? path : "", mux, err);
    if (status == QUERN_OK &&
        qn_handlers_zygote_unknown(qn_args_text(args, OPTION_UNKNOWN), &known, &outcome)) {
        status = quern_mux_not_found(mux, outcome, err);
    }
    return status == QUERN_OK ? quern_zygote_serve(mux, NULL, err) : status;
}

int qn_handlers_zygote_run(struct qn_cli *cli)
{
    quern_error err = {.text = ""};
    quern_mux *mux = NULL;
    quern_status status = quern_mux_new(&mux, &err);
    if (status == QUERN_OK) {
        status = serve(&cli->args, mux, &err);
    }
    quern_mux_free(mux);
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return QN_EXIT_CONFIG;
    }
    return QN_EXIT_OK;
}

quern_status qn_handlers_zygote_open(const char *path, const char *unknown,
                                     quern_zygote **ret_zygote, quern_error *err)
{
    char self[PATH_MAX];
    char file[PATH_MAX];
    char what[32];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "/proc/self/exe cannot be read");
    }
    self[size] = '\0';
    int length = snprintf(file, sizeof file, "--handlers=%s", path);
    (void)snprintf(what, sizeof what, "--unknown=%s", unknown != NULL ? unknown : "leave");
    if (length < 0 || (size_t)length >= sizeof file) {
        return qn_error_set(err, QUERN_E_INVALID, "the name of the file is too long");
    }
    char program[] = "quern";
    char internal[] = "internal";
    char verb[] = "zygote";
    char *const argv[] = {program, internal, verb, file, what, NULL};
    return quern_zygote_exec(self, argv, NULL, ret_zygote, err);
}
