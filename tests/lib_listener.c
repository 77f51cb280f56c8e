/* SPDX-License-Identifier: MIT */
/* lib_listener.c - common to all that relay between two Unix sockets: listening and stopping. */
#include "lib_listener.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

void test_listener_start(struct test_listener *listener, const char *path, void *(*serve)(void *),
                         void *user)
{
    struct sockaddr_un address = address_of(path);
    (void)unlink(path);
    listener->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener->listen_fd, (struct sockaddr *)(void *)&address, sizeof address),
                     0);
    assert_int_equal(listen(listener->listen_fd, BACKLOG), 0);
    assert_int_equal(pipe(listener->stop_fds), 0);
    assert_int_equal(pthread_create(&listener->thread, NULL, serve, user), 0);
}

void test_listener_stop(struct test_listener *listener)
{
    assert_int_equal(write(listener->stop_fds[1], "", 1), 1);
    assert_int_equal(pthread_join(listener->thread, NULL), 0);
    (void)close(listener->stop_fds[0]);
    (void)close(listener->stop_fds[1]);
    (void)close(listener->listen_fd);
}

int test_listener_connect(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bool test_send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}
