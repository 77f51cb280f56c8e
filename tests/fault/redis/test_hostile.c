/* SPDX-License-Identifier: MIT */
/* test_hostile.c - a hostile server: its wrong answers cost an error and a pause, never a thread
 * that no longer ends, and never memory for bytes that did not arrive. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/redis/doctor/doctor_page_lua.h"
#include "broker/redis/operate/remove_queue_lua.h"
#include "broker/redis/redis.h"
#include "broker/redis/run/lease_lua.h"
#include "lib_peer.h"
#include "lib_round.h"
#include "lib_worker.h"

#define COMMAND_MS 400 /* what a command may take where that is the question */
#define PATIENT_MS 10000
#define LATE_MS (10 * COMMAND_MS) /* on a busy machine, too */

/* A rig whose server is reached through the peer. */
struct scene {
    struct rig *rig;
    struct peer *peer;
    struct qn_broker *broker;  /* through the peer */
    struct qn_broker *watcher; /* the same */
    quern_error err;
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t run_count;
    uint64_t sequence;
};

static void begin(struct scene *scene, int64_t command_ms)
{
    *scene = (struct scene){.rig = rig_new(false)};
    scene->peer = peer_start(test_store_server(), "worker:secret@");
    const struct qn_broker_options options = {.command_timeout_ms = command_ms};
    assert_ok(qn_broker_open(peer_url(scene->peer), &options, &scene->broker, &scene->err),
              scene->err);
    assert_ok(qn_broker_open(peer_url(scene->peer), &options, &scene->watcher, &scene->err),
              scene->err);
}

static void end(struct scene *scene)
{
    qn_broker_close(scene->watcher);
    qn_broker_close(scene->broker);
    peer_stop(scene->peer);
    rig_free(scene->rig);
}

static quern_status lease(struct scene *scene)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 4};
    struct qn_exchange exchange = {.stamp = {7, ++scene->sequence},
                                   .worker_id = "host:1:worker",
                                   .lease_ms = 30000,
                                   .queues = &share,
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

/* Possible values in the place of the lease script's head. */
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
    begin(&scene, PATIENT_MS);
    rig_put(scene.rig, "a", "done");
    for (size_t i = 0; i < TEST_COUNT(bad_heads); i++) {
        const struct peer_rule rule = {.to = qn_lua_lease.sha1, .reply = bad_heads[i]};
        peer_rules(scene.peer, &rule, 1);
        quern_status status = lease(&scene);
        if (status != QUERN_E_UNKNOWN || scene.run_count != 0 ||
            strstr(scene.err.text, "unexpected reply to lease") == NULL) {
            fail_msg("case %zu: %s %s", i, quern_status_name(status), scene.err.text);
        }
    }
    peer_rules(scene.peer, NULL, 0);
    assert_ok(lease(&scene), scene.err);
    assert_int_equal(scene.run_count, 1);
    qn_leased_free(scene.runs[0]);
    end(&scene);
}

static bool got_many_requests(void *user)
{
    return peer_answered(user) >= 3;
}

static void worker_of_a_server_that_sends_nonsense_retries_and_can_be_stopped(void **state)
{
    (void)state;
    static const struct peer_rule rule = {.to = qn_lua_lease.sha1, .reply = "$5\r\n1 0 x\r\n"};
    struct scene scene;
    struct rig_worker worker;
    begin(&scene, PATIENT_MS);
    peer_rules(scene.peer, &rule, 1);
    scene.rig->url = peer_url(scene.peer);
    rig_put(scene.rig, "a", "done");
    rig_start(scene.rig, &worker, NULL);
    assert_true(test_until(got_many_requests, scene.peer));
    rig_wait_log(scene.rig, "unexpected reply to lease");
    peer_rules(scene.peer, NULL, 0);
    rig_wait_starts(scene.rig, 1);
    rig_wait_reports(scene.rig, 1);
    peer_rules(scene.peer, &rule, 1);
    rig_stop(&worker);
    end(&scene);
}

/* --- Slow and endless answers --------------------------------------------------------- */

#define FOUR(x) x x x x
#define MANY(x) FOUR(FOUR(x)) /* 16 */
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
    {{.reply = "+" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "-" MANY(MANY("x")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = ":" MANY(MANY("1")), .repeat = 256, .manner = PEER_ENDLESS}, "a line larger than"},
    {{.reply = "*142606336\r\n" ITEMS_10, .repeat = 40, .manner = PEER_ENDLESS},
     "a reply larger than"},
    {{.reply = "*2\r\n", .repeat = 4, .manner = PEER_ENDLESS}, "this is not the Redis protocol"},
};

