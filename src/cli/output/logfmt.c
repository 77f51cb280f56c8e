/* SPDX-License-Identifier: MIT */
/* logfmt.c - parses a line of logfmt into its fields.
 *
 * Only lines of our own are read (base/log.c), so a malformed part is kept as it is. */
#include "cli/output/logfmt.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "cli/cli.h"
#include "cli/memory.h"

/* A copy of `size` bytes. */
static char *copy(const char *data, size_t size)
{
    char *text = qn_memory_must(qn_alloc(size + 1));
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* The character that the escape at `at` (behind its backslash) means, as UTF-8 into out; moves *at
 * behind it. */
static size_t unescape(const char **at, char *out)
{
    char kind = **at;
    char digits[5] = "";
    *at += kind == '\0' ? 0 : 1;
    if (kind == 'u' && strlen(*at) >= 4) {
        memcpy(digits, *at, 4);
        *at += 4;
        unsigned long point = strtoul(digits, NULL, 16); /* never NUL, below 0x10000 */
        if (point < 0x80) {
            out[0] = (char)point;
            return 1;
        }
        if (point < 0x800) {
            out[0] = (char)(0xc0 | point >> 6);
            out[1] = (char)(0x80 | (point & 0x3f));
            return 2;
        }
        out[0] = (char)(0xe0 | (point >> 12 & 0x0f));
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind == 't' ? '\t' : kind);
    return 1;
}

static char *take_quoted(const char **at)
{
    char *value = qn_memory_must(qn_alloc(strlen(*at) + 1));
    size_t size = 0;
    while (**at != '\0' && **at != '"') {
        char byte = *(*at)++;
        if (byte == '\\') {
            size += unescape(at, value + size);
        } else {
            value[size++] = byte;
        }
    }
    *at += **at == '"' ? 1 : 0;
    value[size] = '\0';
    return value;
}

bool qn_logfmt_next(const char **at, struct qn_logfmt_field *ret_field)
{
    *at += strspn(*at, " ");
    size_t name_size = strcspn(*at, "= ");
    if (name_size == 0) {
        return false;
    }
    ret_field->name = copy(*at, name_size);
    ret_field->is_number = false;
    *at += name_size + ((*at)[name_size] == '=' ? 1 : 0);
    if (**at == '"') {
        (*at)++;
        ret_field->value = take_quoted(at);
        return true;
    }
    size_t size = strcspn(*at, " ");
    ret_field->value = copy(*at, size);
    ret_field->is_number = size > 0 && strspn(*at, "-0123456789") == size;
    *at += size;
    return true;
}
