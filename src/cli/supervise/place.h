/* SPDX-License-Identifier: MIT */
/* place.h - where the health of a worker is read: [ADDRESS:]PORT, or the path of a Unix socket. */
#ifndef QN_CLI_SUPERVISE_PLACE_H
#define QN_CLI_SUPERVISE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct qn_place {
    struct sockaddr_storage address;
    socklen_t size;
    char path[108]; /* "": TCP */
};

#define QN_PLACE_TEXT_SIZE 160

/* ADDRESS is numeric, "localhost" or "*" (all); 127.0.0.1 where it is omitted. A path has a slash
 * or ends in ".sock"; a relative one is below RUNTIME_DIRECTORY, if there is that. False: it is
 * none. */
bool qn_place_parse(const char *text, struct qn_place *ret_place);
/* "127.0.0.1:9090", as fd is bound. */
void qn_place_print(int fd, char text[QN_PLACE_TEXT_SIZE]);
/* A socket that listens, non-blocking and closed on exec; -1: errno says why. A Unix socket of
 * a process that has ended is replaced; the new one has mode 0660. */
int qn_place_listen(const struct qn_place *place);
/* One that is connected, each wait of it limited to timeout_ms; -1: errno says why. */
int qn_place_connect(const struct qn_place *place, int64_t timeout_ms);

#endif