static void deadlines_and_limits_hold_whatever_comes(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, COMMAND_MS);
    for (size_t i = 0; i < TEST_COUNT(unending); i++) {
        struct peer_rule rule = unending[i].rule;
        rule.to = qn_lua_lease.sha1;
        peer_rules(scene.peer, &rule, 1);
        int64_t begun_ms = test_now_ms();
        quern_status status = lease(&scene);
        int64_t took_ms = test_now_ms() - begun_ms;
        if (status != QUERN_E_UNKNOWN || took_ms >= LATE_MS ||
            strstr(scene.err.text, unending[i].words) == NULL) {
            fail_msg("case %zu: %s after %lld ms: %s", i, quern_status_name(status),
                     (long long)took_ms, scene.err.text);
        }
    }
    peer_rules(scene.peer, NULL, 0);
    struct qn_broker *broker = scene.broker; /* the server itself is as it was */
    scene.broker = scene.rig->broker;
    assert_ok(lease(&scene), scene.err);
    scene.broker = broker;
    end(&scene);
}

static void answer_that_comes_byte_by_byte_is_taken_within_the_deadline(void **state)
{
    (void)state;
    static const struct peer_rule rule = {
        .to = qn_lua_lease.sha1, .reply = "$17\r\n1700000000000 0 0\r\n", .manner = PEER_TRICKLE};
    struct scene scene;
    begin(&scene, PATIENT_MS);
    peer_rules(scene.peer, &rule, 1);
    assert_ok(lease(&scene), scene.err);
    assert_int_equal(scene.run_count, 0);
    end(&scene);
}

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:2\r\n"
#define PONG "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
#define CANCEL "*3\r\n$7\r\nmessage\r\n$12\r\nasynq:cancel\r\n$1\r\nx\r\n"

static void listener_that_receives_without_end_still_wakes_in_time(void **state)
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
        begin(&scene, PATIENT_MS);
        peer_rules(scene.peer, &floods[i], 1);
        assert_ok(qn_broker_arm(scene.broker, (struct qn_names){queues, 1}, &work, &next_due_at_ms,
                                &scene.err),
                  scene.err);
        int64_t begun_ms = test_now_ms();
        quern_status status = qn_broker_wait(scene.broker, COMMAND_MS, &wakeup, &scene.err);
        assert_true(test_now_ms() - begun_ms < LATE_MS);
        assert_int_equal(status, QUERN_OK);
        end(&scene);
    }
}

/* --- Numbers and shapes ------------------------------------------------------------------ */

#define MAX_INT ":9223372036854775807\r\n"
#define MIN_INT ":-9223372036854775808\r\n"
#define MAX_TEXT "$19\r\n9223372036854775807\r\n"
#define MIN_TEXT "$20\r\n-9223372036854775808\r\n"
#define PAGE "*2\r\n$1\r\n5\r\n"

/* Whatever was asked is answered with one of these. */
static const char *const strange[] = {
    "*16\r\n" MANY(MAX_INT),
    "*16\r\n" MANY(MIN_INT),
    "*16\r\n" MANY(MAX_TEXT),
    "*16\r\n" MANY(MIN_TEXT),
    "*2\r\n" MAX_INT MAX_INT,
    "*3\r\n" MAX_TEXT MAX_INT MAX_TEXT,
    "*4\r\n" MAX_TEXT ":1\r\n" MAX_INT ":0\r\n",
    "*1\r\n*16\r\n" MANY(MAX_INT),
    "*3\r\n$4\r\nfull\r\n" MAX_INT MAX_INT,
    "*16\r\n" MANY("$4\r\ndone\r\n"),
    MAX_INT,
    MIN_INT,
    "$5\r\n1e308\r\n",
    "$3\r\nnan\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*2\r\n$1\r\n0\r\n*16\r\n" MANY("*2\r\n" MAX_INT MAX_INT),
    ("-ERR " MAX_TEXT),
};

/* Without those that name ids: their pages continue until walks_that_never_end_are_ended. */
static const char *const commands[] = {
    "TIME",   "EXISTS", "HGETALL", "HMGET",   "HGET",  "HSTRLEN", "SMEMBERS", "SISMEMBER",
    "SSCAN",  "SCAN",   "ZSCORE",  "ZMSCORE", "ZCARD", "ZCOUNT",  "LLEN",     "LPOS",
    "GET",    "MGET",   "SCARD",   "MEMORY",  "INFO",  "CONFIG",  "HVALS",    "EVALSHA",
    "CLIENT", "SADD",   "SREM",    "HDEL",    "HSET",  "PUBLISH", "DBSIZE",   "HLEN",
    "HSCAN",  "TYPE",   "PING",    "EXPIRE",  "WAIT",  "ZRANK",
};

