/* SPDX-License-Identifier: MIT */
/* test_link.c - what a connection to Redis does when the wire or the server fails it.
 * A session of two pipelines is cut at each byte of what the server sends: what the connection
 * reports of the effect must be true. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/redis/redis.h"
#include "broker/redis/schema/keys.h"
#include "lib_wire.h"

static struct test_redis server;
static struct wire wire;

/* The hash is that of the text. */
static const struct qn_script bump = {
    .name = "bump",
    .text = "redis.call('INCR', KEYS[1] .. 'n')\nreturn {1, 'two', {3}}\n",
    .size = 58,
    .sha1 = "91dfd1969b3a301aefdda84c04ed095631275674",
};

static int start(void **state)
{
    (void)state;
    test_redis_start(&server, &(struct test_redis_options){.tcp = true, .append = true});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    test_redis_stop(&server);
    return 0;
}

static struct qn_redis *open_broker(const char *url, int64_t timeout_ms)
{
    quern_error err = {0};
    struct qn_broker *broker = NULL;
    const struct qn_broker_options options = {.connect_timeout_ms = timeout_ms,
                                              .command_timeout_ms = timeout_ms};
    assert_ok(qn_broker_open(url, &options, &broker, &err), err);
    return qn_redis_of(broker);
}

static void close_broker(struct qn_redis *self)
{
    qn_broker_close(&self->base);
}

