/* SPDX-License-Identifier: MIT */
/* test_pipeline.c - the status of a pipeline when the connection or the server fails. A session of
 * two pipelines is cut at each byte that the server sends: the reported effect must be true. */
#include <string.h>

#include "lib_session.h"
#include "lib_wire.h"

static struct wire wire;

/* The server's replies on a new connection, when it knows the script. */
static long measure_session(struct session *session)
{
    quern_error err = {0};
    assert_ok(session_bump_once(session, &err), err);
    qn_connection_close(&session->channel.connection);
    assert_ok(session_bump_once(session, &err), err);
    return wire.carried;
}

/* --- Cut at each byte --------------------------------------------------------------- */

static void a_reply_cut_at_any_byte_is_reported_as_it_is(void **state)
{
    (void)state;
    session_prepare(&session_server);
    wire_start(&wire, &session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, wire.url, 10000, "");
    long whole = measure_session(&session);
    assert_true(whole > 200);
    size_t effective = 0;
    size_t unreached = 0;
    for (long limit = 0; limit < whole; limit++) {
        qn_connection_close(&session.channel.connection);
        wire_set(&wire, WIRE_CUT, limit);
        long long before = session_bumps(&session_server);
        quern_status status = session_bump_once(&session, &err);
        long long after = session_bumps(&session_server);
        if (status == QUERN_E_UNKNOWN) {
            assert_in_range(after - before, 0, 1);
            effective += after > before ? 1 : 0;
        } else {
            assert_int_equal(status, QUERN_E_CONNECT);
            assert_int_equal(after, before);
            unreached++;
        }
        assert_int_equal(session.channel.connection.socket.fd, -1);
        assert_non_null(strstr(err.text, qn_failover_address(&session.failover)));
    }
    assert_true(effective > 20 && unreached > 100);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(session_bump_once(&session, &err), err);
    session_finish(&session);
    wire_stop(&wire);
}

static void bytes_may_come_one_by_one(void **state)
{
    (void)state;
    session_prepare(&session_server);
    wire_start(&wire, &session_server);
    wire_set(&wire, WIRE_DRIBBLE, 0);
    quern_error err = {0};
    struct session session;
    session_init(&session, wire.url, 10000, "");
    assert_ok(session_bump_once(&session, &err), err);
    assert_ok(session_bump_once(&session, &err), err);
    session_finish(&session);
    wire_stop(&wire);
}

/* --- Silence ------------------------------------------------------------------------ */

static void silence_ends_with_the_deadline(void **state)
{
    (void)state;
    session_prepare(&session_server);
    wire_start(&wire, &session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, wire.url, 200, "");
    long whole = measure_session(&session);
    qn_connection_close(&session.channel.connection);
    wire_set(&wire, WIRE_SILENT, whole - 5);
    long long before = session_bumps(&session_server);
    int64_t begun_ms = test_now_ms();
    assert_int_equal(session_bump_once(&session, &err), QUERN_E_UNKNOWN);
    assert_in_range(test_now_ms() - begun_ms, 190, 5000);
    assert_non_null(strstr(err.text, "no answer within 200 ms"));
    assert_int_equal(session_bumps(&session_server), before + 1);
    wire_set(&wire, WIRE_WHOLE, 0);
    assert_ok(session_bump_once(&session, &err), err);
    session_finish(&session);
    wire_stop(&wire);
}

static void a_pipeline_keeps_its_first_failure(void **state)
{
    (void)state;
    session_prepare(&session_server);
    quern_error first = {0};
    quern_error again = {0};
    const struct qn_reply *reply = NULL;
    struct session session;
    struct qn_pipeline pipeline;
    session_init(&session, session_server.url, 10000, "");
    qn_pipeline_begin(&pipeline, &session.channel, QN_PIPELINE_WRITES);
    pipeline.timeout_ms = 100;
    qn_pipeline_command(&pipeline, "BLPOP");
    qn_pipeline_text(&pipeline, "s:nothing");
    qn_pipeline_text(&pipeline, "0");
    assert_int_equal(qn_pipeline_ask(&pipeline, &reply, &first), QUERN_E_UNKNOWN);
    qn_pipeline_script(&pipeline, &session_bump, 1);
    qn_pipeline_text(&pipeline, "s:");
    assert_int_equal(qn_pipeline_run(&pipeline, &again), QUERN_E_UNKNOWN);
    assert_string_equal(again.text, first.text);
    qn_pipeline_end(&pipeline);
    assert_int_equal(session_bumps(&session_server), 0);
    qn_pipeline_begin(&pipeline, &session.channel, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &session_bump, 1);
    qn_pipeline_text(&pipeline, NULL);
    qn_pipeline_text(&pipeline, "s:");
    assert_int_equal(qn_pipeline_ask(&pipeline, &reply, &first), QUERN_E_NOMEM);
    qn_pipeline_end(&pipeline);
    assert_int_equal(session_bumps(&session_server), 0);
    assert_ok(session_bump_once(&session, &first), first);
    session_finish(&session);
}

