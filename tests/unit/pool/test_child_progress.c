/* SPDX-License-Identifier: MIT */
/* test_child_progress.c - descriptor 3 of shell commands: what arrives, floods, strangers. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib_child.h"
#include "lib_test.h"

struct received {
    size_t calls;
    char last[16]; /* bytes */
    size_t size;
};

static void receive(const char *data, size_t size, void *user)
{
    struct received *received = user;
    for (size_t i = 0; i < size; i++) {
        memmove(received->last, received->last + 1, sizeof received->last - 2);
        received->last[sizeof received->last - 2] = data[i];
    }
    received->size += size;
    received->calls++;
}

static struct qn_child_end run_with_progress(const char *text, struct received *received)
{
    struct qn_child_spec spec = lib_child_spec(text);
    memset(received, 0, sizeof *received);
    spec.on_progress = receive;
    spec.user = received;
    return lib_child_run(&spec);
}

static void descriptor_3_brings_progress(void **state)
{
    (void)state;
    struct received received;
    struct qn_child_end end =
        run_with_progress("echo out; echo err >&2; printf '%s' 'fifteen bytes..' >&3", &received);
    assert_int_equal(end.code, 0);
    assert_string_equal(qn_buf_text(&end.output), "out\n");
    assert_string_equal(qn_buf_text(&end.stderr_text), "err\n");
    assert_string_equal(received.last, "fifteen bytes..");
    assert_int_equal(received.size, 15);
    qn_child_end_finish(&end);
}

static void a_child_without_progress_has_no_descriptor_3(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("{ true >&3; } 2>/dev/null || echo none");
    struct qn_child_end end = lib_child_run(&spec);
    assert_string_equal(qn_buf_text(&end.output), "none\n");
    qn_child_end_finish(&end);
}

static void a_child_may_close_or_ignore_descriptor_3(void **state)
{
    (void)state;
    static const char *const commands[] = {"exec 3>&-; echo done", "echo done",
                                           "echo ab >&3; exec 3>&-; echo done"};
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct received received;
        struct qn_child_end end = run_with_progress(commands[i], &received);
        assert_int_equal(end.code, 0);
        assert_string_equal(qn_buf_text(&end.output), "done\n");
        assert_int_equal(received.size, i == 2 ? 3 : 0);
        qn_child_end_finish(&end);
    }
}

/* Neither its end nor what it writes: it is a process of its own, outside of the group. */
static void a_stranger_that_holds_descriptor_3_is_not_waited_for(void **state)
{
    (void)state;
    struct received received;
    struct qn_child_end end = run_with_progress(
        "{ setsid sh -c 'echo $$ >&4; exec yes >&3' 4>&1 >/dev/null 2>&1 & } | head -1", &received);
    assert_int_equal(end.code, 0);
    pid_t stranger = (pid_t)strtol(qn_buf_text(&end.output), NULL, 10);
    assert_true(stranger > 1);
    (void)kill(stranger, SIGKILL); /* SIGPIPE may have been faster */
    qn_child_end_finish(&end);
}

/* 10 MiB/s but for the first two: 12 MiB take a second at least. All bytes arrive all the same. */
static void a_flood_of_progress_is_slowed_down(void **state)
{
    (void)state;
    struct received received;
    int64_t began_mono_ns = qn_clock_mono_ns();
    struct qn_child_end end = run_with_progress(
        "head -c 12582912 /dev/zero >&3; printf 'fifteen bytes..' >&3", &received);
    int64_t spent_ms = (qn_clock_mono_ns() - began_mono_ns) / QN_NS_PER_MS;
    assert_int_equal(end.code, 0);
    assert_int_equal(received.size, 12582912 + 15);
    assert_string_equal(received.last, "fifteen bytes..");
    assert_true(spent_ms >= 1000);
    qn_child_end_finish(&end);
}

/* One byte at a time; what waits in the pipe is read at once. */
static void a_flood_of_small_writes_keeps_no_thread_busy(void **state)
{
    (void)state;
    struct received received;
    int64_t began_mono_ns = qn_clock_mono_ns();
    struct qn_child_end end =
        run_with_progress("i=0; while [ $i -lt 40000 ]; do echo >&3; i=$((i + 1)); done; "
                          "printf 'fifteen bytes..' >&3",
                          &received);
    int64_t spent_ms = (qn_clock_mono_ns() - began_mono_ns) / QN_NS_PER_MS;
    assert_int_equal(end.code, 0);
    assert_int_equal(received.size, 40000 + 15);
    assert_string_equal(received.last, "fifteen bytes..");
    assert_in_range(received.calls, 1, 64 * (spent_ms / 100 + 3));
    qn_child_end_finish(&end);
}

static void a_flood_of_progress_does_not_delay_a_cancellation(void **state)
{
    (void)state;
    struct received received = {0};
    int cancel_fd = eventfd(1, EFD_CLOEXEC);
    struct qn_child_spec spec = lib_child_spec("exec yes >&3");
    spec.on_progress = receive;
    spec.user = &received;
    spec.cancel_fd = cancel_fd;
    struct qn_child_end end = lib_child_run(&spec);
    assert_true(end.cancelled);
    assert_int_equal(end.signal, SIGTERM);
    qn_child_end_finish(&end);
    close(cancel_fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(descriptor_3_brings_progress),
    cmocka_unit_test(a_child_without_progress_has_no_descriptor_3),
    cmocka_unit_test(a_child_may_close_or_ignore_descriptor_3),
    cmocka_unit_test(a_stranger_that_holds_descriptor_3_is_not_waited_for),
    cmocka_unit_test(a_flood_of_progress_is_slowed_down),
    cmocka_unit_test(a_flood_of_small_writes_keeps_no_thread_busy),
    cmocka_unit_test(a_flood_of_progress_does_not_delay_a_cancellation),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return lib_child_main_twice(argc, argv, &group);
}
