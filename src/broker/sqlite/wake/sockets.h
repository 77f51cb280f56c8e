/* SPDX-License-Identifier: MIT */
/* sockets.h - the sockets by which a broker object is woken: by name in the directory beside the
 * file, or in pairs for a database in memory.
 *
 * ID.w receives wake-ups and ID.c cancellations, of a worker; ID.e the ends of tasks, of a client
 * that waits for one. ID.lock is held with flock for life, so that senders can tell the dead; it is
 * empty, until a sender finds ID.e full. */
#ifndef QN_BROKER_SQLITE_WAKE_SOCKETS_H
#define QN_BROKER_SQLITE_WAKE_SOCKETS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "broker/sqlite/sqlite.h"

void qn_sockets_init(struct qn_sockets *sockets);
/* Opens the directory, which is made if need be and `makes`, and takes the lock. False, also for
 * the next two: see errno, and close. */
QUERN_NODISCARD bool qn_sockets_open(const struct qn_sqlite *self, struct qn_sockets *sockets,
                                     bool makes);
QUERN_NODISCARD bool qn_sockets_make(const struct qn_sqlite *self, const struct qn_sockets *sockets,
                                     const char *kind, int *ret_fd);
QUERN_NODISCARD bool qn_sockets_make_pair(int *ret_fd, int *ret_send_fd);
/* Whether the name of the socket is gone. */
bool qn_sockets_removed(const struct qn_sockets *sockets, const char *kind);
/* For a sender: a message to ID.e was lost. False: that was noted before, and not taken yet. */
bool qn_sockets_note_lost(int dir_fd, const char *id);
/* Whether messages were lost since the last call. */
bool qn_sockets_take_lost(const struct qn_sockets *sockets);
/* "/proc/self/fd/N/ID.kind": an address that is short enough for any path of the file. */
void qn_sockets_address(int dir_fd, const char *id, const char *kind,
                        struct sockaddr_un *ret_address);
void qn_sockets_remove(int dir_fd, const char *id); /* all its names; the lock last */
/* Removes the names, too. */
void qn_sockets_close(struct qn_sockets *sockets);
void qn_sockets_close_fd(int *fd); /* it may be -1, and is afterwards */

#endif
