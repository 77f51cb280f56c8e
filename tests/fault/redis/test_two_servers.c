/* SPDX-License-Identifier: MIT */
/* test_two_servers.c - a broker that leaves a server which still answers: the connections that
 * receive notices leave it, too.
 *
 * Each server numbers its clients from 1 on, so the number of the listener at the one server is
 * that of some client at the other: an order to redirect notices to it is obeyed there. */
#include "lib_test.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/redis/redis.h"
#include "lib_redis.h"

#define BRIEFLY_MS 3000
#define CLIENTS 60

static const struct qn_names queues = {(const char *const[]){"default"}, 1};
static struct test_redis servers[2];
static struct qn_broker *broker;
static int clients[CLIENTS]; /* of the second server */

static int connect_to(const struct test_redis *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket_path);
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&address, sizeof address),
                     0);
    return fd;
}

static int set_up(void **state)
{
    (void)state;
    char url[2 * sizeof servers[0].url];
    quern_error err = {0};
    test_redis_start(&servers[0], NULL);
    test_redis_start(&servers[1], NULL);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(&servers[1]);
    }
    test_redis_do(&servers[1], "PING"); /* it has accepted all before */
    (void)snprintf(url, sizeof url, "%s;%s", servers[0].url, servers[1].url);
    assert_ok(qn_broker_open(url, NULL, &broker, &err), err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    qn_broker_close(broker);
    for (size_t i = 0; i < CLIENTS; i++) {
        (void)close(clients[i]);
    }
    test_redis_stop(&servers[0]);
    test_redis_stop(&servers[1]);
    return 0;
}

static void arm(void)
{
    bool work = true;
    int64_t next_due_at_ms;
    quern_error err = {0};
    assert_ok(qn_broker_arm(broker, queues, &work, &next_due_at_ms, &err), err);
    assert_false(work);
}

static struct qn_wakeup wait_ms(int64_t timeout_ms)
{
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_wait(broker, timeout_ms, &wakeup, &err), err);
    return wakeup;
}

static void make_active(struct test_redis *server, const char *id)
{
    test_redis_do(server, "HSET asynq:{default}:t:%s msg message state active", id);
}

static void notices_come_from_the_server_that_was_chosen(void **state)
{
    (void)state;
    arm();
    assert_false(wait_ms(20).work);
    qn_failover_switch_to(&qn_redis_of(broker)->failover, 1);
    arm();
    assert_false(wait_ms(20).work);
    test_redis_do(&servers[1], "LPUSH asynq:{default}:pending a");
    assert_true(wait_ms(BRIEFLY_MS).work);
}

/* Without an arm in between: while it waits, nothing but the listener is in use. */
static void cancellations_come_from_the_server_that_was_chosen(void **state)
{
    (void)state;
    arm();
    assert_false(wait_ms(20).work);
    qn_failover_switch_to(&qn_redis_of(broker)->failover, 1);
    make_active(&servers[1], "a");
    for (int i = 0; i < 2 && wait_ms(20).work; i++) {
        arm();
    }
    test_redis_do(&servers[1], "PUBLISH asynq:cancel a");
    struct qn_wakeup wakeup = wait_ms(BRIEFLY_MS);
    assert_int_equal(wakeup.cancel, QN_CANCEL_RETRY);
    assert_string_equal(wakeup.id, "a");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(notices_come_from_the_server_that_was_chosen, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(cancellations_come_from_the_server_that_was_chosen, set_up,
                                        tear_down),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
