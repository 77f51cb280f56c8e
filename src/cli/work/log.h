/* SPDX-License-Identifier: MIT */
/* log.h - the output of a worker: log lines on stderr, finished runs as JSON. */
#ifndef QN_CLI_WORK_LOG_H
#define QN_CLI_WORK_LOG_H

#include <stdbool.h>

#include "base/log.h"
#include "quern/worker.h"

enum qn_log_format { QN_LOG_FORMAT_TEXT, QN_LOG_FORMAT_LOGFMT, QN_LOG_FORMAT_JSON };

struct qn_work_log {
    _Atomic(quern_log_level) level_min;
    _Atomic(enum qn_log_format) format;
    _Atomic(bool) verbose; /* a line for each run */
    bool journal; /* stderr goes to journald: a priority before each line, no time in texts */
    bool json;    /* a JSON line on stdout for each run */
    struct qn_log lines; /* for lines of the program's own */
};

void qn_work_log_init(struct qn_work_log *log);
void qn_work_log_finish(struct qn_work_log *log);
/* False: there is no such format. */
QUERN_NODISCARD bool qn_work_log_find_format(const char *name, enum qn_log_format *ret_format);
QUERN_NODISCARD bool qn_work_log_set_format(struct qn_work_log *log, const char *name);

/* Callbacks of the worker; user is a struct qn_work_log. */
void qn_work_log_line(quern_log_level level, const char *line, void *user);
void qn_work_log_run(const quern_run_report *report, void *user);
void qn_work_log_level(quern_log_level level, void *user);
/* Callback of qn_cli_message: the program's messages as lines of the log, or with "quern: work:
 * ". */
void qn_work_log_message(quern_log_level level, const char *text, void *user);

#endif
