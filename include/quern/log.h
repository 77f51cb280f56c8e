/* SPDX-License-Identifier: MIT */
/* quern/log.h - the log lines of a worker. */
#ifndef QUERN_LOG_H
#define QUERN_LOG_H

#include "quern/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum quern_log_level {
    QUERN_LOG_DEBUG = 0,
    QUERN_LOG_INFO = 1,
    QUERN_LOG_WARN = 2,
    QUERN_LOG_ERROR = 3
} quern_log_level;

/* For on_log of quern_worker_options: writes each line but those for debugging to stderr, with its
 * time and level: ts=2026-11-20T12:00:00.000Z level=info msg="worker starts" ... `user` is not
 * used. Any thread. */
QUERN_API void quern_log_stderr(quern_log_level level, const char *line, void *user);

#ifdef __cplusplus
}
#endif
#endif
