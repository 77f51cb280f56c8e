/* SPDX-License-Identifier: MIT */
/* test_sweep.c - a connection is cut at every byte of every request and of every reply of an
 * enqueue and of an exchange. No answer is ever wrong: what is reported as done is done, and the
 * repeated request takes effect once. */
#include "lib_proxy.h"
#include "lib_store.h"
#include "lib_task.h"

#include <string.h>

#include "broker/broker.h"

#define COMMANDS_MAX 40
#define TRIES 20

struct bench {
    struct proxy *proxy;
    struct qn_broker *broker;
    uint64_t sequence;
    size_t cuts;
};

struct operation {
    const char *name;
    void (*prepare)(struct bench *bench); /* without faults */
    /* Repeated with its stamp until it is known what became of it. */
    void (*run)(struct bench *bench);
    void (*judge)(struct bench *bench);
};

static bool may_try_again(quern_status status)
{
    return status == QUERN_E_UNKNOWN || status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT;
}

static long long count(const char *command, const char *key)
{
    return test_redis_count(test_store_server(), command, key);
}

/* --- Enqueue -------------------------------------------------------------------------- */

static void prepare_nothing(struct bench *bench)
{
    (void)bench;
}

static void enqueue(struct bench *bench)
{
    struct qn_task tasks[3] = {test_task("a"), test_task("b"), test_task("c")};
    tasks[1].queue = "other";
    tasks[2].state = QUERN_TASK_SCHEDULED;
    tasks[2].process_at_ms = INT64_C(4000000000000);
    quern_status results[3];
    quern_error err = {0};
    const struct qn_enqueue request = {{1, ++bench->sequence}, tasks, 3, results};
    quern_status status = QUERN_E_UNKNOWN;
    for (int i = 0; i < TRIES && may_try_again(status); i++) {
        status = qn_broker_enqueue(bench->broker, &request, &err);
    }
    assert_ok(status, err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(results[i], QUERN_OK);
    }
}

static void judge_enqueue(struct bench *bench)
{
    (void)bench;
    assert_int_equal(count("LLEN %s", "asynq:{default}:pending"), 1);
    assert_int_equal(count("LLEN %s", "asynq:{other}:pending"), 1);
    assert_int_equal(count("ZCARD %s", "asynq:{default}:scheduled"), 1);
    assert_int_equal(count("SCARD %s", "asynq:queues"), 2);
}

/* --- Exchange ------------------------------------------------------------------------- */

static struct qn_leased *held;

static struct qn_leased *exchange(struct bench *bench)
{
    const struct qn_outcome outcome = {.run = held, .kind = QN_DONE};
    struct qn_leased *next = NULL;
    enum qn_applied applied[1] = {QN_STALE};
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange request = {.stamp = {2, ++bench->sequence},
                                  .outcomes = &outcome,
                                  .outcome_count = held == NULL ? 0 : 1,
                                  .worker_id = "w",
                                  .lease_ms = 600000,
                                  .queues = &share,
                                  .queue_count = 1,
                                  .room = 1,
                                  .start_count_now = 1};
    quern_error err = {0};
    quern_status status = QUERN_E_UNKNOWN;
    for (int i = 0; i < TRIES && may_try_again(status); i++) {
        struct qn_exchange_reply reply = {.applied = applied, .runs = &next};
        status = qn_broker_exchange(bench->broker, &request, &reply, &err);
        assert_int_equal(reply.run_count, status == QUERN_OK ? 1 : 0);
    }
    assert_ok(status, err);
    if (held != NULL) {
        assert_int_equal(applied[0], QN_APPLIED);
    }
    return next;
}

static void prepare_exchange(struct bench *bench)
{
    struct qn_task tasks[2] = {test_task("held"), test_task("next")};
    quern_status results[2];
    quern_error err = {0};
    const struct qn_enqueue request = {{1, ++bench->sequence}, tasks, 2, results};
    assert_ok(qn_broker_enqueue(bench->broker, &request, &err), err);
    held = NULL;
    held = exchange(bench);
    assert_string_equal(held->task.id, "held");
}

static void end_and_lease(struct bench *bench)
{
    struct qn_leased *next = exchange(bench);
    assert_string_equal(next->task.id, "next");
    qn_leased_free(next);
    qn_leased_free(held);
    held = NULL;
}

static void judge_exchange(struct bench *bench)
{
    (void)bench;
    assert_int_equal(count("GET %s", "asynq:{default}:processed"), 1);
    assert_int_equal(count("LLEN %s", "asynq:{default}:active"), 1);
    assert_int_equal(count("ZCARD %s", "asynq:{default}:lease"), 1);
    assert_int_equal(count("LLEN %s", "asynq:{default}:pending"), 0);
    assert_int_equal(count("EXISTS %s", "asynq:{default}:t:held"), 0);
}

static const struct operation operations[] = {
    {"enqueue", prepare_nothing, enqueue, judge_enqueue},
    {"exchange", prepare_exchange, end_and_lease, judge_exchange},
};

/* --- The sweep ------------------------------------------------------------------------ */

/* Once, with this done to its index-th command. The sizes of that; 0: it has no so many. */
static struct proxy_sizes run_once(struct bench *bench, const struct operation *operation,
                                   size_t index, const struct proxy_rule *rule)
{
    proxy_rules(bench->proxy, NULL, 0);
    test_redis_empty(test_store_server());
    operation->prepare(bench);
    struct proxy_rule counted = *rule;
    counted.skip = index;
    counted.count = 1;
    proxy_rules(bench->proxy, &counted, 1);
    operation->run(bench);
    struct proxy_sizes sizes = proxy_sizes(bench->proxy, 0);
    operation->judge(bench);
    return sizes;
}

static void sweep(struct bench *bench, const struct operation *operation, size_t index,
                  struct proxy_rule rule, size_t size)
{
    for (rule.at = 0; rule.at < size; rule.at++) {
        (void)run_once(bench, operation, index, &rule);
        bench->cuts++;
    }
}

static void a_cut_at_any_byte_never_gives_a_wrong_answer(void **state)
{
    (void)state;
    struct test_store store;
    quern_error err = {0};
    test_store_open(&store, 0);
    struct bench bench = {.proxy = proxy_start_for(test_store_server(), 1)};
    assert_ok(
        qn_broker_open(proxy_url(bench.proxy), &(struct qn_broker_options){0}, &bench.broker, &err),
        err);
    for (size_t i = 0; i < TEST_COUNT(operations); i++) {
        const struct proxy_rule look = {.fault = PROXY_NOTHING};
        (void)run_once(&bench, &operations[i], 0, &look); /* the server knows the scripts now */
        struct proxy_sizes sizes = run_once(&bench, &operations[i], 0, &look);
        size_t index = 0;
        while (sizes.request > 0) {
            sweep(&bench, &operations[i], index, (struct proxy_rule){.fault = PROXY_CUT_REQUEST},
                  sizes.request);
            sweep(&bench, &operations[i], index, (struct proxy_rule){.fault = PROXY_CUT_REPLY},
                  sizes.reply);
            sizes = run_once(&bench, &operations[i], ++index, &look);
            assert_true(index < COMMANDS_MAX);
        }
        print_message("%s: %zu commands, %zu cuts so far\n", operations[i].name, index, bench.cuts);
        assert_true(index > 1);
    }
    qn_broker_close(bench.broker);
    proxy_stop(bench.proxy);
    test_store_close(&store);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", a_cut_at_any_byte_never_gives_a_wrong_answer),
};
TEST_MAIN_OVER_BROKERS(tests)
