/* SPDX-License-Identifier: MIT */
/* log.h - events for the sink of an object, as lines of logfmt:
 *
 *     msg="run failed" queue=mail type=mail:welcome id=01a2 error="exit code 3\nno such host"
 *
 * A value is quoted and escaped where necessary, so that no stored text can forge a field or a
 * line. A number is never quoted, a text that looks like one always. Without a sink the line is
 * dropped. The sink is called by one thread at a time. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/log.h"
#include "quern/status.h"

struct qn_log {
    pthread_mutex_t mutex; /* serialises the sink */
    void (*sink)(quern_log_level level, const char *line, void *user);
    void *user;
};

struct qn_log_field {
    const char *name;
    const char *text; /* NULL: the field is left out, unless it is a number */
    int64_t number;
    bool is_number;
};
#define QN_LOG_TEXT(field_name, value)                                                             \
    ((struct qn_log_field){.name = (field_name), .text = (value)})
#define QN_LOG_NUMBER(field_name, value)                                                           \
    ((struct qn_log_field){.name = (field_name), .number = (int64_t)(value), .is_number = true})

void qn_log_init(struct qn_log *log, void (*sink)(quern_log_level, const char *, void *),
                 void *user);
void qn_log_finish(struct qn_log *log);
/* The message names the kind of event: the same words each time, without figures and names. */
void qn_log_event(struct qn_log *log, quern_log_level level, const char *message,
                  const struct qn_log_field *fields, size_t count);
/* The same with its fields, at least one, as arguments. */
#define QN_LOG(log, level, message, ...)                                                           \
    qn_log_event((log), (level), (message), (const struct qn_log_field[]){__VA_ARGS__},            \
                 sizeof((const struct qn_log_field[]){__VA_ARGS__}) / sizeof(struct qn_log_field))
/* A message alone, whose figures are formatted into it. */
void qn_log_write(struct qn_log *log, quern_log_level level, const char *format, ...)
    QUERN_PRINTF(3, 4);
/* "warn"; NULL for an unknown level. A static string. */
const char *qn_log_level_name(quern_log_level level);

/* The sink where the user gave none: warnings and errors to stderr, with their time. */
void qn_log_to_stderr(quern_log_level level, const char *line, void *user);

#endif
