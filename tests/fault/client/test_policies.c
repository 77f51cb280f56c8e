/* SPDX-License-Identifier: MIT */
/* test_policies.c - unique tasks and full queues while many clients and workers use them at the
 * same moment: what a duplicate brings replaces what waits, and is never lost; a queue never holds
 * more than its max_pending. */
#include "lib_worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "quern/inspector.h"

#define CLIENTS 12
#define RUNS_MAX 8192
#define UNIQUE_MS 3600000

/* --- Runs ------------------------------------------------------------------------------- */

struct seen {
    uint64_t fence;
    uint32_t client;
    uint32_t number; /* of the calls of this client */
    int64_t at_ms;
};

struct log {
    struct rig *rig;
    int rest_ms;
    pthread_mutex_t mutex;
    size_t count;
    struct seen runs[RUNS_MAX];
};

static quern_outcome note_payload(quern_run *run, const quern_task *task, void *user)
{
    struct log *log = user;
    struct seen seen = {.fence = quern_run_fence(run), .at_ms = test_now_ms()};
    char *rest = NULL;
    seen.client = (uint32_t)strtoul(task->payload, &rest, 10);
    seen.number = (uint32_t)strtoul(rest, NULL, 10);
    pthread_mutex_lock(&log->mutex);
    if (log->count < RUNS_MAX) {
        log->runs[log->count] = seen;
    }
    log->count++;
    pthread_mutex_unlock(&log->mutex);
    test_pause_ms(log->rest_ms);
    return QUERN_DONE;
}

static int compare_fences(const void *a, const void *b)
{
    const struct seen *left = a;
    const struct seen *right = b;
    return left->fence < right->fence ? -1 : left->fence > right->fence;
}

/* --- Clients ---------------------------------------------------------------------------- */

struct caller {
    const char *url;
    uint32_t client;
    uint32_t calls;
    quern_task task;
    int64_t last_ms; /* when its last call began */
    pthread_t thread;
};

static void *call(void *user)
{
    struct caller *caller = user;
    quern_client *client = NULL;
    quern_error err = {0};
    TEST_REQUIRE(quern_client_open(caller->url, NULL, &client, &err) == QUERN_OK);
    for (uint32_t i = 1; i <= caller->calls; i++) {
        char payload[32];
        quern_task task = caller->task;
        (void)snprintf(payload, sizeof payload, "%u %u", (unsigned)caller->client, (unsigned)i);
        task.payload = payload;
        task.payload_size = strlen(payload);
        caller->last_ms = test_now_ms();
        quern_status status = quern_client_enqueue(client, &task, NULL, &err);
        if (status != QUERN_OK) {
            (void)fprintf(stderr, "call %u: %s\n", (unsigned)i, err.text);
        }
        TEST_REQUIRE(status == QUERN_OK);
    }
    quern_client_free(client);
    return NULL;
}

static void call_all(const struct rig *rig, const quern_task *task, uint32_t calls,
                     int64_t ret_last_ms[CLIENTS])
{
    struct caller callers[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        callers[i] = (struct caller){.url = rig->url, .client = i, .calls = calls, .task = *task};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        ret_last_ms[i] = callers[i].last_ms;
    }
}

static struct rig *open_rig(struct log *log)
{
    quern_error err = {0};
    struct rig *rig = rig_new(false);
    log->rig = rig;
    assert_ok(quern_mux_handle(rig->mux, "note", note_payload, log, NULL, &err), err);
    return rig;
}

static bool is_drained(void *user)
{
    quern_queue_info info = rig_queue(user, "default");
    return info.size == 0;
}

/* --- Replace ---------------------------------------------------------------------------- */

/* The task that is replaced is leased again and again meanwhile. A later call of a client replaces
 * its earlier one or is run after it, so by the fences the calls of each client run in their order;
 * and the last call of all is run. */
static void what_replaces_a_task_that_is_leased_at_that_moment_is_run(void **state)
{
    (void)state;
    static struct log log;
    log = (struct log){.rest_ms = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};
    uint32_t last[CLIENTS + 1] = {0};
    int64_t last_ms[CLIENTS];
    struct rig_worker workers[3];
    struct rig *rig = open_rig(&log);
    const quern_task task = {.type = "note",
                             .unique_ms = UNIQUE_MS,
                             .unique_key = "k",
                             .on_duplicate = QUERN_ON_DUPLICATE_REPLACE};
    for (size_t i = 0; i < TEST_COUNT(workers); i++) {
        rig_start(rig, &workers[i], &(quern_worker_options){.concurrency = 2});
    }
    call_all(rig, &task, test_full() ? 500 : 60, last_ms);
    quern_task final = task;
    quern_error err = {0};
    final.payload = "12 1";
    final.payload_size = 4;
    assert_ok(quern_client_enqueue(rig->client, &final, NULL, &err), err);
    assert_true(test_until(is_drained, rig));
    for (size_t i = 0; i < TEST_COUNT(workers); i++) {
        rig_stop(&workers[i]);
    }
    print_message("%zu runs of %d calls\n", log.count, CLIENTS * (test_full() ? 500 : 60) + 1);
    assert_true(log.count > 0 && log.count <= RUNS_MAX);
    qsort(log.runs, log.count, sizeof log.runs[0], compare_fences);
    for (size_t i = 0; i < log.count; i++) {
        const struct seen *seen = &log.runs[i];
        assert_true(seen->client <= CLIENTS);
        if (seen->number <= last[seen->client]) {
            fail_msg("call %u of client %u was run after call %u", (unsigned)seen->number,
                     (unsigned)seen->client, (unsigned)last[seen->client]);
        }
        last[seen->client] = seen->number;
    }
    assert_int_equal(log.runs[log.count - 1].client, CLIENTS);
    rig_free(rig);
}

