/* SPDX-License-Identifier: MIT */
/* test_zygote.c - children of a zygote: what they find, how they end, and what dies with whom. */
#include "pool/prefork/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"

/* What a child is to do: a letter from the worker. */
static int run_child(const struct qn_zygote_ends *ends, void *user)
{
    (void)user;
    char order = 0;
    if (read(ends->socket_fd, &order, 1) != 1) {
        return 99;
    }
    switch (order) {
    case 'x':
        return 7;
    case 's':
        (void)raise(SIGKILL);
        break;
    default:
        break;
    }
    return 98;
}

static const struct qn_zygote_program program = {.run_child = run_child};

struct child {
    int socket_fd; /* our end */
    pid_t pid;
    int pid_fd;
};

static struct qn_zygote_event next_event(struct qn_zygote *zygote)
{
    struct qn_zygote_event event = {0};
    struct pollfd ready = {.fd = qn_zygote_fd(zygote), .events = POLLIN};
    while (!qn_zygote_next_event(zygote, &event)) {
        assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
    }
    return event;
}

static struct child request(struct qn_zygote *zygote, uint64_t number,
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
    return (struct child){.socket_fd = fds[0], .pid_fd = -1};
}

static struct child start(struct qn_zygote *zygote, uint64_t number)
{
    struct child child = request(zygote, number, NULL);
    struct qn_zygote_event event = next_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    assert_int_equal(event.number, number);
    child.pid = event.pid;
    child.pid_fd = event.pid_fd;
    assert_int_equal(kill(event.pid, 0), 0);
    return child;
}

static struct qn_zygote_event end(struct qn_zygote *zygote, struct child *child, char order)
{
    assert_int_equal(write(child->socket_fd, &order, 1), 1);
    struct qn_zygote_event event = next_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(event.pid, child->pid);
    (void)close(child->socket_fd);
    (void)close(child->pid_fd);
    return event;
}

static struct qn_zygote *new_zygote(void)
{
    struct qn_zygote *zygote = NULL;
    quern_error error = {0};
    assert_ok(qn_zygote_fork(&program, &zygote, &error), error);
    return zygote;
}

static void a_child_starts_and_its_end_is_reported(void **state)
{
    (void)state;
    struct qn_zygote *zygote = new_zygote();
    struct child child = start(zygote, 1);
    struct qn_zygote_event event = end(zygote, &child, 'x');
    assert_int_equal(event.number, 1);
    assert_true(WIFEXITED(event.status));
    assert_int_equal(WEXITSTATUS(event.status), 7);
    assert_true(event.usage.ru_maxrss > 0);
    child = start(zygote, 2);
    event = end(zygote, &child, 's');
    assert_true(WIFSIGNALED(event.status));
    assert_int_equal(WTERMSIG(event.status), SIGKILL);
    qn_zygote_free(zygote);
}

static void *idle(void *user)
{
    char byte = 0;
    (void)!read(*(int *)user, &byte, 1);
    return NULL;
}

static void a_program_with_threads_is_refused(void **state)
{
    (void)state;
    int fds[2];
    pthread_t thread;
    struct qn_zygote *zygote = NULL;
    quern_error error = {0};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, idle, &fds[0]), 0);
    assert_int_equal(qn_zygote_fork(&program, &zygote, &error), QUERN_E_THREADS);
    (void)close(fds[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fds[0]);
}

static void a_killed_zygote_takes_its_children_along(void **state)
{
    (void)state;
    struct qn_zygote *zygote = new_zygote();
    struct child child = start(zygote, 1);
    assert_int_equal(kill(qn_zygote_pid(zygote), SIGKILL), 0);
    assert_int_equal(next_event(zygote).kind, QN_ZYGOTE_GONE);
    struct pollfd ended = {.fd = child.pid_fd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, TEST_PATIENCE_MS), 1);
    struct qn_zygote_event event;
    assert_false(qn_zygote_next_event(zygote, &event));
    (void)close(child.socket_fd);
    (void)close(child.pid_fd);
    qn_zygote_free(zygote);
}

static void freeing_a_zygote_ends_its_children(void **state)
{
    (void)state;
    struct qn_zygote *zygote = new_zygote();
    struct child child = start(zygote, 1);
    qn_zygote_free(zygote);
    struct pollfd ended = {.fd = child.pid_fd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, 0), 1);
    (void)close(child.socket_fd);
    (void)close(child.pid_fd);
}

/* A command whose stdout is ours to read, with nothing on descriptors 2 and 3. */
static int request_command(struct qn_zygote *zygote, uint64_t number, const char *text,
                           const char *const *environment)
{
    static const char *const empty[] = {NULL};
    quern_error error = {0};
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct qn_zygote_command command = {
        .command = text,
        .environment = environment != NULL ? environment : empty,
        .fds = {open("/dev/null", O_RDONLY | O_CLOEXEC), fds[1], -1, -1}};
    assert_ok(qn_zygote_start_command(zygote, number, &command, &error), error);
    (void)close(command.fds[0]);
    (void)close(fds[1]);
    return fds[0];
}

/* All up to the end of the file, or to the end of a line. */
static void read_text(int fd, char *text, size_t size, bool is_line)
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

static void a_command_runs_with_its_environment_and_descriptors(void **state)
{
    (void)state;
    static const char *const environment[] = {"A=one", "B=two words", NULL};
    char text[256];
    struct qn_zygote *zygote = new_zygote();
    int fd =
        request_command(zygote, 5, "echo $A $B; cd /proc/self/fd; echo *; exit 3", environment);
    struct qn_zygote_event event = next_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    assert_int_equal(event.number, 5);
    pid_t pid = event.pid;
    (void)close(event.pid_fd);
    read_text(fd, text, sizeof text, false);
    assert_string_equal(text, "one two words\n0 1 2\n"); /* 2: the directory that it lists */
    event = next_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(event.pid, pid);
    assert_int_equal(WEXITSTATUS(event.status), 3);
    (void)close(fd);
    qn_zygote_free(zygote);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_command_runs_with_its_environment_and_descriptors),
    cmocka_unit_test(a_child_starts_and_its_end_is_reported),
    cmocka_unit_test(a_program_with_threads_is_refused),
    cmocka_unit_test(a_killed_zygote_takes_its_children_along),
    cmocka_unit_test(freeing_a_zygote_ends_its_children),
};
TEST_MAIN(tests)
