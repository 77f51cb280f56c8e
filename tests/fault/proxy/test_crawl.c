/* SPDX-License-Identifier: MIT */
/* test_crawl.c - links that are alive and crawl: about 1 KB a second is taken of what we send, or
 * given of what we are sent. What is small gets through, each call on something large ends in its
 * own time and says why, and when the links are fast again nothing is lost, and nothing has run
 * twice without a cause. With QUERN_TEST_TLS by TLS. */
#include "lib_proxy.h"
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "broker/redis/run/extend_lua.h"
#include "broker/redis/run/outcome_lua.h"
#include "broker/redis/upkeep/recover_lua.h"
#include "quern/inspector.h"

enum {
    RATE = 1000, /* bytes in a second */
    COMMAND_MS = 1500,
    LATE_MS = 3 * COMMAND_MS, /* on a busy machine, too */
    LARGE = 512 * 1024,       /* minutes, at that rate */
    RECORD = 14000,
    RECORD_S = 4 /* longer than a link may be silent */
};

static const struct proxy_rates slow_upload = {.taken = RATE};
static const struct proxy_rates slow_download = {.given = RATE};
static const struct proxy_rates fast = {0};

struct scene {
    struct test_store store;
    struct proxy *proxy;
    quern_client *near; /* by the proxy */
    quern_client *far;  /* by a way that works */
    char *payload;      /* LARGE bytes */
};

static void put(quern_client *client, const char *id, const char *payload, size_t size)
{
    quern_error err = {0};
    const quern_task task = {.type = "t", .id = id, .payload = payload, .payload_size = size};
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
}

static void open_scene(struct scene *scene)
{
    quern_error err = {0};
    const quern_client_options options = {.command_timeout_ms = COMMAND_MS};
    *scene = (struct scene){.payload = malloc(LARGE)};
    assert_non_null(scene->payload);
    memset(scene->payload, 'x', LARGE);
    test_store_open(&scene->store, 0);
    scene->proxy = proxy_start_tcp_for(test_store_server(), test_seed());
    assert_ok(quern_client_open(proxy_url(scene->proxy), &options, &scene->near, &err), err);
    assert_ok(quern_client_open(scene->store.url, NULL, &scene->far, &err), err);
    put(scene->near, "first", "x", 1);
}

static void close_scene(struct scene *scene)
{
    quern_client_free(scene->near);
    quern_client_free(scene->far);
    proxy_stop(scene->proxy);
    test_store_close(&scene->store);
    free(scene->payload);
}

static void assert_too_slow(quern_status status, const quern_error *err, int64_t begun_ms)
{
    print_message("after %lld ms: %s\n", (long long)(test_now_ms() - begun_ms), err->text);
    assert_true(status == QUERN_E_TIMEOUT || status == QUERN_E_UNKNOWN);
    assert_non_null(strstr(err->text, "no answer within"));
    assert_in_range(test_now_ms() - begun_ms, 0, LATE_MS);
}

static void an_enqueue_that_is_taken_slowly_ends_in_its_time(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    open_scene(&scene);
    proxy_crawl(scene.proxy, slow_upload);
    const quern_task task = {
        .type = "t", .id = "large", .payload = scene.payload, .payload_size = LARGE};
    int64_t begun_ms = test_now_ms();
    quern_status status = quern_client_enqueue(scene.near, &task, NULL, &err);
    assert_too_slow(status, &err, begun_ms);
    proxy_crawl(scene.proxy, fast);
    put(scene.near, "large", scene.payload, LARGE);
    assert_int_equal(test_redis_count(test_store_server(), "LLEN asynq:{default}:pending"), 2);
    close_scene(&scene);
}

static void a_task_that_is_given_slowly_is_an_error_in_time(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    quern_task_info *info = NULL;
    open_scene(&scene);
    put(scene.far, "large", scene.payload, LARGE);
    proxy_crawl(scene.proxy, slow_download);
    int64_t begun_ms = test_now_ms();
    quern_status status = quern_client_find(scene.near, "default", "large", &info, &err);
    assert_too_slow(status, &err, begun_ms);
    proxy_crawl(scene.proxy, fast);
    assert_ok(quern_client_find(scene.near, "default", "large", &info, &err), err);
    size_t size = 0;
    assert_non_null(quern_task_info_payload(info, &size));
    assert_int_equal(size, LARGE);
    quern_task_info_free(info);
    close_scene(&scene);
}

static void an_inspector_ends_in_its_time(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    quern_inspector *inspector = NULL;
    quern_task_list *list = NULL;
    const quern_inspector_options options = {.command_timeout_ms = COMMAND_MS};
    open_scene(&scene);
    put(scene.far, "large", scene.payload, LARGE);
    assert_ok(quern_inspector_open(proxy_url(scene.proxy), &options, &inspector, &err), err);
    const quern_task_filter all = {.queue = "default", .state = QUERN_TASK_PENDING};
    assert_ok(quern_inspector_tasks(inspector, &all, &list, &err), err);
    quern_task_list_free(list);
    proxy_crawl(scene.proxy, slow_download);
    int64_t begun_ms = test_now_ms();
    quern_status status = quern_inspector_tasks(inspector, &all, &list, &err);
    assert_too_slow(status, &err, begun_ms);
    quern_inspector_free(inspector);
    close_scene(&scene);
}