static void strange_answers_are_errors_or_nothing(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene, PATIENT_MS);
    for (size_t s = 0; s < TEST_COUNT(strange); s++) {
        struct peer_rule rules[TEST_COUNT(commands)];
        for (size_t i = 0; i < TEST_COUNT(commands); i++) {
            rules[i] = (struct peer_rule){.to = commands[i], .reply = strange[s]};
        }
        for (size_t i = 0; i <= TEST_COUNT(commands); i++) {
            bool all = i == TEST_COUNT(commands);
            if (!all && (s + i) % 6 != 0) {
                continue; /* each with some of them takes long enough */
            }
            struct test_round round = {.broker = scene.broker,
                                       .watcher = scene.watcher,
                                       .copy_path = "/no/such/folder",
                                       .worker_id = "round"};
            for (int task = 0; task < 3; task++) {
                char id[16];
                (void)snprintf(id, sizeof id, "t%d", task);
                rig_put(scene.rig, id, "done");
            }
            /* Each alone, since what it leads to is asked then; and all at once. */
            peer_rules(scene.peer, all ? rules : &rules[i], all ? TEST_COUNT(commands) : 1);
            test_round(&round);
            peer_rules(scene.peer, NULL, 0);
            test_redis_empty(test_store_server());
            if (round.strange != NULL) {
                fail_msg("%s as %.40s: %s is %lld", all ? "all" : commands[i], strange[s],
                         round.strange, (long long)round.number);
            }
        }
    }
    end(&scene);
}

static void note_status(struct scene *scene, const char *what, quern_status status)
{
    if (status != QUERN_E_BROKER || strstr(scene->err.text, "does not end") == NULL) {
        fail_msg("%s: %s: %s", what, quern_status_name(status), scene->err.text);
    }
}

static bool pass_queue(const quern_queue_info *queue, void *user)
{
    (void)queue, (void)user;
    return true;
}

static void pass_finding(const quern_finding *finding, void *user)
{
    (void)finding, (void)user;
}

static void walks_that_never_end_are_ended(void **state)
{
    (void)state;
    static const struct peer_rule scans[] = {
        {.to = "SSCAN", .reply = "*2\r\n$1\r\n5\r\n*0\r\n"},
        {.to = "SCAN", .reply = "*2\r\n$1\r\n5\r\n*1\r\n$3\r\nkey\r\n"},
    };
    const struct peer_rule pages = {.to = qn_lua_doctor_page.sha1, .reply = "*1\r\n$1\r\n5\r\n"};
    const struct peer_rule more = {.to = qn_lua_remove_queue.sha1, .reply = "*1\r\n$4\r\nmore\r\n"};
    struct scene scene;
    begin(&scene, PATIENT_MS);
    rig_put(scene.rig, "a", "done");
    scene.err = (quern_error){0};
    peer_rules(scene.peer, &scans[0], 1);
    note_status(&scene, "queues",
                qn_broker_queues(scene.broker, NULL, pass_queue, NULL, &scene.err));
    peer_rules(scene.peer, &scans[1], 1);
    note_status(&scene, "check",
                qn_broker_doctor(scene.broker, false, pass_finding, NULL, &scene.err));
    const struct peer_rule numbers[] = {{.to = "SCAN", .reply = ":9223372036854775807\r\n"},
                                        {.to = "DBSIZE", .reply = ":9223372036854775807\r\n"}};
    peer_rules(scene.peer, numbers, 2);
    assert_int_equal(qn_broker_doctor(scene.broker, false, pass_finding, NULL, &scene.err),
                     QUERN_E_BROKER);
    assert_non_null(strstr(scene.err.text, "unexpected reply to SCAN"));
    peer_rules(scene.peer, &pages, 1);
    note_status(&scene, "pages",
                qn_broker_doctor(scene.broker, false, pass_finding, NULL, &scene.err));
    peer_rules(scene.peer, &more, 1);
    note_status(&scene, "removal",
                qn_broker_remove_queue(scene.broker, "default", true, &scene.err));
    char ids[500 * 8 + 16]; /* a page that is always full */
    size_t size = (size_t)snprintf(ids, sizeof ids, "*500\r\n");
    for (int i = 0; i < 500; i++) {
        size += (size_t)snprintf(ids + size, sizeof ids - size, "$1\r\nx\r\n");
    }
    const struct peer_rule lists = {.to = "LRANGE", .reply = ids};
    const quern_task_filter filter = {
        .queue = "default", .state = QUERN_TASK_PENDING, .id = "nowhere"};
    size_t count = 0;
    peer_rules(scene.peer, &lists, 1);
    note_status(&scene, "tasks",
                qn_broker_operate_all(scene.broker,
                                      &(struct qn_bulk){QUERN_ACTION_ARCHIVE, &filter, 100}, &count,
                                      &scene.err));
    end(&scene);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", malformed_answer_of_a_lease_is_an_error),
    TEST_ONLY_OVER("redis", deadlines_and_limits_hold_whatever_comes),
    TEST_ONLY_OVER("redis", strange_answers_are_errors_or_nothing),
    TEST_ONLY_OVER("redis", walks_that_never_end_are_ended),
    TEST_ONLY_OVER("redis", answer_that_comes_byte_by_byte_is_taken_within_the_deadline),
    TEST_ONLY_OVER("redis", listener_that_receives_without_end_still_wakes_in_time),
    TEST_ONLY_OVER("redis", worker_of_a_server_that_sends_nonsense_retries_and_can_be_stopped),
};
TEST_MAIN_OVER_BROKERS(tests)
