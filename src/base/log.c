/* SPDX-License-Identifier: MIT */
/* log.c - lines of logfmt for the sink of an object.
 *
 * A line is built on the caller's stack and passed to the sink under the mutex, because users are
 * promised one call at a time. A value is cut at VALUE_SIZE_MAX; a field that has no room is left
 * out, and "cut=1" is added. Logging can not fail. */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/clock.h"
#include "base/text/moment.h"
#include "base/text/str.h"
#include "base/text/utf8.h"

#define LINE_SIZE_MAX 4096
#define VALUE_SIZE_MAX 1024
#define CUT_MARK " cut=1"

struct line {
    char text[LINE_SIZE_MAX];
    size_t size;
    bool full;
};

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

const char *qn_log_level_name(quern_log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    size_t index = (size_t)level;
    return index < sizeof names / sizeof *names ? names[index] : NULL;
}

/* Always leaves room for the mark. */
static void append(struct line *line, const char *data, size_t size)
{
    line->full = line->full || line->size + size + sizeof CUT_MARK > sizeof line->text;
    if (!line->full) {
        memcpy(line->text + line->size, data, size);
        line->size += size;
    }
}

/* How the character is written between quotes; its size if it needs no escape, and then *out is
 * empty. Invalid UTF-8 has been replaced. */
static size_t escape(const char *at, char out[8])
{
    uint32_t code = 0;
    size_t size = qn_utf8_at(at, &code);
    const char *letter = code == '\n' ? "n" : code == '\r' ? "r" : code == '\t' ? "t" : NULL;
    out[0] = '\0';
    if (letter != NULL) {
        (void)snprintf(out, 8, "\\%s", letter);
    } else if (code == '"' || code == '\\') {
        (void)snprintf(out, 8, "\\%c", (char)code);
    } else if (qn_utf8_is_unsafe(code)) {
        (void)snprintf(out, 8, "\\u%04x", (unsigned)code);
    }
    return size > 0 ? size : 1;
}

/* Cut at VALUE_SIZE_MAX also where escapes make it longer: the fields behind it need room, too. */
static void put_escaped(struct line *line, const char *text)
{
    size_t left = VALUE_SIZE_MAX;
    char escaped[8];
    while (*text != '\0') {
        size_t size = escape(text, escaped);
        const char *shown = escaped[0] != '\0' ? escaped : text;
        size_t shown_size = escaped[0] != '\0' ? strlen(escaped) : size;
        if (shown_size > left) {
            return;
        }
        append(line, shown, shown_size);
        left -= shown_size;
        text += size;
    }
}

/* Every reader must take the value for a text: so no blanks of other scripts, either. */
static bool is_plain(const char *text)
{
    return qn_str_is_plain(text) && strpbrk(text, "\"\\=") == NULL &&
           text[strspn(text, "-0123456789")] != '\0';
}

static void put_value(struct line *line, const char *text)
{
    char value[VALUE_SIZE_MAX];
    (void)qn_utf8_sanitize(text, strlen(text), value, sizeof value);
    if (is_plain(value) || QN_BUG(LOG_UNESCAPED)) {
        append(line, value, strlen(value));
        return;
    }
    append(line, "\"", 1);
    put_escaped(line, value);
    append(line, "\"", 1);
}

static void put_field(struct line *line, const struct qn_log_field *field)
{
    size_t before = line->size;
    char number[32];
    if (field->text == NULL && !field->is_number) {
        return;
    }
    append(line, " ", before == 0 ? 0 : 1);
    append(line, field->name, strlen(field->name));
    append(line, "=", 1);
    if (field->is_number) {
        (void)snprintf(number, sizeof number, "%" PRId64, field->number);
        append(line, number, strlen(number));
    } else {
        put_value(line, field->text);
    }
    line->size = line->full ? before : line->size;
}

void qn_log_event(struct qn_log *log, quern_log_level level, const char *message,
                  const struct qn_log_field *fields, size_t count)
{
    if (log->sink == NULL) {
        return;
    }
    struct line line = {.size = 0};
    put_field(&line, &QN_LOG_TEXT("msg", message));
    for (size_t i = 0; i < count && !line.full; i++) {
        put_field(&line, &fields[i]);
    }
    if (line.full) {
        memcpy(line.text + line.size, CUT_MARK, sizeof CUT_MARK - 1);
        line.size += sizeof CUT_MARK - 1;
    }
    line.text[line.size] = '\0';
    (void)pthread_mutex_lock(&log->mutex);
    log->sink(level, line.text, log->user);
    (void)pthread_mutex_unlock(&log->mutex);
}

void qn_log_write(struct qn_log *log, quern_log_level level, const char *format, ...)
{
    char message[VALUE_SIZE_MAX];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    qn_log_event(log, level, size < 0 ? format : message, NULL, 0);
}

void qn_log_to_stderr(quern_log_level level, const char *line, void *user)
{
    if (level >= QUERN_LOG_WARN) {
        quern_log_stderr(level, line, user);
    }
}

void quern_log_stderr(quern_log_level level, const char *line, void *user)
{
    (void)user;
    if (level < QUERN_LOG_INFO || line == NULL) {
        return;
    }
    char at[64];
    char text[LINE_SIZE_MAX + 128];
    qn_moment_format(qn_clock_wall_ms(qn_clock_system()), at, sizeof at);
    int size =
        snprintf(text, sizeof text, "ts=%s level=%s %s\n", at, qn_log_level_name(level), line);
    (void)!write(STDERR_FILENO, text, (size_t)size);
}
