/* SPDX-License-Identifier: MIT */
/* lib_zygote.h - children of a zygote for its tests. A child obeys letters: see lib_zygote.c. */
#ifndef TESTS_UNIT_POOL_LIB_ZYGOTE_H
#define TESTS_UNIT_POOL_LIB_ZYGOTE_H

#include <sys/types.h>

#include "pool/prefork/zygote.h"

#define LIB_ZYGOTE_HELLO "hello of the tests"

struct lib_zygote_child {
    int socket_fd; /* our end */
    pid_t pid;
    int pid_fd;
};

/* What a child has started, by order 'g'. */
struct lib_zygote_family {
    pid_t grandchild; /* in its group */
    pid_t daemon;     /* in a session of its own, and its parent has ended */
};

extern const struct qn_zygote_program lib_zygote_program;

struct qn_zygote *lib_zygote_new(void);
/* The next event; fails when none comes. */
struct qn_zygote_event lib_zygote_event(struct qn_zygote *zygote);
/* limits: NULL: none. */
struct lib_zygote_child lib_zygote_request(struct qn_zygote *zygote, uint64_t number,
                                           const struct qn_zygote_limits *limits);
/* The request, and its event STARTED. */
struct lib_zygote_child lib_zygote_start(struct qn_zygote *zygote, uint64_t number,
                                         const struct qn_zygote_limits *limits);
void lib_zygote_order(const struct lib_zygote_child *child, char order);
/* Orders it to end, closes it and returns its event ENDED. */
struct qn_zygote_event lib_zygote_end(struct qn_zygote *zygote, struct lib_zygote_child *child,
                                      char order);
void lib_zygote_close(struct lib_zygote_child *child);
struct lib_zygote_family lib_zygote_family(const struct lib_zygote_child *child);
/* Starts a command with /dev/null as its stdin; returns the reading end of its stdout. Its
 * descriptors 2 and 3 are closed. environment: NULL: empty. */
int lib_zygote_command(struct qn_zygote *zygote, uint64_t number, const char *command,
                       const char *const *environment);
/* Up to the end of the file; is_line: or of a line. */
void lib_zygote_read(int fd, char *text, size_t size, bool is_line);
/* Waits for the end of any process; it may be reaped already. */
void lib_zygote_await_death(pid_t pid);

#endif
