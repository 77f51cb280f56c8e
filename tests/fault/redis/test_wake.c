/* SPDX-License-Identifier: MIT */
/* test_wake.c - the events that wake a worker on Redis, from any source, and whatever happens to
 * the two connections that are notified.
 *
 * The other side are plain asynq commands on a connection of their own, as a Go client sends them.
 * A wait that must be woken is shorter than the safety net. */
#include "lib_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "broker/redis/inspect/inspect.h"
#include "lib_redis.h"
#include "task/limits.h"

#define BRIEFLY_MS 500
#define PUSH                                                                                       \
    "redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])\n"  \
    "redis.call('LPUSH', KEYS[2], ARGV[2]) return 1"

static const struct qn_names queues = {(const char *const[]){"default", "other"}, 2};
static struct test_redis redis;
static struct qn_broker *broker;

static struct qn_broker *open_at(const char *url)
{
    quern_error err = {0};
    struct qn_broker *opened = NULL;
    assert_ok(qn_broker_open(url, NULL, &opened, &err), err);
    return opened;
}

static int set_up(void **state)
{
    (void)state;
    if (redis.pid == 0) {
        test_redis_start(&redis, NULL);
    }
    test_redis_empty(&redis);
    broker = open_at(redis.url);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    qn_broker_close(broker);
    broker = NULL;
    return 0;
}

/* As github.com/hibiken/asynq enqueues. */
static void push(const char *queue, const char *id)
{
    test_redis_do(&redis, "SADD asynq:queues %s", queue);
    assert_int_equal(test_redis_count(&redis,
                                      "EVAL %s 2 asynq:{%s}:t:%s asynq:{%s}:pending %s %s %s", PUSH,
                                      queue, id, queue, "message", id, "1800000000000000000"),
                     1);
}

/* A run in this queue, leased by any worker. */
static void make_active(const char *queue, const char *id)
{
    test_redis_do(&redis, "HSET asynq:{%s}:t:%s msg message state active", queue, id);
}

static bool arm(int64_t *ret_next_due_at_ms)
{
    bool work = false;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(broker, queues, &work, &next_due_at_ms, &err), err);
    if (ret_next_due_at_ms != NULL) {
        *ret_next_due_at_ms = next_due_at_ms;
    }
    return work;
}

static struct qn_wakeup wait_ms(int64_t timeout_ms)
{
    struct qn_wakeup wakeup = {0};
    quern_error err = {0};
    assert_ok(qn_broker_wait(broker, timeout_ms, &wakeup, &err), err);
    return wakeup;
}

static void expect_silence(void)
{
    struct qn_wakeup wakeup = wait_ms(20);
    assert_false(wakeup.work);
    assert_int_equal(wakeup.cancel, QN_CANCEL_NONE);
}

static void expect_cancel(enum qn_cancel cancel, const char *queue, const char *id)
{
    struct qn_wakeup wakeup = wait_ms(TEST_PATIENCE_MS);
    assert_int_equal(wakeup.cancel, cancel);
    assert_string_equal(wakeup.queue, queue);
    assert_string_equal(wakeup.id, id);
}

/* The server's ids of our connections whose name ends so; 0: there is none. */
static long long client_id(const char *role)
{
    char list[8192];
    (void)snprintf(list, sizeof list, "%s", test_redis_do(&redis, "CLIENT LIST"));
    char *rest = NULL;
    for (char *line = strtok_r(list, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "-%s ", role);
        long long id = 0;
        if (strstr(line, wanted) != NULL && sscanf(line, "id=%lld", &id) == 1) {
            return id;
        }
    }
    return 0;
}

static void kill_client(const char *role)
{
    long long id = client_id(role);
    assert_true(id > 0);
    assert_int_equal(test_redis_count(&redis, "CLIENT KILL ID %lld", id), 1);
}

/* --- News --------------------------------------------------------------------------- */

static void push_by_a_go_client_wakes(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    push("other", "a");
    assert_true(wait_ms(BRIEFLY_MS).work);
    assert_true(arm(NULL));
}

static void many_pushes_are_one_piece_of_news(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    for (int i = 0; i < 100; i++) {
        push("default", "a");
    }
    assert_true(wait_ms(BRIEFLY_MS).work);
    expect_silence();
}

static void end_of_a_pause_wakes(void **state)
{
    (void)state;
    push("default", "a");
    test_redis_do(&redis, "SET asynq:{default}:paused 1");
    assert_false(arm(NULL));
    test_redis_do(&redis, "DEL asynq:{default}:paused");
    assert_true(wait_ms(BRIEFLY_MS).work);
    assert_true(arm(NULL));
}

