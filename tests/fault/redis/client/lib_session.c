/* SPDX-License-Identifier: MIT */
/* lib_session.c - sessions of a client of src/redis. */
#include "lib_session.h"

/* The hash is that of the text. */
const struct qn_script session_bump = {
    .name = "bump",
    .text = "redis.call('INCR', KEYS[1] .. 'n')\nreturn {1, 'two', {3}}\n",
    .size = 58,
    .sha1 = "91dfd1969b3a301aefdda84c04ed095631275674",
};

void session_init(struct session *session, const char *url, int64_t timeout_ms, const char *role)
{
    struct qn_url parsed;
    quern_error err = {0};
    assert_ok(qn_url_parse(url, &parsed, &err), err);
    const struct qn_endpoint_terms terms = {.connect_timeout_ms = timeout_ms,
                                            .timeout_ms = timeout_ms};
    struct qn_endpoint *endpoint = NULL;
    assert_ok(qn_endpoint_new(&parsed, &terms, &endpoint, &err), err);
    qn_url_finish(&parsed);
    qn_failover_init(&session->failover, &endpoint, 1);
    qn_channel_init(&session->channel, &session->failover, role);
}

void session_finish(struct session *session)
{
    qn_channel_finish(&session->channel);
    qn_failover_finish(&session->failover);
}

quern_status session_request(struct session *session, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_pipeline_begin(&pipeline, &session->channel, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "EXISTS");
    qn_pipeline_text(&pipeline, "s:value");
    quern_status status = qn_pipeline_ask(&pipeline, &reply, err);
    qn_pipeline_end(&pipeline);
    return status;
}

quern_status session_try(const char *prefix, const char *rest, quern_error *err)
{
    char url[TEST_DIR_SIZE + 128];
    struct session session;
    (void)snprintf(url, sizeof url, "%s%s", prefix, rest);
    session_init(&session, url, 0, "");
    quern_status status = session_request(&session, err);
    session_finish(&session);
    return status;
}

quern_status session_bump_once(struct session *session, quern_error *err)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_pipeline_begin(&pipeline, &session->channel, QN_PIPELINE_WRITES);
    qn_pipeline_script(&pipeline, &session_bump, 1);
    qn_pipeline_text(&pipeline, "s:");
    qn_pipeline_command(&pipeline, "GET");
    qn_pipeline_limit(&pipeline, QN_REPLY_BRIEF_MAX);
    qn_pipeline_text(&pipeline, "s:value");
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

void session_prepare(struct test_redis *server)
{
    (void)test_redis_do(server, "FLUSHALL");
    (void)test_redis_do(server, "SET s:value %s", "a value");
}

long long session_bumps(struct test_redis *server)
{
    (void)test_redis_do(server, "INCRBY s:n 0");
    return test_redis_count(server, "GET s:n");
}

struct test_redis session_server;

int session_start(void **state)
{
    (void)state;
    test_redis_start(&session_server, &(struct test_redis_options){.tcp = true, .append = true});
    return 0;
}

int session_stop(void **state)
{
    (void)state;
    test_redis_stop(&session_server);
    return 0;
}
