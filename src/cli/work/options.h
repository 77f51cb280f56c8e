/* SPDX-License-Identifier: MIT */
/* options.h - the options of `quern work`, for work.c. */
#ifndef QN_CLI_WORK_OPTIONS_H
#define QN_CLI_WORK_OPTIONS_H

#include "cli/args.h"
#include "cli/handlers/policies.h"
#include "cli/otlp/otlp.h"
#include "cli/work/handlers.h"

enum qn_work_option {
    OPTION_EXEC,
    OPTION_EXEC_LOOP,
    OPTION_HANDLERS,
    OPTION_AGGREGATE,
    OPTION_QUEUE,
    OPTION_STRICT,
    OPTION_CONCURRENCY,
    OPTION_DRAIN,
    OPTION_UNTIL_IDLE,
    OPTION_SHUTDOWN_TIMEOUT,
    OPTION_LEASE,
    OPTION_HOST,
    OPTION_UNKNOWN,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_LOG_FORMAT,
    OPTION_ON_HUP,
    OPTION_LOG_STDERR,
    OPTION_NO_NEW_PRIVS,
    OPTION_LOOP_RUNS,
    OPTION_LOOP_START,
    OPTION_CGROUP,
    OPTION_AGGREGATE_TYPE,
    OPTION_GROUP_GRACE,
    OPTION_GROUP_MAX_DELAY,
    OPTION_GROUP_MAX_SIZE,
    OPTION_SOFT_SHUTDOWN_TIMEOUT,
    OPTION_PREFETCH,
    OPTION_HEALTH_PORT,
    OPTION_STALL_TIMEOUT,
    OPTION_OTLP,                                          /* and the one behind it */
    OPTION_CHILDREN = OPTION_OTLP + QN_OTLP_OPTION_COUNT, /* and those behind it */
    OPTION_POLICIES = OPTION_CHILDREN + QN_WORK_CHILDREN_COUNT,
    QN_WORK_OPTION_COUNT = OPTION_POLICIES + QN_POLICY_COUNT
};

extern const struct qn_option qn_work_options[QN_WORK_OPTION_COUNT];

_Static_assert(QN_WORK_OPTION_COUNT <= QN_OPTION_MAX, "struct qn_args has no room for them");

#endif
