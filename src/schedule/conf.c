/* SPDX-License-Identifier: MIT */
/* conf.c - reads schedule.conf with inih.
 *
 * inih splits lines into keys and values, but it knows no line numbers, joins what follows a broken
 * head of a section to the section before, cuts long lines in two and long names off, cuts a value
 * where a comment could begin, and its settings are global to the process. So it gets its lines one
 * by one from a reader of ours, which counts them, keeps track of the sections, and holds back each
 * line that inih would misread. Of a line that inih would cut it gets the key alone, and the reader
 * keeps the value. A line that should be a key and did not reach the handler was none.
 *
 * The first fault of a section is kept; the rest of the section is read over. */
#include "schedule/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/utf8.h"
#include "schedule/conf_section.h"
#include "task/name.h"

#define BOM "\xef\xbb\xbf"
#define LINE_ROOM 3 /* inih's line buffer: the end of a line, a NUL, and one to spare */
#define BLOCK_SIZE 65536

struct piece {
    const char *data;
    size_t size;
};

struct reading {
    const struct qn_conf_terms *terms;
    struct qn_conf *conf;
    size_t entry_capacity;
    size_t fault_capacity;
    const char *at;
    const char *end;
    size_t line;
    struct qn_conf_section section;
    const char *name;    /* of the section; NULL: before the first one */
    size_t section_line; /* of its head */
    bool is_bad;         /* it has a fault already */
    bool is_awaited;     /* the last line should reach the handler */
    bool is_further;     /* it continues the value before */
    struct piece own;    /* its value, if inih would cut it; no data: inih has it */
    bool in_payload;     /* the last key may be continued */
    quern_status status; /* the first failure that ends it all */
    quern_error *err;
};

static void fail(struct reading *r, quern_status status)
{
    if (r->status == QUERN_OK) {
        r->status = status;
    }
}

/* A text that may quote the file becomes one that any terminal may show. */
static char *safe_copy(struct qn_arena *arena, const char *text)
{
    size_t size = 3 * strlen(text) + 1; /* U+FFFD for each byte */
    char *copy = qn_arena_alloc(arena, size);
    if (copy == NULL) {
        return NULL;
    }
    (void)qn_utf8_sanitize(text, strlen(text), copy, size);
    for (char *at = copy; *at != '\0';) {
        uint32_t code = 0;
        size_t length = qn_utf8_at(at, &code);
        QN_ASSERT(length > 0);
        if (qn_utf8_is_unsafe(code)) {
            memset(at, '?', length);
        }
        at += length;
    }
    return copy;
}

static void add_fault(struct reading *r, size_t line, const char *text)
{
    struct qn_conf *conf = r->conf;
    r->is_bad = true;
    if (conf->fault_count == QN_CONF_FAULTS_MAX) {
        fail(r, qn_error_set(r->err, QUERN_E_INVALID, "line %zu: more than %d faults", line,
                             QN_CONF_FAULTS_MAX));
        return;
    }
    struct qn_conf_fault *faults = qn_vec_grow_in(&conf->arena, conf->faults, conf->fault_count,
                                                  &r->fault_capacity, sizeof *faults);
    char *copy = safe_copy(&conf->arena, text);
    if (faults == NULL || copy == NULL) {
        fail(r, qn_error_nomem(r->err));
        return;
    }
    conf->faults = faults;
    conf->faults[conf->fault_count++] =
        (struct qn_conf_fault){.line = line, .name = r->name == NULL ? "" : r->name, .text = copy};
}

/* --- Sections ------------------------------------------------------------------------- */

static void add_entry(struct reading *r, const struct qn_schedule_entry *entry)
{
    struct qn_conf *conf = r->conf;
    if (conf->entry_count == QN_ENTRIES_MAX) {
        fail(r, qn_error_set(r->err, QUERN_E_INVALID, "line %zu: more than %d entries",
                             r->section_line, QN_ENTRIES_MAX));
        return;
    }
    struct qn_schedule_entry *entries = qn_vec_grow_in(
        &conf->arena, conf->entries, conf->entry_count, &r->entry_capacity, sizeof *entries);
    if (entries == NULL) {
        fail(r, qn_error_nomem(r->err));
        return;
    }
    conf->entries = entries;
    conf->entries[conf->entry_count++] = *entry;
}

