/* SPDX-License-Identifier: MIT */
/* test_lost_replies.c - connections that are cut before a request arrives, in the middle of it,
 * after it was executed, and in the middle of its reply: a repeated request takes effect once, and
 * its answer shows it. */
#include "lib_proxy.h"
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "task/limits.h"

#define PERMILLE 300

static void show_cuts(const struct proxy *proxy)
{
    for (int cut = 0; cut <= PROXY_CUT_REPLY; cut++) {
        print_message("cut in way %d: %zu\n", cut, proxy_count(proxy, (enum proxy_fault)cut));
        assert_true(proxy_count(proxy, (enum proxy_fault)cut) > 0);
    }
}

/* --- Enqueue ------------------------------------------------------------------------ */

#define BATCH 4
#define BATCH_LARGE 900 /* several scripts */

struct source {
    const char *url;
    char name;
    size_t count;
    size_t batch_max;
    bool plain; /* none has a lock */
    uint64_t seed;
    quern_status status; /* the first that was not QUERN_OK */
    quern_error error;
};

/* Tasks with ids and locks of their own, so a second try that is not recognized would be refused.
 */
static void *enqueue_all(void *argument)
{
    struct source *source = argument;
    struct qn_random random;
    quern_client *client = NULL;
    qn_random_init_seed(&random, source->seed);
    source->status = QUERN_E_CONNECT;
    for (int i = 0; i < 100 && source->status != QUERN_OK; i++) { /* that may be cut, too */
        source->status = quern_client_open(source->url, NULL, &client, &source->error);
    }
    for (size_t done = 0; source->status == QUERN_OK && done < source->count;) {
        quern_task tasks[BATCH_LARGE];
        char ids[BATCH_LARGE][24];
        size_t size = 1 + qn_random_below(&random, source->batch_max);
        size = size < source->count - done ? size : source->count - done;
        for (size_t i = 0; i < size; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "%c%zu", source->name, done + i);
            tasks[i] = (quern_task){.type = "t",
                                    .id = ids[i],
                                    .payload = ids[i],
                                    .payload_size = strlen(ids[i]),
                                    .unique_ms = !source->plain && i % 2 == 0 ? 600000 : 0};
        }
        source->status = quern_client_enqueue_batch(client, tasks, size, NULL, &source->error);
        done += size;
    }
    quern_client_free(client);
    return NULL;
}

static void enqueue_over_a_bad_line(size_t count, size_t batch_max, bool plain)
{
    uint64_t seed = test_seed();
    struct test_store store;
    struct source sources[2];
    pthread_t threads[2];
    test_store_open(&store, 0);
    struct test_redis *server = test_store_server();
    struct proxy *proxy = proxy_start_for(server, seed);
    for (size_t i = 0; i < 2; i++) {
        sources[i] = (struct source){.url = proxy_url(proxy),
                                     .name = (char)('a' + i),
                                     .count = count / 2,
                                     .batch_max = batch_max,
                                     .plain = plain,
                                     .seed = seed + i};
    }
    proxy_cut(proxy, PERMILLE);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, enqueue_all, &sources[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_ok(sources[i].status, sources[i].error);
    }
    show_cuts(proxy);
    assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:pending"), count);
    proxy_stop(proxy);
    test_store_close(&store);
}

static void each_enqueue_is_resolved_and_stores_one_task(void **state)
{
    (void)state;
    enqueue_over_a_bad_line(test_full() ? 10000 : 1000, BATCH, false);
}

static void each_enqueue_of_several_scripts_is_resolved(void **state)
{
    (void)state;
    enqueue_over_a_bad_line(test_full() ? 200000 : 20000, BATCH_LARGE, true);
}

/* --- Exchange ----------------------------------------------------------------------- */

static struct qn_broker *open_broker(const char *url)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    quern_status status = QUERN_E_CONNECT;
    for (int i = 0; i < 100 && status != QUERN_OK; i++) {
        status = qn_broker_open(url, &(struct qn_broker_options){0}, &broker, &err);
    }
    assert_ok(status, err);
    return broker;
}

/* As the pump does: the same request again, until it is known what became of it. */
static void exchange_until_known(struct qn_broker *broker, struct qn_exchange *exchange,
                                 struct qn_exchange_reply *reply)
{
    quern_error err = {0};
    quern_status status = QUERN_E_UNKNOWN;
    for (int i = 0; i < 1000 && status != QUERN_OK; i++) {
        reply->run_count = 0;
        status = qn_broker_exchange(broker, exchange, reply, &err);
        if (status != QUERN_OK && status != QUERN_E_UNKNOWN && status != QUERN_E_CONNECT) {
            assert_ok(status, err);
        }
    }
    assert_ok(status, err);
}

