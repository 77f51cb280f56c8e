/* SPDX-License-Identifier: MIT */
/* test_zygote_wire.c - packets between worker and zygote: which may be acted upon, which end it. */
#include "pool/prefork/zygote_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "lib_test.h"
#include "lib_zygote.h"
#include "pool/prefork/zygote_main.h"

enum { CHILD_SLOTS = 7, COMMAND_SLOTS = 1 << QN_ZYGOTE_TEXT };

static const struct qn_zygote_request child_request = {
    .kind = QN_ZYGOTE_START_CHILD, .slots = CHILD_SLOTS, .number = 1};
static const struct qn_zygote_request command_request = {
    .kind = QN_ZYGOTE_START_COMMAND, .slots = COMMAND_SLOTS, .text_count = 1, .text_size = 5};

static bool is_request(struct qn_zygote_request request)
{
    return qn_zygote_wire_is_request(&request, sizeof request,
                                     (size_t)__builtin_popcount(request.slots));
}

static void requests_that_break_a_rule_are_refused(void **state)
{
    (void)state;
    assert_true(is_request(child_request));
    assert_true(is_request(command_request));
    assert_false(qn_zygote_wire_is_request(&child_request, sizeof child_request - 1, 3));
    assert_false(qn_zygote_wire_is_request(&child_request, sizeof child_request, 2));
    assert_false(qn_zygote_wire_is_request(&child_request, sizeof child_request, 4));
    struct qn_zygote_request request = child_request;
    request.kind = 0;
    assert_false(is_request(request));
    request.kind = 3;
    assert_false(is_request(request));
    request.kind = 4;
    assert_false(is_request(request));
    for (unsigned slots = 0; slots < 256; slots++) {
        request = (struct qn_zygote_request){.kind = QN_ZYGOTE_FORK_ANOTHER, .slots = slots};
        assert_int_equal(is_request(request), slots == 1U << QN_ZYGOTE_SOCKET);
    }
    request = child_request;
    request.no_new_privs = 2;
    assert_false(is_request(request));
    for (unsigned slots = 0; slots < 256; slots++) {
        request = child_request;
        request.slots = slots;
        bool may_be = (slots & ~(1U << QN_ZYGOTE_CGROUP)) == CHILD_SLOTS;
        assert_int_equal(is_request(request), may_be);
        request = command_request;
        request.slots = slots;
        assert_int_equal(is_request(request), slots < 64 && (slots & COMMAND_SLOTS) != 0);
    }
    request = command_request;
    request.text_count = 0;
    assert_false(is_request(request));
    request.text_count = 6; /* more strings than bytes */
    assert_false(is_request(request));
    request.text_count = 1;
    request.text_size = UINT64_MAX;
    assert_false(is_request(request));
}

static bool is_packet(struct qn_zygote_packet packet, size_t fd_count)
{
    return qn_zygote_wire_is_packet(&packet, sizeof packet, fd_count);
}

static void packets_that_break_a_rule_are_refused(void **state)
{
    (void)state;
    struct qn_zygote_packet packet = {.kind = QN_ZYGOTE_STARTED, .pid = 2};
    assert_true(is_packet(packet, 1));
    assert_false(is_packet(packet, 0));
    assert_false(is_packet(packet, 2));
    assert_false(qn_zygote_wire_is_packet(&packet, sizeof packet + 1, 1));
    packet.pid = 1; /* kill(-1) would reach all */
    assert_false(is_packet(packet, 1));
    packet = (struct qn_zygote_packet){.kind = QN_ZYGOTE_REFUSED, .error_number = EAGAIN};
    assert_true(is_packet(packet, 0));
    packet.error_number = 0;
    assert_false(is_packet(packet, 0));
    packet = (struct qn_zygote_packet){.kind = QN_ZYGOTE_ENDED, .pid = 2};
    assert_true(is_packet(packet, 0));
    packet.usage.ru_utime.tv_sec = INT64_MAX;
    assert_false(is_packet(packet, 0));
    packet.usage.ru_utime.tv_sec = 0;
    packet.usage.ru_maxrss = -1;
    assert_false(is_packet(packet, 0));
    packet = (struct qn_zygote_packet){.kind = QN_ZYGOTE_GONE, .pid = 2};
    assert_false(is_packet(packet, 0));
}

/* The zygote reads a packet of such a size with such descriptors; it must end, with exit code 0. */
static void send_to_zygote(const void *data, size_t size, size_t fd_count)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    int worker_fd = pidfd_open(getpid(), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        _exit(qn_zygote_main(&lib_zygote_program, fds[1], worker_fd));
    }
    struct qn_zygote_fds extra = {.items = {0, 0, 0, 0, 0, 0}, .count = fd_count};
    for (size_t i = 0; i < fd_count; i++) {
        extra.items[i] = worker_fd;
    }
    struct qn_bytes bytes = {.data = data, .size = size};
    assert_int_equal(qn_zygote_wire_send(fds[0], bytes, &extra), 0);
    int code = -1;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(worker_fd);
}

static void a_zygote_ends_when_the_worker_breaks_the_rules(void **state)
{
    (void)state;
    char garbage[4096];
    memset(garbage, 0xa5, sizeof garbage);
    send_to_zygote(garbage, 1, 0);
    send_to_zygote(garbage, sizeof garbage, 0);
    send_to_zygote(garbage, sizeof(struct qn_zygote_request), QN_ZYGOTE_SLOTS);
    send_to_zygote(&child_request, sizeof child_request, 2);
    send_to_zygote(&child_request, sizeof child_request - 1, 3);
}

/* Any bytes: the check decides, and what it lets through has descriptors for each slot. */
static void no_bytes_confuse_the_check(void **state)
{
    (void)state;
    struct qn_random random;
    qn_random_init_seed(&random, test_seed());
    for (int i = 0; i < 200000; i++) {
        struct qn_zygote_request request = child_request;
        struct qn_zygote_fds fds = {.count = (size_t)qn_random_below(&random, 8)};
        for (size_t j = 0; j < QN_ZYGOTE_SLOTS; j++) {
            fds.items[j] = (int)j + 100;
        }
        uint64_t changed = qn_random_below(&random, sizeof request);
        ((uint8_t *)&request)[changed] = (uint8_t)qn_random_next(&random);
        request.slots = (uint32_t)qn_random_below(&random, 128);
        if (!qn_zygote_wire_is_request(&request, sizeof request, fds.count)) {
            continue;
        }
        int last = 99;
        for (unsigned slot = 0; slot < QN_ZYGOTE_SLOTS; slot++) {
            int fd = qn_zygote_wire_fd(&request, &fds, slot);
            assert_true(fd == -1 || fd == last + 1);
            last = fd == -1 ? last : fd;
        }
        assert_int_equal(last, 99 + (int)fds.count);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(requests_that_break_a_rule_are_refused),
    cmocka_unit_test(packets_that_break_a_rule_are_refused),
    cmocka_unit_test(a_zygote_ends_when_the_worker_breaks_the_rules),
    cmocka_unit_test(no_bytes_confuse_the_check),
};
TEST_MAIN(tests)
