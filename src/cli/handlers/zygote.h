/* SPDX-License-Identifier: MIT */
/* zygote.h - `quern internal zygote`, and starting it.
 *
 * A shared object is not loaded into the worker, so that its mistakes, and those of the libraries
 * that it loads, are not the worker's. */
#ifndef QN_CLI_HANDLERS_ZYGOTE_H
#define QN_CLI_HANDLERS_ZYGOTE_H

#include "cli/cli.h"
#include "cli/handlers/policies.h"
#include "quern/zygote.h"

#define QN_HANDLERS_ZYGOTE_OPTION_COUNT (3 + QN_POLICY_COUNT)
extern const struct qn_option qn_handlers_zygote_options[QN_HANDLERS_ZYGOTE_OPTION_COUNT];
/* The zygote: loads the object, and serves the worker that executed it. */
int qn_handlers_zygote_run(struct qn_cli *cli);

/* The outcome of tasks that no pattern serves, by its name on the command line: "retry" or
 * "archive"; false: the mux stays as it is ("leave"), or *ret_known is false. */
bool qn_handlers_zygote_unknown(const char *name, bool *ret_known, quern_outcome *ret_outcome);

struct qn_handlers_zygote_start {
    const struct qn_cli *cli; /* its policies are passed on */
    size_t policies;          /* where they begin in the table of its verb */
    const char *path;
    const char *unknown; /* as above; may be NULL */
    bool no_new_privs;   /* nothing there gets rights by a set-uid program */
};
/* Executes this program as a zygote with the handlers of the shared object. Errors as
 * quern_zygote_exec; the text has what the zygote reported. */
QUERN_NODISCARD quern_status qn_handlers_zygote_open(const struct qn_handlers_zygote_start *start,
                                                     quern_zygote **ret_zygote, quern_error *err);

#endif
