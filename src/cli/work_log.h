/* SPDX-License-Identifier: MIT */
/* work_log.h - what a worker says while it works: lines on stderr, finished runs as JSON. */
#ifndef QN_CLI_WORK_LOG_H
#define QN_CLI_WORK_LOG_H

#include <stdbool.h>

#include "quern/worker.h"

struct qn_work_log {
    quern_log_level level_min;
    bool verbose; /* a line for each run */
    bool json;    /* a JSON line on stdout for each run */
};

/* Callbacks of the worker; user is a struct qn_work_log. */
void qn_work_log_line(quern_log_level level, const char *line, void *user);
void qn_work_log_run(const quern_run_report *report, void *user);

#endif
