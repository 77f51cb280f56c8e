/* SPDX-License-Identifier: MIT */
/* socket.c - sending and receiving.
 *
 * The socket never blocks; every wait is a poll with a deadline. Only for the reply to a short
 * request the socket is polled in a loop at first: the server needs less time for it than a
 * sleeping thread needs to wake up, and the caller may be waiting. A batch takes so long that this
 * would only waste the CPU; so does a server far away, which is detected: after some fruitless
 * polls only every 16th request is polled for. After any failure the socket is closed, since the
 * peer's further data belongs to no request.
 *
 * Texts of errors: the address, then the kernel's text. */
#include "net/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "net/tls_link.h"

#define SHORT_SIZE 2048     /* of a request that is answered at once */
#define ATTENTIVE_NS 150000 /* how long its answer is looked for without sleeping: two wake-ups */
#define IN_VAIN_MAX 4       /* looks, one after the other */
#define TRY_EACH 16         /* requests, after that */

void qn_socket_init(struct qn_socket *socket, const struct qn_peer *peer)
{
    *socket = (struct qn_socket){.peer = peer, .fd = -1};
}

void qn_socket_close(struct qn_socket *socket)
{
    qn_tls_link_close(socket->tls);
    socket->tls = NULL;
    if (socket->fd >= 0) {
        (void)close(socket->fd);
        socket->fd = -1;
    }
    qn_free(socket->inbox);
    socket->inbox = NULL;
}

static quern_status lost(struct qn_socket *socket, const char *words, quern_error *err)
{
    quern_status status =
        qn_error_set(err, QUERN_E_CONNECT, "%s: connection lost: %s", socket->peer->address, words);
    qn_socket_close(socket); /* the words may be in it */
    return status;
}

/* count: what the call returned. */
static quern_status failed(struct qn_socket *socket, ssize_t count, quern_error *err)
{
    socket->was_closed = count == 0 || errno == ECONNRESET || errno == EPIPE;
    if (count == 0) {
        return lost(socket, "closed by the server", err);
    }
    if (socket->tls == NULL) {
        return lost(socket, strerror(errno), err);
    }
    if (errno == ENOMEM) {
        qn_socket_close(socket);
        return qn_error_nomem(err);
    }
    return lost(socket, qn_tls_link_why(socket->tls), err);
}

static quern_status too_slow(struct qn_socket *socket, quern_error *err)
{
    int64_t ms = socket->timeout_ms > 0 ? socket->timeout_ms : socket->peer->timeout_ms;
    if (qn_peer_is_abandoned(socket->peer)) {
        socket->was_closed = false;
        return lost(socket, "another server was chosen meanwhile", err);
    }
    int64_t waited_ms = qn_peer_end(socket->peer, 0, ms * 1000000) / 1000000;
    qn_socket_close(socket);
    return qn_error_set(err, QUERN_E_TIMEOUT, "%s: no answer within %lld ms", socket->peer->address,
                        (long long)waited_ms);
}

/* Waits until the socket is ready for `events` of poll. False: the end of the wait came first. */
static bool wait_for(const struct qn_socket *socket, short events, int64_t begun_mono_ns,
                     int64_t deadline_mono_ns)
{
    struct pollfd poller = {.fd = socket->fd, .events = events};
    if (socket->tls != NULL) {
        if (events == POLLIN && qn_tls_link_has_bytes(socket->tls)) {
            return true;
        }
        poller.events = qn_tls_link_events(socket->tls, events);
    }
    while (true) {
        int timeout_ms = qn_peer_sleep_ms(socket->peer, begun_mono_ns, deadline_mono_ns);
        int ready = poll(&poller, 1, timeout_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return true; /* the next call on it reports its failure */
        }
        if (timeout_ms == 0) {
            return false;
        }
    }
}

/* --- Looking without sleeping ------------------------------------------------------- */

/* Until when to look for the answer to a request of this size; 0: it is not worth it. */
static int64_t attentive_until_ns(struct qn_socket *socket, size_t size)
{
    if (size > SHORT_SIZE) {
        return 0;
    }
    if (socket->in_vain_count >= IN_VAIN_MAX && ++socket->in_vain_count % TRY_EACH != 0) {
        return 0;
    }
    return qn_clock_mono_ns() + ATTENTIVE_NS;
}

/* Whether to look again at once. Counts the looks that found nothing to their end. */
static bool is_attentive(struct qn_socket *socket)
{
    if (socket->attentive_until_mono_ns == 0) {
        return false;
    }
    if (qn_clock_mono_ns() < socket->attentive_until_mono_ns) {
        return true;
    }
    socket->attentive_until_mono_ns = 0;
    socket->in_vain_count++;
    return false;
}

