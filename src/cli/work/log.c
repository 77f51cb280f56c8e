/* SPDX-License-Identifier: MIT */
/* log.c - prints the worker's log, in the chosen format.
 *
 * The worker calls one at a time, from its own threads; its lines are logfmt (base/log.h). Each
 * line goes out in one write. Stdout is flushed after each run, because its reader wants to see
 * runs as they end; when the reader is gone the lines are lost and the worker continues, since
 * tasks matter more than their log. */
#include "cli/work/log.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "base/text/moment.h"
#include "base/text/utf8.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/logfmt.h"
#include "cli/output/text.h"

#define NS_PER_US 1000

static const char *const outcome_names[] = {
    [QUERN_DONE] = "done", [QUERN_RETRY] = "retry",   [QUERN_ARCHIVE] = "archive",
    [QUERN_DROP] = "drop", [QUERN_SNOOZE] = "snooze",
};

#define LINE_SIZE_MAX ((size_t)1 << 20)

static const char *const format_names[] = {
    [QN_LOG_FORMAT_TEXT] = "text",
    [QN_LOG_FORMAT_LOGFMT] = "logfmt",
    [QN_LOG_FORMAT_JSON] = "json",
};

/* systemd names the journal's end of stderr, so that a program can distinguish it from a file. */
static bool stderr_is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat info;
    if (text == NULL || fstat(STDERR_FILENO, &info) != 0) {
        return false;
    }
    (void)snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)info.st_dev, (uintmax_t)info.st_ino);
    return strcmp(text, own) == 0;
}

void qn_work_log_init(struct qn_work_log *log)
{
    log->journal = stderr_is_journal();
    qn_log_init(&log->lines, qn_work_log_line, log);
}

void qn_work_log_finish(struct qn_work_log *log)
{
    qn_log_finish(&log->lines);
}

bool qn_work_log_find_format(const char *name, enum qn_log_format *ret_format)
{
    for (size_t i = 0; i < QN_COUNT_OF(format_names); i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *ret_format = (enum qn_log_format)i;
            return true;
        }
    }
    return false;
}

bool qn_work_log_set_format(struct qn_work_log *log, const char *name)
{
    enum qn_log_format format = QN_LOG_FORMAT_TEXT;
    bool is_known = qn_work_log_find_format(name, &format);
    log->format = format;
    return is_known;
}

/* --- Lines ------------------------------------------------------------------------------- */

static void add(struct qn_buf *out, const char *text)
{
    if (qn_buf_append_text(out, text) != QUERN_OK) {
        qn_memory_exhausted();
    }
}

/* The priority that journald takes off a line again. */
static const char *priority(quern_log_level level)
{
    return level == QUERN_LOG_DEBUG  ? "<7>"
           : level == QUERN_LOG_INFO ? "<6>"
           : level == QUERN_LOG_WARN ? "<4>"
                                     : "<3>";
}

static void write_line(const struct qn_work_log *log, quern_log_level level, struct qn_buf *line)
{
    add(line, "\n");
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s%s", log->journal ? priority(level) : "", qn_buf_text(line));
    qn_buf_finish(line);
}

static void add_text(struct qn_buf *out, const struct qn_work_log *log, const char *head,
                     const char *line)
{
    struct qn_logfmt_field message = {.name = NULL};
    if (!log->journal) {
        add(out, head);
    }
    if (qn_logfmt_next(&line, &message)) {
        char *safe = qn_text_safe(message.value, strlen(message.value));
        add(out, safe);
        qn_free(safe);
        qn_free(message.name);
        qn_free(message.value);
    }
    char *rest = qn_text_safe(line, strlen(line));
    add(out, rest);
    qn_free(rest);
}

/* JSON itself escapes C0 only; the others could break or reverse the line, and occur in strings. */
static void add_json_text(struct qn_buf *out, const char *text)
{
    while (*text != '\0') {
        uint32_t code = 0;
        size_t size = qn_utf8_at(text, &code);
        quern_status status = size > 0 && qn_utf8_is_unsafe(code)
                                  ? qn_buf_printf(out, "\\u%04x", (unsigned)code)
                                  : qn_buf_append(out, text, size > 0 ? size : 1);
        if (status != QUERN_OK) {
            qn_memory_exhausted();
        }
        text += size > 0 ? size : 1;
    }
}