/* One write: a script, a plain command, an error. */
static quern_status bump_once(struct qn_redis *self, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_PUMP, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &bump, 1);
    qn_keys_add_prefix(&pipeline, "q");
    qn_pipeline_command(&pipeline, "GET");
    qn_pipeline_limit(&pipeline, QN_REPLY_BRIEF_MAX);
    qn_keys_add(&pipeline, "q", "value");
    qn_pipeline_command(&pipeline, "NONSENSE");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    if (status == QUERN_OK) {
        assert_int_equal(reply->count, 3);
        assert_string_equal(qn_reply_text(qn_reply_at(reply, 1)), "two");
        assert_int_equal(qn_reply_int(qn_reply_at(qn_reply_at(reply, 2), 0), 0), 3);
        status = qn_pipeline_reply(&pipeline, 1, &reply, err);
    }
    if (status == QUERN_OK) {
        assert_string_equal(qn_reply_text(reply), "a value");
        assert_int_equal(qn_pipeline_reply(&pipeline, 2, &reply, err), QUERN_E_BROKER);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

static long long bumps(void)
{
    (void)test_redis_do(&server, "INCRBY asynq:{q}:n 0");
    return test_redis_count(&server, "GET asynq:{q}:n");
}

static void prepare_session(void)
{
    (void)test_redis_do(&server, "FLUSHALL");
    (void)test_redis_do(&server, "SET asynq:{q}:value %s", "a value");
}

/* What the server says on a new connection, when it knows the script. */
static long measure_session(struct qn_redis *self)
{
    quern_error err = {0};
    assert_ok(bump_once(self, &err), err);
    qn_connection_close(&self->channels[QN_CHANNEL_PUMP].connection);
    assert_ok(bump_once(self, &err), err);
    return wire.carried;
}

/* --- Cut at each byte --------------------------------------------------------------- */

static void a_reply_cut_at_any_byte_is_told_as_it_is(void **state)
{
    (void)state;
    prepare_session();
    wire_start(&wire, &server);
    quern_error err = {0};
    struct qn_redis *self = open_broker(wire.url, 10000);
    /* The open used the channel REST, and the wire carries one connection at a time. */
    qn_connection_close(&self->channels[QN_CHANNEL_REST].connection);
    long whole = measure_session(self);
    assert_true(whole > 200);
    size_t effective = 0;
    size_t unreached = 0;
    for (long limit = 0; limit < whole; limit++) {
        qn_connection_close(&self->channels[QN_CHANNEL_PUMP].connection);
        wire_set(&wire, WIRE_CUT, limit);
        long long before = bumps();
        quern_status status = bump_once(self, &err);
        long long after = bumps();
        if (status == QUERN_E_UNKNOWN) {
            assert_in_range(after - before, 0, 1);
            effective += after > before ? 1 : 0;
        } else {
            assert_int_equal(status, QUERN_E_CONNECT);
            assert_int_equal(after, before);
            unreached++;
        }
        assert_int_equal(self->channels[QN_CHANNEL_PUMP].connection.socket.fd, -1);
        assert_non_null(strstr(err.text, self->endpoint.peer.address));
    }
    assert_true(effective > 20 && unreached > 100);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(bump_once(self, &err), err);
    close_broker(self);
    wire_stop(&wire);
}

static void bytes_may_come_one_by_one(void **state)
{
    (void)state;
    prepare_session();
    wire_start(&wire, &server);
    wire_set(&wire, WIRE_DRIBBLE, 0);
    quern_error err = {0};
    struct qn_redis *self = open_broker(wire.url, 10000);
    qn_connection_close(&self->channels[QN_CHANNEL_REST].connection);
    assert_ok(bump_once(self, &err), err);
    assert_ok(bump_once(self, &err), err);
    close_broker(self);
    wire_stop(&wire);
}

/* --- Silence ------------------------------------------------------------------------ */

static void silence_ends_with_the_deadline(void **state)
{
    (void)state;
    prepare_session();
    wire_start(&wire, &server);
    quern_error err = {0};
    struct qn_redis *self = open_broker(wire.url, 200);
    qn_connection_close(&self->channels[QN_CHANNEL_REST].connection);
    long whole = measure_session(self);
    qn_connection_close(&self->channels[QN_CHANNEL_PUMP].connection);
    wire_set(&wire, WIRE_SILENT, whole - 5);
    long long before = bumps();
    int64_t begun_ms = test_now_ms();
    assert_int_equal(bump_once(self, &err), QUERN_E_UNKNOWN);
    assert_in_range(test_now_ms() - begun_ms, 190, 5000);
    assert_non_null(strstr(err.text, "no answer within 200 ms"));
    assert_int_equal(bumps(), before + 1);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(bump_once(self, &err), err);
    close_broker(self);
    wire_stop(&wire);
}

static void a_server_that_accepts_and_never_answers_is_left(void **state)
{
    (void)state;
    wire_start(&wire, NULL);
    quern_error err = {0};
    struct qn_broker *broker = NULL;
    const struct qn_broker_options options = {.connect_timeout_ms = 100};
    int64_t begun_ms = test_now_ms();
    assert_int_equal(qn_broker_open(wire.url, &options, &broker, &err), QUERN_E_TIMEOUT);
    assert_in_range(test_now_ms() - begun_ms, 90, 5000);
    assert_non_null(strstr(err.text, "connected, but no answer within 100 ms"));
    wire_stop(&wire);
}

/* --- The server comes and goes ------------------------------------------------------ */

static void scripts_that_were_flushed_are_sent_again(void **state)
{
    (void)state;
    prepare_session();
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    for (int i = 1; i <= 3; i++) {
        assert_ok(bump_once(self, &err), err);
        assert_int_equal(bumps(), i);
        assert_string_equal(test_redis_do(&server, "SCRIPT FLUSH"), "OK");
    }
    close_broker(self);
}

static void only_the_scripts_that_were_not_run_are_sent_again(void **state)
{
    (void)state;
    static const struct qn_script other = {
        .name = "other",
        .text = "redis.call('INCR', KEYS[1] .. 'm')\nreturn 'other'\n",
        .size = 50,
        .sha1 = "c3afea0c7eda588ea668f49fddb30c585a810ffa",
    };
    prepare_session();
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    assert_string_equal(test_redis_do(&server, "SCRIPT FLUSH"), "OK");
    assert_string_equal(test_redis_do(&server, "SCRIPT LOAD %s", bump.text), bump.sha1);
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_PUMP, QN_PIPELINE_WRITES);
    for (int i = 0; i < 6; i++) {
        qn_pipeline_script(&pipeline, i % 2 == 0 ? &other : &bump, 1);
        qn_keys_add_prefix(&pipeline, "q");
    }
    assert_ok(qn_pipeline_run(&pipeline, &err), err);
    for (size_t i = 0; i < 6; i++) {
        const struct qn_reply *reply = NULL;
        assert_ok(qn_pipeline_reply(&pipeline, i, &reply, &err), err);
        assert_int_equal(reply->type, i % 2 == 0 ? QN_REPLY_TEXT : QN_REPLY_ARRAY);
    }
    qn_pipeline_command(&pipeline, "ECHO"); /* a second run sends what is new only */
    qn_pipeline_text(&pipeline, "again");
    assert_ok(qn_pipeline_run(&pipeline, &err), err);
    const struct qn_reply *reply = NULL;
    assert_ok(qn_pipeline_reply(&pipeline, 6, &reply, &err), err);
    assert_string_equal(qn_reply_text(reply), "again");
    qn_pipeline_end(&pipeline);
    assert_int_equal(bumps(), 3);
    assert_int_equal(test_redis_count(&server, "GET asynq:{q}:m"), 3);
    close_broker(self);
}

