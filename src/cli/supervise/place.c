/* SPDX-License-Identifier: MIT */
/* place.c - [ADDRESS:]PORT and paths: parsing, listening, connecting. */
#include "cli/supervise/place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/service_dir.h"

#define SUFFIX ".sock"

enum { BACKLOG = 128, PORT_DIGITS_MAX = 5, DECIMAL = 10, MODE = 0660 };

static bool is_path(const char *text)
{
    size_t size = strlen(text);
    size_t end = strlen(SUFFIX);
    return strchr(text, '/') != NULL || (size > end && strcmp(text + size - end, SUFFIX) == 0);
}

static bool parse_path(const char *text, struct qn_place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char directory[4096];
    bool is_below =
        text[0] != '/' && qn_service_dir_find("RUNTIME_DIRECTORY", directory, sizeof directory);
    int used = snprintf(place->path, sizeof place->path, "%s%s%s", is_below ? directory : "",
                        is_below ? "/" : "", text);
    if (used < 0 || (size_t)used >= sizeof place->path || (size_t)used >= sizeof address.sun_path) {
        return false;
    }
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", place->path);
    (void)memcpy(&place->address, &address, sizeof address);
    place->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(place->path) + 1);
    return true;
}

static bool parse_port(const char *text, in_port_t *ret_port)
{
    size_t size = strlen(text);
    if (size == 0 || size > PORT_DIGITS_MAX || strspn(text, "0123456789") != size) {
        return false;
    }
    unsigned long port = strtoul(text, NULL, DECIMAL);
    *ret_port = htons((uint16_t)port);
    return port <= UINT16_MAX;
}

static bool parse_address(const char *name, in_port_t port, struct qn_place *place)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
    const char *number = strcmp(name, "localhost") == 0 ? "127.0.0.1"
                         : strcmp(name, "*") == 0       ? "0.0.0.0"
                                                        : name;
    if (inet_pton(AF_INET, number, &four.sin_addr) == 1) {
        (void)memcpy(&place->address, &four, sizeof four);
        place->size = sizeof four;
        return true;
    }
    if (inet_pton(AF_INET6, number, &six.sin6_addr) == 1) {
        (void)memcpy(&place->address, &six, sizeof six);
        place->size = sizeof six;
        return true;
    }
    return false;
}

bool qn_place_parse(const char *text, struct qn_place *ret_place)
{
    char name[INET6_ADDRSTRLEN + 2];
    struct qn_place place = {.path = ""};
    in_port_t port = 0;
    if (is_path(text)) {
        bool fits = parse_path(text, &place);
        *ret_place = place;
        return fits;
    }
    const char *colon = strrchr(text, ':');
    size_t size = colon == NULL ? 0 : (size_t)(colon - text);
    if (size >= sizeof name || !parse_port(colon == NULL ? text : colon + 1, &port)) {
        return false;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)size, text);
    if (size >= 2 && name[0] == '[' && name[size - 1] == ']') {
        (void)memmove(name, name + 1, size - 2);
        name[size - 2] = '\0';
    } else if (strchr(name, ':') != NULL) {
        return false; /* where the address ends would be a guess */
    }
    bool is_address = parse_address(colon == NULL ? "127.0.0.1" : name, port, &place);
    *ret_place = place;
    return is_address;
}

void qn_place_print(int fd, char text[QN_PLACE_TEXT_SIZE])
{
    char name[INET6_ADDRSTRLEN] = "?";
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un local = {.sun_path = ""};
    socklen_t size = sizeof address;
    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    if (address.ss_family == AF_INET) {
        (void)memcpy(&four, &address, sizeof four);
        (void)inet_ntop(AF_INET, &four.sin_addr, name, sizeof name);
        (void)snprintf(text, QN_PLACE_TEXT_SIZE, "%s:%d", name, ntohs(four.sin_port));
    } else if (address.ss_family == AF_INET6) {
        (void)memcpy(&six, &address, sizeof six);
        (void)inet_ntop(AF_INET6, &six.sin6_addr, name, sizeof name);
        (void)snprintf(text, QN_PLACE_TEXT_SIZE, "[%s]:%d", name, ntohs(six.sin6_port));
    } else {
        (void)memcpy(&local, &address, sizeof local);
        (void)snprintf(text, QN_PLACE_TEXT_SIZE, "%.*s", (int)sizeof local.sun_path,
                       local.sun_path);
    }
}

/* One that a process has left behind. Another file stays, and is in the way. */
static void remove_left_socket(const struct qn_place *place)
{
    struct stat info;
    int fd = -1;
    if (lstat(place->path, &info) == 0 && S_ISSOCK(info.st_mode)) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0) {
        return;
    }
    if (connect(fd, (const struct sockaddr *)&place->address, place->size) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(place->path);
    }
    (void)close(fd);
}

int qn_place_listen(const struct qn_place *place)
{
    const int yes = 1;
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (place->path[0] != '\0') {
        remove_left_socket(place);
    } else { /* connections of the process before may not have faded yet */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    }
    if (bind(fd, (const struct sockaddr *)&place->address, place->size) != 0 ||
        (place->path[0] != '\0' && chmod(place->path, MODE) != 0) || listen(fd, BACKLOG) != 0) {
        int code = errno;
        (void)close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

int qn_place_connect(const struct qn_place *place, int64_t timeout_ms)
{
    const struct timeval limit = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* of connect, too */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&place->address, place->size) != 0) {
        int code = errno;
        (void)close(fd);
        errno = code;
        return -1;
    }
    return fd;
}
