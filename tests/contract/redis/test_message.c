/* SPDX-License-Identifier: MIT */
/* test_message.c - what the ends of runs write into a message of asynq: a few fields in place of
 * the old ones; the rest stays as it is, and no number of failures lets it grow. */
#include "lib_contract.h"

#include <string.h>

#include "lib_store.h"

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_store_server();
}

static long long message_size(const char *id)
{
    return test_redis_count(server(), "HSTRLEN " Q "t:%s msg", id);
}

/* Behind the message, as other programs may make it: more headers "a" = "b" than a script reads,
 * and a field 31 = 7. */
static void add_many_fields(const char *id)
{
    (void)test_redis_do(
        server(), "EVAL %s 1 " Q "t:%s",
        "local more = string.rep('\\122\\6\\10\\1a\\18\\1b', 3000) .. '\\248\\1\\7' "
        "return redis.call('HSET', KEYS[1], 'msg', redis.call('HGET', KEYS[1], 'msg') .. more)",
        id);
}

/* As asynq's dequeue, by a Go worker. */
static void go_takes(const char *id)
{
    (void)test_redis_do(server(), "LREM " Q "pending 1 %s", id);
    (void)test_redis_do(server(), "LPUSH " Q "active %s", id);
    (void)test_redis_do(server(), "HSET " Q "t:%s state active", id);
    (void)test_redis_do(server(), "HDEL " Q "t:%s pending_since", id);
    (void)test_redis_do(server(), "EVAL %s 1 %s %s",
                        "return redis.call('ZADD', KEYS[1], redis.call('TIME')[1] + 30, ARGV[1])",
                        Q "lease", id);
}

static void failures_do_not_let_a_message_grow(struct contract *c)
{
    contract_put(c, "default", "a");
    long long whole = 0;
    for (int i = 0; i < 3; i++) {
        contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY);
        whole = i == 0 ? message_size("a") : whole;
        assert_int_equal(message_size("a"), whole);
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "default", NULL), 1);
    }
    contract_finish(c, contract_take_id(c, "default", "a"), QN_ARCHIVE);
    assert_int_equal(message_size("a"), whole);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.retry_count, 3);
    assert_string_equal(view.error, "broken");
}

static void what_a_message_holds_besides_is_kept(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_RETRY, QN_ASIDE, QN_CRASH, QN_ARCHIVE};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        contract_put(c, "default", "a");
        add_many_fields("a");
        struct qn_leased *run = contract_take_id(c, "default", "a");
        assert_int_equal(run->task.header_count, 1);
        const struct qn_outcome outcome = {
            .run = run, .kind = kinds[i], .started = true, .error = "again", .delay_ms = 60000};
        assert_int_equal(contract_end(c, &outcome), QN_APPLIED);
        qn_leased_free(run);
        struct contract_view view = contract_inspect(c, "default", "a");
        assert_string_equal(view.error, "again");
        assert_int_equal(view.retry_count, kinds[i] == QN_RETRY ? 1 : 0);
        assert_string_equal(
            test_redis_do(server(), "EVAL %s 1 %s",
                          "local msg = redis.call('HGET', KEYS[1], 'msg') "
                          "local _, headers = string.gsub(msg, '\\122\\6\\10\\1a\\18\\1b', '') "
                          "return headers .. ' ' .. (string.find(msg, '\\248\\1\\7') and 1 or 0)",
                          Q "t:a"),
            "3000 1");
        (void)test_redis_do(server(), "FLUSHALL");
    }
}

/* Go's recoverer counts up to the maximum, and so do we, however many headers there are. */
static void attempts_of_a_go_task_with_many_headers_are_used_up(struct contract *c)
{
    const quern_task task = {.queue = "default", .type = "t", .id = "a", .retry_max = 2};
    contract_enqueue(c, &task);
    add_many_fields("a");
    long long whole = 0;
    for (int64_t i = 1; i <= 3; i++) {
        go_takes("a");
        contract_advance(c, 60000);
        assert_int_equal(contract_recover(c, "default"), 1);
        struct contract_view view = contract_inspect(c, "default", "a");
        assert_int_equal(view.retry_count, i < 3 ? i : 2);
        assert_int_equal(view.state, i < 3 ? QUERN_TASK_RETRY : QUERN_TASK_ARCHIVED);
        whole = i == 1 ? message_size("a") : whole;
        assert_int_equal(message_size("a"), whole);
        contract_advance(c, 3600000);
        (void)contract_forward(c, "default", NULL);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", failures_do_not_let_a_message_grow),
    CONTRACT_TEST_ONLY("redis", what_a_message_holds_besides_is_kept),
    CONTRACT_TEST_ONLY("redis", attempts_of_a_go_task_with_many_headers_are_used_up),
};
CONTRACT_MAIN(tests)