/* A record of TLS of up to 16 KiB shows nothing before all of it is there. */
static void an_answer_that_takes_some_seconds_is_waited_for(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    quern_task_info *info = NULL;
    quern_client *patient = NULL;
    open_scene(&scene);
    put(scene.far, "record", scene.payload, RECORD);
    assert_ok(quern_client_open(proxy_url(scene.proxy), NULL, &patient, &err), err);
    assert_ok(quern_client_find(patient, "default", "first", &info, &err), err);
    quern_task_info_free(info);
    const struct proxy_rates rates = {.given = RECORD / RECORD_S};
    proxy_crawl(scene.proxy, rates);
    assert_ok(quern_client_find(patient, "default", "record", &info, &err), err);
    quern_task_info_free(info);
    quern_client_free(patient);
    close_scene(&scene);
}

/* The last attempt of a call that has waited for others before. */
static void an_attempt_ends_with_the_time_of_its_caller(void **state)
{
    (void)state;
    struct scene scene;
    quern_error err = {0};
    struct qn_broker *broker = NULL;
    quern_status result = QUERN_OK;
    const struct qn_broker_options options = {.command_timeout_ms = 20 * COMMAND_MS};
    const struct qn_task task = {
        .type = "t", .queue = "default", .id = "late", .state = QUERN_TASK_PENDING};
    open_scene(&scene);
    assert_ok(qn_broker_open(proxy_url(scene.proxy), &options, &broker, &err), err);
    proxy_set_state(scene.proxy, PROXY_SWALLOWS);
    int64_t begun_ms = test_now_ms();
    const struct qn_enqueue enqueue = {.stamp = {7, 1},
                                       .tasks = &task,
                                       .count = 1,
                                       .results = &result,
                                       .deadline_mono_ns =
                                           qn_clock_mono_ns() + COMMAND_MS * QN_NS_PER_MS};
    quern_status status = qn_broker_enqueue(broker, &enqueue, &err);
    assert_too_slow(status, &err, begun_ms);
    qn_broker_close(broker);
    close_scene(&scene);
}

/* --- Workers ------------------------------------------------------------------------- */

enum {
    LEASE_MS = 6000, /* a request has a third of it */
    SMALL_COUNT = 8,
    MANY_COUNT = 16,
    MANY_SIZE = 700,
    MANY_RATE = 2000, /* all of them at once: 6 s */
    STOP_MS = 3 * 10000,
    MEMORY_MAX = 64 * 1024 * 1024 /* that workers, proxies and the test take meanwhile */
};

/* A worker of one queue, and the way to it. */
struct post {
    struct proxy *proxy;
    struct rig_worker worker;
};

static void open_post(struct post *post, struct rig *rig, const char *queue, uint32_t concurrency)
{
    const quern_queue queues[] = {{.name = queue, .weight = 1}};
    post->proxy = proxy_start_tcp_for(test_store_server(), test_seed());
    rig->url = proxy_url(post->proxy);
    rig_start(
        rig, &post->worker,
        &(quern_worker_options){
            .queues = queues, .queue_count = 1, .concurrency = concurrency, .lease_ms = LEASE_MS});
}

static void close_post(struct post *post)
{
    int64_t begun_ms = test_now_ms();
    rig_stop(&post->worker);
    assert_in_range(test_now_ms() - begun_ms, 0, STOP_MS);
    proxy_stop(post->proxy);
}

/* The payload is what "obey" does, and a filling. */
static void put_in(struct rig *rig, const char *queue, const char *id, const char *payload)
{
    const quern_task task = {
        .type = "t", .queue = queue, .id = id, .payload = payload, .payload_size = strlen(payload)};
    rig_put_task(rig, &task);
}

static void put_many(struct rig *rig, const char *queue, size_t count, size_t size)
{
    char payload[MANY_SIZE];
    memset(payload, 'x', sizeof payload);
    for (size_t i = 0; i < count; i++) {
        char id[24];
        (void)snprintf(id, sizeof id, "%s%zu", queue, i);
        const quern_task task = {
            .type = "fill", .queue = queue, .id = id, .payload = payload, .payload_size = size};
        rig_put_task(rig, &task);
    }
}

static quern_outcome finish(quern_run *run, const quern_task *task, void *user)
{
    struct rig *rig = user;
    (void)task;
    pthread_mutex_lock(&rig->mutex);
    struct rig_start *start = &rig->starts[rig->start_count++];
    (void)snprintf(start->id, sizeof start->id, "%s", quern_run_task_id(run));
    pthread_mutex_unlock(&rig->mutex);
    return QUERN_DONE;
}

