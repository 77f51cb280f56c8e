/* SPDX-License-Identifier: MIT */
/* test_socket.c - a client of a protocol of its own: lines to a peer of the test, and back. */
#include "net/socket.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib_test.h"
#include "net/connect.h"

struct bench {
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 8];
    _Atomic int64_t patience_ms;
    struct qn_peer peer;
    struct qn_socket socket;
    int listen_fd;
    int peer_fd; /* the other end */
    quern_error err;
};

static int64_t in_ms(int64_t ms)
{
    return qn_clock_mono_ns() + ms * 1000000;
}

/* A peer that listens, and is not connected yet. */
static void begin(struct bench *bench)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *bench = (struct bench){.patience_ms = 10000, .peer_fd = -1};
    test_dir_make(bench->dir);
    (void)snprintf(bench->path, sizeof bench->path, "%s/peer", bench->dir);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", bench->path);
    bench->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(bench->listen_fd >= 0);
    assert_int_equal(bind(bench->listen_fd, (struct sockaddr *)(void *)&address, sizeof address),
                     0);
    assert_int_equal(listen(bench->listen_fd, 4), 0);
    bench->peer = (struct qn_peer){.host = "",
                                   .port = "",
                                   .path = bench->path,
                                   .address = "line://peer",
                                   .connect_timeout_ms = 5000,
                                   .timeout_ms = 10000,
                                   .patience_ms = &bench->patience_ms};
    qn_socket_init(&bench->socket, &bench->peer);
}

static void begin_connected(struct bench *bench)
{
    begin(bench);
    assert_ok(qn_connect(&bench->socket, in_ms(5000), &bench->err), bench->err);
    bench->peer_fd = accept(bench->listen_fd, NULL, NULL);
    assert_true(bench->peer_fd >= 0);
}

static void end(struct bench *bench)
{
    qn_socket_close(&bench->socket);
    if (bench->peer_fd >= 0) {
        (void)close(bench->peer_fd);
    }
    (void)close(bench->listen_fd);
    test_dir_remove(bench->dir);
}

static void lines_go_out_and_come_back(void **state)
{
    (void)state;
    struct bench bench;
    char line[16] = "";
    begin_connected(&bench);
    for (int i = 0; i < 3; i++) {
        struct qn_socket_wait wait = {.deadline_mono_ns = in_ms(5000)};
        size_t size = 0;
        assert_ok(qn_socket_send(&bench.socket, "ping\n", 5, in_ms(5000), &bench.err), bench.err);
        assert_int_equal(recv(bench.peer_fd, line, sizeof line, 0), 5);
        assert_int_equal(send(bench.peer_fd, line, 5, 0), 5);
        while (size == 0) {
            assert_ok(qn_socket_receive(&bench.socket, &wait, &size, &bench.err), bench.err);
        }
        qn_socket_answered(&bench.socket, &wait);
        assert_int_equal(size, 5);
        assert_memory_equal(bench.socket.inbox, "ping\n", 5);
    }
    assert_int_equal(bench.socket.sent_bytes, 15);
    end(&bench);
}

static void nothing_there_is_no_failure_without_waiting(void **state)
{
    (void)state;
    struct bench bench;
    size_t size = 1;
    begin_connected(&bench);
    assert_ok(qn_socket_try_receive(&bench.socket, &size, &bench.err), bench.err);
    assert_int_equal(size, 0);
    assert_false(qn_socket_is_stale(&bench.socket));
    assert_int_equal(send(bench.peer_fd, "!", 1, 0), 1);
    assert_true(qn_socket_is_stale(&bench.socket)); /* it was not requested */
    assert_ok(qn_socket_try_receive(&bench.socket, &size, &bench.err), bench.err);
    assert_int_equal(size, 1);
    end(&bench);
}

static void an_end_of_the_peer_closes_the_socket(void **state)
{
    (void)state;
    struct bench bench;
    size_t size = 0;
    begin_connected(&bench);
    assert_int_equal(close(bench.peer_fd), 0);
    bench.peer_fd = -1;
    assert_true(qn_socket_is_stale(&bench.socket));
    assert_int_equal(qn_socket_try_receive(&bench.socket, &size, &bench.err), QUERN_E_CONNECT);
    assert_string_equal(bench.err.text, "line://peer: connection lost: closed by the server");
    assert_int_equal(bench.socket.fd, -1);
    end(&bench);
}

