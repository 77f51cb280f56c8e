/* SPDX-License-Identifier: MIT */
/* ini.c - reads quern.conf with inih.
 *
 * inih decides what a key is, but it knows no line numbers, cuts long lines in two and values at a
 * semicolon, and takes an indented line for a continuation. So it gets its lines one by one from a
 * reader of ours, which counts them, keeps the heads of sections, and leaves it of a value only a
 * dash: the value itself stays in the text. A line that should be a key and did not reach the
 * handler was none. */
#include "cli/config/ini.h"

#include <ini.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"

#define BOM "\xef\xbb\xbf"
#define BEHIND_KEY "=-\n"
#define LINE_ROOM 16 /* for what stands behind a key, and inih's own ends */

struct reading {
    struct qn_ini *ini;
    size_t line_capacity;
    size_t fault_capacity;
    char *at;
    char *end;
    size_t line;
    const char *section;
    char *key;   /* of the line that inih has; NULL: it has none */
    char *value; /* its rest */
    quern_status status;
    quern_error *err;
};

static void fail(struct reading *r, quern_status status)
{
    if (r->status == QUERN_OK) {
        r->status = status;
    }
}

static void add_fault(struct reading *r, const char *text)
{
    struct qn_ini *ini = r->ini;
    if (ini->fault_count == QN_INI_FAULTS_MAX) {
        fail(r, qn_error_set(r->err, QUERN_E_INVALID, "line %zu: more than %d faults", r->line,
                             QN_INI_FAULTS_MAX));
        return;
    }
    struct qn_ini_fault *faults = qn_vec_grow_in(&ini->arena, ini->faults, ini->fault_count,
                                                 &r->fault_capacity, sizeof *faults);
    if (faults == NULL) {
        fail(r, qn_error_nomem(r->err));
        return;
    }
    ini->faults = faults;
    ini->faults[ini->fault_count++] =
        (struct qn_ini_fault){.line = r->line, .section = r->section, .text = text};
}

/* key: NULL for a head. */
static void add_line(struct reading *r, const char *key, const char *value)
{
    struct qn_ini *ini = r->ini;
    if (ini->line_count == QN_INI_LINES_MAX) {
        fail(r, qn_error_set(r->err, QUERN_E_INVALID, "line %zu: more than %d values", r->line,
                             QN_INI_LINES_MAX));
        return;
    }
    struct qn_ini_line *lines =
        qn_vec_grow_in(&ini->arena, ini->lines, ini->line_count, &r->line_capacity, sizeof *lines);
    if (lines == NULL) {
        fail(r, qn_error_nomem(r->err));
        return;
    }
    ini->lines = lines;
    ini->lines[ini->line_count++] =
        (struct qn_ini_line){.line = r->line, .section = r->section, .key = key, .value = value};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

static bool is_comment(char c)
{
    return c == '#' || c == ';';
}

static char *trim(char *text)
{
    while (is_blank(*text)) {
        text++;
    }
    size_t size = strlen(text);
    while (size > 0 && is_blank(text[size - 1])) {
        size--;
    }
    text[size] = '\0';
    return text;
}

/* "[name]", and behind it nothing or a comment. */
static void begin_section(struct reading *r, char *line)
{
    char *close = strchr(line, ']');
    if (close == NULL) {
        r->section = trim(line + 1);
        add_fault(r, "the head of a section has no ]");
        return;
    }
    char *behind = close + 1;
    while (is_blank(*behind)) {
        behind++;
    }
    *close = '\0';
    r->section = trim(line + 1);
    add_line(r, NULL, "");
    if (*behind != '\0' && !is_comment(*behind)) {
        add_fault(r, "behind the ] of a section is more than a comment");
    }
}

/* The next line, with a NUL in place of its end; one that has a NUL is a fault, and empty. */
static char *next_line(struct reading *r)
{
    char *line = r->at;
    char *end = memchr(line, '\n', (size_t)(r->end - line));
    r->at = end == NULL ? r->end : end + 1;
    end = end == NULL ? r->end : end;
    *end = '\0';
    r->line++;
    if (r->line == 1 && strncmp(line, BOM, strlen(BOM)) == 0) {
        line += strlen(BOM);
    }
    if (strlen(line) != (size_t)(end - line)) {
        add_fault(r, "the line has a NUL character");
        *line = '\0';
    }
    return trim(line);
}

/* Leaves inih the key, and keeps what is behind it. */
static void give_key(struct reading *r, char *line, char *out, size_t size_max)
{
    size_t size = strcspn(line, "=:");
    if (line[size] == '\0' || size > size_max) {
        add_fault(r, size > size_max ? "the name is too long" : "the line is not NAME = VALUE");
        (void)memcpy(out, "\n", 2);
        return;
    }
    r->key = line;
    r->value = line + size + 1;
    (void)memcpy(out, line, size);
    (void)memcpy(out + size, BEHIND_KEY, sizeof BEHIND_KEY);
    line[size] = '\0';
}

static void check_awaited(struct reading *r)
{
    if (r->key != NULL) {
        r->key = NULL;
        add_fault(r, "the line is not NAME = VALUE");
    }
}

/* As fgets, for inih. */
static char *read_line(char *out, int room, void *stream)
{
    struct reading *r = stream;
    check_awaited(r);
    if (r->at == r->end || r->status != QUERN_OK || room <= LINE_ROOM) {
        return NULL;
    }
    char *line = next_line(r);
    if (*line == '\0' || is_comment(*line)) {
        (void)memcpy(out, "\n", 2);
    } else if (*line == '[') {
        begin_section(r, line);
        (void)memcpy(out, "[s]\n", 5); /* it forgets the last key */
    } else {
        give_key(r, line, out, (size_t)room - LINE_ROOM);
    }
    return out;
}

static int take_key(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    (void)section;
    (void)key;
    (void)value;
    if (r->key != NULL) {
        const char *own_key = trim(r->key);
        r->key = NULL;
        add_line(r, own_key, trim(r->value));
    }
    return 1;
}

quern_status qn_ini_parse(char *text, size_t size, struct qn_ini *ret_ini, quern_error *err)
{
    struct qn_ini ini = {.line_count = 0};
    struct reading r = {.ini = &ini, .at = text, .end = text + size, .section = "", .err = err};
    int result = ini_parse_stream(read_line, &r, take_key, &r);
    check_awaited(&r);
    if (result == -2) {
        fail(&r, qn_error_nomem(err));
    } else if (r.at != r.end && r.status == QUERN_OK) {
        fail(&r, qn_error_set(err, QUERN_E_INVALID, "inih ends at line %zu", r.line));
    }
    if (r.status != QUERN_OK) {
        qn_ini_finish(&ini);
        return r.status;
    }
    *ret_ini = ini;
    return QUERN_OK;
}

void qn_ini_finish(struct qn_ini *ini)
{
    qn_arena_finish(&ini->arena);
    *ini = (struct qn_ini){.line_count = 0};
}
