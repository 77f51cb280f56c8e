/* SPDX-License-Identifier: MIT */
/* lib_test.c - the runner, temporary directories and child processes of all tests.
 *
 * Children are started by fork and exec of the program itself: it may have threads and open
 * databases, and neither survives a mere fork. Every wait here is for a descriptor or a process,
 * with a deadline that only a failing test reaches. */
#include "lib_test.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"

#define ROLE_ARG_MAX 16

static int play_role(int argc, char **argv, const struct test_group *group)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < group->role_count; i++) {
        if (strcmp(group->roles[i].name, argv[2]) == 0) {
            return group->roles[i].main(argc - 3, argv + 3);
        }
    }
    (void)fprintf(stderr, "no role is called %s\n", argv[2]);
    return 98;
}

static bool any_matches(const struct test_group *group, const char *pattern)
{
    for (size_t i = 0; i < group->test_count; i++) {
        if (fnmatch(pattern, group->tests[i].name, 0) == 0) {
            return true;
        }
    }
    return false;
}

int test_main(int argc, char **argv, const struct test_group *group)
{
    if (argc > 2 && strcmp(argv[1], "--child") == 0) {
        return play_role(argc, argv, group);
    }
    if (argc > 1) {
        if (!any_matches(group, argv[1])) {
            (void)fprintf(stderr, "%s: no test is called %s\n", argv[0], argv[1]);
            return 97;
        }
        cmocka_set_test_filter(argv[1]);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return _cmocka_run_group_tests(group->name, group->tests, group->test_count, NULL, NULL) == 0
               ? 0
               : 1;
}

void test_assert_ok(quern_status status, const quern_error *err, const char *file, int line)
{
    if (status != QUERN_OK) {
        print_error("%s:%d: %s: %s\n", file, line, quern_status_name(status), err->text);
        _fail(file, line);
    }
}

void test_require(bool condition, const char *text, const char *file, int line)
{
    if (!condition) {
        (void)fprintf(stderr, "child %d: %s:%d: %s\n", (int)getpid(), file, line, text);
        _exit(99);
    }
}

void test_dir_make(char out[TEST_DIR_SIZE])
{
    (void)snprintf(out, TEST_DIR_SIZE, "/tmp/quern-test-XXXXXX");
    if (mkdtemp(out) == NULL) {
        perror("mkdtemp");
        fail();
    }
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void test_dir_remove(const char *dir)
{
    (void)nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

bool test_full(void)
{
    const char *full = getenv("QUERN_TEST_FULL");
    return full != NULL && strcmp(full, "1") == 0;
}

uint64_t test_seed(void)
{
    const char *text = getenv("QUERN_TEST_SEED");
    uint64_t seed;
    if (text != NULL) {
        seed = strtoull(text, NULL, 10);
    } else {
        struct qn_random random;
        qn_random_init(&random);
        seed = qn_random_below(&random, 1000000000);
    }
    print_message("QUERN_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

int64_t test_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void test_pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

bool test_until(bool (*condition)(void *user), void *user)
{
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;
    while (!condition(user)) {
        if (test_now_ms() >= end_ms) {
            return false;
        }
        test_pause_ms(1);
    }
    return true;
}

struct test_child test_spawn(const char *role, const char *const *args)
{
    /* By its name: valgrind knows it, but refuses to start /proc/self/exe, which is itself. */
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *argv[ROLE_ARG_MAX + 4] = {self, (char *)(uintptr_t) "--child", (char *)(uintptr_t)role};
    for (size_t i = 0; args != NULL && args[i] != NULL && i < ROLE_ARG_MAX; i++) {
        argv[3 + i] = (char *)(uintptr_t)args[i];
    }
    int to[2];
    int from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)execv(self, argv);
        _exit(96);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    return (struct test_child){.pid = pid, .to_fd = to[1], .from_fd = from[0]};
}

void test_child_send(const struct test_child *child, char byte)
{
    assert_int_equal(write(child->to_fd, &byte, 1), 1);
}

char test_child_receive(const struct test_child *child)
{
    struct pollfd ready = {.fd = child->from_fd, .events = POLLIN};
    char byte = '\0';
    if (poll(&ready, 1, TEST_PATIENCE_MS) != 1 || read(child->from_fd, &byte, 1) != 1) {
        return '\0';
    }
    return byte;
}

static int forget(struct test_child *child, int status)
{
    (void)close(child->to_fd);
    (void)close(child->from_fd);
    child->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void test_child_kill(struct test_child *child)
{
    int status = 0;
    if (child->pid == 0) {
        return;
    }
    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, &status, 0);
    (void)forget(child, status);
}

int test_child_poll(struct test_child *child)
{
    int status = 0;
    if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
        return -1;
    }
    return forget(child, status);
}

int test_child_join(struct test_child *child)
{
    int64_t end_ms = test_now_ms() + 2 * TEST_PATIENCE_MS;
    while (test_now_ms() < end_ms) {
        int code = test_child_poll(child);
        if (code >= 0) {
            return code;
        }
        test_pause_ms(1);
    }
    test_child_kill(child);
    return 95;
}

void test_parent_send(char byte)
{
    TEST_REQUIRE(write(1, &byte, 1) == 1);
}

char test_parent_receive(void)
{
    char byte = '\0';
    return read(0, &byte, 1) == 1 ? byte : '\0';
}