static void a_restart_between_two_talks_is_not_noticed(void **state)
{
    (void)state;
    prepare_session();
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    for (int i = 0; i < 3; i++) {
        assert_ok(bump_once(self, &err), err);
        test_redis_kill(&server);
        assert_int_equal(bump_once(self, &err), QUERN_E_CONNECT);
        test_redis_launch(&server);
        test_redis_await(&server);
        prepare_session(); /* a kill may lose what was not in the AOF yet */
        assert_ok(bump_once(self, &err), err);
        assert_int_equal(test_redis_count(&server, "CLIENT KILL TYPE normal SKIPME yes") > 0, 1);
    }
    close_broker(self);
}

static void a_server_that_is_loading_says_so(void **state)
{
    (void)state;
    prepare_session();
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    (void)test_redis_do(&server, "EVAL %s 0",
                        "for i = 1, 20000 do redis.call('SET', 'k' .. i, i) end");
    assert_string_equal(test_redis_do(&server, "CONFIG SET key-load-delay 500"), "OK");
    assert_string_equal(test_redis_do(&server, "CONFIG REWRITE"), "OK");
    test_redis_kill(&server);
    test_redis_launch(&server);
    quern_status status = QUERN_E_CONNECT;
    for (int i = 0; i < TEST_PATIENCE_MS && status == QUERN_E_CONNECT; i++) {
        status = bump_once(self, &err);
        test_pause_ms(1);
    }
    assert_int_equal(status, QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "LOADING"));
    struct qn_broker *broker = NULL;
    assert_int_equal(qn_broker_open(server.url, NULL, &broker, &err), QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "LOADING"));
    test_redis_kill(&server);
    test_redis_configure(&server, ""); /* without the delay */
    test_redis_launch(&server);
    test_redis_await(&server);
    assert_ok(bump_once(self, &err), err);
    close_broker(self);
}

/* --- Refusals ----------------------------------------------------------------------- */

static void a_huge_reply_is_refused_and_the_link_lives_on(void **state)
{
    (void)state;
    prepare_session();
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    (void)test_redis_do(&server, "SETRANGE asynq:{q}:value 2000000 x");
    assert_int_equal(bump_once(self, &err), QUERN_E_UNKNOWN);
    assert_non_null(strstr(err.text, "a reply larger than 1048576 bytes was refused"));
    (void)test_redis_do(&server, "SET asynq:{q}:value %s", "a value");
    assert_ok(bump_once(self, &err), err);
    close_broker(self);
}

static quern_status try_open(const char *prefix, const char *rest, quern_error *err)
{
    char url[TEST_DIR_SIZE + 128];
    struct qn_broker *broker = NULL;
    (void)snprintf(url, sizeof url, "%s%s", prefix, rest);
    quern_status status = qn_broker_open(url, NULL, &broker, err);
    if (status == QUERN_OK) {
        qn_broker_close(broker);
    }
    return status;
}

