/* SPDX-License-Identifier: MIT */
/* test_hostile.c - src/redis without a queue against a hostile server: a wrong reply costs an error
 * and the connection, never memory for bytes that did not arrive, more time than the deadline, or
 * the reply to a later request. */
#include <stdlib.h>
#include <string.h>

#include "lib_peer.h"
#include "lib_session.h"

#define COMMAND_MS 300         /* where the deadline is the question */
#define PATIENT_MS 10000       /* where it is not */
#define LATE_MS 5000           /* on a busy machine, too */
#define MEMORY_PAGES_MAX 8192  /* 32 MiB of memory that a reply may cost here */
#define REPLY_SIZE_MAX 1000000 /* of session_request: QN_REPLY_ROWS_MAX is too slow to reach here */

#define FOUR(x) x x x x
#define MANY(x) FOUR(FOUR(x)) /* 16 */

struct scene {
    struct peer *peer;
    struct session session;
    quern_error err;
};

static void begin(struct scene *scene, int64_t timeout_ms)
{
    *scene = (struct scene){.peer = peer_start(NULL, "")};
    session_init(&scene->session, peer_url(scene->peer), timeout_ms, "");
}

static void end(struct scene *scene)
{
    session_finish(&scene->session);
    peer_stop(scene->peer);
}

/* The reply to an INCR that adds `answer`, which is what an honest server would answer. */
static quern_status ask(struct scene *scene, enum qn_pipeline_kind kind, long long *ret_answer)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    scene->err = (quern_error){0};
    qn_pipeline_begin(&pipeline, &scene->session.channel, kind);
    qn_pipeline_command(&pipeline, "INCR");
    qn_pipeline_limit(&pipeline, REPLY_SIZE_MAX);
    qn_pipeline_text(&pipeline, "s:n");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, &scene->err);
    if (status == QUERN_OK) {
        *ret_answer = qn_reply_int(reply, -1);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* The server is honest again, and so are the replies. */
static void assert_recovered(struct scene *scene, const char *after)
{
    static const struct peer_rule honest = {.to = "INCR", .reply = ":7\r\n"};
    long long answer = 0;
    peer_rules(scene->peer, &honest, 1);
    quern_status status = ask(scene, QN_PIPELINE_WRITES, &answer);
    if (status != QUERN_OK || answer != 7) {
        fail_msg("after %.60s: %lld, %s", after, answer, scene->err.text);
    }
}

/* Of writable memory, so that it counts before it is touched. Not of the whole address space: there
 * the C library reserves 64 MiB for the first allocation of a thread, such as the peer's. */
static size_t taken_pages(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages), 1);
    (void)fclose(file);
    return pages;
}

/* --- Replies that are none ----------------------------------------------------------- */

#define NO_REDIS "this is not the Redis protocol"
#define TOO_LARGE "a reply larger than 1000000 bytes was refused"
#define SURPLUS "more replies than requests"

static const struct {
    const char *reply;
    const char *words;
} malformed[] = {
    /* Sizes and counts that are none. */
    {"$-2\r\n", NO_REDIS},
    {"$-9223372036854775808\r\n", NO_REDIS},
    {"$99999999999999999999\r\n", NO_REDIS},
    {"$+1\r\n", NO_REDIS},
    {"$1x\r\nx\r\n", NO_REDIS},
    {"$\r\n", NO_REDIS},
    {"*-2\r\n", NO_REDIS},
    {"*-2147483649\r\n", NO_REDIS},
    {"*-9223372036854775808\r\n", NO_REDIS},
    {"*99999999999999999999\r\n", NO_REDIS},
    {"*\r\n", NO_REDIS},
    {":\r\n", NO_REDIS},
    {":9223372036854775808\r\n", NO_REDIS},
    {":1 2\r\n", NO_REDIS},
    {":0x7\r\n", NO_REDIS},
    /* Arrays that are larger, all together, than the limit, or too deep. */
    {"*2147483647\r\n", "larger than"},
    {"*40000\r\n", TOO_LARGE},
    {"*6000\r\n*6000\r\n*6000\r\n", TOO_LARGE},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", NO_REDIS},
    {MANY("*1\r\n") ":7\r\n", NO_REDIS},
    /* What RESP3 adds, which was not requested: before the reply and inside of it. */
    {">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n:7\r\n", NO_REDIS},
    {"*2\r\n:7\r\n>1\r\n+x\r\n", NO_REDIS},
    {"|1\r\n+ttl\r\n:3600\r\n:7\r\n", NO_REDIS},
    {"|2147483647\r\n", NO_REDIS},
    {"|9223372036854775807\r\n", NO_REDIS},
    {"%2147483647\r\n", NO_REDIS},
    {"%1\r\n+a\r\n:7\r\n", NO_REDIS},
    {"~1\r\n:7\r\n", NO_REDIS},
    {"=7\r\ntxt:abc\r\n", NO_REDIS},
    {"!5\r\nERR x\r\n", NO_REDIS},
    {"(12345678901234567890\r\n", NO_REDIS},
    {",7.0\r\n", NO_REDIS},
    {",nan\r\n", NO_REDIS},
    {"#t\r\n", NO_REDIS},
    {"_\r\n", NO_REDIS},
    {"$?\r\n;1\r\nx\r\n;0\r\n", NO_REDIS},
    {"*?\r\n:7\r\n.\r\n", NO_REDIS},
    /* Something else altogether. */
    {"\r\n:7\r\n", NO_REDIS},
    {" :7\r\n", NO_REDIS},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", NO_REDIS},
    {"SSH-2.0-OpenSSH_9.2\r\n", NO_REDIS},
    {"\x15\x03\x01\r\n", NO_REDIS},
    /* More replies than requests. */
    {":7\r\n:666\r\n", SURPLUS},
    {":7\r\n\r\n", SURPLUS},
    {":7\r\n*2\r\n", SURPLUS},
    {"$1\r\n7\r\nx", SURPLUS},
    {":7\r\n>1\r\n+x\r\n", SURPLUS},
    {"+QUEUED\r\n*1\r\n:7\r\n", SURPLUS},
};