static void end_section(struct reading *r)
{
    struct qn_entry_given given;
    struct qn_schedule_entry entry;
    quern_error err = {0};
    if (r->name == NULL || r->is_bad || r->status != QUERN_OK) {
        return;
    }
    const struct qn_entry_terms terms = {
        .zones = r->terms->zones, .now_ms = r->terms->now_ms, .broker = r->terms->broker};
    quern_status status = qn_conf_section_given(&r->section, &given, &err);
    if (status == QUERN_OK) {
        given.name = r->name;
        given.origin = r->terms->origin;
        given.default_zone = r->terms->default_zone;
        status = qn_entry_make(&given, &terms, &r->conf->arena, &entry, &err);
    }
    if (status == QUERN_OK) {
        add_entry(r, &entry);
    } else if (status == QUERN_E_NOMEM) {
        fail(r, qn_error_nomem(r->err));
    } else {
        size_t line = qn_conf_section_line_of(&r->section, err.text);
        add_fault(r, line == 0 ? r->section_line : line, err.text);
    }
}

static bool is_known(const struct reading *r, const char *name)
{
    for (size_t i = 0; i < r->conf->entry_count; i++) {
        if (strcmp(r->conf->entries[i].name, name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < r->conf->fault_count; i++) {
        if (strcmp(r->conf->faults[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_comment(char c)
{
    return c == ';' || c == '#';
}

/* "[name]", and behind it blanks or a comment. */
static void begin_section(struct reading *r, const char *line)
{
    const char *close = strchr(line, ']');
    size_t size = close == NULL ? strlen(line + 1) : (size_t)(close - line - 1);
    const char *behind = close == NULL ? "" : close + 1 + strspn(close + 1, " \t");
    quern_error err = {0};
    if (close == NULL && QN_BUG(BROKEN_HEAD_LOST)) {
        return;
    }
    end_section(r);
    qn_conf_section_finish(&r->section);
    qn_conf_section_init(&r->section, &r->conf->arena);
    r->section_line = r->line;
    r->is_bad = false;
    r->in_payload = false;
    char *name = qn_arena_copy(&r->conf->arena, line + 1, size + 1);
    if (name == NULL) {
        r->name = NULL;
        fail(r, qn_error_nomem(r->err));
        return;
    }
    name[size] = '\0';
    r->name = name;
    if (close == NULL) {
        r->name = "";
        add_fault(r, r->line, "the head of a section has no ]");
    } else if (qn_schedule_check_name(name, &err) != QUERN_OK) {
        r->name = "";
        add_fault(r, r->line, err.text);
    } else if (*behind != '\0' && !is_comment(*behind)) {
        add_fault(r, r->line, "behind the ] of a section is more than a comment");
    } else if (is_known(r, name)) {
        add_fault(r, r->line, "there is a section of this name before: the first one counts");
    }
}

/* --- Lines ---------------------------------------------------------------------------- */

/* For inih, instead of a line that it should not see. */
static char *give_other(char *out, const char *line)
{
    memcpy(out, line, strlen(line) + 1);
    return out;
}

static void check_awaited(struct reading *r)
{
    if (r->is_awaited && !r->is_bad) {
        add_fault(r, r->line, "the line is not KEY = VALUE");
    }
    r->is_awaited = false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static struct piece trim(struct piece text)
{
    for (; text.size > 0 && is_blank(text.data[0]); text.size--) {
        text.data++;
    }
    while (text.size > 0 && is_blank(text.data[text.size - 1])) {
        text.size--;
    }
    return text;
}

/* What comes before a ; behind a blank. */
static struct piece before_comment(struct piece text)
{
    for (size_t i = 1; i < text.size; i++) {
        if (text.data[i] == ';' && is_blank(text.data[i - 1])) {
            text.size = i;
        }
    }
    return text;
}

static size_t find_separator(struct piece line)
{
    size_t at = 0;
    while (at < line.size && line.data[at] != '=' && line.data[at] != ':') {
        at++;
    }
    return at;
}

/* Keeps the value of a line that inih would cut, and leaves it a line that it does not cut, with
 * the same key. Without a key that fits it is not KEY = VALUE: blank for inih, which reports none.
 */
static void keep_value(struct reading *r, struct piece line, char *out, size_t size_max)
{
    size_t at = is_blank(line.data[0]) ? 0 : find_separator(before_comment(line));
    out[0] = '\0';
    if (is_blank(line.data[0])) {
        r->own = line;
        memcpy(out, " -", 3);
    } else if (at + 2 <= size_max && at < before_comment(line).size) {
        r->own = (struct piece){.data = line.data + at + 1, .size = line.size - at - 1};
        memcpy(out, line.data, at);
        memcpy(out + at, "=-", 3);
    }
}

/* The line, or a blank one; its faults are noted. */
static char *give_line(struct reading *r, struct piece line, char *out, size_t size_max)
{
    struct piece text = trim(line);
    bool indented = text.data > line.data;
    if (text.size == 0 || is_comment(text.data[0])) {
        return give_other(out, "\n");
    }
    if (line.data[0] == '[') {
        size_t size = line.size < size_max ? line.size : size_max; /* a name is shorter */
        memcpy(out, line.data, size);
        out[size] = '\0';
        begin_section(r, out);
        return give_other(out, "[s]\n"); /* it forgets the last key */
    }
    if (r->name == NULL && !r->is_bad) {
        add_fault(r, r->line, "a line before the first [section]");
    }
    if (r->is_bad || r->status != QUERN_OK) {
        return give_other(out, "\n");
    }
    if (indented && !r->in_payload) {
        add_fault(r, r->line, "an indented line continues a payload, but there is none before it");
        return give_other(out, "\n");
    }
    r->is_awaited = true;
    r->is_further = indented;
    if (line.size > size_max || before_comment(line).size < line.size) {
        keep_value(r, line, out, size_max);
    } else {
        memcpy(out, line.data, line.size);
        out[line.size] = '\0';
    }
    memcpy(out + strlen(out), "\n", 2);
    return out;
}

/* The next line without its end. One with a NUL is a fault, and blank. */
static struct piece next_line(struct reading *r)
{
    const char *line = r->at;
    const char *end = memchr(line, '\n', (size_t)(r->end - line));
    r->at = end == NULL ? r->end : end + 1;
    end = end == NULL ? r->end : end;
    r->line++;
    if (r->line == 1 && end - line >= 3 && memcmp(line, BOM, 3) == 0) {
        line += 3;
    }
    while (end > line && end[-1] == '\r') {
        end--;
    }
    if (memchr(line, '\0', (size_t)(end - line)) != NULL) {
        if (!r->is_bad) {
            add_fault(r, r->line, "the line has a NUL character");
        }
        end = line;
    }
    return (struct piece){.data = line, .size = (size_t)(end - line)};
}

/* As fgets, for inih. */
static char *read_line(char *out, int room, void *stream)
{
    struct reading *r = stream;
    check_awaited(r);
    r->own = (struct piece){.size = 0};
    if (r->at == r->end || r->status != QUERN_OK || room <= LINE_ROOM + (int)sizeof "[s]") {
        return NULL;
    }
    return give_line(r, next_line(r), out, (size_t)room - LINE_ROOM);
}

/* The value that was kept: of a key that takes any text all of it. NULL: no memory. */
static const char *own_value(struct reading *r, const char *key)
{
    bool is_free = r->is_further || qn_conf_section_is_free(key);
    struct piece value = trim(is_free ? r->own : before_comment(r->own));
    char *copy = qn_arena_alloc(&r->conf->arena, value.size + 1);
    if (copy != NULL) {
        memcpy(copy, value.data, value.size);
        copy[value.size] = '\0';
    }
    return copy;
}

static int take_key(void *user, const char *section, const char *key, const char *value)
{
    (void)section;
    struct reading *r = user;
    quern_error err = {0};
    quern_status status = QUERN_OK;
    if (!r->is_awaited) {
        return 1;
    }
    r->is_awaited = false;
    value = r->own.data == NULL ? value : own_value(r, key);
    if (value == NULL) {
        fail(r, qn_error_nomem(r->err));
        return 1;
    }
    if (r->is_further) {
        status = qn_conf_section_continue(&r->section, value, &err);
    } else {
        status = qn_conf_section_set(&r->section, key, value, r->line, &err);
    }
    r->in_payload = qn_conf_section_is_key(key, "payload");
    if (status == QUERN_E_NOMEM) {
        fail(r, qn_error_nomem(r->err));
    } else if (status != QUERN_OK) {
        add_fault(r, r->line, err.text);
    }
    return 1;
}

quern_status qn_conf_parse(struct qn_bytes text, const struct qn_conf_terms *terms,
                           struct qn_conf *ret_conf, quern_error *err)
{
    struct qn_conf conf = {.entry_count = 0};
    const char *start = text.size == 0 ? "" : text.data;
    struct reading r = {
        .terms = terms, .conf = &conf, .at = start, .end = start + text.size, .err = err};
    qn_conf_section_init(&r.section, &conf.arena);
    int result = ini_parse_stream(read_line, &r, take_key, &r);
    check_awaited(&r);
    if (result == -2) {
        fail(&r, qn_error_nomem(err));
    } else if (r.at != r.end && r.status == QUERN_OK) {
        fail(&r, qn_error_set(err, QUERN_E_INVALID, "inih ends at line %zu", r.line));
    }
    end_section(&r);
    qn_conf_section_finish(&r.section);
    if (r.status != QUERN_OK) {
        qn_conf_finish(&conf);
        return r.status;
    }
    *ret_conf = conf;
    return QUERN_OK;
}

/* --- Files ---------------------------------------------------------------------------- */

static quern_status fail_file(quern_error *err, const char *path, int error)
{
    bool for_good = error == EACCES || error == EPERM || error == ELOOP || error == ENOENT ||
                    error == ENOTDIR || error == ENAMETOOLONG;
    return qn_error_set(err, for_good ? QUERN_E_NOT_FOUND : QUERN_E_BUSY, "%s: %s", path,
                        strerror(error));
}

static quern_status read_all(int fd, const char *path, struct qn_buf *buf, quern_error *err)
{
    char block[BLOCK_SIZE];
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got == 0) {
            return QUERN_OK;
        }
        if (got < 0 && errno != EINTR) {
            return fail_file(err, path, errno);
        }
        quern_status status = got < 0 ? QUERN_OK : qn_buf_append(buf, block, (size_t)got);
        if (status == QUERN_E_FULL) {
            return qn_error_set(err, QUERN_E_INVALID, "%s has more than %zu bytes", path,
                                QN_CONF_SIZE_MAX);
        }
        if (status != QUERN_OK) {
            return qn_error_nomem(err);
        }
    }
}

quern_status qn_conf_read(const char *path, const struct qn_conf_terms *terms,
                          struct qn_conf *ret_conf, quern_error *err)
{
    struct stat facts;
    struct qn_buf buf;
    quern_status status = QUERN_OK;
    /* O_NONBLOCK: a FIFO that stands there must not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return fail_file(err, path, errno);
    }
    qn_buf_init(&buf, QN_CONF_SIZE_MAX);
    if (fstat(fd, &facts) != 0) {
        status = fail_file(err, path, errno);
    } else if (!S_ISREG(facts.st_mode)) {
        status = qn_error_set(err, QUERN_E_INVALID, "%s is not a file", path);
    } else {
        status = read_all(fd, path, &buf, err);
    }
    (void)close(fd); /* it was only read */
    if (status == QUERN_OK) {
        const struct qn_bytes text = {.data = qn_buf_text(&buf), .size = buf.size};
        status = qn_conf_parse(text, terms, ret_conf, err);
    }
    qn_buf_finish(&buf);
    return status;
}

void qn_conf_finish(struct qn_conf *conf)
{
    qn_arena_finish(&conf->arena);
    *conf = (struct qn_conf){.entry_count = 0};
}
