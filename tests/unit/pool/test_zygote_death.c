/* SPDX-License-Identifier: MIT */
/* test_zygote_death.c - who dies with whom: worker, zygote, guard, child and theirs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"
#include "lib_zygote.h"

static void what_a_child_started_dies_with_it(void **state)
{
    (void)state;
    static const char orders[] = {'x', 's'};
    struct qn_zygote *zygote = lib_zygote_new();
    for (size_t i = 0; i < sizeof orders; i++) {
        struct lib_zygote_child child = lib_zygote_start(zygote, i, NULL);
        struct lib_zygote_family family = lib_zygote_family(&child);
        assert_int_equal(getpgid(family.grandchild), child.pid);
        assert_int_equal(kill(family.daemon, 0), 0);
        (void)lib_zygote_end(zygote, &child, orders[i]);
        lib_zygote_await_death(family.grandchild);
        lib_zygote_await_death(family.daemon);
    }
    qn_zygote_free(zygote);
}

static void freeing_a_zygote_ends_its_children(void **state)
{
    (void)state;
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct lib_zygote_family family = lib_zygote_family(&child);
    qn_zygote_free(zygote);
    struct pollfd ended = {.fd = child.pid_fd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, 0), 1);
    assert_int_equal(kill(family.grandchild, 0), -1);
    assert_int_equal(kill(family.daemon, 0), -1);
    lib_zygote_close(&child);
}

static void a_killed_zygote_takes_its_children_along(void **state)
{
    (void)state;
    struct qn_zygote_event event;
    quern_error error = {0};
    const struct qn_zygote_limits limits = {0};
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct lib_zygote_family family = lib_zygote_family(&child);
    assert_int_equal(kill(qn_zygote_pid(zygote), SIGKILL), 0);
    assert_int_equal(lib_zygote_event(zygote).kind, QN_ZYGOTE_GONE);
    assert_false(qn_zygote_next_event(zygote, &event));
    struct pollfd silent = {.fd = qn_zygote_fd(zygote), .events = POLLIN};
    assert_int_equal(poll(&silent, 1, 0), 0);
    lib_zygote_await_death(child.pid);
    lib_zygote_await_death(family.grandchild);
    lib_zygote_await_death(family.daemon);
    struct qn_zygote_ends ends = {
        .socket_fd = STDIN_FILENO, .page_fd = STDIN_FILENO, .stderr_fd = STDERR_FILENO};
    assert_int_equal(qn_zygote_start_child(zygote, 2, &ends, &limits, &error), QUERN_E_CLOSED);
    lib_zygote_close(&child);
    qn_zygote_free(zygote);
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    char *end = strrchr(text, ')'); /* PID (NAME) STATE PARENT */
    assert_non_null(end);
    return (pid_t)strtol(end + 4, NULL, 10);
}

/* The daemon is not in the group: that one it would have killed. */
static void a_killed_guard_takes_its_child_along(void **state)
{
    (void)state;
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct lib_zygote_family family = lib_zygote_family(&child);
    pid_t guard = parent_of(child.pid);
    assert_int_equal(parent_of(guard), qn_zygote_pid(zygote));
    assert_int_equal(kill(guard, SIGKILL), 0);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(event.pid, child.pid);
    assert_true(WIFSIGNALED(event.status));
    assert_int_equal(WTERMSIG(event.status), SIGKILL);
    lib_zygote_await_death(family.grandchild);
    (void)kill(family.daemon, SIGKILL);
    lib_zygote_close(&child);
    child = lib_zygote_start(zygote, 2, NULL);
    (void)lib_zygote_end(zygote, &child, 'x');
    qn_zygote_free(zygote);
}

/* The processes of a worker that is a child of this test. */
struct household {
    pid_t zygote;
    pid_t child;
    struct lib_zygote_family family;
    pid_t command;
    pid_t background; /* of the command */
};

