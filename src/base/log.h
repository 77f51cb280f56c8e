/* SPDX-License-Identifier: MIT */
/* log.h - lines for the sink of an object. The library itself prints nothing: without a sink the
 * line is dropped. The sink is called by one thread at a time. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

#include <pthread.h>

#include "quern/worker.h"

struct qn_log {
    pthread_mutex_t mutex; /* serialises the sink */
    void (*sink)(quern_log_level level, const char *line, void *user);
    void *user;
};

void qn_log_init(struct qn_log *log, void (*sink)(quern_log_level, const char *, void *),
                 void *user);
void qn_log_finish(struct qn_log *log);
void qn_log_write(struct qn_log *log, quern_log_level level, const char *format, ...)
    QUERN_PRINTF(3, 4);

#endif