static void malformed_reply_is_an_error_and_the_next_one_is_right(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, PATIENT_MS);
    size_t before = taken_pages();
    for (size_t i = 0; i < TEST_COUNT(malformed); i++) {
        const struct peer_rule rule = {.to = "INCR", .reply = malformed[i].reply};
        long long answer = 0;
        for (int writes = 0; writes < 2; writes++) {
            peer_rules(scene.peer, &rule, 1);
            quern_status status =
                ask(&scene, writes == 1 ? QN_PIPELINE_WRITES : QN_PIPELINE_READS, &answer);
            if (status != (writes == 1 ? QUERN_E_UNKNOWN : QUERN_E_BROKER) ||
                strstr(scene.err.text, malformed[i].words) == NULL) {
                fail_msg("%.60s: %s: %s", malformed[i].reply, quern_status_name(status),
                         scene.err.text);
            }
            assert_int_equal(scene.session.channel.connection.socket.fd, -1);
            assert_recovered(&scene, malformed[i].reply);
        }
    }
    assert_true(taken_pages() - before < MEMORY_PAGES_MAX);
    end(&scene);
}

static void bytes_with_a_nul_are_kept_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        size_t size;
        bool is_reply;
    } cases[] = {
        {"$3\r\n\0\r\n\r\n", 9, true}, {"+a\0b\r\n", 6, true}, {":7\0\r\n", 5, false},
        {"$1\0\r\nx\r\n", 8, false},   {"\0\r\n", 3, false},
    };
    struct scene scene;
    begin(&scene, PATIENT_MS);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct peer_rule rule = {
            .to = "INCR", .reply = cases[i].reply, .reply_size = cases[i].size};
        long long answer = 0;
        peer_rules(scene.peer, &rule, 1);
        quern_status status = ask(&scene, QN_PIPELINE_READS, &answer);
        if ((status == QUERN_OK) != cases[i].is_reply) {
            fail_msg("case %zu: %s: %s", i, quern_status_name(status), scene.err.text);
        }
        assert_recovered(&scene, "a NUL");
    }
    end(&scene);
}

/* --- Handshakes ------------------------------------------------------------------------ */

#define HELLO "*4\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"

static void hostile_handshake_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        const char *words;
    } cases[] = {
        {HELLO ":666\r\n", SURPLUS},
        {">1\r\n+x\r\n" HELLO, NO_REDIS},
        {"%2\r\n+version\r\n+7.0.0\r\n+mode\r\n+standalone\r\n", NO_REDIS},
        {"*3\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n", "runs in  mode"},
        {"*2\r\n*2\r\n+version\r\n+7.0.0\r\n$-1\r\n", "unexpected reply to HELLO"},
        {"*2\r\n$7\r\nversion\r\n$-1\r\n", "unexpected reply to HELLO"},
        {"$4000000000\r\nx", "no answer within"},
    };
    struct scene scene;
    begin(&scene, COMMAND_MS);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct peer_rule rule = {.to = "HELLO", .reply = cases[i].reply};
        peer_rules(scene.peer, &rule, 1);
        qn_connection_close(&scene.session.channel.connection);
        if (session_request(&scene.session, &scene.err) == QUERN_OK ||
            strstr(scene.err.text, cases[i].words) == NULL) {
            fail_msg("%.60s: %s", cases[i].reply, scene.err.text);
        }
        assert_int_equal(scene.session.channel.connection.socket.fd, -1);
        assert_recovered(&scene, cases[i].reply);
    }
    end(&scene);
}

