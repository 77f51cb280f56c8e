/* SPDX-License-Identifier: MIT */
/* test_connection.c - which servers are connected to, as which user, and which are refused. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "lib_proxy.h"
#include "lib_session.h"
#include "lib_wire.h"
#include "redis/open.h"

static struct wire wire;

static void a_server_that_accepts_and_never_answers_is_left(void **state)
{
    (void)state;
    wire_start(&wire, NULL);
    quern_error err = {0};
    struct session session;
    session_init(&session, wire.url, 100, "");
    int64_t begun_ms = test_now_ms();
    assert_int_equal(session_request(&session, &err), QUERN_E_TIMEOUT);
    assert_in_range(test_now_ms() - begun_ms, 90, 5000);
    assert_non_null(strstr(err.text, "connected, but no answer within "));
    session_finish(&session);
    wire_stop(&wire);
}

static void refused_users_get_the_reason(void **state)
{
    (void)state;
    quern_error err = {0};
    char secret[TEST_DIR_SIZE + 64];
    (void)test_redis_do(&session_server, "ACL SETUSER able on >s3cret ~* &* +@all");
    (void)test_redis_do(&session_server, "ACL SETUSER mute on >s3cret ~s:* -@all +hello");
    (void)test_redis_do(&session_server, "ACL SETUSER lame on >s3cret ~s:* +@all -incr");
    (void)snprintf(secret, sizeof secret, "redis-socket://able:s3cret@%s",
                   session_server.socket_path);
    assert_ok(session_try(secret, "", &err), err);
    assert_ok(session_try(secret, "?db=15", &err), err);
    assert_int_equal(session_try(secret, "?db=16", &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "SELECT: ERR DB index is out of range"));
    (void)snprintf(secret, sizeof secret, "redis-socket://able:wr0ng@%s",
                   session_server.socket_path);
    assert_int_equal(session_try(secret, "", &err), QUERN_E_DENIED);
    assert_non_null(strstr(err.text, "login refused, user or password is wrong (WRONGPASS)"));
    assert_null(strstr(err.text, "wr0ng"));
    (void)snprintf(secret, sizeof secret, "redis-socket://mute:s3cret@%s",
                   session_server.socket_path);
    assert_int_equal(session_try(secret, "", &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "EXISTS: NOPERM"));
    assert_non_null(strstr(err.text, "docs/protocol/redis.md"));
    (void)snprintf(secret, sizeof secret, "redis-socket://lame:s3cret@%s",
                   session_server.socket_path);
    struct session session;
    session_init(&session, secret, 10000, "");
    assert_int_equal(session_bump_once(&session, &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "bump: INCR: "));
    assert_non_null(strstr(err.text, "docs/protocol/redis.md"));
    session_finish(&session);
    (void)test_redis_do(&session_server, "CONFIG SET requirepass s3cret");
    assert_int_equal(session_try(session_server.url, "", &err), QUERN_E_DENIED);
    assert_non_null(strstr(err.text, "login refused, the server requires a password (NOAUTH)"));
    (void)test_redis_do(&session_server, "CONFIG SET requirepass %s", "");
}

#define HELLO(version, mode) "*4\r\n$7\r\nversion\r\n+" version "\r\n$4\r\nmode\r\n+" mode "\r\n"

static void servers_of_another_kind_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *said;
        quern_status status;
        const char *words;
    } cases[] = {
        {HELLO("6.0.20", "standalone"), QUERN_E_UNSUPPORTED, "version 6.0.20: Redis 6.2"},
        {HELLO("7.2.4", "cluster"), QUERN_E_UNSUPPORTED, "cluster mode"},
        {HELLO("7.2.4", "sentinel"), QUERN_E_UNSUPPORTED, "sentinel mode"},
        {"-ERR unknown command 'HELLO', with args beginning with: '2' 's3cret'\r\n",
         QUERN_E_UNSUPPORTED, "too old"},
        {"-ERR what is s3cret?\r\n", QUERN_E_DENIED, "contains the password"},
        {"+OK\r\n", QUERN_E_BROKER, "unexpected reply to HELLO"},
        {"*-1\r\n", QUERN_E_BROKER, "unexpected reply to HELLO"},
        {HELLO("", ""), QUERN_E_BROKER, "unexpected reply to HELLO"},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", QUERN_E_BROKER, "this is not the Redis protocol"},
        {"\x15\x03\x01", QUERN_E_BROKER, "this port speaks TLS: write rediss://"},
        {"\x16", QUERN_E_BROKER, "this port speaks TLS: write rediss://"},
        {"\x15\x02\x01", QUERN_E_BROKER, "this is not the Redis protocol"},
        {"*100000000\r\n*100000000\r\n", QUERN_E_BROKER, "a reply larger than"},
    };
    char url[TEST_DIR_SIZE + 64];
    wire_start(&wire, NULL);
    (void)snprintf(url, sizeof url, "redis-socket://:s3cret@%s/wire", wire.dir);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        wire.canned = cases[i].said;
        quern_status status = session_try(url, "", &err);
        if (status != cases[i].status || strstr(err.text, cases[i].words) == NULL) {
            fail_msg("%s: %s", cases[i].said, err.text);
        }
        assert_null(strstr(err.text, "s3cret"));
    }
    wire_stop(&wire);
}

static void each_way_to_a_server_works(void **state)
{
    (void)state;
    char url[128];
    quern_error err = {0};
    /* Names with several addresses, of which one answers. */
    (void)snprintf(url, sizeof url, "redis://localhost:%d", session_server.port);
    assert_ok(session_try(url, "", &err), err);
    (void)test_redis_do(&session_server, "CONFIG SET bind %s", "127.0.0.1 ::1");
    assert_ok(session_try(session_server.url, "", &err), err);
    assert_ok(session_try(session_server.tcp_url, "/1", &err), err);
    (void)snprintf(url, sizeof url, "redis://[::1]:%d/2", session_server.port);
    assert_ok(session_try(url, "", &err), err);
    (void)snprintf(url, sizeof url, "redis://localhost:%d", session_server.port);
    assert_ok(session_try(url, "", &err), err);
    assert_int_equal(session_try("redis://127.0.0.1:1", "", &err), QUERN_E_CONNECT);
    assert_string_equal(err.text, "redis://127.0.0.1:1/0: Connection refused");
    assert_int_equal(session_try("redis://no-such-host.invalid", "", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "redis://no-such-host.invalid:6379/0: "));
    assert_int_equal(session_try("redis-socket:///nowhere/r.sock", "", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "No such file"));
}

