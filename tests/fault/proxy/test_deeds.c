/* SPDX-License-Identifier: MIT */
/* test_deeds.c - the proxy of the fault tests does to requests and replies what it says, at the
 * byte that it says, and with one seed the same again. */
#include "lib_proxy.h"
#include "lib_store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SET "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n"
#define GET "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
#define VALUE "$5\r\nvalue\r\n"
#define NAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$4\r\nTHIS\r\n"

struct stage {
    struct test_redis redis;
    struct proxy *proxy;
    int fd; /* of a client; -1: none */
};

/* --- A client ----------------------------------------------------------------------- */

static int call_up(const struct proxy *proxy)
{
    const char *address = proxy_address(proxy);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    bool is_unix = address[0] == '/';
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", address);
    if (!is_unix) {
        in.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    }
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int code = is_unix ? connect(fd, (struct sockaddr *)(void *)&un, sizeof un)
                       : connect(fd, (struct sockaddr *)(void *)&in, sizeof in);
    if (code != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void send_text(const struct stage *stage, const char *text)
{
    assert_int_equal(send(stage->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until there is this much, the end (*ret_errno: 0), or a failure. */
static size_t read_up_to(const struct stage *stage, char *out, size_t size, int *ret_errno)
{
    size_t got = 0;
    ssize_t count = 1;
    while (got < size && count > 0) {
        struct pollfd fd = {.fd = stage->fd, .events = POLLIN};
        assert_true(poll(&fd, 1, TEST_PATIENCE_MS) > 0);
        count = recv(stage->fd, out + got, size - got, 0);
        got += count > 0 ? (size_t)count : 0;
    }
    *ret_errno = count < 0 ? errno : 0;
    return got;
}

static void assert_reply(const struct stage *stage, const char *text)
{
    char reply[200] = "";
    int code = 0;
    assert_int_equal(read_up_to(stage, reply, strlen(text), &code), strlen(text));
    assert_string_equal(reply, text);
}

/* The rest up to the end of the connection. */
static void assert_end(const struct stage *stage, const char *text, int code)
{
    char reply[200] = "";
    int got = -1;
    assert_int_equal(read_up_to(stage, reply, sizeof reply - 1, &got), strlen(text));
    assert_string_equal(reply, text);
    assert_int_equal(got, code);
}

static void open_stage(struct stage *stage, bool tcp)
{
    const struct test_redis_options options = {.tcp = true};
    *stage = (struct stage){.fd = -1};
    test_redis_start(&stage->redis, &options);
    stage->proxy = tcp ? proxy_start_tcp_for(&stage->redis, 1) : proxy_start_for(&stage->redis, 1);
}

static void close_stage(struct stage *stage)
{
    if (stage->fd >= 0) {
        (void)close(stage->fd);
    }
    proxy_stop(stage->proxy);
    test_redis_stop(&stage->redis);
}

static void call(struct stage *stage)
{
    if (stage->fd >= 0) {
        (void)close(stage->fd);
    }
    stage->fd = call_up(stage->proxy);
    assert_true(stage->fd >= 0);
}

static void set_rule(const struct stage *stage, struct proxy_rule rule)
{
    proxy_rules(stage->proxy, &rule, 1);
}

static bool is_stored(struct stage *stage)
{
    bool stored = test_redis_count(&stage->redis, "EXISTS k") == 1;
    test_redis_empty(&stage->redis);
    return stored;
}

/* --- Deeds -------------------------------------------------------------------------- */

static void request_is_executed_only_where_the_cut_is_behind_it(void **state)
{
    (void)state;
    static const struct {
        enum proxy_fault fault;
        bool executed;
        const char *reply;
        int code;
    } rows[] = {
        {PROXY_CUT_BEFORE, false, "", 0},
        {PROXY_CUT_REQUEST, false, "", 0},
        {PROXY_CUT_AFTER, true, "", 0},
        {PROXY_CUT_REPLY, true, "+OK", 0},
        {PROXY_RESET_BEFORE, false, "", ECONNRESET},
        {PROXY_RESET_AFTER, true, "", ECONNRESET},
        {PROXY_DELAY, true, "+OK\r\n", -1},
        {PROXY_DRIBBLE, true, "+OK\r\n", -1},
    };
    struct stage stage;
    open_stage(&stage, true);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        print_message("%s\n", proxy_fault_name(rows[i].fault));
        set_rule(&stage,
                 (struct proxy_rule){.to = "set", .fault = rows[i].fault, .at = 3, .ms = 30});
        call(&stage);
        send_text(&stage, SET);
        if (rows[i].code < 0) {
            assert_reply(&stage, rows[i].reply);
        } else {
            assert_end(&stage, rows[i].reply, rows[i].code);
        }
        assert_int_equal(is_stored(&stage), rows[i].executed);
        assert_int_equal(proxy_count(stage.proxy, rows[i].fault), 1);
    }
    close_stage(&stage);
}

static void a_cut_at_each_byte_of_a_reply_lets_that_many_through(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    assert_string_equal(test_redis_do(&stage.redis, "SET k value"), "OK");
    for (size_t at = 0; at < strlen(VALUE); at++) {
        char part[20];
        (void)snprintf(part, sizeof part, "%.*s", (int)at, VALUE);
        set_rule(&stage, (struct proxy_rule){.to = "GET", .fault = PROXY_CUT_REPLY, .at = at});
        call(&stage);
        send_text(&stage, GET);
        assert_end(&stage, part, 0);
    }
    close_stage(&stage);
}

static void error_takes_its_place_among_the_replies_of_a_pipeline(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    set_rule(&stage, (struct proxy_rule){.to = "GET",
                                         .fault = PROXY_ERROR,
                                         .error = proxy_error_text("LOADING"),
                                         .skip = 1,
                                         .count = 1});
    call(&stage);
    send_text(&stage, SET GET GET GET);
    assert_reply(&stage,
                 "+OK\r\n" VALUE "-LOADING Redis is loading the dataset in memory\r\n" VALUE);
    assert_int_equal(proxy_matches(stage.proxy, 0), 3);
    set_rule(&stage, (struct proxy_rule){
                         .fault = PROXY_ERROR, .error = proxy_error_text("OOM"), .hang_up = true});
    send_text(&stage, SET);
    assert_end(&stage, "-OOM command not allowed when used memory > 'maxmemory'.\r\n", 0);
    close_stage(&stage);
}

static void rule_holds_for_the_connection_that_it_names(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    set_rule(&stage, (struct proxy_rule){.by = "THIS", .to = "GET", .fault = PROXY_CUT_BEFORE});
    call(&stage);
    send_text(&stage, GET);
    assert_reply(&stage, "$-1\r\n");
    send_text(&stage, NAME);
    assert_reply(&stage, "+OK\r\n");
    send_text(&stage, GET);
    assert_end(&stage, "", 0);
    assert_int_equal(proxy_links_made(stage.proxy, "THIS"), 1);
    close_stage(&stage);
}

static void messages_between_replies_are_no_replies(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, false);
    call(&stage);
    send_text(&stage, "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n");
    assert_reply(&stage, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    set_rule(&stage, (struct proxy_rule){.to = "PING", .fault = PROXY_CUT_AFTER});
    assert_int_equal(test_redis_count(&stage.redis, "PUBLISH c hi"), 1);
    assert_reply(&stage, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
    send_text(&stage, "*1\r\n$4\r\nPING\r\n");
    assert_end(&stage, "", 0);
    close_stage(&stage);
}

/* --- Links that do not answer ------------------------------------------------------- */

/* Nothing comes for a moment, and the link is not closed. */
static void assert_silence(const struct stage *stage)
{
    struct pollfd fd = {.fd = stage->fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 50), 0);
}

static void half_open_link_stays_silent_for_good(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, true);
    static const enum proxy_fault faults[] = {PROXY_HALF_OPEN_BEFORE, PROXY_HALF_OPEN_AFTER};
    for (size_t i = 0; i < TEST_COUNT(faults); i++) {
        set_rule(&stage, (struct proxy_rule){.to = "SET", .fault = faults[i]});
        call(&stage);
        send_text(&stage, SET);
        assert_silence(&stage);
        proxy_rules(stage.proxy, NULL, 0);
        send_text(&stage, GET);
        assert_silence(&stage);
        assert_int_equal(is_stored(&stage), faults[i] == PROXY_HALF_OPEN_AFTER);
    }
    call(&stage); /* another one is not concerned */
    send_text(&stage, GET);
    assert_reply(&stage, "$-1\r\n");
    close_stage(&stage);
}

static void states_hold_for_all_links_and_for_new_ones(void **state)
{
    (void)state;
    struct stage stage;
    open_stage(&stage, true);
    call(&stage);
    proxy_set_state(stage.proxy, PROXY_REFUSES);
    char end[8];
    int code = 0;
    assert_int_equal(read_up_to(&stage, end, sizeof end, &code), 0);
    assert_int_equal(call_up(stage.proxy), -1);
    proxy_set_state(stage.proxy, PROXY_OPEN);
    call(&stage);
    send_text(&stage, GET);
    assert_reply(&stage, "$-1\r\n");
    proxy_set_state(stage.proxy, PROXY_SWALLOWS);
    send_text(&stage, GET);
    assert_silence(&stage);
    call(&stage);
    send_text(&stage, GET);
    assert_silence(&stage);
    proxy_set_state(stage.proxy, PROXY_OPEN);
    call(&stage);
    send_text(&stage, GET);
    assert_reply(&stage, "$-1\r\n");
    close_stage(&stage);
}

/* Its kernel acknowledges nothing: ours gives up. */
static void vanished_peer_acknowledges_nothing(void **state)
{
    (void)state;
    struct stage stage;
    unsigned timeout_ms = 300;
    open_stage(&stage, true);
    call(&stage);
    assert_int_equal(setsockopt(stage.fd, IPPROTO_TCP, 18 /* TCP_USER_TIMEOUT */, &timeout_ms,
                                sizeof timeout_ms),
                     0);
    send_text(&stage, GET);
    assert_reply(&stage, "$-1\r\n");
    assert_int_equal(proxy_break_links(stage.proxy, NULL, PROXY_VANISHED), 1);
    send_text(&stage, GET);
    assert_end(&stage, "", ETIMEDOUT);
    close_stage(&stage);
}

/* --- The seed ----------------------------------------------------------------------- */

/* The log of a session of GETs under dice. */
static void play(struct stage *stage, uint64_t seed, char *out, size_t size)
{
    FILE *log = fmemopen(out, size, "w");
    char listen_at[TEST_DIR_SIZE + 32];
    (void)snprintf(listen_at, sizeof listen_at, "%s/dice.sock", stage->redis.dir);
    struct stage dice = {
        .proxy = proxy_start(&(struct proxy_options){
            .server = stage->redis.socket_path, .listen = listen_at, .seed = seed, .log = log})};
    proxy_dice(dice.proxy, 500, PROXY_BRIEF, 0);
    for (int i = 0; i < 60; i++) {
        char reply[64];
        int code;
        dice.fd = call_up(dice.proxy);
        send_text(&dice, NAME GET);
        (void)read_up_to(&dice, reply, strlen("+OK\r\n$-1\r\n"), &code);
        (void)close(dice.fd);
    }
    proxy_stop(dice.proxy);
    assert_int_equal(fclose(log), 0);
}

static void one_seed_does_the_same_again_and_another_does_not(void **state)
{
    (void)state;
    static char logs[3][16384];
    struct stage stage;
    open_stage(&stage, false);
    play(&stage, 7, logs[0], sizeof logs[0] - 1);
    play(&stage, 7, logs[1], sizeof logs[1] - 1);
    play(&stage, 8, logs[2], sizeof logs[2] - 1);
    for (size_t i = 0; i < TEST_COUNT(logs); i++) {
        for (char *at = strstr(logs[i], "proxy "); at != NULL; at = strstr(at, "proxy ")) {
            memset(at, '.', 14); /* the time */
        }
    }
    assert_non_null(strstr(logs[0], "cut-after"));
    assert_string_equal(logs[0], logs[1]);
    assert_string_not_equal(logs[0], logs[2]);
    close_stage(&stage);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(request_is_executed_only_where_the_cut_is_behind_it),
    cmocka_unit_test(a_cut_at_each_byte_of_a_reply_lets_that_many_through),
    cmocka_unit_test(error_takes_its_place_among_the_replies_of_a_pipeline),
    cmocka_unit_test(rule_holds_for_the_connection_that_it_names),
    cmocka_unit_test(messages_between_replies_are_no_replies),
    cmocka_unit_test(half_open_link_stays_silent_for_good),
    cmocka_unit_test(states_hold_for_all_links_and_for_new_ones),
    cmocka_unit_test(vanished_peer_acknowledges_nothing),
    cmocka_unit_test(one_seed_does_the_same_again_and_another_does_not),
};
TEST_MAIN(tests)
