/* SPDX-License-Identifier: MIT */
/* connect.c - from a peer to a connected socket.
 *
 * A name may have several addresses, some of them dead. They are tried in the order of the
 * resolver, each HEAD_START_MS after the one before while that has not answered, and the first that
 * connects wins (as in RFC 8305, without its sorting). Of their errors only the first is reported:
 * it belongs to the address that the resolver prefers.
 *
 * The resolver itself has no deadline but that of /etc/resolv.conf. */
#include "net/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "net/tls_link.h"

#define RACE_MAX 8 /* addresses of one name that are tried */
#define HEAD_START_MS 250
/* A peer that has vanished is noticed after about 7 s, with or without data in flight. */
#define KEEPALIVE_IDLE_S 3
#define KEEPALIVE_STEP_S 1
#define KEEPALIVE_COUNT 4
#define USER_TIMEOUT_MS 6000

struct race {
    const struct qn_peer *peer;
    int64_t begun_mono_ns;
    const struct addrinfo *next;
    struct pollfd runners[RACE_MAX];
    nfds_t count;
    int first_errno;
};

/* Milliseconds until the deadline, rounded up; 0 when it has passed. */
static int until_ms(int64_t deadline_mono_ns)
{
    int64_t left_ns = deadline_mono_ns - qn_clock_mono_ns();
    if (left_ns <= 0) {
        return 0;
    }
    int64_t left_ms = left_ns / 1000000 + 1;
    return left_ms > 3600000 ? 3600000 : (int)left_ms;
}

static quern_status report_errno(const struct qn_peer *peer, int code, quern_error *err)
{
    return qn_error_set(err, QUERN_E_CONNECT, "%s: %s", peer->address, strerror(code));
}

/* Settings that make a dead peer known; a kernel that refuses one of them still connects. */
static void set_options(int fd)
{
    int on = 1;
    int idle = KEEPALIVE_IDLE_S;
    int step = KEEPALIVE_STEP_S;
    int count = KEEPALIVE_COUNT;
    unsigned user_timeout = USER_TIMEOUT_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
}

static void note(struct race *race, int code)
{
    if (race->first_errno == 0) {
        race->first_errno = code;
    }
}

/* Never in the place of a standard stream that the program has closed: output to that stream, for
 * example a log, would go to the server. */
static int new_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(fd);
    errno = code;
    return above;
}

/* Starts the next address, and those after it while they fail at once. */
static void start_next(struct race *race)
{
    bool started = false;
    while (!started && race->next != NULL && race->count < RACE_MAX) {
        const struct addrinfo *at = race->next;
        race->next = at->ai_next;
        int fd = new_socket(at->ai_family);
        if (fd < 0) {
            note(race, errno);
            continue;
        }
        set_options(fd);
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS) {
            race->runners[race->count++] = (struct pollfd){.fd = fd, .events = POLLOUT};
            started = true;
        } else {
            note(race, errno);
            (void)close(fd);
        }
    }
}

/* The socket that has connected, taken out of the race, or -1. Those that failed are closed. */
static int take_winner(struct race *race)
{
    nfds_t kept = 0;
    int winner = -1;
    for (nfds_t i = 0; i < race->count; i++) {
        struct pollfd runner = race->runners[i];
        int code = 0;
        socklen_t size = sizeof code;
        if (runner.revents == 0 || winner >= 0) {
            race->runners[kept++] = runner;
        } else if (getsockopt(runner.fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0) {
            winner = runner.fd;
        } else {
            note(race, code);
            (void)close(runner.fd);
        }
    }
    race->count = kept;
    return winner;
}

static quern_status run_race(struct race *race, int64_t deadline_mono_ns, int *ret_fd,
                             quern_error *err)
{
    int winner = -1;
    while (winner < 0) {
        start_next(race);
        if (race->count == 0) {
            return report_errno(race->peer, race->first_errno, err);
        }
        nfds_t running = race->count;
        int64_t next_at_ns = qn_clock_mono_ns() + INT64_C(1000000) * HEAD_START_MS;
        /* Until the head start has passed, one has failed or one has won. */
        while (winner < 0 && race->count == running) {
            int left_ms = qn_peer_sleep_ms(race->peer, race->begun_mono_ns, deadline_mono_ns);
            int head_start_ms = race->next != NULL ? until_ms(next_at_ns) : left_ms;
            int timeout_ms = head_start_ms < left_ms ? head_start_ms : left_ms;
            if (left_ms == 0) {
                return qn_peer_too_slow(race->peer, "no connection", race->begun_mono_ns, err);
            }
            if (timeout_ms == 0) {
                break;
            }
            if (poll(race->runners, race->count, timeout_ms) > 0) {
                winner = take_winner(race);
            }
        }
    }
    *ret_fd = winner;
    return QUERN_OK;
}

static quern_status connect_tcp(const struct qn_peer *peer, int64_t deadline_mono_ns, int *ret_fd,
                                quern_error *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    struct addrinfo *addresses = NULL;
    int code = getaddrinfo(peer->host, peer->port, &hints, &addresses);
    if (code == EAI_MEMORY) {
        return qn_error_nomem(err);
    }
    if (code != 0) {
        return qn_error_set(err, QUERN_E_CONNECT, "%s: %s", peer->address,
                            code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    }
    struct race race = {.peer = peer, .begun_mono_ns = qn_clock_mono_ns(), .next = addresses};
    quern_status status = run_race(&race, deadline_mono_ns, ret_fd, err);
    for (nfds_t i = 0; i < race.count; i++) {
        (void)close(race.runners[i].fd);
    }
    freeaddrinfo(addresses);
    return status;
}

static quern_status connect_unix(const struct qn_peer *peer, int64_t deadline_mono_ns, int *ret_fd,
                                 quern_error *err)
{
    int64_t begun_mono_ns = qn_clock_mono_ns();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, peer->path, strlen(peer->path) + 1);
    int fd = new_socket(AF_UNIX);
    if (fd < 0) {
        return report_errno(peer, errno, err);
    }
    int code = connect(fd, (const struct sockaddr *)(const void *)&address, sizeof address);
    while (code < 0 && errno == EAGAIN) {
        /* Its backlog is full, and poll does not report when there is room. */
        if (qn_peer_sleep_ms(peer, begun_mono_ns, deadline_mono_ns) == 0) {
            (void)close(fd);
            return qn_peer_too_slow(peer, "no connection", begun_mono_ns, err);
        }
        (void)poll(NULL, 0, 5);
        code = connect(fd, (const struct sockaddr *)(const void *)&address, sizeof address);
    }
    if (code < 0) {
        quern_status status = report_errno(peer, errno, err);
        (void)close(fd);
        return status;
    }
    *ret_fd = fd;
    return QUERN_OK;
}

quern_status qn_connect(struct qn_socket *socket, int64_t deadline_mono_ns, quern_error *err)
{
    const struct qn_peer *peer = socket->peer;
    socket->inbox = qn_alloc(QN_SOCKET_INBOX_SIZE); /* only pages that are written take memory */
    if (socket->inbox == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = peer->host[0] == '\0'
                              ? connect_unix(peer, deadline_mono_ns, &socket->fd, err)
                              : connect_tcp(peer, deadline_mono_ns, &socket->fd, err);
    if (status == QUERN_OK && peer->tls != NULL) {
        status = qn_tls_link_open(peer, socket->fd, deadline_mono_ns, &socket->tls, err);
    }
    if (status != QUERN_OK) {
        qn_socket_close(socket);
    }
    return status;
}