/* Only a place that has never answered may be a port of TLS, and only if it closes without a
 * word. */
static void tls_is_suspected_where_nothing_ever_came(void **state)
{
    (void)state;
    static const struct proxy_rule closes = {
        .to = "HELLO", .fault = PROXY_CUT_BEFORE, .skip = 0, .count = 1};
    static const struct proxy_rule breaks = {
        .to = "HELLO", .fault = PROXY_CUT_REPLY, .skip = 0, .count = 1, .at = 3};
    static const char words[] = "if the port speaks TLS, write rediss://";
    quern_error err = {0};
    struct session session;
    char url[PROXY_ADDRESS_SIZE];
    struct proxy *proxy = proxy_start_tcp_for(&session_server, 1);
    (void)snprintf(url, sizeof url, "redis://%s", proxy_address(proxy));
    session_init(&session, url, 10000, "");
    proxy_rules(proxy, &breaks, 1);
    assert_int_equal(qn_open_connection(&session.channel.connection, INT64_MAX, &err),
                     QUERN_E_CONNECT);
    assert_null(strstr(err.text, "TLS"));
    proxy_rules(proxy, &closes, 1);
    assert_int_equal(qn_open_connection(&session.channel.connection, INT64_MAX, &err),
                     QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, words));
    assert_ok(session_request(&session, &err), err);
    qn_connection_close(&session.channel.connection);
    proxy_rules(proxy, &closes, 1);
    assert_int_equal(qn_open_connection(&session.channel.connection, INT64_MAX, &err),
                     QUERN_E_CONNECT);
    assert_null(strstr(err.text, "TLS"));
    session_finish(&session);
    proxy_stop(proxy);
}