/* --- Fairness --------------------------------------------------------------------------- */

#define RUNS_WANTED 10

struct flood {
    const char *url;
    _Atomic bool *stop;
    uint64_t calls;
    pthread_t thread;
};

static void *call_until_stopped(void *user)
{
    struct flood *flood = user;
    const quern_task task = {.type = "note",
                             .payload = "0 1",
                             .payload_size = 3,
                             .unique_ms = UNIQUE_MS,
                             .unique_key = "k",
                             .on_duplicate = QUERN_ON_DUPLICATE_REPLACE};
    quern_client *client = NULL;
    quern_error err = {0};
    TEST_REQUIRE(quern_client_open(flood->url, NULL, &client, &err) == QUERN_OK);
    while (!*flood->stop) {
        TEST_REQUIRE(quern_client_enqueue(client, &task, NULL, &err) == QUERN_OK);
        flood->calls++;
    }
    quern_client_free(client);
    return NULL;
}

static size_t count_runs(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    size_t count = log->count;
    pthread_mutex_unlock(&log->mutex);
    return count;
}

static bool has_run_often(void *user)
{
    return count_runs(user) >= RUNS_WANTED;
}

/* Each run needs two exchanges, and the clients write as fast as they can, without any pause. */
static void worker_gets_its_turns_among_clients_that_replace_without_end(void **state)
{
    (void)state;
    static struct log log;
    log = (struct log){.rest_ms = 0, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct flood floods[CLIENTS];
    struct rig_worker worker;
    uint64_t calls = 0;
    _Atomic bool stop = false;
    struct rig *rig = open_rig(&log);
    rig_start(rig, &worker, NULL);
    int64_t began_ms = test_now_ms();
    for (size_t i = 0; i < CLIENTS; i++) {
        floods[i] = (struct flood){.url = rig->url, .stop = &stop};
        assert_int_equal(pthread_create(&floods[i].thread, NULL, call_until_stopped, &floods[i]),
                         0);
    }
    bool often = test_until(has_run_often, &log);
    stop = true;
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(floods[i].thread, NULL), 0);
        calls += floods[i].calls;
    }
    print_message("%zu runs of %llu calls in %lld ms\n", count_runs(&log),
                  (unsigned long long)calls, (long long)(test_now_ms() - began_ms));
    assert_true(often);
    assert_true(test_until(is_drained, rig));
    rig_stop(&worker);
    rig_free(rig);
}

/* --- Debounce --------------------------------------------------------------------------- */

enum { DEBOUNCE_MS = 2000 };

static bool has_run(void *user)
{
    struct log *log = user;
    pthread_mutex_lock(&log->mutex);
    bool has = log->count > 0;
    pthread_mutex_unlock(&log->mutex);
    return has;
}

/* The calls follow each other sooner than the delay is over, so all of them come to one run, which
 * waits for the delay of the call that was stored last: it counts from when that began. */
static void debounce_of_many_clients_is_one_run_after_the_last(void **state)
{
    (void)state;
    static struct log log;
    log = (struct log){.rest_ms = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};
    int64_t last_ms[CLIENTS];
    struct rig_worker worker;
    struct rig *rig = open_rig(&log);
    const quern_task task = {.type = "note",
                             .delay_ms = DEBOUNCE_MS,
                             .unique_ms = UNIQUE_MS,
                             .unique_key = "k",
                             .on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE};
    rig_start(rig, &worker, NULL);
    call_all(rig, &task, 40, last_ms);
    assert_true(test_until(has_run, &log));
    assert_true(test_until(is_drained, rig));
    rig_stop(&worker);
    assert_int_equal(log.count, 1);
    assert_int_equal(log.runs[0].number, 40); /* the last call of one of them */
    assert_true(log.runs[0].at_ms >= last_ms[log.runs[0].client] + DEBOUNCE_MS - 2);
    rig_free(rig);
}

/* --- Full queues ------------------------------------------------------------------------ */

#define PENDING_MAX 5
#define CALLS_EACH 30

