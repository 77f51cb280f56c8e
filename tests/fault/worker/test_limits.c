/* SPDX-License-Identifier: MIT */
/* test_limits.c - limits as workers meet them: who is woken when a task may run at last, and what a
 * worker holds meanwhile. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "broker/limit/limit.h"

#define WORKERS 4
#define RESTS 1000
#define ROUNDS 5
#define SOON_MS 300 /* well below the second after which a worker looks by itself */

static void set_limit(struct rig *rig, quern_limit_scope scope, const char *name, int64_t count)
{
    quern_error err = {0};
    const quern_limit limit = {
        .queue = "default", .scope = (int32_t)scope, .name = name, .count = count};
    assert_ok(qn_broker_set_limit(rig->broker, &limit, &err), err);
}

static void remove_limit(struct rig *rig, quern_limit_scope scope, const char *name)
{
    quern_error err = {0};
    const struct qn_limit_owner owner = {.queue = "default", .scope = scope, .name = name};
    assert_ok(qn_broker_remove_limit(rig->broker, &owner, &err), err);
}

static void start_all(struct rig *rig, struct rig_worker *workers, uint32_t concurrency)
{
    for (size_t i = 0; i < WORKERS; i++) {
        rig_start(rig, &workers[i], &(quern_worker_options){.concurrency = concurrency});
    }
}

static void stop_all(struct rig_worker *workers)
{
    for (size_t i = 0; i < WORKERS; i++) {
        rig_stop(&workers[i]);
    }
}

/* --- What a worker holds ---------------------------------------------------------------- */

/* How many runs there are, each time that one starts. */
struct gauge {
    int rest_ms; /* of each run; more than 10: they are not prefetched */
    pthread_mutex_t mutex;
    size_t now;
    size_t most;
    size_t starts;
    size_t sum;
};

static quern_outcome rest(quern_run *run, const quern_task *task, void *user)
{
    struct gauge *gauge = user;
    (void)run;
    (void)task;
    pthread_mutex_lock(&gauge->mutex);
    gauge->now++;
    gauge->most = gauge->now > gauge->most ? gauge->now : gauge->most;
    gauge->starts++;
    gauge->sum += gauge->now;
    pthread_mutex_unlock(&gauge->mutex);
    test_pause_ms(gauge->rest_ms);
    pthread_mutex_lock(&gauge->mutex);
    gauge->now--;
    pthread_mutex_unlock(&gauge->mutex);
    return QUERN_DONE;
}

static bool has_run_all(void *user)
{
    struct gauge *gauge = user;
    pthread_mutex_lock(&gauge->mutex);
    bool all = gauge->starts >= RESTS && gauge->now == 0;
    pthread_mutex_unlock(&gauge->mutex);
    return all;
}

/* Short runs are prefetched: such a one has its place of the limit before it runs. With fewer slots
 * in each worker than the limit has places most of them are still used. */
static void limit_of_short_runs_is_kept_and_used(void **state)
{
    (void)state;
    struct gauge gauge = {.rest_ms = 4, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct rig_worker workers[WORKERS];
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    assert_ok(quern_mux_handle(rig->mux, "rest", rest, &gauge, NULL, &err), err);
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 6);
    rig_put_many_of(rig, "rest", "default", "r", RESTS);
    start_all(rig, workers, 2);
    assert_true(test_until(has_run_all, &gauge));
    stop_all(workers);
    print_message("%.2f of %zu run when one starts\n", (double)gauge.sum / (double)gauge.starts,
                  gauge.most);
    assert_int_equal(gauge.most, 6);
    assert_true(gauge.sum > 2 * gauge.starts);
    rig_free(rig);
}

/* --- Turns ------------------------------------------------------------------------------ */

#define BATCH 500
#define TURN_SLOTS 4

static void put_noisy(struct rig *rig, size_t count)
{
    static quern_task tasks[BATCH];
    quern_error err = {0};
    for (size_t i = 0; i < BATCH; i++) {
        tasks[i] = (quern_task){.type = "rest", .limit_key = "noisy"};
    }
    for (size_t put = 0; put < count; put += BATCH) {
        assert_ok(quern_client_enqueue_batch(rig->client, tasks, BATCH, NULL, &err), err);
    }
}

struct turn {
    struct gauge *noisy;
    size_t at; /* starts of the noisy one when the single task was stored; SIZE_MAX: not yet */
    size_t passed;
    bool started;
};

static quern_outcome note_turn(quern_run *run, const quern_task *task, void *user)
{
    struct turn *turn = user;
    (void)run;
    (void)task;
    pthread_mutex_lock(&turn->noisy->mutex);
    turn->passed = turn->noisy->starts > turn->at ? turn->noisy->starts - turn->at : 0;
    turn->started = true;
    pthread_mutex_unlock(&turn->noisy->mutex);
    return QUERN_DONE;
}