#define ROOM 5

struct relay {
    struct qn_broker *broker;
    struct qn_stamp stamp;
    struct qn_leased *runs[ROOM];
    size_t run_count;
    size_t finished;
    bool *leased;
};

/* Ends the runs of the turn before, and leases the next. */
static size_t pass_relay(struct relay *relay)
{
    struct qn_outcome outcomes[ROOM];
    enum qn_applied applied[ROOM];
    struct qn_leased *next[ROOM] = {0};
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = ROOM};
    struct qn_exchange exchange = {.outcomes = outcomes,
                                   .outcome_count = relay->run_count,
                                   .worker_id = "w",
                                   .lease_ms = 600000,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = ROOM,
                                   .start_count_now = ROOM};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    for (size_t i = 0; i < relay->run_count; i++) {
        outcomes[i] = (struct qn_outcome){.run = relay->runs[i], .kind = QN_DONE};
    }
    relay->stamp.sequence++;
    exchange.stamp = relay->stamp;
    exchange_until_known(relay->broker, &exchange, &reply);
    for (size_t i = 0; i < relay->run_count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(relay->runs[i]);
        relay->finished++;
    }
    for (size_t i = 0; i < reply.run_count; i++) {
        size_t number = strtoul(next[i]->task.id + 1, NULL, 10);
        assert_false(relay->leased[number]);
        relay->leased[number] = true;
        relay->runs[i] = next[i];
    }
    relay->run_count = reply.run_count;
    return reply.run_count;
}

static void each_exchange_takes_effect_once(void **state)
{
    (void)state;
    size_t count = test_full() ? 20000 : 2000;
    struct test_store store;
    quern_error err = {0};
    test_store_open(&store, 0);
    struct test_redis *server = test_store_server();
    struct proxy *proxy = proxy_start_for(server, test_seed());
    struct source source = {.url = store.url, .name = 'a', .count = count, .batch_max = BATCH};
    (void)enqueue_all(&source);
    assert_ok(source.status, source.error);
    struct relay relay = {.broker = open_broker(proxy_url(proxy)),
                          .stamp = {.session = 4711},
                          .leased = calloc(count, sizeof *relay.leased)};
    assert_non_null(relay.leased);
    struct qn_heartbeat heartbeat = {.worker_id = "w",
                                     .owner = "",
                                     .host = "h",
                                     .status = "active",
                                     .queues = "default=1",
                                     .pid = 1};
    assert_ok(qn_broker_heartbeat(relay.broker, &heartbeat, &err), err);
    proxy_cut(proxy, PERMILLE);
    while (pass_relay(&relay) > 0) {
    }
    show_cuts(proxy);
    assert_int_equal(relay.finished, count);
    assert_int_equal(test_redis_count(server, "GET asynq:{default}:processed"), count);
    assert_int_equal(test_redis_count(server, "ZCARD asynq:{default}:lease"), 0);
    assert_int_equal(test_redis_count(server, "LLEN asynq:{default}:active"), 0);
    qn_broker_close(relay.broker);
    free(relay.leased);
    proxy_stop(proxy);
    test_store_close(&store);
}

/* --- A worker ----------------------------------------------------------------------- */

static void worker_behind_a_bad_line_runs_each_task_once(void **state)
{
    (void)state;
    size_t count = test_full() ? 5000 : 500;
    struct rig *rig = rig_new(false);
    struct proxy *proxy = proxy_start_for(test_store_server(), test_seed());
    struct rig_worker worker;
    rig_put_many(rig, NULL, "n", count);
    rig->url = proxy_url(proxy);
    rig_start(rig, &worker, NULL);
    proxy_cut(proxy, 100);
    rig_wait_reports(rig, count);
    proxy_cut(proxy, 0);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, count);
    assert_int_equal(rig_queue(rig, "default").processed_total, count);
    assert_int_equal(rig_queue(rig, "default").size, 0);
    proxy_stop(proxy);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", each_enqueue_is_resolved_and_stores_one_task),
    TEST_ONLY_OVER("redis", each_enqueue_of_several_scripts_is_resolved),
    TEST_ONLY_OVER("redis", each_exchange_takes_effect_once),
    TEST_ONLY_OVER("redis", worker_behind_a_bad_line_runs_each_task_once),
};
TEST_MAIN_OVER_BROKERS(tests)
