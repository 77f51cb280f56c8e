/* SPDX-License-Identifier: MIT */
/* server.h - answers short HTTP requests for texts, and survives every client: the health and the
 * metrics of a worker, and the metrics of a broker.
 *
 * It has no thread: the caller waits at its descriptor, and lets it work. Only GET and HEAD; one
 * request for each connection, a few KB, a few seconds; when there are too many connections the
 * oldest is closed, since an honest client has its answer within a moment. */
#ifndef QN_CLI_SUPERVISE_SERVER_H
#define QN_CLI_SUPERVISE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qn_server;

struct qn_server_request {
    const char *path;
    const char *accept; /* the header; NULL: there is none */
};

struct qn_server_page {
    char *body; /* NULL: no memory for it */
    size_t size;
    void (*free_body)(void *body);
    const char *content_type; /* static */
    bool ok;                  /* 200, else 503 */
};

/* False: there is no such page. */
typedef bool qn_server_answer(const struct qn_server_request *request,
                              struct qn_server_page *ret_page, void *user);

/* fd: a socket that listens; the server has a copy of it. time_s: how long a connection may last,
 * with the time that answers take. NULL: no memory or descriptor. */
struct qn_server *qn_server_new(int fd, uint32_t time_s, qn_server_answer *answer, void *user);
void qn_server_free(struct qn_server *server);
/* Readable when there is work. */
int qn_server_fd(const struct qn_server *server);
/* Does what there is to do. Returns after how many ms it wants to be called anyway; -1: not. */
int64_t qn_server_work(struct qn_server *server);

#endif