static bool has_started(void *user)
{
    struct turn *turn = user;
    pthread_mutex_lock(&turn->noisy->mutex);
    bool started = turn->started;
    pthread_mutex_unlock(&turn->noisy->mutex);
    return started;
}

static bool is_noisy(void *user)
{
    struct gauge *gauge = user;
    pthread_mutex_lock(&gauge->mutex);
    bool noisy = gauge->starts > 500;
    pthread_mutex_unlock(&gauge->mutex);
    return noisy;
}

/* The next lease after it was stored takes it, so only what was leased before can start before it,
 * and what others start until its own worker does. */
static void single_task_of_a_key_waits_for_one_round_of_a_noisy_one(void **state)
{
    (void)state;
    size_t most = 0;
    struct gauge gauge = {.rest_ms = 15, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct turn turn = {.noisy = &gauge};
    struct rig_worker workers[WORKERS];
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    const quern_task single = {.type = "single", .limit_key = "quiet"};
    assert_ok(quern_mux_handle(rig->mux, "rest", rest, &gauge, NULL, &err), err);
    assert_ok(quern_mux_handle(rig->mux, "single", note_turn, &turn, NULL, &err), err);
    put_noisy(rig, test_full() ? 100000 : 20000);
    start_all(rig, workers, TURN_SLOTS);
    assert_true(test_until(is_noisy, &gauge));
    for (int i = 0; i < 20; i++) {
        turn.started = false;
        turn.at = SIZE_MAX;
        assert_ok(quern_client_enqueue(rig->client, &single, NULL, &err), err);
        pthread_mutex_lock(&gauge.mutex);
        turn.at = gauge.starts;
        pthread_mutex_unlock(&gauge.mutex);
        assert_true(test_until(has_started, &turn));
        most = turn.passed > most ? turn.passed : most;
    }
    stop_all(workers);
    print_message("%zu runs of the noisy one at most\n", most);
    assert_true(most <= WORKERS * TURN_SLOTS);
    rig_free(rig);
}

/* --- Who is woken ----------------------------------------------------------------------- */

static int compare_ms(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* A worker looks by itself each second; one late wake-up of several may be the machine's. */
static void expect_most_soon(int64_t *delays_ms)
{
    qsort(delays_ms, ROUNDS, sizeof delays_ms[0], compare_ms);
    if (delays_ms[ROUNDS / 2] > SOON_MS) {
        fail_msg("%d to %d ms, half of them after %d", (int)delays_ms[0],
                 (int)delays_ms[ROUNDS - 1], (int)delays_ms[ROUNDS / 2]);
    }
}

/* Each time at another moment of the second after which workers look by themselves. */
static void rest_a_part_of_a_second(size_t round)
{
    test_pause_ms(150 + (int)round * 190);
}

static void expect_removal_wakes(struct rig *rig, quern_limit_scope scope, const char *name)
{
    int64_t delays_ms[ROUNDS];
    struct rig_worker workers[WORKERS];
    start_all(rig, workers, 2);
    for (size_t round = 0; round < ROUNDS; round++) {
        char prefix[16];
        size_t before = rig->start_count;
        set_limit(rig, scope, name, 0);
        (void)snprintf(prefix, sizeof prefix, "%d-%zu-", (int)scope, round);
        rig_put_many(rig, "default", prefix, 20);
        rest_a_part_of_a_second(round);
        assert_int_equal(rig->start_count, before);
        int64_t at_ms = test_now_ms();
        remove_limit(rig, scope, name);
        rig_wait_starts(rig, before + 20);
        delays_ms[round] = rig_start_at(rig, before + 19).at_ms - at_ms;
    }
    stop_all(workers);
    expect_most_soon(delays_ms);
}

static void removed_limit_wakes_workers_that_sleep(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    expect_removal_wakes(rig, QUERN_LIMIT_QUEUE, "");
    expect_removal_wakes(rig, QUERN_LIMIT_TYPE, "t");
    expect_removal_wakes(rig, QUERN_LIMIT_TYPE, "*");
    rig_free(rig);
}

/* While one worker runs the only task that may run, others sleep; one of them does not serve the
 * queue. The place is freed by a worker that leaves, and so takes no other task. */
static void place_that_a_leaving_worker_frees_goes_to_one_that_sleeps(void **state)
{
    (void)state;
    static const quern_queue other = {.name = "other"};
    int64_t delays_ms[ROUNDS];
    struct rig *rig = rig_new(false);
    struct rig_worker stranger;
    struct rig_worker sleeper;
    struct rig_worker leaver;
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 1);
    rig_start(rig, &stranger, &(quern_worker_options){.queues = &other, .queue_count = 1});
    for (size_t round = 0; round < ROUNDS; round++) {
        char id[2][8] = {"", ""};
        (void)snprintf(id[0], sizeof id[0], "h%zu", round);
        (void)snprintf(id[1], sizeof id[1], "n%zu", round);
        size_t before = rig->start_count;
        rig_start(rig, &leaver, NULL);
        rig_put(rig, id[0], "hold");
        rig_wait_starts(rig, before + 1);
        rig_start(rig, &sleeper, NULL);
        rig_put(rig, id[1], "done");
        rest_a_part_of_a_second(round);
        assert_int_equal(rig->start_count, before + 1);
        quern_worker_stop(leaver.worker);
        rig_wait_unready(&leaver);
        int64_t at_ms = test_now_ms();
        rig_open_gate(rig);
        rig_wait_starts(rig, before + 2);
        delays_ms[round] = rig_start_at(rig, before + 1).at_ms - at_ms;
        assert_int_equal(rig_join(&leaver), QUERN_OK);
        rig_stop(&sleeper);
        rig->gate = false;
    }
    rig_stop(&stranger);
    expect_most_soon(delays_ms);
    rig_free(rig);
}

static void very_many_that_wait_run_when_their_limit_is_removed(void **state)
{
    (void)state;
    size_t count = test_full() ? 10000 : 1000;
    struct rig_worker workers[WORKERS];
    struct rig *rig = rig_new(false);
    start_all(rig, workers, 4);
    rig_put_many(rig, "default", "a", count);
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 0);
    rig_put_many(rig, "default", "b", count / 2);
    remove_limit(rig, QUERN_LIMIT_QUEUE, "");
    rig_wait_starts(rig, count + count / 2);
    stop_all(workers);
    assert_int_equal(rig->start_count, count + count / 2);
    rig_free(rig);
}

