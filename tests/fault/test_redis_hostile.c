/* SPDX-License-Identifier: MIT */
/* test_redis_hostile.c - a server that means ill: what it answers instead of what was asked costs
 * an error and a pause, never a thread that no longer ends, and never memory for what did not come.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/redis/lease_lua.h"
#include "broker/redis/redis.h"
#include "lib_peer.h"
#include "lib_worker.h"

#define COMMAND_MS 400 /* what a command may take where time matters */

/* A stage whose server is reached through the peer. */
struct scene {
    struct stage *stage;
    struct peer *peer;
    struct qn_broker *broker; /* through the peer */
    quern_error err;
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t run_count;
    uint64_t sequence;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.stage = stage_new(false)};
    scene->peer = peer_start(test_place_server(), "worker:secret@");
    const struct qn_broker_options options = {.command_timeout_ms = COMMAND_MS};
    assert_ok(qn_broker_open(peer_url(scene->peer), &options, &scene->broker, &scene->err),
              scene->err);
}

static void end(struct scene *scene)
{
    qn_broker_close(scene->broker);
    peer_stop(scene->peer);
    stage_free(scene->stage);
}

static quern_status lease(struct scene *scene)
{
    struct qn_queue_turn turn = {.name = "default", .weight = 1, .quota = 4};
    struct qn_exchange exchange = {.stamp = {7, ++scene->sequence},
                                   .worker_id = "host:1:worker",
                                   .lease_ms = 30000,
                                   .queues = &turn,
                                   .queue_count = 1,
                                   .room = 4,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = scene->runs};
    scene->err = (quern_error){0};
    quern_status status = qn_broker_exchange(scene->broker, &exchange, &reply, &scene->err);
    scene->run_count = reply.run_count;
    return status;
}

/* --- Malformed answers ---------------------------------------------------------------- */

/* What may stand where the lease script says its head. */
static const char *const bad_heads[] = {
    "$0\r\n\r\n",
    "$1\r\n \r\n",
    "$1\r\n1\r\n",
    "$2\r\n1 \r\n",
    "$3\r\nx 0\r\n",
    "$4\r\n1 0 \r\n",
    "$3\r\n1 0\r\n",
    "$5\r\n1 0 x\r\n",
    "$5\r\n1 0 2\r\n",
    "$7\r\n1 0 0 1\r\n",
    "$9\r\n1 0 0 1 0\r\n",
    "$14\r\n1 0 0 1 0 0 0 \r\n",
    "$15\r\n1 0 0 1 0 0 0 x\r\n",
    "$15\r\n1 0 0 2 0 0 0 0\r\n",
    "$15\r\n1 0 0 0 0 0 0 0\r\n",
    "$16\r\n1 0 0 1 0 0 0 -1\r\n",
    "$5\r\n-1 0 \r\n",
    "$24\r\n99999999999999999999 0 0\r\n",
    ":5\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*1\r\n:5\r\n",
    "*3\r\n$5\r\n1 0 0\r\n:1\r\n:1\r\n",
    "*3\r\n$5\r\n1 0 0\r\n$1\r\n\x92\r\n$0\r\n\r\n",
    "*3\r\n$5\r\n1 0 0\r\n$4\r\n\x92\xa1x\x01\r\n$0\r\n\r\n",
    "*3\r\n$5\r\n1 0 0\r\n$8\r\n\x92\xa1\x31\x01\x01\xcf\xff\xff\r\n$0\r\n\r\n",
};

static void malformed_answer_of_a_lease_is_an_error(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    stage_put(scene.stage, "a", "done");
    for (size_t i = 0; i < TEST_COUNT(bad_heads); i++) {
        const struct peer_rule rule = {.to = qn_lua_lease.sha1, .reply = bad_heads[i]};
        peer_rules(scene.peer, &rule, 1);
        quern_status status = lease(&scene);
        if (status != QUERN_E_UNKNOWN || scene.run_count != 0 ||
            strstr(scene.err.text, "lease answered what it should not") == NULL) {
            fail_msg("case %zu: %s %s", i, quern_status_name(status), scene.err.text);
        }
    }
    peer_rules(scene.peer, NULL, 0);
    assert_ok(lease(&scene), scene.err);
    assert_int_equal(scene.run_count, 1);
    qn_leased_free(scene.runs[0]);
    end(&scene);
}

static bool was_asked_often(void *user)
{
    return peer_answered(user) >= 3;
}

static void worker_of_a_server_that_talks_nonsense_asks_again_and_can_be_stopped(void **state)
{
    (void)state;
    static const struct peer_rule rule = {.to = qn_lua_lease.sha1, .reply = "$5\r\n1 0 x\r\n"};
    struct scene scene;
    struct stage_worker worker;
    begin(&scene);
    peer_rules(scene.peer, &rule, 1);
    scene.stage->url = peer_url(scene.peer);
    stage_put(scene.stage, "a", "done");
    stage_start(scene.stage, &worker, NULL);
    assert_true(test_until(was_asked_often, scene.peer));
    stage_wait_log(scene.stage, "lease answered what it should not");
    peer_rules(scene.peer, NULL, 0);
    stage_wait_starts(scene.stage, 1);
    stage_wait_reports(scene.stage, 1);
    peer_rules(scene.peer, &rule, 1);
    stage_stop(&worker);
    end(&scene);
}

