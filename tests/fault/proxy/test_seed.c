/* SPDX-License-Identifier: MIT */
/* test_seed.c - faults from a seed: clients, two workers with groups and long runs, and a scheduler
 * use the broker through a proxy that does whatever can happen to a link. Afterwards every enqueue
 * is resolved, every stored task has run, and each extra run has a cause.
 *
 * QUERN_TEST_SEED=N does the same faults again; each is a line of the output. With QUERN_TEST_TLS
 * the links are of TLS: the proxy cuts records, and cannot tell one connection from another. */
#include "lib_lives.h"
#include "lib_proxy.h"
#include "lib_store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/random.h"
#include "broker/inspect.h"
#include "broker/listing.h"

enum {
    WORKERS = 2,
    FAULTS = 50,
    FAULTS_TLS = 15,
    FAULTS_FULL = 500,
    PERMILLE = 25,
    COMMAND_TIMEOUT_MS = 700,
    IDLE_MS = 1000,
    IDLE_CALLS_MAX = 2000, /* also those inside scripts; they need 600 */
    IDLE_CPU_MS_MAX = 300,
    FAULTS_MS_MAX = 600000
};

struct show {
    struct test_store store;
    struct proxy *proxy;
    struct lives *lives;
    quern_mux *mux;
    quern_worker *workers[WORKERS];
    quern_scheduler *scheduler;
    pthread_t threads[WORKERS + 2];
    quern_client *client;
    struct qn_random random;
    size_t faults;
    _Atomic bool stops;
};

static void *run_worker(void *user)
{
    quern_error err = {0};
    quern_status status = quern_worker_run(user, &err);
    TEST_REQUIRE(status == QUERN_OK);
    return NULL;
}

static void *run_scheduler(void *user)
{
    quern_error err = {0};
    TEST_REQUIRE(quern_scheduler_run(user, &err) == QUERN_OK);
    return NULL;
}

/* Enqueues until there were enough faults. */
static void *feed(void *user)
{
    struct show *show = user;
    while (!atomic_load(&show->stops) && show->lives->task_count < LIVES_MAX - 100) {
        lives_enqueue(show->lives, show->client, qn_random_next(&show->random));
        test_pause_ms(5);
    }
    return NULL;
}

static void be_silent(quern_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    if (getenv("QUERN_TEST_LOG") != NULL) {
        (void)fprintf(stderr, "%s\n", line);
    }
}

static void start_workers(struct show *show)
{
    quern_error err = {0};
    const quern_worker_options options = {.queues = lives_queues,
                                          .queue_count = TEST_COUNT(lives_queues),
                                          .concurrency = 8,
                                          .lease_ms = LIVES_LEASE_MS,
                                          .on_log = be_silent};
    for (size_t i = 0; i < WORKERS; i++) {
        assert_ok(
            quern_worker_new(proxy_url(show->proxy), show->mux, &options, &show->workers[i], &err),
            err);
        assert_int_equal(pthread_create(&show->threads[i], NULL, run_worker, show->workers[i]), 0);
    }
}

static void start_scheduler(struct show *show)
{
    quern_error err = {0};
    const quern_scheduler_options options = {.program = "seed", .on_log = be_silent};
    const quern_entry entry = {.name = "e", .cron = "* * * * * *", .misfire = "all 1000"};
    const quern_task task = {.type = "tick"};
    assert_ok(quern_scheduler_new(proxy_url(show->proxy), &options, &show->scheduler, &err), err);
    assert_ok(quern_scheduler_register(show->scheduler, &entry, &task, &err), err);
    assert_int_equal(pthread_create(&show->threads[WORKERS], NULL, run_scheduler, show->scheduler),
                     0);
}

static void open_show(struct show *show)
{
    uint64_t seed = test_seed();
    quern_error err = {0};
    bool is_tls = getenv("QUERN_TEST_TLS") != NULL;
    *show = (struct show){.faults = test_full() ? FAULTS_FULL : is_tls ? FAULTS_TLS : FAULTS};
    qn_random_init_seed(&show->random, seed);
    test_store_open(&show->store, 0);
    show->proxy = proxy_start_tcp_for(test_store_server(), seed);
    show->lives = lives_new();
    show->mux = lives_mux(show->lives);
    start_workers(show);
    start_scheduler(show);
    /* So short that some enqueues end before a silent link is noticed: unknown, or failed. */
    const quern_client_options options = {.command_timeout_ms = COMMAND_TIMEOUT_MS};
    assert_ok(quern_client_open(proxy_url(show->proxy), &options, &show->client, &err), err);
    assert_int_equal(pthread_create(&show->threads[WORKERS + 1], NULL, feed, show), 0);
    proxy_log(show->proxy);
}

static bool had_its_faults(struct show *show)
{
    return proxy_count_all(show->proxy) >= show->faults;
}

static int64_t cpu_ms(void)
{
    struct timespec spent;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000 + spent.tv_nsec / 1000000;
}

