/* SPDX-License-Identifier: MIT */
/* text.c - makes stored bytes fit for a terminal.
 *
 * A payload, an error or a name is foreign data: printed unchanged, it could move the cursor,
 * set colours or turn the reading direction. So everything that is not a printable character
 * becomes an escape, and bytes that are not text at all are shown as a size and their first bytes.
 */
#include "cli/output/text.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "cli/memory.h"

#define HEX_BYTES_MAX 16
#define SAFE_SIZE_MAX ((size_t)4 << 30)

/* Decodes the character at text, which is not empty. Returns its size; 0: not UTF-8. */
static size_t decode(const char *text, size_t size, uint32_t *ret_point)
{
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length > size || !qn_utf8_valid(text, length)) {
        return 0;
    }
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = first & masks[length];
    for (size_t i = 1; i < length; i++) {
        point = point << 6 | ((unsigned char)text[i] & 0x3f);
    }
    *ret_point = point;
    return length;
}

static quern_status append_escape(struct qn_buf *out, uint32_t point)
{
    switch (point) {
    case '\n':
        return qn_buf_append_text(out, "\\n");
    case '\r':
        return qn_buf_append_text(out, "\\r");
    case '\t':
        return qn_buf_append_text(out, "\\t");
    default:
        return point < 0x100 ? qn_buf_printf(out, "\\x%02x", (unsigned)point)
                             : qn_buf_printf(out, "\\u%04x", (unsigned)point);
    }
}

static quern_status append_safe(struct qn_buf *out, const char *data, size_t size)
{
    quern_status status = qn_buf_append_text(out, "");
    for (size_t at = 0; at < size && status == QUERN_OK;) {
        uint32_t point = 0;
        size_t length = decode(data + at, size - at, &point);
        if (length == 0) {
            status = qn_buf_printf(out, "\\x%02x", (unsigned char)data[at]);
            length = 1;
        } else if (qn_utf8_is_unsafe(point)) {
            status = append_escape(out, point);
        } else {
            status = qn_buf_append(out, data + at, length);
        }
        at += length;
    }
    return status;
}

char *qn_text_safe(const char *data, size_t size)
{
    struct qn_buf out;
    qn_buf_init(&out, SAFE_SIZE_MAX);
    if (append_safe(&out, data, size) != QUERN_OK) {
        qn_memory_exhausted();
    }
    char *text = qn_memory_must(qn_str_dup(qn_buf_text(&out)));
    qn_buf_finish(&out);
    return text;
}

static bool is_text(const char *data, size_t size)
{
    if (!qn_utf8_valid(data, size)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)data[i];
        if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

void qn_text_of_size(uint64_t bytes, char out[QN_TEXT_SIZE_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double size = (double)bytes / 1024;
    while (size >= 999.95 && unit + 1 < sizeof units / sizeof units[0]) {
        size /= 1024;
        unit++;
    }
    if (bytes < 1024) {
        (void)snprintf(out, QN_TEXT_SIZE_SIZE, "%u %s", (unsigned)bytes,
                       qn_plural(bytes, "byte", "bytes"));
    } else {
        (void)snprintf(out, QN_TEXT_SIZE_SIZE, "%.1f %s", size, units[unit]);
    }
}

char *qn_text_bytes(const void *data, size_t size)
{
    if (size == 0 || is_text(data, size)) {
        return qn_text_safe(data, size);
    }
    const unsigned char *bytes = data;
    char size_text[QN_TEXT_SIZE_SIZE];
    struct qn_buf out;
    qn_text_of_size(size, size_text);
    qn_buf_init(&out, SAFE_SIZE_MAX);
    quern_status status = qn_buf_printf(&out, "%s:", size_text);
    for (size_t i = 0; i < size && i < HEX_BYTES_MAX && status == QUERN_OK; i++) {
        status = qn_buf_printf(&out, " %02x", bytes[i]);
    }
    if (status == QUERN_OK && size > HEX_BYTES_MAX) {
        status = qn_buf_append_text(&out, " ...");
    }
    if (status != QUERN_OK) {
        qn_memory_exhausted();
    }
    char *text = qn_memory_must(qn_str_dup(qn_buf_text(&out)));
    qn_buf_finish(&out);
    return text;
}

/* The size of a start of the text that is no longer than size_max and ends between characters. */
static size_t start_of(const char *data, size_t size, size_t size_max)
{
    if (size <= size_max) {
        return size;
    }
    size_t at = size_max;
    while (at > 0 && ((unsigned char)data[at] & 0xc0) == 0x80) {
        at--;
    }
    return at;
}

char *qn_text_cell(const void *data, size_t size, bool is_bytes, size_t width_max)
{
    if (is_bytes && !is_text(data, size)) {
        return qn_text_bytes(data, size);
    }
    size_t start = start_of(data, size, 4 * width_max);
    char *text = qn_text_safe(data, start);
    size_t fits = qn_text_fit(text, width_max);
    if (start == size && text[fits] == '\0') {
        return text;
    }
    static const char ellipsis[] = "\xe2\x80\xa6";
    fits = qn_text_fit(text, width_max - 1);
    text = qn_memory_must(qn_realloc(text, fits + sizeof ellipsis));
    memcpy(text + fits, ellipsis, sizeof ellipsis);
    return text;
}

static size_t width_of(uint32_t point)
{
    int width = wcwidth((wchar_t)point);
    return width < 0 ? 1 : (size_t)width;
}

size_t qn_text_width(const char *text)
{
    size_t size = strlen(text);
    size_t width = 0;
    for (size_t at = 0; at < size;) {
        uint32_t point = '?';
        size_t length = decode(text + at, size - at, &point);
        width += width_of(point);
        at += length == 0 ? 1 : length;
    }
    return width;
}

size_t qn_text_fit(const char *text, size_t width)
{
    size_t size = strlen(text);
    size_t at = 0;
    for (size_t used = 0; at < size;) {
        uint32_t point = '?';
        size_t length = decode(text + at, size - at, &point);
        used += width_of(point);
        if (used > width) {
            break;
        }
        at += length == 0 ? 1 : length;
    }
    return at;
}
