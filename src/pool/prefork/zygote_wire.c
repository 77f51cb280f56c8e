/* SPDX-License-Identifier: MIT */
/* zygote_wire.c - sends, receives and checks the packets of zygote_wire.h.
 *
 * SOCK_SEQPACKET keeps packets whole, so there is nothing to put together: a packet is right as it
 * came, or its sender is broken. */
#include "pool/prefork/zygote_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/prefork/zygote.h"

enum { SECONDS_MAX = 1 << 30, MICROSECONDS = 1000000 };
/* More than a kernel accepts for one command and its environment. */
#define TEXT_SIZE_MAX ((uint64_t)64 << 20)
#define TEXT_COUNT_MAX ((uint32_t)1 << 20)

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * QN_ZYGOTE_SLOTS)];
};

int qn_zygote_wire_send(int socket_fd, struct qn_bytes packet, const struct qn_zygote_fds *fds)
{
    union control control = {0};
    struct iovec data = {.iov_base = (void *)(uintptr_t)packet.data, .iov_len = packet.size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (fds != NULL && fds->count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fds->count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fds->count);
        memcpy(CMSG_DATA(header), fds->items, sizeof(int) * fds->count);
    }
    for (;;) {
        if (sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
            return 0;
        }
        if (errno != EINTR) {
            return errno == ETOOMANYREFS ? EAGAIN : errno;
        }
    }
}

/* More descriptors than fit were never sent by us; the kernel closes them, and reports a cut. */
static void take_fds(struct msghdr *message, struct qn_zygote_fds *fds)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    for (; header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && fds->count < QN_ZYGOTE_SLOTS; i++) {
            memcpy(&fds->items[fds->count++], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        }
    }
}

ssize_t qn_zygote_wire_receive(int socket_fd, struct qn_room room, struct qn_zygote_fds *ret_fds)
{
    union control control = {0};
    struct iovec data = {.iov_base = room.data, .iov_len = room.size};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t size = -1;
    do { /* a peer that ends with packets unread resets us, once: its own come after that */
        size = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
    if (size < 0) {
        return -errno;
    }
    ret_fds->count = 0;
    take_fds(&message, ret_fds);
    int error_number = 0;
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        error_number = EMFILE;
    } else if ((message.msg_flags & MSG_TRUNC) != 0) {
        error_number = EBADMSG;
    }
    if (error_number != 0) {
        qn_zygote_wire_close(ret_fds);
        return -error_number;
    }
    return size;
}

void qn_zygote_wire_close(struct qn_zygote_fds *fds)
{
    while (fds->count > 0) {
        (void)close(fds->items[--fds->count]);
    }
}

static bool has(const struct qn_zygote_request *request, unsigned slot)
{
    return (request->slots >> slot & 1U) != 0;
}

bool qn_zygote_wire_is_request(const struct qn_zygote_request *request, size_t size,
                               size_t fd_count)
{
    if (size != sizeof *request || request->no_new_privs > 1 ||
        request->slots >= 1U << QN_ZYGOTE_SLOTS ||
        (size_t)__builtin_popcount(request->slots) != fd_count) {
        return false;
    }
    switch ((enum qn_zygote_request_kind)request->kind) {
    case QN_ZYGOTE_START_CHILD:
        return has(request, QN_ZYGOTE_SOCKET) && has(request, QN_ZYGOTE_PAGE) &&
               has(request, QN_ZYGOTE_STDERR) && !has(request, QN_ZYGOTE_STDERR + 1) &&
               !has(request, QN_ZYGOTE_TEXT);
    case QN_ZYGOTE_START_COMMAND:
        return has(request, QN_ZYGOTE_TEXT) && request->text_count > 0 &&
               request->text_count <= TEXT_COUNT_MAX && request->text_size <= TEXT_SIZE_MAX &&
               request->text_size >= request->text_count;
    case QN_ZYGOTE_FORK_ANOTHER:
        return request->slots == 1U << QN_ZYGOTE_SOCKET;
    }
    return false;
}

/* Sums of these must not overflow. */
static bool is_usage(const struct rusage *usage)
{
    const struct timeval *times[] = {&usage->ru_utime, &usage->ru_stime};
    for (size_t i = 0; i < 2; i++) {
        if (times[i]->tv_sec < 0 || times[i]->tv_sec > SECONDS_MAX || times[i]->tv_usec < 0 ||
            times[i]->tv_usec >= MICROSECONDS) {
            return false;
        }
    }
    return usage->ru_maxrss >= 0 && usage->ru_maxrss <= INT64_MAX / 1024;
}

bool qn_zygote_wire_is_packet(const struct qn_zygote_packet *packet, size_t size, size_t fd_count)
{
    if (size != sizeof *packet) {
        return false;
    }
    switch ((enum qn_zygote_event_kind)packet->kind) {
    case QN_ZYGOTE_STARTED:
        return packet->pid > 1 && fd_count == 1;
    case QN_ZYGOTE_REFUSED:
        return packet->error_number > 0 && fd_count == 0;
    case QN_ZYGOTE_ENDED:
        return packet->pid > 1 && fd_count == 0 && is_usage(&packet->usage);
    case QN_ZYGOTE_GONE:
        break;
    }
    return false;
}

int qn_zygote_wire_fd(const struct qn_zygote_request *request, const struct qn_zygote_fds *fds,
                      unsigned slot)
{
    if (!has(request, slot)) {
        return -1;
    }
    return fds->items[__builtin_popcount(request->slots & ((1U << slot) - 1U))];
}
