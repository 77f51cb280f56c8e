/* SPDX-License-Identifier: MIT */
/* lib_test.h - common to all tests: a runner that can run one test alone, directories that vanish,
 * child processes, and waiting for a condition instead of sleeping.
 *
 * A child is this program again, started with "--child NAME"; so it has no thread, lock or
 * connection of its parent. It communicates with it byte by byte through pipes on its stdin and
 * stdout, and dies with it. In a child a failed assertion of cmocka is not caught: use
 * TEST_REQUIRE. */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "quern/status.h"

struct test_role {
    const char *name;
    int (*main)(int argc,
                char **argv); /* argv: the arguments of test_spawn; returns the exit code */
};

struct test_group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t test_count;
    const struct test_role *roles; /* NULL: this program starts no children */
    size_t role_count;
};

/* The main of a test program. argv[1], if given, is the name of the one test to run ('*' allowed);
 * a name that matches no test is a failure, so that a misspelled one cannot pass. */
int test_main(int argc, char **argv, const struct test_group *group);

/* For programs without children: `TEST_MAIN(tests)` after `static const struct CMUnitTest
 * tests[]`. */
#define TEST_MAIN(array)                                                                           \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct test_group group = {                                                          \
            .name = argv[0], .tests = (array), .test_count = sizeof(array) / sizeof((array)[0])};  \
        return test_main(argc, argv, &group);                                                      \
    }

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Asserts QUERN_OK and shows the text of the error if it is something else. */
#define assert_ok(status, err) test_assert_ok((status), &(err), __FILE__, __LINE__)
void test_assert_ok(quern_status status, const quern_error *err, const char *file, int line);

/* Ends a child with exit code 99, and prints the place, when the condition does not hold. */
#define TEST_REQUIRE(condition) test_require((condition), #condition, __FILE__, __LINE__)
void test_require(bool condition, const char *text, const char *file, int line);

#define TEST_DIR_SIZE 64
void test_dir_make(char out[TEST_DIR_SIZE]);
void test_dir_remove(const char *dir); /* with all that is in it */

/* Skips the test, and prints why; scripts/check repeats that at its end. */
#define TEST_SKIP(why)                                                                             \
    do {                                                                                           \
        (void)printf("skipped: %s: %s\n", __func__, (why));                                        \
        (void)fflush(stdout);                                                                      \
        skip();                                                                                    \
    } while (0)
#define TEST_SKIP_UNLESS_ROOT()                                                                    \
    do {                                                                                           \
        if (geteuid() != 0) {                                                                      \
            TEST_SKIP("needs root");                                                               \
        }                                                                                          \
    } while (0)
/* Whether the long versions are requested (QUERN_TEST_FULL=1). */
bool test_full(void);
/* QUERN_TEST_SEED, or a new one; printed, so that a failure can be replayed. */
uint64_t test_seed(void);

/* How long a test waits for an event that must come; only ever reached by a failing test. */
#define TEST_PATIENCE_MS 30000
/* Polls each millisecond until the condition holds; false when the patience is over. */
bool test_until(bool (*condition)(void *user), void *user);
/* Rests for a moment between two polls; for loops with a condition of their own. */
void test_pause_ms(int ms);
int64_t test_now_ms(void); /* real, monotonic */

struct test_child {
    pid_t pid;
    int to_fd;
    int from_fd;
};
/* args: NULL-terminated, may be NULL. */
struct test_child test_spawn(const char *role, const char *const *args);
void test_child_send(const struct test_child *child, char byte);
/* The next byte of the child; '\0' when it ended or the patience is over. */
char test_child_receive(const struct test_child *child);
/* SIGKILL, and reaped: afterwards its pid is gone. */
void test_child_kill(struct test_child *child);
/* Waits for its end. The exit code, or 128 + signal. */
int test_child_join(struct test_child *child);
/* As test_child_join, but returns -1 at once when it still runs. */
int test_child_poll(struct test_child *child);

/* In the child. */
void test_parent_send(char byte);
char test_parent_receive(void); /* '\0' when the parent is gone */

#endif