static long long server_s(void)
{
    return strtoll(test_redis_do(&redis, "TIME"), NULL, 10);
}

static void earlier_delayed_task_of_a_go_client_wakes(void **state)
{
    (void)state;
    int64_t first;
    int64_t second;
    long long now_s = server_s();
    test_redis_do(&redis, "ZADD asynq:{default}:scheduled %lld later", now_s + 60);
    assert_false(arm(&first));
    test_redis_do(&redis, "ZADD asynq:{default}:retry %lld sooner", now_s + 30);
    assert_true(wait_ms(BRIEFLY_MS).work);
    assert_false(arm(&second));
    assert_true(first > (now_s + 59) * 1000 && first < (now_s + 61) * 1000);
    assert_true(second > (now_s + 29) * 1000 && second < (now_s + 31) * 1000);
}

static void moment_of_the_index_counts_only_where_it_fits(void **state)
{
    (void)state;
    int64_t due;
    long long now_s = server_s();
    test_redis_do(&redis, "ZADD asynq:{default}:quern:due %lld gone", (now_s + 5) * 1000);
    assert_false(arm(&due));
    assert_true(due == INT64_MAX);
    test_redis_do(&redis, "ZADD asynq:{default}:scheduled %lld ours %lld moved", now_s + 60,
                  now_s + 90);
    test_redis_do(&redis, "ZADD asynq:{default}:quern:due %lld ours %lld moved",
                  (now_s + 60) * 1000 - 750, (now_s + 7) * 1000);
    assert_false(arm(&due));
    assert_true(due > (now_s + 59) * 1000 && due < (now_s + 60) * 1000);
}

static void emptied_server_is_news(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    test_redis_do(&redis, "FLUSHALL");
    assert_true(wait_ms(BRIEFLY_MS).work);
}

/* --- The safety net ----------------------------------------------------------------- */

static void recover(void)
{
    size_t recovered = 0;
    quern_error err = {0};
    assert_ok(qn_broker_recover(broker, (struct qn_upkeep){queues, 100}, NULL, &recovered, &err),
              err);
    assert_int_equal(recovered, 0);
}

/* As if all that the server sends from now on got lost. */
static void make_deaf(void)
{
    struct qn_pipeline pipeline;
    const struct qn_reply *reply;
    quern_error err = {0};
    qn_redis_begin(&pipeline, qn_redis_of(broker), QN_CHANNEL_TRACKED, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "CLIENT");
    qn_pipeline_text(&pipeline, "TRACKING");
    qn_pipeline_text(&pipeline, "OFF");
    assert_ok(qn_pipeline_run(&pipeline, &err), err);
    assert_ok(qn_pipeline_reply(&pipeline, 0, &reply, &err), err);
    qn_pipeline_end(&pipeline);
}

static void work_without_a_notice_is_found_by_recovery(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    make_deaf();
    test_redis_do(&redis, "SET asynq:{default}:paused 1");
    push("default", "p");
    recover(); /* no worker may take it */
    expect_silence();
    push("other", "a");
    expect_silence();
    recover();
    assert_true(wait_ms(BRIEFLY_MS).work);
    recover(); /* returned once */
    expect_silence();
    assert_true(arm(NULL));
    recover(); /* arm has returned it */
    expect_silence();
}

static void earlier_delayed_task_without_a_notice_is_found_by_recovery(void **state)
{
    (void)state;
    long long now_s = server_s();
    test_redis_do(&redis, "ZADD asynq:{default}:scheduled %lld later", now_s + 60);
    assert_false(arm(NULL));
    make_deaf();
    recover();
    test_redis_do(&redis, "ZADD asynq:{other}:scheduled %lld latest", now_s + 90);
    recover();
    expect_silence();
    test_redis_do(&redis, "ZADD asynq:{other}:retry %lld sooner", now_s + 30);
    recover();
    assert_true(wait_ms(BRIEFLY_MS).work);
}

/* --- The two connections ------------------------------------------------------------ */

static void end_of_either_connection_is_news(void **state)
{
    (void)state;
    static const char *const roles[] = {"listener", "tracked"};
    for (size_t i = 0; i < TEST_COUNT(roles); i++) {
        assert_false(arm(NULL));
        kill_client(roles[i]);
        assert_true(wait_ms(TEST_PATIENCE_MS).work);
        assert_false(arm(NULL));
        expect_silence();
        push("default", roles[i]);
        assert_true(wait_ms(BRIEFLY_MS).work);
        test_redis_do(&redis, "DEL asynq:{default}:pending");
    }
}