/* A server of TLS that is greeted in plain text, and a place that closes where TLS begins. */
static void ports_of_the_other_kind_are_named(void **state)
{
    (void)state;
    quern_error err = {0};
    char url[TEST_DIR_SIZE + 128];
    struct test_redis redis = {0};
    test_redis_start(&redis, &(struct test_redis_options){.tls = true});
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis.tls_port);
    assert_int_not_equal(session_try(url, "", &err), QUERN_OK);
    assert_non_null(strstr(err.text, "write rediss://"));
    struct proxy *proxy =
        proxy_start(&(struct proxy_options){.server = "/nowhere/r.sock", .listen = "127.0.0.1:0"});
    (void)snprintf(url, sizeof url, "rediss://%s?ca=%s/ca.pem", proxy_address(proxy), redis.dir);
    assert_int_equal(session_try(url, "", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "is this its plain port?"));
    proxy_stop(proxy);
    test_redis_stop(&redis);
}

static int tcp_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

static void connections_notice_a_peer_that_is_gone(void **state)
{
    (void)state;
    struct session session;
    session_init(&session, session_server.tcp_url, 10000, "");
    quern_error err = {0};
    assert_ok(session_request(&session, &err), err);
    int fd = session.channel.connection.socket.fd;
    assert_int_equal(tcp_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_in_range(tcp_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1, 60);
    assert_in_range(tcp_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 1000, 60000);
    assert_int_equal(tcp_option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    session_finish(&session);
}

/* Else a client of a server far away would use a CPU all the time that it waits. */
static void a_slow_server_is_soon_waited_for_asleep(void **state)
{
    (void)state;
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 5000, "");
    assert_ok(session_request(&session, &err), err);
    struct qn_connection *connection = &session.channel.connection;
    connection->socket.in_vain_count = 0;
    for (uint32_t turn = 0; turn < 6; turn++) {
        struct qn_pipeline pipeline;
        qn_pipeline_begin(&pipeline, &session.channel, QN_PIPELINE_READS);
        qn_pipeline_command(&pipeline, "BLPOP");
        qn_pipeline_text(&pipeline, "nothing");
        qn_pipeline_text(&pipeline, "0.01");
        assert_ok(qn_pipeline_run(&pipeline, &err), err);
        qn_pipeline_end(&pipeline);
        assert_int_equal(connection->socket.in_vain_count, turn + 1);
    }
    session_finish(&session);
}

static void connections_have_names(void **state)
{
    (void)state;
    quern_error err = {0};
    struct session sessions[3];
    static const char *const roles[] = {"", "one", "unused"};
    for (size_t i = 0; i < TEST_COUNT(sessions); i++) {
        session_init(&sessions[i], session_server.url, 10000, roles[i]);
    }
    assert_ok(session_request(&sessions[0], &err), err);
    assert_ok(session_request(&sessions[1], &err), err);
    const char *list = test_redis_do(&session_server, "CLIENT LIST");
    assert_non_null(strstr(list, "name=quern "));
    assert_non_null(strstr(list, "name=quern-one "));
    assert_null(strstr(list, "name=quern-unused"));
    for (size_t i = 0; i < TEST_COUNT(sessions); i++) {
        session_finish(&sessions[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_server_that_accepts_and_never_answers_is_left),
    cmocka_unit_test_setup_teardown(refused_users_get_the_reason, session_start, session_stop),
    cmocka_unit_test(servers_of_another_kind_are_refused_by_name),
    cmocka_unit_test_setup_teardown(each_way_to_a_server_works, session_start, session_stop),
    cmocka_unit_test_setup_teardown(tls_is_suspected_where_nothing_ever_came, session_start,
                                    session_stop),
    cmocka_unit_test(ports_of_the_other_kind_are_named),
    cmocka_unit_test_setup_teardown(connections_notice_a_peer_that_is_gone, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(a_slow_server_is_soon_waited_for_asleep, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(connections_have_names, session_start, session_stop),
};
TEST_MAIN(tests)
