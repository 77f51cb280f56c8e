/* SPDX-License-Identifier: MIT */
#include "lib_zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"

static pid_t start_grandchild(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* Its parent ends at once. */
static pid_t start_daemon(void)
{
    int fds[2];
    pid_t daemon = -1;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t middle = fork();
    if (middle == 0) {
        (void)setsid();
        daemon = start_grandchild();
        (void)!write(fds[1], &daemon, sizeof daemon);
        _exit(0);
    }
    (void)waitpid(middle, NULL, 0);
    (void)!read(fds[0], &daemon, sizeof daemon);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return daemon;
}

/* x: exit code 7. s: SIGKILL. g: starts a family. */
static int run_child(const struct qn_zygote_ends *ends, void *user)
{
    (void)user;
    char order = 0;
    while (read(ends->socket_fd, &order, 1) == 1) {
        struct lib_zygote_family family;
        switch (order) {
        case 'x':
            return 7;
        case 's':
            (void)raise(SIGKILL);
            break;
        case 'g':
            family = (struct lib_zygote_family){.grandchild = start_grandchild(),
                                                .daemon = start_daemon()};
            (void)!write(ends->socket_fd, &family, sizeof family);
            break;
        default:
            return 98;
        }
    }
    return 99;
}

const struct qn_zygote_program lib_zygote_program = {
    .run_child = run_child,
    .hello = {.data = LIB_ZYGOTE_HELLO, .size = sizeof LIB_ZYGOTE_HELLO - 1}};

struct qn_zygote *lib_zygote_new(void)
{
    struct qn_zygote *zygote = NULL;
    quern_error error = {0};
    assert_ok(qn_zygote_fork(&lib_zygote_program, &zygote, &error), error);
    return zygote;
}

struct qn_zygote_event lib_zygote_event(struct qn_zygote *zygote)
{
    struct qn_zygote_event event = {0};
    struct pollfd ready = {.fd = qn_zygote_fd(zygote), .events = POLLIN};
    while (!qn_zygote_next_event(zygote, &event)) {
        assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
    }
    return event;
}

struct lib_zygote_child lib_zygote_request(struct qn_zygote *zygote, uint64_t number,
                                           const struct qn_zygote_limits *limits)
{
    static const struct qn_zygote_limits none;
    quern_error error = {0};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct qn_zygote_ends ends = {.socket_fd = fds[1],
                                  .page_fd = memfd_create("page", MFD_CLOEXEC),
                                  .stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    assert_ok(qn_zygote_start_child(zygote, number, &ends, limits != NULL ? limits : &none, &error),
              error);
    (void)close(ends.page_fd);
    (void)close(ends.stderr_fd);
    (void)close(ends.socket_fd);
    return (struct lib_zygote_child){.socket_fd = fds[0], .pid_fd = -1};
}

struct lib_zygote_child lib_zygote_start(struct qn_zygote *zygote, uint64_t number,
                                         const struct qn_zygote_limits *limits)
{
    struct lib_zygote_child child = lib_zygote_request(zygote, number, limits);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    assert_int_equal(event.number, number);
    assert_true(event.pid_fd >= 0);
    child.pid = event.pid;
    child.pid_fd = event.pid_fd;
    return child;
}

void lib_zygote_order(const struct lib_zygote_child *child, char order)
{
    assert_int_equal(write(child->socket_fd, &order, 1), 1);
}

void lib_zygote_close(struct lib_zygote_child *child)
{
    (void)close(child->socket_fd);
    if (child->pid_fd >= 0) {
        (void)close(child->pid_fd);
    }
}

struct qn_zygote_event lib_zygote_end(struct qn_zygote *zygote, struct lib_zygote_child *child,
                                      char order)
{
    lib_zygote_order(child, order);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(event.pid, child->pid);
    lib_zygote_close(child);
    return event;
}

struct lib_zygote_family lib_zygote_family(const struct lib_zygote_child *child)
{
    struct lib_zygote_family family = {0};
    lib_zygote_order(child, 'g');
    assert_int_equal(read(child->socket_fd, &family, sizeof family), sizeof family);
    assert_true(family.grandchild > 1 && family.daemon > 1);
    return family;
}

int lib_zygote_command(struct qn_zygote *zygote, uint64_t number, const char *command,
                       const char *const *environment)
{
    static const char *const empty[] = {NULL};
    quern_error error = {0};
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct qn_zygote_command request = {
        .command = command,
        .environment = environment != NULL ? environment : empty,
        .fds = {open("/dev/null", O_RDONLY | O_CLOEXEC), fds[1], -1, -1}};
    assert_ok(qn_zygote_start_command(zygote, number, &request, &error), error);
    (void)close(request.fds[0]);
    (void)close(fds[1]);
    return fds[0];
}

void lib_zygote_read(int fd, char *text, size_t size, bool is_line)
{
    size_t length = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (length < size - 1 && !(is_line && length > 0 && text[length - 1] == '\n')) {
        assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
        ssize_t count = read(fd, text + length, is_line ? 1 : size - 1 - length);
        if (count <= 0) {
            break;
        }
        length += (size_t)count;
    }
    text[length] = '\0';
}

void lib_zygote_await_death(pid_t pid)
{
    int pid_fd = pidfd_open(pid, 0);
    if (pid_fd < 0) {
        assert_int_equal(errno, ESRCH);
        return;
    }
    struct pollfd ended = {.fd = pid_fd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, TEST_PATIENCE_MS), 1);
    (void)close(pid_fd);
}
