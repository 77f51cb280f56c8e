/* SPDX-License-Identifier: MIT */
/* progress_lines.c - lines of a command that become its progress, or its orders.
 *
 * A command may write anything: a line of any length, bytes that are not UTF-8, no end of line at
 * all. A long line is cut at a character, and bad bytes and NULs are replaced, so that every note
 * can be stored. Control characters stay, as in other notes: they are escaped where it is shown. */
#include "worker/exec/progress_lines.h"

#include <string.h>

#include "base/text/utf8.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* How many bytes at the start are a percentage; 0: none. */
static size_t read_percent(const char *text, size_t size, int32_t *percent)
{
    size_t used = 0;
    int32_t number = 0;
    while (used < size && used < 4 && is_digit(text[used])) {
        number = number * 10 + (text[used++] - '0');
    }
    if (used == 0 || number > 100) {
        return 0;
    }
    used += used < size && text[used] == '%' ? 1 : 0;
    if (used < size && !is_blank(text[used])) {
        return 0;
    }
    *percent = number;
    return used;
}

/* False: the line is blank, or an order. */
static bool take_line(struct qn_progress_lines *lines)
{
    const char *text = lines->line;
    size_t size = lines->size;
    bool is_cut = lines->is_cut;
    lines->size = 0;
    lines->is_cut = false;
    for (; size > 0 && is_blank(text[size - 1]); size--) {
    }
    for (; size > 0 && is_blank(text[0]); size--) {
        text++;
    }
    if (size == 0 || qn_orders_take(&lines->orders, text, size)) {
        return false;
    }
    struct qn_progress *progress = &lines->progress;
    size_t used = read_percent(text, size, &progress->percent);
    for (; used < size && is_blank(text[used]); used++) {
    }
    text += used;
    size -= used;
    size_t kept = qn_utf8_sanitize(text, size, progress->note, sizeof progress->note);
    lines->garbled =
        lines->garbled || is_cut || kept != size || memcmp(progress->note, text, size) != 0;
    return true;
}

bool qn_progress_lines_feed(struct qn_progress_lines *lines, const char *data, size_t size)
{
    bool is_new = false;
    while (size > 0) {
        const char *newline = memchr(data, '\n', size);
        size_t part = newline != NULL ? (size_t)(newline - data) : size;
        size_t room = sizeof lines->line - lines->size;
        size_t kept = part < room ? part : room;
        memcpy(lines->line + lines->size, data, kept);
        lines->size += kept;
        lines->is_cut = lines->is_cut || kept < part;
        if (newline == NULL) {
            return is_new;
        }
        is_new = take_line(lines) || is_new;
        data += part + 1;
        size -= part + 1;
    }
    return is_new;
}

/* printf writes none by itself. A command that was killed may have written half an order; the
 * orders of such a one do not count. */
void qn_progress_lines_end(struct qn_progress_lines *lines)
{
    (void)take_line(lines);
}
