/* SPDX-License-Identifier: MIT */
/* ask.c - a probe: one HTTP request, and a short answer.
 *
 * The server closes the connection after its answer. Another program may listen there, so the
 * answer is bounded in size and time, and nothing in it is believed but its code. */
#include "cli/supervise/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { CODE_DIGITS = 3, WHY_SIZE = 128, DECIMAL = 10 };
#define HEAD "HTTP/1."

/* False: the time is over. Else the next call on the socket does not wait, or tells its failure. */
static bool wait_for_bytes(int fd, int64_t until_mono_ns)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (true) {
        int64_t left_ns = until_mono_ns - qn_clock_mono_ns();
        int64_t left_ms = left_ns <= 0 ? 0 : left_ns / QN_NS_PER_MS + 1;
        int ready = poll(&poller, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return true;
        }
        if (left_ms == 0) {
            return false;
        }
    }
}

/* Until the end, or the buffer is full. Returns the size; -1: errno says why. */
static ssize_t read_all(int fd, char *out, size_t room, int64_t until_mono_ns)
{
    size_t used = 0;
    while (used < room) {
        if (!wait_for_bytes(fd, until_mono_ns)) {
            errno = ETIMEDOUT;
            return -1;
        }
        ssize_t got = recv(fd, out + used, room - used, MSG_DONTWAIT);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR && errno != EAGAIN) {
            return -1;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

/* text: ended by '\0'. */
static bool read_answer(const char *text, struct qn_ask_answer *answer)
{
    const char *space = strchr(text, ' ');
    const char *body = strstr(text, "\r\n\r\n");
    if (strncmp(text, HEAD, strlen(HEAD)) != 0 || space == NULL || body == NULL ||
        strspn(space + 1, "0123456789") != CODE_DIGITS) {
        return false;
    }
    answer->code = (int)strtol(space + 1, NULL, DECIMAL);
    (void)snprintf(answer->body, sizeof answer->body, "%s", body + strlen("\r\n\r\n"));
    return true;
}

static bool send_request(int fd, const char *path)
{
    char request[128];
    int size = snprintf(request, sizeof request,
                        "GET %.40s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return send(fd, request, (size_t)size, MSG_NOSIGNAL) == size;
}

bool qn_ask(const struct qn_place *place, const char *path, int64_t timeout_ms,
            struct qn_ask_answer *ret_answer, char why[WHY_SIZE])
{
    char text[QN_ASK_BODY_SIZE];
    int64_t until_mono_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    int fd = qn_place_connect(place, timeout_ms);
    ssize_t size =
        fd >= 0 && send_request(fd, path) ? read_all(fd, text, sizeof text - 1, until_mono_ns) : -1;
    int code = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (size < 0) {
        (void)snprintf(why, WHY_SIZE, "%s", strerror(code));
        return false;
    }
    text[size] = '\0';
    if (!read_answer(text, ret_answer)) {
        (void)snprintf(why, WHY_SIZE, "what listens there does not speak HTTP");
        return false;
    }
    return true;
}
