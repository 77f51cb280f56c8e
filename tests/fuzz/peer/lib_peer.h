/* SPDX-License-Identifier: MIT */
/* lib_peer.h - a Redis peer in this very process: connections end here, requests are answered as
 * soon as they are sent, and nothing needs a thread or a server.
 *
 * connect() and send() of the program are replaced: a connection to a Unix socket becomes one half
 * of a socket pair, and commands sent on it are passed to peer_answer one by one, which writes the
 * reply into the other half. */
#ifndef TESTS_FUZZ_PEER_LIB_PEER_H
#define TESTS_FUZZ_PEER_LIB_PEER_H

#include <stddef.h>

/* For each command, once its request has been sent: the first word, not ended by a NUL, and the
 * whole command as it was sent. Supplied by the target. */
void peer_answer(int peer_fd, const char *name, size_t name_size, const char *command,
                 size_t command_size);
/* How many more connections are accepted; the next ones are refused. */
void peer_accept(int connections);
void peer_write(int peer_fd, const void *data, size_t size);
/* No more is sent on this connection. */
void peer_hang_up(int peer_fd);
/* Closes what is left open. */
void peer_finish(void);

#endif