/* argv: URL, number of the client: calls, which wait for room, and acknowledges each. */
static int caller_main(int argc, char **argv)
{
    const quern_client_options options = {.room_wait_ms = TEST_PATIENCE_MS};
    quern_client *client = NULL;
    quern_error err = {0};
    TEST_REQUIRE(argc == 2);
    TEST_REQUIRE(quern_client_open(argv[0], &options, &client, &err) == QUERN_OK);
    for (int i = 0; i < CALLS_EACH; i++) {
        char payload[32];
        (void)snprintf(payload, sizeof payload, "%s %d", argv[1], i);
        const quern_task task = {
            .type = "note", .payload = payload, .payload_size = strlen(payload)};
        quern_status status = quern_client_enqueue(client, &task, NULL, &err);
        if (status != QUERN_OK) {
            (void)fprintf(stderr, "call %d: %s\n", i, err.text);
        }
        TEST_REQUIRE(status == QUERN_OK);
        test_parent_send('k');
    }
    (void)test_parent_receive();
    quern_client_free(client);
    return 0;
}

struct watch {
    struct rig *rig;
    uint64_t most;
    pthread_t thread;
    _Atomic bool stop;
};

static void *watch_queue(void *user)
{
    struct watch *watch = user;
    while (!watch->stop) {
        quern_queue_info info = rig_queue(watch->rig, "default");
        uint64_t waits = info.counts[QUERN_TASK_PENDING];
        watch->most = waits > watch->most ? waits : watch->most;
        test_pause_ms(1);
    }
    return NULL;
}

/* Every call that returned is run once; of a killed client at most one more. */
static void expect_runs(const struct log *log, const int *acknowledged, const bool *killed)
{
    static uint32_t runs[CLIENTS][CALLS_EACH];
    memset(runs, 0, sizeof runs);
    for (size_t i = 0; i < log->count; i++) {
        runs[log->runs[i].client][log->runs[i].number]++;
    }
    for (size_t client = 0; client < CLIENTS; client++) {
        for (int i = 0; i < CALLS_EACH; i++) {
            uint32_t most =
                i < acknowledged[client] || (killed[client] && i == acknowledged[client]);
            if (runs[client][i] > most || (i < acknowledged[client] && runs[client][i] != 1)) {
                fail_msg("call %d of client %zu was run %u times", i, client,
                         (unsigned)runs[client][i]);
            }
        }
    }
}

static void clients_that_wait_for_room_are_killed(void **state)
{
    (void)state;
    static struct log log;
    log = (struct log){.rest_ms = 3, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct test_child children[CLIENTS];
    int acknowledged[CLIENTS] = {0};
    bool killed[CLIENTS] = {0};
    struct rig_worker worker;
    struct qn_random random;
    struct rig *rig = open_rig(&log);
    struct watch watch = {.rig = rig};
    quern_error err = {0};
    qn_random_init_seed(&random, test_seed());
    const quern_queue_settings settings = {.max_pending = PENDING_MAX};
    assert_ok(qn_broker_set_queue(rig->broker, "default", &settings, &err), err);
    assert_int_equal(pthread_create(&watch.thread, NULL, watch_queue, &watch), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        char number[8];
        (void)snprintf(number, sizeof number, "%zu", i);
        const char *const args[] = {rig->url, number, NULL};
        children[i] = test_spawn("caller", args);
    }
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 2});
    for (size_t i = 0; i < CLIENTS; i += 3) {
        for (uint64_t wait = qn_random_below(&random, 8); wait > 0; wait--) {
            assert_int_equal(test_child_receive(&children[i]), 'k');
            acknowledged[i]++;
        }
        assert_int_equal(kill(children[i].pid, SIGKILL), 0);
        killed[i] = true;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        while (acknowledged[i] < CALLS_EACH && test_child_receive(&children[i]) == 'k') {
            acknowledged[i]++;
        }
        assert_true(killed[i] || acknowledged[i] == CALLS_EACH);
        if (!killed[i]) {
            test_child_send(&children[i], 'q');
        }
        assert_int_equal(test_child_join(&children[i]), killed[i] ? 128 + SIGKILL : 0);
    }
    assert_true(test_until(is_drained, rig));
    rig_stop(&worker);
    watch.stop = true;
    assert_int_equal(pthread_join(watch.thread, NULL), 0);
    print_message("%zu runs, at most %llu pending\n", log.count, (unsigned long long)watch.most);
    assert_true(watch.most <= PENDING_MAX);
    expect_runs(&log, acknowledged, killed);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_replaces_a_task_that_is_leased_at_that_moment_is_run),
    cmocka_unit_test(worker_gets_its_turns_among_clients_that_replace_without_end),
    cmocka_unit_test(debounce_of_many_clients_is_one_run_after_the_last),
    cmocka_unit_test(clients_that_wait_for_room_are_killed),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "caller", .main = caller_main}};
    const struct test_group group = {"policies", tests, TEST_COUNT(tests), roles,
                                     TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