static void who_may_not_is_told_why(void **state)
{
    (void)state;
    quern_error err = {0};
    char secret[TEST_DIR_SIZE + 64];
    (void)test_redis_do(&server, "ACL SETUSER able on >s3cret ~* &* +@all");
    (void)test_redis_do(&server, "ACL SETUSER mute on >s3cret ~asynq:* -@all +hello");
    (void)test_redis_do(&server, "ACL SETUSER lame on >s3cret ~asynq:* +@all -incr");
    (void)snprintf(secret, sizeof secret, "redis-socket://able:s3cret@%s", server.socket_path);
    assert_ok(try_open(secret, "", &err), err);
    assert_ok(try_open(secret, "?db=15", &err), err);
    assert_int_equal(try_open(secret, "?db=16", &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "SELECT: ERR DB index is out of range"));
    (void)snprintf(secret, sizeof secret, "redis-socket://able:wr0ng@%s", server.socket_path);
    assert_int_equal(try_open(secret, "", &err), QUERN_E_DENIED);
    assert_non_null(strstr(err.text, "login refused, user or password is wrong (WRONGPASS)"));
    assert_null(strstr(err.text, "wr0ng"));
    (void)snprintf(secret, sizeof secret, "redis-socket://mute:s3cret@%s", server.socket_path);
    assert_int_equal(try_open(secret, "", &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "EXISTS: NOPERM"));
    assert_non_null(strstr(err.text, "docs/protocol/redis.md"));
    (void)snprintf(secret, sizeof secret, "redis-socket://lame:s3cret@%s", server.socket_path);
    struct qn_redis *self = open_broker(secret, 10000);
    assert_int_equal(bump_once(self, &err), QUERN_E_BROKER);
    assert_non_null(strstr(err.text, "bump: INCR: "));
    assert_non_null(strstr(err.text, "docs/protocol/redis.md"));
    close_broker(self);
    (void)test_redis_do(&server, "CONFIG SET requirepass s3cret");
    assert_int_equal(try_open(server.url, "", &err), QUERN_E_DENIED);
    assert_non_null(strstr(err.text, "login refused, the server wants a password (NOAUTH)"));
    (void)test_redis_do(&server, "CONFIG SET requirepass %s", "");
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
        {HELLO("6.0.20", "standalone"), QUERN_E_UNSUPPORTED, "version 6.0.20: wants Redis 6.2"},
        {HELLO("7.2.4", "cluster"), QUERN_E_UNSUPPORTED, "cluster mode"},
        {HELLO("7.2.4", "sentinel"), QUERN_E_UNSUPPORTED, "sentinel mode"},
        {"-ERR unknown command 'HELLO', with args beginning with: '2' 's3cret'\r\n",
         QUERN_E_UNSUPPORTED, "too old"},
        {"-ERR what is s3cret?\r\n", QUERN_E_DENIED, "have the password in them"},
        {"+OK\r\n", QUERN_E_BROKER, "answered what it should not: HELLO"},
        {"*-1\r\n", QUERN_E_BROKER, "answered what it should not: HELLO"},
        {HELLO("", ""), QUERN_E_BROKER, "answered what it should not: HELLO"},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", QUERN_E_BROKER, "this does not speak Redis"},
        {"*100000000\r\n*100000000\r\n", QUERN_E_BROKER, "a reply larger than"},
    };
    char url[TEST_DIR_SIZE + 64];
    wire_start(&wire, NULL);
    (void)snprintf(url, sizeof url, "redis-socket://:s3cret@%s/wire", wire.dir);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        wire.canned = cases[i].said;
        quern_status status = try_open(url, "", &err);
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
    (void)snprintf(url, sizeof url, "redis://localhost:%d", server.port);
    assert_ok(try_open(url, "", &err), err);
    (void)test_redis_do(&server, "CONFIG SET bind %s", "127.0.0.1 ::1");
    assert_ok(try_open(server.url, "", &err), err);
    assert_ok(try_open(server.tcp_url, "/1", &err), err);
    (void)snprintf(url, sizeof url, "redis://[::1]:%d/2", server.port);
    assert_ok(try_open(url, "", &err), err);
    (void)snprintf(url, sizeof url, "redis://localhost:%d", server.port);
    assert_ok(try_open(url, "", &err), err);
    assert_int_equal(try_open("redis://127.0.0.1:1", "", &err), QUERN_E_CONNECT);
    assert_string_equal(err.text, "redis://127.0.0.1:1/0: Connection refused");
    assert_int_equal(try_open("redis://no-such-host.invalid", "", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "redis://no-such-host.invalid:6379/0: "));
    assert_int_equal(try_open("redis-socket:///nowhere/r.sock", "", &err), QUERN_E_CONNECT);
    assert_non_null(strstr(err.text, "No such file"));
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
    struct qn_redis *self = open_broker(server.tcp_url, 10000);
    int fd = self->channels[QN_CHANNEL_REST].connection.socket.fd;
    assert_int_equal(tcp_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_in_range(tcp_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1, 60);
    assert_in_range(tcp_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 1000, 60000);
    assert_int_equal(tcp_option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    close_broker(self);
}

/* Else a client of a server far away would use a CPU all the time that it waits. */
static void a_slow_server_is_soon_waited_for_asleep(void **state)
{
    (void)state;
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 5000);
    struct qn_connection *connection =
        &self->channels[QN_CHANNEL_REST].connection; /* connected by open */
    connection->socket.in_vain_count = 0;
    for (uint32_t turn = 0; turn < 6; turn++) {
        struct qn_pipeline pipeline;
        qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
        qn_pipeline_command(&pipeline, "BLPOP");
        qn_pipeline_text(&pipeline, "nothing");
        qn_pipeline_text(&pipeline, "0.01");
        assert_ok(qn_pipeline_run(&pipeline, &err), err);
        qn_pipeline_end(&pipeline);
        assert_int_equal(connection->socket.in_vain_count, turn + 1);
    }
    close_broker(self);
}

