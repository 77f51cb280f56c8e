/* SPDX-License-Identifier: MIT */
/* test_zygote.c - a zygote that breaks the rules of its connection: its worker ends, says why, and
 * has lost nothing. */
#include "lib_worker.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_wire.h"
#include "worker/prefork/announce.h"

/* --- The zygote --------------------------------------------------------------------------- */

/* As zygote_serve.c does it. */
static void greet(void)
{
    struct qn_zygote_handshake packet;
    struct qn_zygote_fds fds = {.count = 0};
    struct qn_buf hello;
    quern_mux *mux = NULL;
    qn_buf_init(&hello, UINT32_MAX);
    TEST_REQUIRE(qn_zygote_wire_receive(QN_ZYGOTE_SERVE_FD, QN_ROOM_OF(packet), &fds) ==
                 (ssize_t)sizeof packet);
    qn_zygote_wire_close(&fds);
    TEST_REQUIRE(quern_mux_new(&mux, NULL) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "t", rig_handler(), NULL, NULL, NULL) == QUERN_OK);
    TEST_REQUIRE(qn_announce_write(mux, &hello, NULL) == QUERN_OK);
    quern_mux_free(mux);
    fds.items[fds.count++] = memfd_create("hello", MFD_CLOEXEC);
    TEST_REQUIRE(write(fds.items[0], hello.data, hello.size) == (ssize_t)hello.size);
    packet.hello_size = hello.size;
    TEST_REQUIRE(qn_zygote_wire_send(QN_ZYGOTE_SERVE_FD, (struct qn_bytes){&packet, sizeof packet},
                                     &fds) == 0);
    qn_zygote_wire_close(&fds);
    qn_buf_finish(&hello);
}

/* The number of the first child that is asked for. */
static uint64_t await_request(void)
{
    struct qn_zygote_request request;
    struct qn_zygote_fds fds = {.count = 0};
    ssize_t size = -EAGAIN;
    while (size == -EAGAIN) {
        test_pause_ms(1);
        size = qn_zygote_wire_receive(QN_ZYGOTE_SERVE_FD, QN_ROOM_OF(request), &fds);
    }
    TEST_REQUIRE(size == (ssize_t)sizeof request);
    qn_zygote_wire_close(&fds);
    return request.number;
}

static void send_packet(struct qn_zygote_packet packet, size_t size, size_t fd_count)
{
    struct qn_zygote_fds fds = {.items = {STDERR_FILENO, STDERR_FILENO}, .count = fd_count};
    (void)qn_zygote_wire_send(QN_ZYGOTE_SERVE_FD, (struct qn_bytes){&packet, size},
                              fd_count > 0 ? &fds : NULL);
}

/* A kernel's pids end at 2^22. */
enum { NO_PID = 0x40000000, WHOLE = sizeof(struct qn_zygote_packet) };

static int liar_main(int argc, char **argv)
{
    TEST_REQUIRE(argc == 1);
    greet();
    struct qn_zygote_packet packet = {.number = await_request(), .pid = NO_PID};
    switch (argv[0][0]) {
    case 'g': /* garbage */
        (void)send(QN_ZYGOTE_SERVE_FD, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
        break;
    case 'l': { /* too long */
        static const char zeros[4096];
        (void)send(QN_ZYGOTE_SERVE_FD, zeros, sizeof zeros, MSG_NOSIGNAL);
        break;
    }
    case 'k': /* of an unknown kind */
        packet.kind = 77;
        send_packet(packet, WHOLE, 0);
        break;
    case 'd': /* descriptors that it must not have */
        packet.kind = QN_ZYGOTE_ENDED;
        send_packet(packet, WHOLE, 2);
        break;
    case 'e': /* ended before it started */
        packet.kind = QN_ZYGOTE_ENDED;
        send_packet(packet, WHOLE, 0);
        break;
    case 't': /* started twice */
        packet.kind = QN_ZYGOTE_STARTED;
        send_packet(packet, WHOLE, 1);
        send_packet(packet, WHOLE, 1);
        break;
    case 'r': /* started, and refused */
        packet.kind = QN_ZYGOTE_STARTED;
        send_packet(packet, WHOLE, 1);
        packet.kind = QN_ZYGOTE_REFUSED;
        packet.error_number = EAGAIN;
        send_packet(packet, WHOLE, 0);
        break;
    default: /* a child that the worker did not ask for */
        packet.kind = QN_ZYGOTE_ENDED;
        packet.number = UINT64_MAX;
        send_packet(packet, WHOLE, 0);
    }
    char end;
    while (recv(QN_ZYGOTE_SERVE_FD, &end, 1, 0) > 0) { /* until the worker ends it */
    }
    return 0;
}

/* --- The worker --------------------------------------------------------------------------- */

static void no_log(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

/* Its end, and the text of it. */
static void expect_end(const char *url, const char *how)
{
    quern_error err = {0};
    quern_zygote *zygote = NULL;
    quern_worker *worker = NULL;
    char self[PATH_MAX] = "";
    char way[2] = {how[0], '\0'};
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *argv[] = {self, (char *)(uintptr_t) "--child", (char *)(uintptr_t) "liar", way, NULL};
    assert_ok(quern_zygote_exec(self, argv, NULL, &zygote, &err), err);
    const quern_worker_options options = {
        .concurrency = 2, .pool = QUERN_POOL_PREFORK, .zygote = zygote, .on_log = no_log};
    assert_ok(quern_worker_new(url, NULL, &options, &worker, &err), err);
    assert_int_equal(quern_worker_run(worker, &err), QUERN_E_STATE);
    if (strstr(err.text, "broke the rules of its connection") == NULL) {
        fail_msg("%s: %s", how, err.text);
    }
    quern_worker_free(worker);
    quern_zygote_free(zygote);
}

static void a_worker_ends_with_a_zygote_that_breaks_the_rules(void **state)
{
    (void)state;
    static const char *const ways[] = {"garbage", "long",  "kind",    "descriptors",
                                       "ended",   "twice", "refused", "other"};
    struct rig *rig = rig_new(false);
    rig_put(rig, "x", "done");
    for (size_t i = 0; i < TEST_COUNT(ways); i++) {
        expect_end(rig->url, ways[i]);
        quern_task_info *info = rig_inspect(rig, "x");
        assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
        assert_int_equal(quern_task_info_crash_count(info), 0);
        assert_int_equal(quern_task_info_retry_count(info), 0);
        quern_task_info_free(info);
    }
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "x", 0);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_ends_with_a_zygote_that_breaks_the_rules),
};
static const struct test_role roles[] = {{"liar", liar_main}};

int main(int argc, char **argv)
{
    const struct test_group group = {.name = "prefork_zygote",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
