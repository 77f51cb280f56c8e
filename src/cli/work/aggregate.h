/* SPDX-License-Identifier: MIT */
/* aggregate.h - shell commands as aggregators: `quern work --aggregate`. */
#ifndef QN_CLI_WORK_AGGREGATE_H
#define QN_CLI_WORK_AGGREGATE_H

#include "cli/cli.h"
#include "quern/mux.h"

/* Where the options stand in the table of the verb. */
struct qn_work_aggregate_options {
    size_t aggregate;
    size_t type;
    size_t grace;
    size_t max_delay;
    size_t max_size;
};

/* Registers the commands of the command line with the mux; returns the exit code. */
int qn_work_aggregate_read(const struct qn_cli *cli, struct qn_work_aggregate_options options,
                           quern_mux *mux);

#endif
