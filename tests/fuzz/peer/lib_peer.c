/* SPDX-License-Identifier: MIT */
/* lib_peer.c - connect() and send() that end in this process. */
#include "lib_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 1024

static int peers[FDS_MAX]; /* by the client's descriptor; 0: none, else descriptor + 1 */
static int connections_left;

void peer_accept(int connections)
{
    connections_left = connections;
}

void peer_finish(void)
{
    for (size_t i = 0; i < FDS_MAX; i++) {
        if (peers[i] != 0) {
            (void)close(peers[i] - 1);
            peers[i] = 0;
        }
    }
}

void peer_write(int peer_fd, const void *data, size_t size)
{
    /* Bytes that do not fit are lost, as with a server that stopped. */
    (void)syscall(SYS_sendto, peer_fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

void peer_hang_up(int peer_fd)
{
    (void)shutdown(peer_fd, SHUT_WR);
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t size)
{
    int ends[2];
    (void)size;
    if (address.__sockaddr__->sa_family != AF_UNIX || connections_left <= 0 || fd >= FDS_MAX) {
        errno = ECONNREFUSED;
        return -1;
    }
    connections_left--;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return -1;
    }
    (void)dup3(ends[0], fd, O_CLOEXEC);
    (void)close(ends[0]);
    if (peers[fd] != 0) {
        (void)close(peers[fd] - 1);
    }
    peers[fd] = ends[1] + 1;
    return 0;
}

/* A number after `mark`, and the end of its line; NULL: the request is not one. */
static const char *read_count(const char *at, const char *end, char mark, long *ret_count)
{
    if (at >= end || *at != mark) {
        return NULL;
    }
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    *ret_count = strtol(at + 1, NULL, 10);
    return line_end == NULL ? NULL : line_end + 1;
}

/* The end of the command at `at`; its first word. */
static const char *read_command(const char *at, const char *end, const char **ret_name,
                                size_t *ret_size)
{
    long words = 0;
    long size = 0;
    at = read_count(at, end, '*', &words);
    for (long i = 0; i < words && at != NULL; i++) {
        at = read_count(at, end, '$', &size);
        if (at == NULL || size < 0 || size + 2 > end - at) {
            return NULL;
        }
        if (i == 0) {
            *ret_name = at;
            *ret_size = (size_t)size;
        }
        at += size + 2;
    }
    return at;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    if (fd < 0 || fd >= FDS_MAX || peers[fd] == 0) {
        return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
    }
    const char *at = data;
    const char *end = at + size;
    while (at < end) {
        const char *name = NULL;
        size_t name_size = 0;
        const char *next = read_command(at, end, &name, &name_size);
        if (next == NULL || name == NULL) {
            abort(); /* we do not send half a command */
        }
        peer_answer(peers[fd] - 1, name, name_size, at, (size_t)(next - at));
        at = next;
    }
    return (ssize_t)size;
}
