/* SPDX-License-Identifier: MIT */
/* encode.c - commands in the server's protocol: an array of bulk strings.
 *
 * hiredis could do it, but makes a block of its own for each command and prints each size with
 * sprintf: that was a quarter of what a client does for a task. Here all commands of a pipeline are
 * written directly into the buffer that is sent. Nothing can fail, as the caller has made room. */
#include "redis/encode.h"

#include <string.h>

#define HEAD_SIZE_MAX (1 + QN_DIGITS_MAX + 2) /* "$5\r\n" */

size_t qn_encode_size_max(const size_t *sizes, size_t count)
{
    size_t size_max = HEAD_SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_max += HEAD_SIZE_MAX + sizes[i] + 2;
    }
    return size_max;
}

char *qn_encode_digits(char *end, uint64_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

static char *put_bytes(char *at, const char *data, size_t size)
{
    if (size > 0) {
        memcpy(at, data, size);
    }
    return at + size;
}

static char *put_end(char *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

/* "*3\r\n" or "$12\r\n" */
static char *put_head(char *at, char kind, size_t number)
{
    char digits[QN_DIGITS_MAX];
    char *end = digits + sizeof digits;
    const char *begin = qn_encode_digits(end, number);
    *at = kind;
    return put_end(put_bytes(at + 1, begin, (size_t)(end - begin)));
}

void qn_encode(char **at, const char **args, const size_t *sizes, size_t count)
{
    char *here = put_head(*at, '*', count);
    for (size_t i = 0; i < count; i++) {
        here = put_head(here, '$', sizes[i]);
        here = put_end(put_bytes(here, args[i], sizes[i]));
    }
    *at = here;
}
