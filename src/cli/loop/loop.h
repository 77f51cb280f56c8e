/* SPDX-License-Identifier: MIT */
/* loop.h - commands that stay and run many tasks: `quern work --exec-loop`. */
#ifndef QN_CLI_LOOP_LOOP_H
#define QN_CLI_LOOP_LOOP_H

#include "quern/mux.h"

struct qn_loop_options {
    uint64_t runs_max; /* then a process is replaced; 0: never */
    int64_t start_ms;  /* within which it must be ready; 0: 30 s */
    bool log_stderr;
    bool no_new_privs;
};

/* Serves `pattern` by processes of this command, one for each run at a time. They end with the
 * mux. Errors as quern_mux_exec. */
QUERN_NODISCARD quern_status qn_loop_add(quern_mux *mux, const char *pattern, const char *command,
                                         const struct qn_loop_options *options, quern_error *err);

#endif
