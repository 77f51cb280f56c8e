/* SPDX-License-Identifier: MIT */
/* server.h - answers short HTTP requests for texts, and survives every client.
 *
 * It has no thread: the caller waits at its descriptor, and lets it work. Only GET and HEAD; one
 * request for each connection, a few KB, a few seconds; when there are too many connections the
 * oldest is closed, since an honest client has its answer within a moment. */
#ifndef QN_CLI_SUPERVISE_SERVER_H
#define QN_CLI_SUPERVISE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

struct qn_server;

/* The body for a path, from malloc, and whether all is well (200, else 503); NULL: there is no
 * such page. */
typedef char *qn_server_answer(const char *path, bool *ret_ok, void *user);

/* fd: a socket that listens; the server has a copy of it. NULL: no memory or descriptor. */
struct qn_server *qn_server_new(int fd, qn_server_answer *answer, void *user);
void qn_server_free(struct qn_server *server);
/* Readable when there is work. */
int qn_server_fd(const struct qn_server *server);
/* Does what there is to do. Returns after how many ms it wants to be called anyway; -1: not. */
int64_t qn_server_work(struct qn_server *server);

#endif
