/* SPDX-License-Identifier: MIT */
/* lib_wire.c - carries bytes between two Unix sockets, exact to the byte. */
#include "lib_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOK_MS 5 /* how soon it notices a request to stop */

static int to_server(const struct wire *wire)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", wire->server_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t count = send(fd, data, size, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        if (count > 0) {
            data += count;
            size -= (size_t)count;
        }
    }
    return true;
}

/* Data from the server. False: the wire ends here. */
static bool carry_back(struct wire *wire, int from_fd, int to_fd, long limit)
{
    char data[65536];
    ssize_t count = recv(from_fd, data, sizeof data, 0);
    if (count <= 0) {
        return false;
    }
    int kind = wire->kind;
    long left = limit - wire->carried;
    size_t size = (size_t)count;
    bool over = (kind == WIRE_CUT || kind == WIRE_SILENT) && left <= (long)size;
    if (over) {
        size = left > 0 ? (size_t)left : 0;
    }
    wire->carried += (long)size;
    bool sent = true;
    if (kind == WIRE_DRIBBLE) {
        for (size_t i = 0; sent && i < size; i++) {
            sent = write_all(to_fd, data + i, 1);
        }
    } else {
        sent = write_all(to_fd, data, size);
    }
    return sent && !(over && kind == WIRE_CUT);
}

/* Data from the client. False: the wire ends here. */
static bool carry_on(struct wire *wire, int from_fd, int to_fd, long limit)
{
    char data[65536];
    ssize_t count = recv(from_fd, data, sizeof data, 0);
    if (count <= 0) {
        return false;
    }
    bool over = wire->kind == WIRE_CUT_SENT && limit - wire->sent <= count;
    long size = over ? limit - wire->sent : count;
    wire->sent += size;
    wire->cuts += over ? 1 : 0;
    const char *canned = wire->canned;
    return (to_fd < 0 || write_all(to_fd, data, (size_t)size)) && !over &&
           (canned == NULL || write_all(from_fd, canned, strlen(canned)));
}

/* Until one side ends it. */
static void carry(struct wire *wire, int client_fd)
{
    long limit = wire->limit;
    int server_fd = wire->server_path == NULL ? -1 : to_server(wire);
    wire->carried = 0;
    wire->sent = 0;
    bool open = wire->kind != WIRE_CUT || limit > 0;
    while (open && !wire->stop) {
        struct pollfd ends[2] = {{.fd = client_fd, .events = POLLIN},
                                 {.fd = server_fd, .events = POLLIN}};
        if (poll(ends, 2, LOOK_MS) <= 0) {
            continue;
        }
        if (ends[0].revents != 0) {
            open = carry_on(wire, client_fd, server_fd, limit);
        }
        if (open && ends[1].revents != 0) {
            open = carry_back(wire, server_fd, client_fd, limit);
        }
    }
    if (server_fd >= 0) {
        (void)close(server_fd);
    }
    (void)close(client_fd);
}

static void *main_of_wire(void *user)
{
    struct wire *wire = user;
    while (!wire->stop) {
        struct pollfd end = {.fd = wire->listen_fd, .events = POLLIN};
        int fd =
            poll(&end, 1, LOOK_MS) > 0 ? accept4(wire->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd >= 0) {
            carry(wire, fd);
        }
    }
    return NULL;
}

void wire_start(struct wire *wire, const struct test_redis *redis)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *wire = (struct wire){.server_path = redis == NULL ? NULL : redis->socket_path};
    test_dir_make(wire->dir);
    (void)snprintf(wire->url, sizeof wire->url, "redis-socket://%s/wire", wire->dir);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/wire", wire->dir);
    wire->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(wire->listen_fd >= 0);
    assert_int_equal(bind(wire->listen_fd, (struct sockaddr *)(void *)&address, sizeof address), 0);
    assert_int_equal(listen(wire->listen_fd, 16), 0);
    assert_int_equal(pthread_create(&wire->thread, NULL, main_of_wire, wire), 0);
}

void wire_stop(struct wire *wire)
{
    wire->stop = true;
    assert_int_equal(pthread_join(wire->thread, NULL), 0);
    (void)close(wire->listen_fd);
    test_dir_remove(wire->dir);
}

void wire_set(struct wire *wire, enum wire_kind kind, long limit)
{
    wire->kind = kind;
    wire->limit = limit;
}