/* --- Slow and endless answers --------------------------------------------------------- */

#define ITEMS_10 ":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"

/* None of these ever is a whole answer. */
static const struct {
    struct peer_rule rule;
    const char *words;
} unending[] = {
    {{.reply = "+OK", .manner = PEER_SILENT}, "no answer within 400 ms"},
    {{.reply = "+x", .repeat = 1, .manner = PEER_DRIP}, "no answer within 400 ms"},
    {{.reply = "$500000\r\nx", .repeat = 1, .manner = PEER_DRIP}, "no answer within 400 ms"},
    {{.reply = "*5000\r\n:1\r\n", .repeat = 4, .manner = PEER_DRIP}, "no answer within 400 ms"},
    {{.reply = "+xxxxxxxxxxxxxxxx", .repeat = 16, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "-xxxxxxxxxxxxxxxx", .repeat = 16, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = ":1111111111111111", .repeat = 16, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "*142606336\r\n" ITEMS_10, .repeat = 40, .manner = PEER_ENDLESS},
     "a reply larger than"},
    {{.reply = "*2\r\n", .repeat = 4, .manner = PEER_ENDLESS}, "this does not speak Redis"},
};

static void deadlines_and_limits_hold_whatever_comes(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    for (size_t i = 0; i < TEST_COUNT(unending); i++) {
        struct peer_rule rule = unending[i].rule;
        rule.to = qn_lua_lease.sha1;
        peer_rules(scene.peer, &rule, 1);
        int64_t begun_ms = test_now_ms();
        quern_status status = lease(&scene);
        int64_t took_ms = test_now_ms() - begun_ms;
        if (status != QUERN_E_UNKNOWN || took_ms >= 3 * COMMAND_MS ||
            strstr(scene.err.text, unending[i].words) == NULL) {
            fail_msg("case %zu: %s after %lld ms: %s", i, quern_status_name(status),
                     (long long)took_ms, scene.err.text);
        }
    }
    peer_rules(scene.peer, NULL, 0);
    assert_ok(lease(&scene), scene.err);
    end(&scene);
}

static void answer_that_comes_byte_by_byte_is_taken_within_the_deadline(void **state)
{
    (void)state;
    static const struct peer_rule rule = {
        .to = qn_lua_lease.sha1, .reply = "$17\r\n1700000000000 0 0\r\n", .manner = PEER_TRICKLE};
    struct scene scene;
    begin(&scene);
    peer_rules(scene.peer, &rule, 1);
    assert_ok(lease(&scene), scene.err);
    assert_int_equal(scene.run_count, 0);
    end(&scene);
}

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:2\r\n"
#define PONG "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
#define CANCEL "*3\r\n$7\r\nmessage\r\n$12\r\nasynq:cancel\r\n$1\r\nx\r\n"

static void listener_that_is_talked_to_without_end_still_wakes_in_time(void **state)
{
    (void)state;
    static const struct peer_rule floods[] = {
        {.to = "__redis__:invalidate",
         .reply = SUBSCRIBED PONG,
         .repeat = sizeof PONG - 1,
         .manner = PEER_ENDLESS},
        {.to = "__redis__:invalidate",
         .reply = SUBSCRIBED CANCEL,
         .repeat = sizeof CANCEL - 1,
         .manner = PEER_ENDLESS},
    };
    const char *const queues[] = {"default"};
    for (size_t i = 0; i < TEST_COUNT(floods); i++) {
        struct scene scene;
        struct qn_wakeup wakeup;
        bool work = false;
        int64_t next_due_at_ms = 0;
        begin(&scene);
        peer_rules(scene.peer, &floods[i], 1);
        assert_ok(qn_broker_arm(scene.broker, queues, 1, &work, &next_due_at_ms, &scene.err),
                  scene.err);
        int64_t begun_ms = test_now_ms();
        quern_status status = qn_broker_wait(scene.broker, COMMAND_MS, &wakeup, &scene.err);
        assert_true(test_now_ms() - begun_ms < 3 * COMMAND_MS);
        assert_int_equal(status, QUERN_OK);
        end(&scene);
    }
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", malformed_answer_of_a_lease_is_an_error),
    TEST_ONLY_OVER("redis", deadlines_and_limits_hold_whatever_comes),
    TEST_ONLY_OVER("redis", answer_that_comes_byte_by_byte_is_taken_within_the_deadline),
    TEST_ONLY_OVER("redis", listener_that_is_talked_to_without_end_still_wakes_in_time),
    TEST_ONLY_OVER("redis", worker_of_a_server_that_talks_nonsense_asks_again_and_can_be_stopped),
};
TEST_MAIN_OVER_BROKERS(tests)