static int worker_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char text[64];
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct household household = {
        .zygote = qn_zygote_pid(zygote), .child = child.pid, .family = lib_zygote_family(&child)};
    int fd = lib_zygote_command(zygote, 2, "sleep 1000 & echo $!; wait", NULL);
    household.command = lib_zygote_event(zygote).pid;
    lib_zygote_read(fd, text, sizeof text, true);
    household.background = (pid_t)strtol(text, NULL, 10);
    TEST_REQUIRE(household.background > 1);
    TEST_REQUIRE(write(STDOUT_FILENO, &household, sizeof household) == sizeof household);
    (void)test_parent_receive();
    _exit(0);
}

static struct household start_worker(struct test_child *worker)
{
    struct household household;
    *worker = test_spawn("worker", NULL);
    for (size_t i = 0; i < sizeof household; i++) {
        ((char *)&household)[i] = test_child_receive(worker);
    }
    assert_int_equal(kill(household.background, 0), 0);
    return household;
}

static void await_end(const struct household *household)
{
    lib_zygote_await_death(household->zygote);
    lib_zygote_await_death(household->child);
    lib_zygote_await_death(household->family.grandchild);
    lib_zygote_await_death(household->family.daemon);
    lib_zygote_await_death(household->command);
    lib_zygote_await_death(household->background);
}

static void a_killed_worker_takes_all_along(void **state)
{
    (void)state;
    struct test_child worker;
    struct household household = start_worker(&worker);
    test_child_kill(&worker);
    await_end(&household);
}

static void nothing_survives_the_death_of_both_worker_and_zygote(void **state)
{
    (void)state;
    struct test_child worker;
    struct household household = start_worker(&worker);
    assert_int_equal(kill(household.zygote, SIGSTOP), 0); /* it cannot act before it dies */
    test_child_kill(&worker);
    assert_int_equal(kill(household.zygote, SIGKILL), 0);
    await_end(&household);
}

static void a_worker_that_ends_takes_all_along(void **state)
{
    (void)state;
    struct test_child worker;
    struct household household = start_worker(&worker);
    test_child_send(&worker, 'e');
    (void)test_child_join(&worker);
    await_end(&household);
}

static void what_a_command_started_dies_with_it_unless_it_has_a_session(void **state)
{
    (void)state;
    char text[64];
    struct qn_zygote *zygote = lib_zygote_new();
    int fd = lib_zygote_command(zygote, 1,
                                "sleep 1000 >/dev/null & echo $!;"
                                "timeout 1000 sleep 1001 >/dev/null & echo $!;" /* a group */
                                "setsid sh -c 'echo $$; exec sleep 1002 >/dev/null' & wait",
                                NULL);
    pid_t pids[3];
    for (size_t i = 0; i < 3; i++) {
        lib_zygote_read(fd, text, sizeof text, true);
        pids[i] = (pid_t)strtol(text, NULL, 10);
        assert_true(pids[i] > 1);
    }
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    (void)close(event.pid_fd);
    assert_int_equal(kill(event.pid, SIGKILL), 0);
    event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    lib_zygote_await_death(pids[0]);
    lib_zygote_await_death(pids[1]);
    qn_zygote_free(zygote);
    assert_int_equal(kill(pids[2], 0), 0); /* on purpose, as a daemon */
    assert_int_equal(kill(pids[2], SIGKILL), 0);
    (void)close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_child_started_dies_with_it),
    cmocka_unit_test(freeing_a_zygote_ends_its_children),
    cmocka_unit_test(a_killed_zygote_takes_its_children_along),
    cmocka_unit_test(a_killed_guard_takes_its_child_along),
    cmocka_unit_test(a_killed_worker_takes_all_along),
    cmocka_unit_test(nothing_survives_the_death_of_both_worker_and_zygote),
    cmocka_unit_test(a_worker_that_ends_takes_all_along),
    cmocka_unit_test(what_a_command_started_dies_with_it_unless_it_has_a_session),
};
static const struct test_role roles[] = {{"worker", worker_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {.name = "zygote_death",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
