/* SPDX-License-Identifier: MIT */
/* test_pipeline.c - a pipeline that ends while answers are owed leaves none of them to the next one
 * on its channel. The server is a lying one: it answers late, after a request of another client. */
#include "redis/pipeline.h"

#include "lib_peer.h"

struct client {
    struct qn_failover failover;
    struct qn_channel channel;
};

static void client_init(struct client *client, const char *text)
{
    struct qn_url url;
    quern_error err = {0};
    assert_ok(qn_url_parse(text, &url, &err), err);
    const struct qn_endpoint_terms terms = {.timeout_ms = TEST_PATIENCE_MS};
    struct qn_endpoint *endpoint = NULL;
    assert_ok(qn_endpoint_new(&url, &terms, &endpoint, &err), err);
    qn_url_finish(&url);
    qn_failover_init(&client->failover, &endpoint, 1);
    qn_channel_init(&client->channel, &client->failover, "");
}

static void client_finish(struct client *client)
{
    qn_channel_finish(&client->channel);
    qn_failover_finish(&client->failover);
}

/* The text that the server answers to a command of this name. */
static void assert_answer(struct client *client, const char *command, const char *answer)
{
    quern_error err = {0};
    struct qn_pipeline pipeline;
    const struct qn_reply *reply = NULL;
    qn_pipeline_begin(&pipeline, &client->channel, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, command);
    assert_ok(qn_pipeline_ask(&pipeline, &reply, &err), err);
    assert_string_equal(qn_reply_text(reply), answer);
    qn_pipeline_end(&pipeline);
}

/* --- How a pipeline ends before its answers have come ------------------------------------- */

static quern_status send_only(struct qn_pipeline *pipeline, quern_error *err)
{
    return qn_pipeline_send(pipeline, err);
}

static quern_status lack_memory(struct qn_pipeline *pipeline, quern_error *err)
{
    quern_status status = qn_pipeline_send(pipeline, err);
    if (status == QUERN_OK) {
        qn_pipeline_command(pipeline, "NEXT");
        qn_pipeline_text(pipeline, NULL);
        status = qn_pipeline_run(pipeline, err);
    }
    return status;
}

static void pipeline_that_ends_early_leaves_no_answer_to_the_next_one(void **state)
{
    (void)state;
    static const struct peer_rule rules[] = {
        {.to = "LATE", .reply = "+of another\r\n", .manner = PEER_LATE},
        {.to = "NEXT", .reply = "+its own\r\n"},
    };
    static const struct {
        quern_status (*end_early)(struct qn_pipeline *pipeline, quern_error *err);
        quern_status status;
    } cases[] = {{send_only, QUERN_OK}, {lack_memory, QUERN_E_UNKNOWN}};
    struct peer *peer = peer_start(NULL, "");
    struct client client;
    peer_rules(peer, rules, TEST_COUNT(rules));
    client_init(&client, peer_url(peer));
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        struct qn_pipeline pipeline;
        assert_answer(&client, "NEXT", "its own");
        uint64_t opened_count = client.channel.connection.opened_count;
        qn_pipeline_begin(&pipeline, &client.channel, QN_PIPELINE_WRITES);
        qn_pipeline_command(&pipeline, "LATE");
        assert_int_equal(cases[i].end_early(&pipeline, &err), cases[i].status);
        qn_pipeline_end(&pipeline);
        assert_answer(&client, "NEXT", "its own");
        assert_int_equal(client.channel.connection.opened_count, opened_count + 1);
    }
    client_finish(&client);
    peer_stop(peer);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pipeline_that_ends_early_leaves_no_answer_to_the_next_one),
};
TEST_MAIN(tests)