static void add_json(struct qn_buf *out, const char *at, const char *level, const char *line)
{
    json_t *object = qn_memory_must(json_pack("{s:s,s:s}", "ts", at, "level", level));
    struct qn_logfmt_field field = {.name = NULL};
    while (qn_logfmt_next(&line, &field)) {
        json_t *value = field.is_number ? json_integer(strtoll(field.value, NULL, 10))
                                        : json_string(field.value);
        (void)json_object_set_new(object, field.name, qn_memory_must(value));
        qn_free(field.name);
        qn_free(field.value);
    }
    char *text = qn_memory_must(json_dumps(object, JSON_COMPACT));
    add_json_text(out, text);
    free(text);
    json_decref(object);
}

void qn_work_log_line(quern_log_level level, const char *line, void *user)
{
    const struct qn_work_log *log = user;
    const char *name = qn_log_level_name(level);
    if (level < log->level_min || name == NULL) {
        return;
    }
    char at[64];
    char head[96];
    struct qn_buf out;
    qn_buf_init(&out, LINE_SIZE_MAX);
    qn_moment_format(qn_clock_wall_ms(qn_clock_system()), at, sizeof at);
    const enum qn_log_format format = log->format;
    switch (format) {
    case QN_LOG_FORMAT_TEXT:
        (void)snprintf(head, sizeof head, "%s %s ", at, name);
        add_text(&out, log, head, line);
        break;
    case QN_LOG_FORMAT_LOGFMT:
        (void)snprintf(head, sizeof head, "ts=%s level=%s ", at, name);
        add(&out, head);
        add(&out, line);
        break;
    case QN_LOG_FORMAT_JSON:
        add_json(&out, at, name, line);
        break;
    }
    write_line(log, level, &out);
}

void qn_work_log_level(quern_log_level level, void *user)
{
    struct qn_work_log *log = user;
    log->level_min = level;
}

void qn_work_log_message(quern_log_level level, const char *text, void *user)
{
    struct qn_work_log *log = user;
    if (log->format != QN_LOG_FORMAT_TEXT) {
        qn_log_event(&log->lines, level, text, NULL, 0);
        return;
    }
    struct qn_buf out;
    char *safe = qn_text_safe(text, strlen(text));
    qn_buf_init(&out, LINE_SIZE_MAX);
    add(&out, "quern: work: ");
    add(&out, safe);
    qn_free(safe);
    write_line(log, level, &out);
}

/* --- Runs -------------------------------------------------------------------------------- */

static const char *outcome_name(const quern_run_report *report)
{
    size_t index = (size_t)report->outcome;
    return index < QN_COUNT_OF(outcome_names) ? outcome_names[index] : "unknown";
}

static void print_json(struct qn_work_log *log, const quern_run_report *report)
{
    json_t *object =
        json_pack("{s:s,s:s,s:s,s:s,s:b,s:f}", "id", report->id, "queue", report->queue, "type",
                  report->type, "outcome", outcome_name(report), "applied", report->applied,
                  "run_ms", (double)report->run_ns / QN_NS_PER_MS);
    qn_json_set_text(qn_memory_must(object), "error", report->error);
    if (report->trace_id[0] != '\0') {
        qn_json_set_text(object, "trace_id", report->trace_id);
    }
    (void)qn_json_print(object);
    if (fflush(stdout) != 0) {
        int code = errno;
        log->json = false;
        clearerr(stdout);
        QN_LOG(&log->lines, QUERN_LOG_WARN,
               "standard output cannot be written, runs are no longer printed",
               QN_LOG_TEXT("error", strerror(code)));
    }
}

void qn_work_log_run(const quern_run_report *report, void *user)
{
    struct qn_work_log *log = user;
    if (log->json) {
        print_json(log, report);
    }
    /* Runs that failed or were refused are in the worker's own log. */
    bool logged =
        report->outcome == QUERN_RETRY || report->outcome == QUERN_ARCHIVE || !report->applied;
    if (log->level_min <= QUERN_LOG_DEBUG && !logged) {
        QN_LOG(&log->lines, QUERN_LOG_DEBUG, "run ended",
               QN_LOG_TEXT("outcome", outcome_name(report)), QN_LOG_TEXT("queue", report->queue),
               QN_LOG_TEXT("type", report->type), QN_LOG_TEXT("id", report->id),
               QN_LOG_TEXT("trace_id", report->trace_id[0] != '\0' ? report->trace_id : NULL),
               QN_LOG_NUMBER("us", report->run_ns / NS_PER_US));
    }
}
