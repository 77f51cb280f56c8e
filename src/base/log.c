/* SPDX-License-Identifier: MIT */
/* log.c - lines for the sink of an object.
 *
 * A line is formatted on the stack of the caller and given to the sink under the mutex, because the
 * promise to the user is one call at a time. Lines longer than LINE_SIZE_MAX are cut. Logging can
 * not fail. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

#define LINE_SIZE_MAX 1024

void qn_log_init(struct qn_log *log, void (*sink)(quern_log_level, const char *, void *),
                 void *user)
{
    log->sink = sink;
    log->user = user;
    int failed = pthread_mutex_init(&log->mutex, NULL);
    QN_ASSERT(failed == 0);
}

void qn_log_finish(struct qn_log *log)
{
    int failed = pthread_mutex_destroy(&log->mutex);
    QN_ASSERT(failed == 0);
    log->sink = NULL;
}

void qn_log_write(struct qn_log *log, quern_log_level level, const char *format, ...)
{
    if (log->sink == NULL) {
        return;
    }
    char raw[LINE_SIZE_MAX];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    if (size < 0) {
        return;
    }
    char line[LINE_SIZE_MAX];
    (void)qn_utf8_sanitize(raw, strlen(raw), line, sizeof line);
    (void)pthread_mutex_lock(&log->mutex);
    log->sink(level, line, log->user);
    (void)pthread_mutex_unlock(&log->mutex);
}
