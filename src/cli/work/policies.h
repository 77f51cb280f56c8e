/* SPDX-License-Identifier: MIT */
/* policies.h - the options of single commands: `quern work --timeout 'image:=30s'`. */
#ifndef QN_CLI_WORK_POLICIES_H
#define QN_CLI_WORK_POLICIES_H

#include "cli/cli.h"
#include "quern/mux.h"

/* Where the options stand in the table of the verb. */
struct qn_work_policy_options {
    size_t exec;
    size_t timeout;
    size_t kill_after;
    size_t retry_max;
    size_t backoff;
    size_t no_retry;
    size_t only_retry;
    size_t ack_on;
    size_t on_crash;
    size_t concurrency;
};

/* Gives the commands of --exec, which are in the mux already, their options; returns the exit code.
 */
QUERN_NODISCARD int qn_work_policies_read(const struct qn_cli *cli,
                                          struct qn_work_policy_options places, quern_mux *mux);

#endif