void qn_socket_answered(struct qn_socket *socket, const struct qn_socket_wait *wait)
{
    if (wait->attentive) {
        socket->in_vain_count = 0;
    }
}

/* --- Sending and receiving ---------------------------------------------------------- */

/* As send and recv of a socket that never blocks. */
static ssize_t put(struct qn_socket *socket, const void *data, size_t size)
{
    return socket->tls == NULL ? send(socket->fd, data, size, MSG_NOSIGNAL)
                               : qn_tls_link_send(socket->tls, data, size);
}

static ssize_t take(struct qn_socket *socket)
{
    return socket->tls == NULL
               ? recv(socket->fd, socket->inbox, QN_SOCKET_INBOX_SIZE, 0)
               : qn_tls_link_receive(socket->tls, socket->inbox, QN_SOCKET_INBOX_SIZE);
}

quern_status qn_socket_send(struct qn_socket *socket, const void *data, size_t size,
                            int64_t deadline_mono_ns, quern_error *err)
{
    size_t sent = 0;
    int64_t begun_mono_ns = 0; /* to wait */
    while (sent < size) {
        ssize_t count = put(socket, (const char *)data + sent, size - sent);
        if (count > 0) {
            sent += (size_t)count;
            socket->sent_bytes += (size_t)count;
            if (sent < size && qn_clock_mono_ns() >= deadline_mono_ns) {
                return too_slow(socket, err);
            }
        } else if (count < 0 && errno == EAGAIN) {
            begun_mono_ns = begun_mono_ns == 0 ? qn_clock_mono_ns() : begun_mono_ns;
            if (!wait_for(socket, POLLOUT, begun_mono_ns, deadline_mono_ns)) {
                return too_slow(socket, err);
            }
        } else if (errno != EINTR) {
            return failed(socket, count, err);
        }
    }
    socket->attentive_until_mono_ns = attentive_until_ns(socket, size);
    return QUERN_OK;
}

quern_status qn_socket_try_receive(struct qn_socket *socket, size_t *ret_size, quern_error *err)
{
    ssize_t count = take(socket);
    bool empty = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (count <= 0 && !empty) {
        return failed(socket, count, err);
    }
    *ret_size = empty ? 0 : (size_t)count;
    return QUERN_OK;
}

quern_status qn_socket_receive(struct qn_socket *socket, struct qn_socket_wait *wait,
                               size_t *ret_size, quern_error *err)
{
    if (wait->late) {
        return too_slow(socket, err); /* one look after the end: we may have been stopped */
    }
    wait->attentive = is_attentive(socket);
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (wait->begun_mono_ns == 0) {
        wait->begun_mono_ns = now_mono_ns;
    }
    int64_t end_mono_ns = qn_peer_end(socket->peer, wait->begun_mono_ns, wait->deadline_mono_ns);
    wait->late = now_mono_ns >= end_mono_ns && !QN_BUG(DEADLINE_WHILE_IDLE);
    bool looks = wait->look_mono_ns != 0 && wait->look_mono_ns < end_mono_ns;
    int64_t until_mono_ns = looks ? wait->look_mono_ns : wait->deadline_mono_ns;
    if (wait->attentive) {
        (void)sched_yield(); /* other processes get this CPU first: one may be the server */
    } else if (!wait_for(socket, POLLIN, wait->begun_mono_ns, until_mono_ns)) {
        if (!looks) {
            return too_slow(socket, err);
        }
        *ret_size = 0;
        return QUERN_OK;
    }
    return qn_socket_try_receive(socket, ret_size, err);
}

bool qn_socket_has_bytes(const struct qn_socket *socket)
{
    return socket->tls != NULL && qn_tls_link_has_bytes(socket->tls);
}

uint64_t qn_socket_arrived(const struct qn_socket *socket)
{
    return socket->tls == NULL ? 0 : qn_tls_link_received(socket->tls);
}

void qn_socket_address(const struct qn_socket *socket, char ret_address[QN_SOCKET_ADDRESS_SIZE])
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof peer;
    ret_address[0] = '\0';
    if (getpeername(socket->fd, (struct sockaddr *)(void *)&peer, &size) != 0 ||
        (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) ||
        getnameinfo((struct sockaddr *)(void *)&peer, size, ret_address, QN_SOCKET_ADDRESS_SIZE,
                    NULL, 0, NI_NUMERICHOST) != 0) {
        ret_address[0] = '\0';
    }
}

int qn_socket_unacked(const struct qn_socket *socket)
{
    int bytes = 0;
    return ioctl(socket->fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool qn_socket_is_stale(const struct qn_socket *socket)
{
    if (socket->tls != NULL) {
        return qn_tls_link_is_stale(socket->tls);
    }
    char byte;
    ssize_t count = recv(socket->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count >= 0 || (errno != EAGAIN && errno != EINTR);
}