/* Scripts are sent once with their text, which takes seconds at this rate. */
static bool knows_scripts(void *user)
{
    char line[300];
    (void)user;
    (void)snprintf(line, sizeof line, "SCRIPT EXISTS %s %s %s", qn_lua_extend.sha1,
                   qn_lua_recover.sha1, qn_lua_outcome.sha1);
    const char *list = test_redis_do(test_store_server(), line);
    return strstr(list, "0") == NULL;
}

struct span {
    int64_t until_ms;
};

static bool is_over(void *user)
{
    const struct span *span = user;
    test_pause_ms(20);
    return test_now_ms() >= span->until_ms;
}

static size_t starts_of(struct rig *rig, const char *prefix)
{
    size_t count = 0;
    pthread_mutex_lock(&rig->mutex);
    for (size_t i = 0; i < rig->start_count; i++) {
        count += strncmp(rig->starts[i].id, prefix, strlen(prefix)) == 0 ? 1 : 0;
    }
    pthread_mutex_unlock(&rig->mutex);
    return count;
}

static bool many_have_run(void *rig)
{
    return starts_of(rig, "many") >= MANY_COUNT && starts_of(rig, "up") >= SMALL_COUNT;
}

static bool is_empty(void *user)
{
    static const char *const queues[] = {"up", "down", "many"};
    bool is = true;
    for (size_t i = 0; i < TEST_COUNT(queues); i++) {
        const quern_queue_info info = rig_queue(user, queues[i]);
        is = is && info.size == 0;
    }
    return is;
}

/* Resident. */
static int64_t taken_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %ld", &pages), 1);
    (void)fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* All that a worker has to say or to get is slow: runs keep their leases, as they are extended
 * apart from all else; what is small runs; a batch that is too large for the link is asked for in
 * smaller parts; a task that is too large waits; and nothing runs twice. */
static void workers_keep_what_they_have_over_links_that_crawl(void **state)
{
    (void)state;
    static struct post up;
    static struct post down;
    static struct post many;
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    char *payload = calloc(1, LARGE);
    assert_non_null(payload);
    assert_ok(quern_mux_handle(rig->mux, "fill", finish, rig, NULL, &err), err);
    open_post(&up, rig, "up", 4);
    open_post(&down, rig, "down", 4);
    open_post(&many, rig, "many", MANY_COUNT);
    put_in(rig, "up", "held-up", "hold");
    put_in(rig, "down", "held-down", "hold");
    put_in(rig, "many", "first", "done");
    rig_wait_starts(rig, 3);
    assert_true(test_until(knows_scripts, NULL));

    proxy_crawl(up.proxy, slow_upload);
    proxy_crawl(down.proxy, slow_download);
    proxy_crawl(many.proxy, (struct proxy_rates){.given = MANY_RATE});
    int64_t before_bytes = taken_bytes();
    struct span lease = {.until_ms = test_now_ms() + LEASE_MS + LEASE_MS / 2};
    put_many(rig, "many", MANY_COUNT, MANY_SIZE);
    put_many(rig, "up", SMALL_COUNT, 1);
    put_many(rig, "down", SMALL_COUNT, 1);
    const quern_task task = {
        .type = "fill", .queue = "down", .id = "large", .payload = payload, .payload_size = LARGE};
    rig_put_task(rig, &task);
    if (!test_until(many_have_run, rig)) {
        fail_msg("%zu of many, %zu of up\n%s", starts_of(rig, "many"), starts_of(rig, "up"),
                 rig->log);
    }
    assert_true(test_until(is_over, &lease));
    print_message("%lld bytes more\n", (long long)(taken_bytes() - before_bytes));
    assert_in_range(taken_bytes() - before_bytes + MEMORY_MAX, 0, 2 * MEMORY_MAX);
    assert_int_equal(starts_of(rig, "large"), 0);
    close_post(&many);

    proxy_crawl(up.proxy, fast);
    proxy_crawl(down.proxy, fast);
    rig_open_gate(rig);
    assert_true(test_until(is_empty, rig));
    close_post(&up);
    close_post(&down);
    assert_int_equal(rig->start_count, 2 + 1 + MANY_COUNT + 2 * SMALL_COUNT + 1);
    assert_int_equal(rig->stale_count, 0);
    free(payload);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("redis", an_enqueue_that_is_taken_slowly_ends_in_its_time),
    TEST_ONLY_OVER("redis", a_task_that_is_given_slowly_is_an_error_in_time),
    TEST_ONLY_OVER("redis", an_inspector_ends_in_its_time),
    TEST_ONLY_OVER("redis", an_answer_that_takes_some_seconds_is_waited_for),
    TEST_ONLY_OVER("redis", an_attempt_ends_with_the_time_of_its_caller),
    TEST_ONLY_OVER("redis", workers_keep_what_they_have_over_links_that_crawl),
};
TEST_MAIN_OVER_BROKERS(tests)