static void arm_after_the_end_of_a_connection_still_wakes(void **state)
{
    (void)state;
    static const char *const roles[] = {"listener", "tracked"};
    for (size_t i = 0; i < TEST_COUNT(roles); i++) {
        test_redis_do(&redis, "DEL asynq:{default}:pending");
        assert_false(arm(NULL));
        kill_client(roles[i]); /* no wait is in progress, so it goes unnoticed */
        assert_false(arm(NULL));
        push("default", roles[i]);
        bool woken = false; /* the end of the old pair may be noticed first */
        for (int j = 0; j < 3 && !woken; j++) {
            woken = wait_ms(BRIEFLY_MS).work && arm(NULL);
        }
        assert_true(woken);
    }
}

static void new_listener_is_announced_on_the_tracked_connection(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    long long tracked = client_id("tracked");
    kill_client("listener");
    assert_true(wait_ms(TEST_PATIENCE_MS).work);
    expect_silence(); /* it listens again, but gets no notices yet */
    assert_false(arm(NULL));
    assert_int_equal(client_id("tracked"), tracked);
    push("default", "a");
    assert_true(wait_ms(BRIEFLY_MS).work);
}

static void *arm_in_another_thread(void *argument)
{
    (void)argument;
    test_pause_ms(20);
    (void)arm(NULL);
    push("default", "a");
    return NULL;
}