/* --- The server comes and goes ------------------------------------------------------ */

static void scripts_that_were_flushed_are_sent_again(void **state)
{
    (void)state;
    session_prepare(&session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 10000, "");
    for (int i = 1; i <= 3; i++) {
        assert_ok(session_bump_once(&session, &err), err);
        assert_int_equal(session_bumps(&session_server), i);
        assert_string_equal(test_redis_do(&session_server, "SCRIPT FLUSH"), "OK");
    }
    session_finish(&session);
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
    session_prepare(&session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 10000, "");
    assert_string_equal(test_redis_do(&session_server, "SCRIPT FLUSH"), "OK");
    assert_string_equal(test_redis_do(&session_server, "SCRIPT LOAD %s", session_bump.text),
                        session_bump.sha1);
    struct qn_pipeline pipeline;
    qn_pipeline_begin(&pipeline, &session.channel, QN_PIPELINE_WRITES);
    for (int i = 0; i < 6; i++) {
        qn_pipeline_script(&pipeline, i % 2 == 0 ? &other : &session_bump, 1);
        qn_pipeline_text(&pipeline, "s:");
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
    assert_int_equal(session_bumps(&session_server), 3);
    assert_int_equal(test_redis_count(&session_server, "GET s:m"), 3);
    session_finish(&session);
}

static void a_restart_between_two_pipelines_is_not_noticed(void **state)
{
    (void)state;
    session_prepare(&session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 10000, "");
    for (int i = 0; i < 3; i++) {
        assert_ok(session_bump_once(&session, &err), err);
        test_redis_kill(&session_server);
        assert_int_equal(session_bump_once(&session, &err), QUERN_E_CONNECT);
        test_redis_launch(&session_server);
        test_redis_await(&session_server);
        session_prepare(&session_server); /* a kill may lose what was not in the AOF yet */
        assert_ok(session_bump_once(&session, &err), err);
        assert_int_equal(
            test_redis_count(&session_server, "CLIENT KILL TYPE normal SKIPME yes") > 0, 1);
    }
    session_finish(&session);
}

static void a_server_that_is_loading_is_reported(void **state)
{
    (void)state;
    session_prepare(&session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 10000, "");
    (void)test_redis_do(&session_server, "EVAL %s 0",
                        "for i = 1, 20000 do redis.call('SET', 'k' .. i, i) end");
    assert_string_equal(test_redis_do(&session_server, "CONFIG SET key-load-delay 500"), "OK");
    assert_string_equal(test_redis_do(&session_server, "CONFIG REWRITE"), "OK");
    test_redis_kill(&session_server);
    test_redis_launch(&session_server);
    quern_status status = QUERN_E_CONNECT;
    for (int i = 0; i < TEST_PATIENCE_MS && status == QUERN_E_CONNECT; i++) {
        status = session_bump_once(&session, &err);
        test_pause_ms(1);
    }
    assert_int_equal(status, QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "LOADING"));
    assert_int_equal(session_try(session_server.url, "", &err), QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "LOADING"));
    test_redis_kill(&session_server);
    test_redis_configure(&session_server, ""); /* without the delay */
    test_redis_launch(&session_server);
    test_redis_await(&session_server);
    assert_ok(session_bump_once(&session, &err), err);
    session_finish(&session);
}

/* --- Refusals ----------------------------------------------------------------------- */

static void a_huge_reply_is_refused_and_the_next_one_comes(void **state)
{
    (void)state;
    session_prepare(&session_server);
    quern_error err = {0};
    struct session session;
    session_init(&session, session_server.url, 10000, "");
    (void)test_redis_do(&session_server, "SETRANGE s:value 2000000 x");
    assert_int_equal(session_bump_once(&session, &err), QUERN_E_UNKNOWN);
    assert_non_null(strstr(err.text, "a reply larger than 1048576 bytes was refused"));
    (void)test_redis_do(&session_server, "SET s:value %s", "a value");
    assert_ok(session_bump_once(&session, &err), err);
    session_finish(&session);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_reply_cut_at_any_byte_is_reported_as_it_is, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(bytes_may_come_one_by_one, session_start, session_stop),
    cmocka_unit_test_setup_teardown(silence_ends_with_the_deadline, session_start, session_stop),
    cmocka_unit_test_setup_teardown(a_pipeline_keeps_its_first_failure, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(scripts_that_were_flushed_are_sent_again, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(only_the_scripts_that_were_not_run_are_sent_again,
                                    session_start, session_stop),
    cmocka_unit_test_setup_teardown(a_restart_between_two_pipelines_is_not_noticed, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(a_server_that_is_loading_is_reported, session_start,
                                    session_stop),
    cmocka_unit_test_setup_teardown(a_huge_reply_is_refused_and_the_next_one_comes, session_start,
                                    session_stop),
};
TEST_MAIN(tests)
