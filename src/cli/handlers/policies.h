/* SPDX-License-Identifier: MIT */
/* policies.h - the options of single handlers and commands: `quern work --timeout 'image:=30s'`. */
#ifndef QN_CLI_HANDLERS_POLICIES_H
#define QN_CLI_HANDLERS_POLICIES_H

#include "cli/cli.h"
#include "quern/mux.h"

enum qn_policy {
    QN_POLICY_TIMEOUT,
    QN_POLICY_KILL_AFTER,
    QN_POLICY_RETRY_MAX,
    QN_POLICY_BACKOFF,
    QN_POLICY_NO_RETRY,
    QN_POLICY_ONLY_RETRY,
    QN_POLICY_ACK_ON,
    QN_POLICY_ON_CRASH,
    QN_POLICY_CONCURRENCY,
    QN_POLICY_CPU,
    QN_POLICY_MEMORY,
    QN_POLICY_ACK,
    QN_POLICY_COUNT
};

/* Rows of the table of a verb, from `first` on. */
/* clang-format off */
#define QN_POLICY_OPTIONS(first) \
    [(first) + QN_POLICY_TIMEOUT] = \
        {"timeout", "[PATTERN=]D", "limit of a run, unless the task has its own", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_KILL_AFTER] = \
        {"kill-after", "[PATTERN=]D", "from TERM to KILL of a command (5s)", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_RETRY_MAX] = \
        {"retry-max", "[PATTERN=]N", "retries, unless the task has its own", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_BACKOFF] = \
        {"backoff", "[PATTERN=]WHAT", "delay of retries, see the manual", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_NO_RETRY] = \
        {"no-retry-on", "[PATTERN=]CLASS,...", "errors that are not retried", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_ONLY_RETRY] = \
        {"only-retry", "[PATTERN=]CLASS,...", "errors that alone are retried", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_ACK_ON] = \
        {"ack-on", "[PATTERN=]WHAT", "failure, timeout or both: no retry", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_ON_CRASH] = \
        {"on-crash", "[PATTERN=]WHAT", "requeue, fail, archive or drop", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_CONCURRENCY] = \
        {"type-concurrency", "[PATTERN=]N", "runs of a pattern at a time", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_CPU] = \
        {"cpu", "[PATTERN=]D", "processor time of a run, in whole seconds", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_MEMORY] = \
        {"memory", "[PATTERN=]SIZE", "address space of a run: 512M, 2G", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}, \
    [(first) + QN_POLICY_ACK] = \
        {"ack", "[PATTERN=]early|late", "early: done before it starts, runs at most once", \
         QN_OPTION_TEXT, .repeats = true, .unlisted = true}
/* clang-format on */

/* Refuses values that cannot be understood; `first` as above. Returns the exit code. */
QUERN_NODISCARD int qn_policies_check(const struct qn_cli *cli, size_t first);
/* Refuses patterns that are not in the mux. Returns the exit code. */
QUERN_NODISCARD int qn_policies_check_patterns(const struct qn_cli *cli, size_t first,
                                               const quern_mux *mux);
/* Changes the options of this pattern, which is in the mux, where the command line says so. Returns
 * the exit code. */
QUERN_NODISCARD int qn_policies_apply(const struct qn_cli *cli, size_t first, const char *pattern,
                                      quern_mux *mux);

#endif