static void wait_receives_notices_on_a_connection_that_another_thread_opened(void **state)
{
    (void)state;
    pthread_t thread;
    assert_false(arm(NULL));
    kill_client("tracked");
    assert_true(wait_ms(TEST_PATIENCE_MS).work);
    assert_int_equal(pthread_create(&thread, NULL, arm_in_another_thread, NULL), 0);
    assert_true(wait_ms(TEST_PATIENCE_MS).work);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void notices_of_a_restarted_server_are_received(void **state)
{
    (void)state;
    quern_error err = {0};
    struct qn_wakeup wakeup = {0};
    assert_false(arm(NULL));
    test_redis_kill(&redis);
    assert_true(wait_ms(TEST_PATIENCE_MS).work);
    assert_int_equal(qn_broker_wait(broker, TEST_PATIENCE_MS, &wakeup, &err), QUERN_E_CONNECT);
    int64_t due;
    assert_int_equal(qn_broker_arm(broker, queues, &(bool){false}, &due, &err), QUERN_E_CONNECT);
    test_redis_launch(&redis);
    test_redis_await(&redis);
    assert_false(arm(NULL));
    push("default", "a");
    assert_true(wait_ms(BRIEFLY_MS).work);
}

/* Takes 14 s, and does nothing meanwhile. */
static void silent_listener_is_found_out(void **state)
{
    (void)state;
    assert_false(arm(NULL));
    assert_false(wait_ms(6000).work); /* a ping is answered */
    assert_int_equal(kill(redis.pid, SIGSTOP), 0);
    struct qn_wakeup wakeup = wait_ms(TEST_PATIENCE_MS);
    assert_int_equal(kill(redis.pid, SIGCONT), 0);
    assert_true(wakeup.work);
}

static void refused_tracking_is_polling_and_is_reported(void **state)
{
    (void)state;
    static const char *const rules[] = {"-client +client|id", "-client +client|tracking",
                                        "resetchannels &asynq:cancel"};
    for (size_t i = 0; i < TEST_COUNT(rules); i++) {
        char url[256];
        char text[QN_REFUSAL_SIZE];
        quern_error err = {0};
        test_redis_do(&redis, "ACL DELUSER poor");
        char command[128];
        (void)snprintf(command, sizeof command, "ACL SETUSER poor on >pw ~* &* +@all %s", rules[i]);
        assert_string_equal(test_redis_do(&redis, command), "OK");
        qn_broker_close(broker);
        (void)snprintf(url, sizeof url, "redis-socket://poor:pw@%s", redis.socket_path);
        broker = open_at(url);
        assert_false(arm(NULL));
        assert_true(wait_ms(TEST_PATIENCE_MS).work);
        assert_false(arm(NULL));
        push("default", "a");
        assert_true(wait_ms(TEST_PATIENCE_MS).work);
        assert_true(arm(NULL));
        make_active("default", "b");
        test_redis_do(&redis, "PUBLISH asynq:cancel b");
        struct qn_wakeup wakeup = wait_ms(TEST_PATIENCE_MS);
        assert_int_equal(wakeup.cancel, QN_CANCEL_RETRY);
        assert_ok(qn_server_info_refusal(qn_redis_of(broker), text, &err), err);
        assert_non_null(strstr(text, "NOPERM"));
        test_redis_do(&redis, "DEL asynq:{default}:pending");
    }
}

static void allowed_tracking_is_no_refusal(void **state)
{
    (void)state;
    char text[QN_REFUSAL_SIZE];
    quern_error err = {0};
    assert_ok(qn_server_info_refusal(qn_redis_of(broker), text, &err), err);
    assert_string_equal(text, "");
}

/* --- Cancellations ------------------------------------------------------------------ */

static void bare_cancellation_is_a_retry(void **state)
{
    (void)state;
    make_active("other", "a");
    assert_false(arm(NULL));
    test_redis_do(&redis, "PUBLISH asynq:cancel a");
    expect_cancel(QN_CANCEL_RETRY, "other", "a");
    expect_silence();
}

static void wish_in_the_task_is_obeyed(void **state)
{
    (void)state;
    make_active("default", "a");
    make_active("default", "b");
    test_redis_do(&redis, "HSET asynq:{default}:t:a quern_cancel archive");
    test_redis_do(&redis, "HSET asynq:{default}:t:b quern_cancel retry");
    assert_false(arm(NULL));
    test_redis_do(&redis, "PUBLISH asynq:cancel a");
    test_redis_do(&redis, "PUBLISH asynq:cancel b");
    expect_cancel(QN_CANCEL_ARCHIVE, "default", "a");
    expect_cancel(QN_CANCEL_RETRY, "default", "b");
    expect_silence();
}

static void one_id_in_two_queues_is_cancelled_in_both(void **state)
{
    (void)state;
    make_active("default", "a");
    make_active("other", "a");
    test_redis_do(&redis, "HSET asynq:{other}:t:a quern_cancel archive");
    assert_false(arm(NULL));
    test_redis_do(&redis, "PUBLISH asynq:cancel a");
    expect_cancel(QN_CANCEL_RETRY, "default", "a");
    expect_cancel(QN_CANCEL_ARCHIVE, "other", "a");
    expect_silence();
}

static void cancellation_of_what_does_not_run_here_is_nothing(void **state)
{
    (void)state;
    make_active("foreign", "a");
    push("default", "b");
    assert_true(arm(NULL));
    test_redis_do(&redis, "PUBLISH asynq:cancel a");
    test_redis_do(&redis, "PUBLISH asynq:cancel b");
    test_redis_do(&redis, "PUBLISH asynq:cancel c");
    test_redis_do(&redis, "PUBLISH asynq:cancel %b", "a\0b", (size_t)3);
    for (int i = 0; i < 5; i++) {
        expect_silence();
    }
}

#define WAKE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WAKE_TEST(push_by_a_go_client_wakes),
        WAKE_TEST(many_pushes_are_one_piece_of_news),
        WAKE_TEST(end_of_a_pause_wakes),
        WAKE_TEST(earlier_delayed_task_of_a_go_client_wakes),
        WAKE_TEST(moment_of_the_index_counts_only_where_it_fits),
        WAKE_TEST(emptied_server_is_news),
        WAKE_TEST(work_without_a_notice_is_found_by_recovery),
        WAKE_TEST(earlier_delayed_task_without_a_notice_is_found_by_recovery),
        WAKE_TEST(end_of_either_connection_is_news),
        WAKE_TEST(arm_after_the_end_of_a_connection_still_wakes),
        WAKE_TEST(new_listener_is_announced_on_the_tracked_connection),
        WAKE_TEST(wait_receives_notices_on_a_connection_that_another_thread_opened),
        WAKE_TEST(notices_of_a_restarted_server_are_received),
        WAKE_TEST(silent_listener_is_found_out),
        WAKE_TEST(refused_tracking_is_polling_and_is_reported),
        WAKE_TEST(allowed_tracking_is_no_refusal),
        WAKE_TEST(bare_cancellation_is_a_retry),
        WAKE_TEST(wish_in_the_task_is_obeyed),
        WAKE_TEST(one_id_in_two_queues_is_cancelled_in_both),
        WAKE_TEST(cancellation_of_what_does_not_run_here_is_nothing),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    int result = test_main(argc, argv, &group);
    test_redis_stop(&redis);
    return result;
}
