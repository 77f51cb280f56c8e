/* SPDX-License-Identifier: MIT */
/* zygote_wire.h - packets between a worker and its zygote, with descriptors.
 *
 * Both are of one machine, so numbers are as the compiler stores them. Each side checks what it
 * receives: a wrong size, kind or set of descriptors is never acted upon. */
#ifndef QN_POOL_PREFORK_ZYGOTE_WIRE_H
#define QN_POOL_PREFORK_ZYGOTE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/memory/view.h"

/* Which descriptors a request has, and their order. */
enum qn_zygote_slot {
    QN_ZYGOTE_SOCKET = 0, /* of a child */
    QN_ZYGOTE_PAGE,
    QN_ZYGOTE_STDERR,
    QN_ZYGOTE_STDIO = 0, /* of a command: descriptors 0 to 3 */
    QN_ZYGOTE_CGROUP = 4,
    QN_ZYGOTE_TEXT, /* a sealed memfd: its command and its environment */
    QN_ZYGOTE_SLOTS
};

struct qn_zygote_fds {
    int items[QN_ZYGOTE_SLOTS];
    size_t count;
};

enum qn_zygote_request_kind {
    QN_ZYGOTE_START_CHILD = 1,
    QN_ZYGOTE_START_COMMAND = 2,
    QN_ZYGOTE_FORK_ANOTHER = 3 /* a second zygote, which serves on QN_ZYGOTE_SOCKET */
};

struct qn_zygote_request {
    uint32_t kind;
    uint32_t slots; /* a bit for each descriptor that comes with it */
    uint64_t number;
    uint64_t address_space_bytes;
    uint64_t cpu_s;
    uint32_t no_new_privs; /* 0 or 1 */
    uint32_t text_count;   /* strings in QN_ZYGOTE_TEXT, each with its NUL */
    uint64_t text_size;
};

/* From the zygote to the worker; also from a guard to the zygote, with no number. */
struct qn_zygote_packet {
    uint32_t kind; /* enum qn_zygote_event_kind without GONE */
    int32_t error_number;
    uint64_t number;
    int32_t pid;
    int32_t status;
    struct rusage usage;
};

/* 0, or an errno: EAGAIN as well when too many descriptors are on their way. Never blocks, never
 * raises SIGPIPE. */
int qn_zygote_wire_send(int socket_fd, struct qn_bytes packet, const struct qn_zygote_fds *fds);
/* The bytes of one packet; its descriptors are CLOEXEC and the caller's. 0: the peer is gone. Else
 * -errno: EAGAIN, EMFILE (the packet was read, its descriptors are lost), EBADMSG (it is larger
 * than the room). Never blocks. */
ssize_t qn_zygote_wire_receive(int socket_fd, struct qn_room room, struct qn_zygote_fds *ret_fds);
void qn_zygote_wire_close(struct qn_zygote_fds *fds);

/* Whether a packet of this size with so many descriptors is one that may be acted upon. */
bool qn_zygote_wire_is_request(const struct qn_zygote_request *request, size_t size,
                               size_t fd_count);
bool qn_zygote_wire_is_packet(const struct qn_zygote_packet *packet, size_t size, size_t fd_count);
/* The descriptor of this slot in a checked request; -1: it has none. */
int qn_zygote_wire_fd(const struct qn_zygote_request *request, const struct qn_zygote_fds *fds,
                      unsigned slot);

#endif
