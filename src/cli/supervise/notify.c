/* SPDX-License-Identifier: MIT */
/* notify.c - reports to the service manager.
 *
 * The protocol is a datagram of lines to the Unix socket that NOTIFY_SOCKET names; a name that
 * begins with "@" is in the abstract namespace. No task depends on a report, but a service whose
 * READY is lost would be ended: where there is no room, the caller sends it again. The variables
 * belong to the process, so what was read of them is a static. */
#include "cli/supervise/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define SOCKET_VARIABLE "NOTIFY_SOCKET"
#define LIMIT_VARIABLE "WATCHDOG_USEC"
#define PID_VARIABLE "WATCHDOG_PID"

enum { STATUS_SIZE = 512, US_PER_MS = 1000, NS_PER_US = 1000, HALF = 2, DECIMAL = 10 };

/* Written before there are threads. */
static struct {
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path + 1]; /* "": there is none */
    uint64_t limit_us;                                           /* 0: no watchdog */
} manager;

/* The limit is for another process if it names one. */
static uint64_t read_limit(void)
{
    const char *text = getenv(LIMIT_VARIABLE);
    const char *pid = getenv(PID_VARIABLE);
    char *end = NULL;
    uint64_t limit_us = text != NULL ? strtoull(text, &end, DECIMAL) : 0;
    bool is_number = text != NULL && end != text && *end == '\0' && text[0] != '-';
    bool is_ours = pid == NULL || strtoll(pid, NULL, DECIMAL) == (long long)getpid();
    return is_number && is_ours && limit_us <= INT64_MAX ? limit_us : 0;
}

void qn_notify_take(void)
{
    const char *path = getenv(SOCKET_VARIABLE);
    manager.path[0] = '\0';
    if (path != NULL && (path[0] == '/' || path[0] == '@') && path[1] != '\0' &&
        strlen(path) < sizeof manager.path) {
        (void)snprintf(manager.path, sizeof manager.path, "%s", path);
    }
    manager.limit_us = read_limit();
    (void)unsetenv(SOCKET_VARIABLE);
    (void)unsetenv(LIMIT_VARIABLE);
    (void)unsetenv(PID_VARIABLE);
}

void qn_notify_give_back(void)
{
    char number[32];
    if (manager.path[0] != '\0') {
        (void)setenv(SOCKET_VARIABLE, manager.path, 1);
    }
    if (manager.limit_us > 0) {
        (void)snprintf(number, sizeof number, "%" PRIu64, manager.limit_us);
        (void)setenv(LIMIT_VARIABLE, number, 1);
        (void)snprintf(number, sizeof number, "%lld", (long long)getpid());
        (void)setenv(PID_VARIABLE, number, 1);
    }
}

bool qn_notify_is_wanted(void)
{
    return manager.path[0] != '\0';
}

int64_t qn_notify_watchdog_ms(void)
{
    int64_t half_ms = (int64_t)(manager.limit_us / HALF / US_PER_MS);
    return !qn_notify_is_wanted() || manager.limit_us == 0 ? 0 : half_ms > 0 ? half_ms : 1;
}

/* Never waits. False: there is no room for it at present. */
static bool report(const char *text)
{
    if (!qn_notify_is_wanted()) {
        return true;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(manager.path);
    (void)memcpy(address.sun_path, manager.path, size);
    if (manager.path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    socklen_t address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    ssize_t sent;
    do {
        sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                      address_size);
    } while (sent < 0 && errno == EINTR);
    bool is_full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
    (void)close(fd);
    return !is_full;
}

bool qn_notify_ready(void)
{
    return report("READY=1\n");
}

bool qn_notify_reloading(void)
{
    char text[96];
    int64_t now_us = qn_clock_mono_ns() / NS_PER_US; /* CLOCK_MONOTONIC, as the manager has it */
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n", now_us);
    return report(text);
}

bool qn_notify_stopping(void)
{
    return report("STOPPING=1\n");
}

bool qn_notify_alive(void)
{
    return report("WATCHDOG=1\n");
}

bool qn_notify_status(const char *text)
{
    char line[STATUS_SIZE];
    (void)snprintf(line, sizeof line, "STATUS=%.480s\n", text);
    return report(line);
}