static void connections_have_names(void **state)
{
    (void)state;
    quern_error err = {0};
    struct qn_redis *self = open_broker(server.url, 10000);
    prepare_session();
    assert_ok(bump_once(self, &err), err);
    const char *list = test_redis_do(&server, "CLIENT LIST");
    assert_non_null(strstr(list, "name=quern-pump"));
    assert_non_null(strstr(list, "name=quern-rest"));
    assert_null(strstr(list, "name=quern-keeper"));
    close_broker(self);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_reply_cut_at_any_byte_is_told_as_it_is, start, stop),
    cmocka_unit_test_setup_teardown(bytes_may_come_one_by_one, start, stop),
    cmocka_unit_test_setup_teardown(silence_ends_with_the_deadline, start, stop),
    cmocka_unit_test(a_server_that_accepts_and_never_answers_is_left),
    cmocka_unit_test_setup_teardown(scripts_that_were_flushed_are_sent_again, start, stop),
    cmocka_unit_test_setup_teardown(only_the_scripts_that_were_not_run_are_sent_again, start, stop),
    cmocka_unit_test_setup_teardown(a_restart_between_two_talks_is_not_noticed, start, stop),
    cmocka_unit_test_setup_teardown(a_server_that_is_loading_says_so, start, stop),
    cmocka_unit_test_setup_teardown(a_huge_reply_is_refused_and_the_link_lives_on, start, stop),
    cmocka_unit_test_setup_teardown(who_may_not_is_told_why, start, stop),
    cmocka_unit_test(servers_of_another_kind_are_refused_by_name),
    cmocka_unit_test_setup_teardown(each_way_to_a_server_works, start, stop),
    cmocka_unit_test_setup_teardown(connections_notice_a_peer_that_is_gone, start, stop),
    cmocka_unit_test_setup_teardown(a_slow_server_is_soon_waited_for_asleep, start, stop),
    cmocka_unit_test_setup_teardown(connections_have_names, start, stop),
};
TEST_MAIN(tests)
