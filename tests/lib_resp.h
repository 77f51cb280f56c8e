/* SPDX-License-Identifier: MIT */
/* lib_resp.h - where requests and replies of Redis end among the bytes of a connection, and which
 * words a request has. For tests that stand between a client and a server. */
#ifndef TESTS_LIB_RESP_H
#define TESTS_LIB_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Bytes that come at the end and go at the beginning. Starts as {0}. */
struct resp_bytes {
    char *data;
    size_t size;
    size_t room;
};
void resp_add(struct resp_bytes *bytes, const char *data, size_t size);
void resp_drop(struct resp_bytes *bytes, size_t size); /* the first `size` of them */
void resp_free(struct resp_bytes *bytes);
/* Adds what the socket has, up to 64 KiB: their number; 0: its end; -1: errno. */
ssize_t resp_receive(struct resp_bytes *bytes, int fd, int flags);
/* The same, at most this many. */
ssize_t resp_receive_some(struct resp_bytes *bytes, int fd, int flags, size_t size_max);

/* How far one request or reply has been read. Starts as {0}, and once more for the next one. */
struct resp_scan {
    size_t at;
    size_t left; /* parts that have still to come */
    bool begun;
};
/* The size of the request or reply at the beginning of the bytes, 0: it is incomplete. More bytes
 * may have come behind those of the last call. */
size_t resp_end(struct resp_scan *scan, const struct resp_bytes *bytes);

/* The index-th word of the complete request, or text of the complete flat array, that begins the
 * bytes; NULL: there are fewer. */
const char *resp_word(const struct resp_bytes *bytes, size_t index, size_t *ret_size);
/* Whether it is this one, in capitals or not. */
bool resp_word_is(const struct resp_bytes *bytes, size_t index, const char *word);

#endif
