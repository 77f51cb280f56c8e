/* SPDX-License-Identifier: MIT */
/* headers.c - a task's headers as one blob: name NUL value NUL, and so on.
 *
 * Names and values are C strings, so NUL can separate them; when read, they are used in place. A
 * blob with a wrong end (it was edited) counts as no headers. */
#include "broker/sqlite/run/headers.h"

#include <string.h>

#include "broker/sqlite/sqlite.h"

static const char *value_of(const quern_header *header)
{
    return header->value == NULL ? "" : header->value;
}

size_t qn_sqlite_headers_size(const quern_header *headers, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += strlen(headers[i].name) + strlen(value_of(&headers[i])) + 2;
    }
    return size;
}

void qn_sqlite_headers_pack(const quern_header *headers, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++) {
        out = stpcpy(out, headers[i].name) + 1;
        out = stpcpy(out, value_of(&headers[i])) + 1;
    }
}

size_t qn_sqlite_headers_count(const void *blob, size_t size)
{
    const char *at = blob;
    size_t ends = 0;
    for (size_t i = 0; i < size; i++) {
        ends += at[i] == '\0' ? 1 : 0;
    }
    bool whole = size > 0 && at[size - 1] == '\0' && ends % 2 == 0;
    return whole && ends / 2 <= QN_HEADER_COUNT_MAX ? ends / 2 : 0;
}

void qn_sqlite_headers_unpack(const void *blob, size_t size, quern_header *headers, size_t count)
{
    const char *at = blob;
    const char *end = count == 0 ? at : at + size; /* there may be no blob at all */
    for (size_t i = 0; i < count && at < end; i++) {
        headers[i].name = at;
        at += strlen(at) + 1;
        headers[i].value = at;
        at += strlen(at) + 1;
    }
}