/* What has not come to its end. */
static void show_left(const struct show *show)
{
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_open(show->store.url, NULL, &inspector, &err), err);
    for (int state = QUERN_TASK_ACTIVE; state <= QUERN_TASK_AGGREGATING; state++) {
        const quern_task_filter filter = {.state = state, .limit = 5};
        quern_task_list *list = NULL;
        assert_ok(quern_inspector_tasks(inspector, &filter, &list, &err), err);
        for (size_t i = 0; i < quern_task_list_size(list); i++) {
            const quern_task_info *info = quern_task_list_at(list, i);
            size_t size = 0;
            const char *payload = quern_task_info_payload(info, &size);
            print_message("%s is %s in %s, retried %lld: \"%.*s\" %s\n", quern_task_info_id(info),
                          quern_task_state_name((quern_task_state)state),
                          quern_task_info_queue(info), (long long)quern_task_info_retry_count(info),
                          (int)size, payload, quern_task_info_error(info));
        }
        quern_task_list_free(list);
    }
    quern_inspector_free(inspector);
    for (size_t i = 0; i < TEST_COUNT(lives_queues); i++) {
        print_message("sets in %s, and when their leases end: %s\n", lives_queues[i].name,
                      test_redis_do(test_store_server(),
                                    "ZRANGE asynq:{%s}:aggregation_sets 0 -1 WITHSCORES",
                                    lives_queues[i].name));
    }
}

/* All have nothing to do: none of them spins. */
static void assert_rest(void)
{
    long long calls = test_redis_calls(test_store_server());
    int64_t spent_ms = cpu_ms();
    test_pause_ms(IDLE_MS);
    spent_ms = cpu_ms() - spent_ms;
    calls = test_redis_calls(test_store_server()) - calls;
    print_message("idle: %lld ms of CPU, %lld commands in a second\n", (long long)spent_ms, calls);
    assert_in_range(calls, 0, IDLE_CALLS_MAX);
    assert_in_range(spent_ms, 0, IDLE_CPU_MS_MAX);
}

static void close_show(struct show *show)
{
    for (size_t i = 0; i < WORKERS; i++) {
        quern_worker_stop(show->workers[i]);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(show->threads[i], NULL), 0);
        quern_worker_free(show->workers[i]);
    }
    quern_scheduler_free(show->scheduler);
    quern_client_free(show->client);
    quern_mux_free(show->mux);
    proxy_stop(show->proxy);
    lives_free(show->lives);
    test_store_close(&show->store);
}

static void count_violation(const quern_finding *finding, void *user)
{
    size_t *count = user;
    if (finding->severity >= 2) {
        print_message("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id,
                      finding->text);
        ++*count;
    }
}

/* Nothing is left in the broker, and it is sound. */
static void assert_sound(const struct show *show)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    size_t violations = 0;
    assert_ok(qn_broker_open(show->store.url, &(struct qn_broker_options){0}, &broker, &err), err);
    assert_ok(qn_broker_doctor(broker, false, count_violation, &violations, &err), err);
    assert_int_equal(violations, 0);
    qn_broker_close(broker);
    for (size_t i = 0; i < TEST_COUNT(lives_queues); i++) {
        const char *name = lives_queues[i].name;
        assert_int_equal(test_redis_count(test_store_server(), "LLEN asynq:{%s}:active", name), 0);
        assert_int_equal(test_redis_count(test_store_server(), "ZCARD asynq:{%s}:lease", name), 0);
        assert_int_equal(test_redis_count(test_store_server(), "LLEN asynq:{%s}:pending", name), 0);
    }
}

static void nothing_is_lost_stuck_or_unexplained_whatever_happens_to_links(void **state)
{
    (void)state;
    static struct show show;
    open_show(&show);
    int64_t end_ms = test_now_ms() + FAULTS_MS_MAX;
    uint32_t errors = getenv("QUERN_TEST_TLS") == NULL ? PROXY_BIT(PROXY_ERROR) : 0; /* sealed */
    /* Without a bound: one that is chosen for a link which another one cuts first is never seen. */
    proxy_dice(show.proxy, PERMILLE, PROXY_ALL | errors, 0);
    while (!(had_its_faults(&show) && lives_have_ticked(show.lives)) && test_now_ms() < end_ms) {
        test_pause_ms(10);
    }
    proxy_dice(show.proxy, 0, 0, 0);
    assert_true(had_its_faults(&show));
    atomic_store(&show.stops, true);
    assert_int_equal(pthread_join(show.threads[WORKERS + 1], NULL), 0);
    quern_scheduler_stop(show.scheduler);
    assert_int_equal(pthread_join(show.threads[WORKERS], NULL), 0);
    if (!test_until(lives_are_over, show.lives)) {
        show_left(&show); /* the judge says what is missing */
    }
    lives_judge(show.lives);
    assert_rest();
    assert_sound(&show);
    close_show(&show);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", nothing_is_lost_stuck_or_unexplained_whatever_happens_to_links),
};
TEST_MAIN_OVER_BROKERS(tests)