/* --- Slow and endless replies ---------------------------------------------------------- */

/* None of these ever is a whole reply. */
static const struct {
    struct peer_rule rule;
    const char *words;
} unending[] = {
    {{.reply = "+OK", .manner = PEER_SILENT}, "no answer within 300 ms"},
    {{.reply = "+x", .repeat = 1, .manner = PEER_DRIP}, "no answer within 300 ms"},
    {{.reply = "$500000\r\nx", .repeat = 1, .manner = PEER_DRIP}, "no answer within 300 ms"},
    {{.reply = "*5000\r\n:1\r\n", .repeat = 4, .manner = PEER_DRIP}, "no answer within 300 ms"},
    {{.reply = "$4000000000\r\n" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS},
     TOO_LARGE},
    {{.reply = "$9223372036854775807\r\n" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS},
     ""}, /* hiredis 0.14 has another limit for it */
    {{.reply = "+" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "-" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "$" MANY(MANY("1")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "*1\r\n", .repeat = 4, .manner = PEER_ENDLESS}, NO_REDIS},
    /* Two replies in the first write: alone the first would be taken before the next is there. */
    {{.reply = ":7\r\n:7\r\n", .repeat = 4, .manner = PEER_ENDLESS}, SURPLUS},
};

static void deadlines_and_limits_hold_whatever_comes(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, COMMAND_MS);
    size_t before = taken_pages();
    for (size_t i = 0; i < TEST_COUNT(unending); i++) {
        struct peer_rule rule = unending[i].rule;
        long long answer = 0;
        rule.to = "INCR";
        peer_rules(scene.peer, &rule, 1);
        int64_t begun_ms = test_now_ms();
        quern_status status = ask(&scene, QN_PIPELINE_WRITES, &answer);
        int64_t took_ms = test_now_ms() - begun_ms;
        if (status != QUERN_E_UNKNOWN || took_ms >= LATE_MS ||
            strstr(scene.err.text, unending[i].words) == NULL) {
            fail_msg("case %zu: %s after %lld ms: %s", i, quern_status_name(status),
                     (long long)took_ms, scene.err.text);
        }
        assert_recovered(&scene, rule.reply);
    }
    assert_true(taken_pages() - before < MEMORY_PAGES_MAX);
    end(&scene);
}

static void reply_that_comes_byte_by_byte_is_received(void **state)
{
    (void)state;
    static const struct peer_rule rule = {
        .to = "INCR", .reply = "$20\r\n00000000000000000042\r\n", .manner = PEER_TRICKLE};
    struct scene scene;
    long long answer = 0;
    begin(&scene, PATIENT_MS);
    peer_rules(scene.peer, &rule, 1);
    assert_ok(ask(&scene, QN_PIPELINE_WRITES, &answer), scene.err);
    assert_int_equal(answer, 42);
    end(&scene);
}

/* The late reply to a request whose deadline has passed is not that of the next one. */
static void late_reply_is_not_that_of_the_next_request(void **state)
{
    (void)state;
    static const struct peer_rule late = {.to = "INCR", .reply = ":666\r\n", .manner = PEER_LATE};
    struct scene scene;
    long long answer = 0;
    begin(&scene, COMMAND_MS);
    peer_rules(scene.peer, &late, 1);
    assert_int_equal(ask(&scene, QN_PIPELINE_WRITES, &answer), QUERN_E_UNKNOWN);
    assert_recovered(&scene, "a late reply");
    end(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(malformed_reply_is_an_error_and_the_next_one_is_right),
    cmocka_unit_test(bytes_with_a_nul_are_kept_or_refused),
    cmocka_unit_test(hostile_handshake_is_refused),
    cmocka_unit_test(deadlines_and_limits_hold_whatever_comes),
    cmocka_unit_test(reply_that_comes_byte_by_byte_is_received),
    cmocka_unit_test(late_reply_is_not_that_of_the_next_request),
};
TEST_MAIN(tests)