/* --- What a run ends with --------------------------------------------------------------- */

static void however_a_run_ends_the_next_one_starts(void **state)
{
    (void)state;
    static const char *const words[] = {"done",   "retry",  "archive", "drop", "odd",
                                        "snooze", "result", "wait",    "done"};
    struct rig_worker workers[WORKERS];
    struct rig *rig = rig_new(false);
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 1);
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "t%zu", i);
        rig_put_task(rig, &(quern_task){.type = "t",
                                        .id = id,
                                        .payload = words[i],
                                        .payload_size = strlen(words[i]),
                                        .timeout_ms = strcmp(words[i], "wait") == 0 ? 50 : 0,
                                        .retry = QUERN_BACKOFF_FIXED(600000)});
    }
    start_all(rig, workers, 2);
    rig_wait_starts(rig, TEST_COUNT(words));
    rig_wait_empty(rig);
    stop_all(workers);
    assert_int_equal(rig->start_count, TEST_COUNT(words));
    assert_int_equal(rig->inside_max, 1);
    rig_free(rig);
}

static void paused_queue_with_a_full_limit_goes_on_when_resumed(void **state)
{
    (void)state;
    struct rig_worker workers[WORKERS];
    struct rig *rig = rig_new(false);
    quern_error err = {0};
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 2);
    rig_put(rig, "h0", "hold");
    rig_put(rig, "h1", "hold");
    start_all(rig, workers, 2);
    rig_wait_starts(rig, 2);
    rig_put_many(rig, "default", "n", 10);
    assert_ok(qn_broker_pause(rig->broker, "default", true, &err), err);
    rig_open_gate(rig);
    rig_wait_empty(rig);
    rest_a_part_of_a_second(0);
    assert_int_equal(rig->start_count, 2);
    set_limit(rig, QUERN_LIMIT_QUEUE, "", 1); /* paused: it wakes no worker for nothing */
    assert_ok(qn_broker_pause(rig->broker, "default", false, &err), err);
    rig_wait_starts(rig, 12);
    stop_all(workers);
    assert_int_equal(rig->inside_max, 2);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(limit_of_short_runs_is_kept_and_used),
    cmocka_unit_test(single_task_of_a_key_waits_for_one_round_of_a_noisy_one),
    cmocka_unit_test(removed_limit_wakes_workers_that_sleep),
    cmocka_unit_test(place_that_a_leaving_worker_frees_goes_to_one_that_sleeps),
    cmocka_unit_test(very_many_that_wait_run_when_their_limit_is_removed),
    cmocka_unit_test(however_a_run_ends_the_next_one_starts),
    cmocka_unit_test(paused_queue_with_a_full_limit_goes_on_when_resumed),
};

TEST_MAIN_OVER_BROKERS(tests)