/* More is always there, so that it never comes to wait. */
static void deadline_ends_an_answer_that_pours_in(void **state)
{
    (void)state;
    struct bench bench;
    static char flood[100000];
    int left = 0;
    size_t size = 0;
    begin_connected(&bench);
    assert_int_equal(send(bench.peer_fd, flood, sizeof flood, 0), sizeof flood);
    struct qn_socket_wait wait = {.deadline_mono_ns = in_ms(0) - 1};
    int fd = dup(bench.socket.fd); /* the socket is closed by what fails */
    quern_status status = QUERN_OK;
    while (status == QUERN_OK) {
        status = qn_socket_receive(&bench.socket, &wait, &size, &bench.err);
    }
    assert_int_equal(status, QUERN_E_TIMEOUT);
    assert_int_equal(ioctl(fd, FIONREAD, &left), 0);
    assert_in_range(left, 1, sizeof flood - 1); /* it was looked at once */
    (void)close(fd);
    end(&bench);
}

static void a_peer_that_takes_nothing_is_left_at_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    static char much[4000000];
    begin_connected(&bench);
    int64_t begun_ms = test_now_ms();
    assert_int_equal(qn_socket_send(&bench.socket, much, sizeof much, in_ms(150), &bench.err),
                     QUERN_E_TIMEOUT);
    assert_in_range(test_now_ms() - begun_ms, 140, 5000);
    assert_in_range(bench.socket.sent_bytes, 1, sizeof much - 1);
    assert_int_equal(bench.socket.fd, -1);
    end(&bench);
}

/* Connects to a peer whose backlog is full, for up to 250 ms. The text is the peer's address and
 * what is expected, up to the number of ms that it ends with; returns that, or 0. */
static long wait_for_room(struct bench *bench, const char *expected)
{
    struct qn_socket crowd[8];
    size_t count = 0;
    quern_status status = QUERN_OK;
    while (status == QUERN_OK) {
        assert_true(count < sizeof crowd / sizeof *crowd);
        qn_socket_init(&crowd[count], &bench->peer);
        status = qn_connect(&crowd[count], in_ms(250), &bench->err);
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        qn_socket_close(&crowd[i]);
    }
    assert_int_equal(status, QUERN_E_TIMEOUT);
    assert_memory_equal(bench->err.text, expected, strlen(expected));
    return strtol(bench->err.text + strlen(expected), NULL, 10);
}

/* The option is 5000 ms, the deadline comes earlier: others share the time. */
static void error_says_how_long_was_waited_for_a_connection(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench);
    assert_in_range(wait_for_room(&bench, "line://peer: no connection within "), 250, 4000);
    end(&bench);
}

static void error_says_that_the_peer_was_left_for_another(void **state)
{
    (void)state;
    struct bench bench;
    static const _Atomic bool abandoned = true;
    begin(&bench);
    bench.peer.abandoned = &abandoned;
    assert_int_equal(wait_for_room(&bench, "line://peer: another server was chosen meanwhile"), 0);
    end(&bench);
}

static void lost_patience_ends_a_wait_early(void **state)
{
    (void)state;
    struct bench bench;
    begin_connected(&bench);
    bench.patience_ms = 200;
    struct qn_socket_wait wait = {.deadline_mono_ns = in_ms(60000)};
    size_t size = 0;
    int64_t begun_ms = test_now_ms();
    assert_int_equal(qn_socket_receive(&bench.socket, &wait, &size, &bench.err), QUERN_E_TIMEOUT);
    assert_in_range(test_now_ms() - begun_ms, 190, 20000);
    assert_string_equal(bench.err.text, "line://peer: no answer within 200 ms");
    end(&bench);
}

static void a_peer_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct bench bench;
    begin(&bench);
    bench.peer.path = "/nowhere/peer";
    assert_int_equal(qn_connect(&bench.socket, in_ms(5000), &bench.err), QUERN_E_CONNECT);
    assert_string_equal(bench.err.text, "line://peer: No such file or directory");
    bench.peer.host = "127.0.0.1";
    bench.peer.port = "1";
    assert_int_equal(qn_connect(&bench.socket, in_ms(5000), &bench.err), QUERN_E_CONNECT);
    assert_string_equal(bench.err.text, "line://peer: Connection refused");
    assert_int_equal(bench.socket.fd, -1);
    end(&bench);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines_go_out_and_come_back),
    cmocka_unit_test(nothing_there_is_no_failure_without_waiting),
    cmocka_unit_test(an_end_of_the_peer_closes_the_socket),
    cmocka_unit_test(deadline_ends_an_answer_that_pours_in),
    cmocka_unit_test(a_peer_that_takes_nothing_is_left_at_the_deadline),
    cmocka_unit_test(error_says_how_long_was_waited_for_a_connection),
    cmocka_unit_test(error_says_that_the_peer_was_left_for_another),
    cmocka_unit_test(lost_patience_ends_a_wait_early),
    cmocka_unit_test(a_peer_that_is_not_there_is_named),
};
TEST_MAIN(tests)
