/* SPDX-License-Identifier: MIT */
/* test_zygote_exec.c - a program that serves as a zygote, for workers that have threads. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"
#include "lib_zygote.h"

static int serve_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    quern_error error = {0};
    (void)fprintf(stderr, "a line before it serves\n");
    quern_status status = qn_zygote_serve(&lib_zygote_program, &error);
    return status == QUERN_OK ? 0 : 10 + (int)status;
}

static int fail_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)fprintf(stderr, "first line\nno handlers: \033[31mred\n");
    return 9;
}

static int idle_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    while (pause() != 0) { /* until it is killed */
    }
    return 0;
}

static void *wait_for_the_end(void *user)
{
    char byte = 0;
    (void)!read(*(int *)user, &byte, 1);
    return NULL;
}

static int threads_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int fds[2];
    pthread_t thread;
    quern_error error = {0};
    TEST_REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
    TEST_REQUIRE(pthread_create(&thread, NULL, wait_for_the_end, &fds[0]) == 0);
    quern_status status = qn_zygote_serve(&lib_zygote_program, &error);
    (void)fprintf(stderr, "%s\n", error.text);
    return 10 + (int)status;
}

static quern_status exec_role(const char *role, int64_t timeout_ms, struct qn_zygote **ret_zygote,
                              quern_error *err)
{
    char self[] = "self";
    char option[] = "--child";
    char name[32];
    (void)snprintf(name, sizeof name, "%s", role);
    char *const argv[] = {self, option, name, NULL};
    return qn_zygote_exec("/proc/self/exe", argv, timeout_ms, ret_zygote, err);
}

static void a_program_with_threads_executes_its_zygote(void **state)
{
    (void)state;
    int fds[2];
    pthread_t thread;
    quern_error error = {0};
    struct qn_zygote *zygote = NULL;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_the_end, &fds[0]), 0);
    assert_ok(exec_role("serve", TEST_PATIENCE_MS, &zygote, &error), error);
    struct qn_bytes hello = qn_zygote_hello(zygote);
    assert_int_equal(hello.size, strlen(LIB_ZYGOTE_HELLO));
    assert_memory_equal(hello.data, LIB_ZYGOTE_HELLO, hello.size);
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct lib_zygote_family family = lib_zygote_family(&child);
    struct qn_zygote_event event = lib_zygote_end(zygote, &child, 'x');
    assert_int_equal(WEXITSTATUS(event.status), 7);
    lib_zygote_await_death(family.daemon);
    child = lib_zygote_start(zygote, 2, NULL);
    assert_int_equal(kill(qn_zygote_pid(zygote), SIGKILL), 0);
    assert_int_equal(lib_zygote_event(zygote).kind, QN_ZYGOTE_GONE);
    lib_zygote_await_death(child.pid);
    lib_zygote_close(&child);
    qn_zygote_free(zygote);
    (void)close(fds[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fds[0]);
}

static void a_program_that_ends_early_is_quoted(void **state)
{
    (void)state;
    quern_error error = {0};
    struct qn_zygote *zygote = NULL;
    assert_int_equal(exec_role("fail", TEST_PATIENCE_MS, &zygote, &error), QUERN_E_CONNECT);
    assert_string_equal(error.text, "/proc/self/exe ended before it served (exit code 9): "
                                    "first line/no handlers: ?[31mred");
}

static void a_program_that_does_not_serve_in_time_is_killed(void **state)
{
    (void)state;
    quern_error error = {0};
    struct qn_zygote *zygote = NULL;
    assert_int_equal(exec_role("idle", 50, &zygote, &error), QUERN_E_TIMEOUT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it has been reaped */
    assert_int_equal(errno, ECHILD);
}

static void a_program_with_threads_cannot_serve(void **state)
{
    (void)state;
    quern_error error = {0};
    struct qn_zygote *zygote = NULL;
    assert_int_equal(exec_role("threads", TEST_PATIENCE_MS, &zygote, &error), QUERN_E_CONNECT);
    assert_non_null(strstr(error.text, "threads"));
}

static void what_cannot_be_executed_is_named(void **state)
{
    (void)state;
    quern_error error = {0};
    struct qn_zygote *zygote = NULL;
    char name[] = "program";
    char *const argv[] = {name, NULL};
    assert_int_equal(qn_zygote_exec("/no/such/program", argv, TEST_PATIENCE_MS, &zygote, &error),
                     QUERN_E_CONNECT);
    assert_string_equal(error.text, "cannot execute /no/such/program: No such file or directory");
    assert_int_equal(qn_zygote_exec("/etc/passwd", argv, TEST_PATIENCE_MS, &zygote, &error),
                     QUERN_E_CONNECT);
    assert_non_null(strstr(error.text, "Permission denied"));
}

/* Neither without a descriptor 3, nor with another socket there: that one keeps its bytes. */
static void a_process_that_no_worker_started_does_not_serve(void **state)
{
    (void)state;
    char text[8] = "";
    int fds[2];
    quern_error error = {0};
    int saved = fcntl(3, F_DUPFD_CLOEXEC, 10);
    (void)close(3);
    assert_int_equal(qn_zygote_serve(&lib_zygote_program, &error), QUERN_E_STATE);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    int reader = fds[0] == 3 ? fds[0] : dup2(fds[0], 3);
    assert_int_equal(reader, 3);
    assert_int_equal(send(fds[1], "foreign", 7, 0), 7);
    assert_int_equal(qn_zygote_serve(&lib_zygote_program, &error), QUERN_E_STATE);
    assert_int_equal(recv(3, text, sizeof text, 0), 7);
    assert_string_equal(text, "foreign");
    (void)close(fds[1]);
    (void)close(3);
    if (saved >= 0) {
        assert_int_equal(dup2(saved, 3), 3);
        (void)close(saved);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_program_with_threads_executes_its_zygote),
    cmocka_unit_test(a_program_that_ends_early_is_quoted),
    cmocka_unit_test(a_program_that_does_not_serve_in_time_is_killed),
    cmocka_unit_test(a_program_with_threads_cannot_serve),
    cmocka_unit_test(what_cannot_be_executed_is_named),
    cmocka_unit_test(a_process_that_no_worker_started_does_not_serve),
};
static const struct test_role roles[] = {
    {"serve", serve_main}, {"fail", fail_main}, {"idle", idle_main}, {"threads", threads_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {.name = "zygote_exec",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
