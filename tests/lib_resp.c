/* SPDX-License-Identifier: MIT */
/* lib_resp.c - the framing of RESP2 and RESP3.
 *
 * Every part begins with a line: its kind, and a number or a text. A blob is followed by its bytes,
 * and an aggregate by its parts. What is no RESP at all counts as a line. */
#include "lib_resp.h"

#include "lib_test.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define RECEIVE_SIZE 65536

static void make_room(struct resp_bytes *bytes, size_t size)
{
    if (bytes->room - bytes->size < size) {
        bytes->room = bytes->room * 2 + size;
        bytes->data = realloc(bytes->data, bytes->room);
        TEST_REQUIRE(bytes->data != NULL);
    }
}

void resp_add(struct resp_bytes *bytes, const char *data, size_t size)
{
    if (size > 0) {
        make_room(bytes, size);
        memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
    }
}

void resp_drop(struct resp_bytes *bytes, size_t size)
{
    if (size > 0) {
        memmove(bytes->data, bytes->data + size, bytes->size - size);
        bytes->size -= size;
    }
}

void resp_free(struct resp_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct resp_bytes){0};
}

ssize_t resp_receive_some(struct resp_bytes *bytes, int fd, int flags, size_t size_max)
{
    make_room(bytes, size_max);
    ssize_t size = recv(fd, bytes->data + bytes->size, size_max, flags);
    bytes->size += size > 0 ? (size_t)size : 0;
    return size;
}

ssize_t resp_receive(struct resp_bytes *bytes, int fd, int flags)
{
    return resp_receive_some(bytes, fd, flags, RECEIVE_SIZE);
}

/* The size of the line at `at` with its end; 0: it is incomplete. */
static size_t line_size(const struct resp_bytes *bytes, size_t at)
{
    const char *end = at < bytes->size ? memchr(bytes->data + at, '\n', bytes->size - at) : NULL;
    return end == NULL ? 0 : (size_t)(end - bytes->data) + 1 - at;
}

static bool is_one_of(char kind, const char *kinds)
{
    return kind != '\0' && strchr(kinds, kind) != NULL;
}

size_t resp_end(struct resp_scan *scan, const struct resp_bytes *bytes)
{
    scan->left = scan->begun ? scan->left : 1;
    scan->begun = true;
    while (scan->left > 0) {
        size_t at = scan->at;
        size_t size = line_size(bytes, at);
        if (size == 0) {
            return 0;
        }
        char kind = bytes->data[at];
        long count = strtol(bytes->data + at + 1, NULL, 10);
        size_t more = 0;
        at += size;
        if (is_one_of(kind, "$!=") && count >= 0) {
            at += (size_t)count + 2;
        } else if (is_one_of(kind, "*~>") && count > 0) {
            more = (size_t)count;
        } else if (is_one_of(kind, "%|") && count > 0) {
            more = 2 * (size_t)count + (kind == '|' ? 1 : 0);
        }
        if (at > bytes->size) {
            return 0;
        }
        scan->at = at;
        scan->left += more - 1;
    }
    return scan->at;
}

const char *resp_word(const struct resp_bytes *bytes, size_t index, size_t *ret_size)
{
    size_t at = line_size(bytes, 0);
    if (at == 0 || bytes->data[0] != '*' || index >= strtoul(bytes->data + 1, NULL, 10)) {
        return NULL;
    }
    for (size_t i = 0; at < bytes->size && bytes->data[at] == '$'; i++) {
        size_t size = strtoul(bytes->data + at + 1, NULL, 10);
        size_t begin = at + line_size(bytes, at);
        if (i == index) {
            *ret_size = size;
            return begin + size <= bytes->size ? bytes->data + begin : NULL;
        }
        at = begin + size + 2;
    }
    return NULL;
}

bool resp_word_is(const struct resp_bytes *bytes, size_t index, const char *word)
{
    size_t size = 0;
    const char *at = resp_word(bytes, index, &size);
    return at != NULL && size == strlen(word) && strncasecmp(at, word, size) == 0;
}
