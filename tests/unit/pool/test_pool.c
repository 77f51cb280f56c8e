/* SPDX-License-Identifier: MIT */
/* test_pool.c - the thread pool: order, concurrency, wake-ups, taking back, quarantine, stopping.
 */
#include "pool/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "lib_test.h"

enum { ITEMS = 400, PATIENCE_NS = 1000000000 };

/* Shared by the items of a test. */
struct scene {
    pthread_mutex_t mutex;
    pthread_cond_t change;
    int started;
    int ended;
    int inside;
    int inside_max;
    bool gate; /* items that wait for it end once it is open */
    int order[ITEMS];
};

struct item {
    struct qn_pool_item base;
    struct scene *scene;
    int number;
    bool waits;
};

static void scene_init(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    pthread_mutex_init(&scene->mutex, NULL);
    pthread_cond_init(&scene->change, NULL);
}

static void scene_finish(struct scene *scene)
{
    pthread_cond_destroy(&scene->change);
    pthread_mutex_destroy(&scene->mutex);
}

static void execute(struct qn_pool_item *base)
{
    struct item *item = QN_CONTAINER_OF(base, struct item, base);
    struct scene *scene = item->scene;
    pthread_mutex_lock(&scene->mutex);
    scene->order[scene->started++] = item->number;
    scene->inside++;
    scene->inside_max = scene->inside > scene->inside_max ? scene->inside : scene->inside_max;
    pthread_cond_broadcast(&scene->change);
    while (item->waits && !scene->gate) {
        pthread_cond_wait(&scene->change, &scene->mutex);
    }
    scene->inside--;
    scene->ended++;
    pthread_cond_broadcast(&scene->change);
    pthread_mutex_unlock(&scene->mutex);
}

static void open_gate(struct scene *scene)
{
    pthread_mutex_lock(&scene->mutex);
    scene->gate = true;
    pthread_cond_broadcast(&scene->change);
    pthread_mutex_unlock(&scene->mutex);
}

static void wait_started(struct scene *scene, int count)
{
    pthread_mutex_lock(&scene->mutex);
    while (scene->started < count) {
        pthread_cond_wait(&scene->change, &scene->mutex);
    }
    pthread_mutex_unlock(&scene->mutex);
}

static void wait_ended(struct scene *scene, int count)
{
    pthread_mutex_lock(&scene->mutex);
    while (scene->ended < count) {
        pthread_cond_wait(&scene->change, &scene->mutex);
    }
    pthread_mutex_unlock(&scene->mutex);
}

static void submit(struct qn_pool *pool, struct scene *scene, struct item *items, int count,
                   bool waits)
{
    struct qn_list list;
    qn_list_init(&list);
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){.scene = scene, .number = i, .waits = waits};
        items[i].base.execute = execute;
        qn_list_append(&list, &items[i].base.node);
    }
    bool wake = qn_pool_submit(pool, &list);
    assert_true(qn_list_empty(&list));
    if (wake) {
        qn_pool_wake(pool);
    }
}

static struct qn_pool *new_pool(size_t size)
{
    struct qn_pool *pool = NULL;
    quern_error error = {0};
    assert_ok(qn_pool_new(size, &pool, &error), error);
    return pool;
}

static int64_t soon(void)
{
    return qn_clock_mono_ns() + 30 * (int64_t)PATIENCE_NS;
}

static bool has_one_thread(void *user)
{
    struct qn_pool_counts counts;
    qn_pool_count(user, &counts);
    return counts.alive == 1;
}

static void one_thread_runs_items_in_the_order_they_came(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[ITEMS];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(1);
    submit(pool, &scene, items, ITEMS, false);
    assert_true(qn_pool_stop(pool, soon()));
    assert_int_equal(scene.ended, ITEMS);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(scene.order[i], i);
    }
    scene_finish(&scene);
}

static void blocking_items_get_a_thread_each_up_to_the_size(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[24];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(16);
    submit(pool, &scene, items, 24, true);
    wait_started(&scene, 16);
    open_gate(&scene);
    wait_ended(&scene, 24);
    assert_int_equal(scene.inside_max, 16);
    assert_true(qn_pool_stop(pool, soon()));
    scene_finish(&scene);
}

static void sleeping_threads_are_woken_one_after_the_other_until_all_run(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[8];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(8);
    for (int round = 1; round <= 50; round++) {
        scene.gate = false;
        scene.started = 0;
        scene.ended = 0;
        submit(pool, &scene, items, 8, true);
        wait_started(&scene, 8);
        open_gate(&scene);
        wait_ended(&scene, 8);
    }
    assert_true(qn_pool_stop(pool, soon()));
    scene_finish(&scene);
}

static void an_item_that_has_not_started_can_be_taken_back(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[3];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(1);
    submit(pool, &scene, items, 3, true);
    wait_started(&scene, 1);
    assert_false(qn_pool_take_back(pool, &items[0].base));
    assert_true(qn_pool_take_back(pool, &items[1].base));
    assert_false(qn_pool_take_back(pool, &items[1].base));
    open_gate(&scene);
    wait_ended(&scene, 2);
    assert_true(qn_pool_stop(pool, soon()));
    assert_int_equal(scene.order[1], 2);
    assert_int_equal(scene.ended, 2);
    scene_finish(&scene);
}

static void a_quarantined_thread_is_replaced_up_to_the_limit(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[3];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(1);
    submit(pool, &scene, items, 3, true);
    wait_started(&scene, 1);
    assert_true(qn_pool_quarantine(pool, &items[0].base, 1));
    assert_int_equal(qn_pool_quarantined(pool), 1);
    wait_started(&scene, 2); /* on the new thread */
    assert_false(qn_pool_quarantine(pool, &items[1].base, 1));
    assert_false(qn_pool_quarantine(pool, &items[2].base, 9)); /* no thread runs it */
    open_gate(&scene);
    wait_ended(&scene, 3);
    assert_true(qn_pool_stop(pool, soon()));
    scene_finish(&scene);
}

static void stop_reports_that_threads_still_run_and_can_be_called_again(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[1];
    scene_init(&scene);
    struct qn_pool *pool = new_pool(2);
    submit(pool, &scene, items, 1, true);
    wait_started(&scene, 1);
    assert_false(qn_pool_stop(pool, qn_clock_mono_ns()));
    open_gate(&scene);
    assert_true(qn_pool_stop(pool, soon()));
    assert_int_equal(scene.ended, 1);
    scene_finish(&scene);
}

static _Atomic int blocked_signals;

static void check_mask(struct qn_pool_item *base)
{
    struct item *item = QN_CONTAINER_OF(base, struct item, base);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&blocked_signals, sigismember(&mask, SIGTERM) + sigismember(&mask, SIGINT) +
                                       sigismember(&mask, SIGPIPE) + sigismember(&mask, SIGCHLD) -
                                       sigismember(&mask, SIGSEGV));
    execute(&item->base);
}

static void threads_block_the_signals_of_the_program(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene);
    struct item item = {.scene = &scene, .base = {.execute = check_mask}};
    struct qn_list list;
    qn_list_init(&list);
    qn_list_append(&list, &item.base.node);
    struct qn_pool *pool = new_pool(1);
    if (qn_pool_submit(pool, &list)) {
        qn_pool_wake(pool);
    }
    assert_true(qn_pool_stop(pool, soon()));
    assert_int_equal(atomic_load(&blocked_signals), 4);
    scene_finish(&scene);
}

static void a_pool_that_grows_runs_waiting_items_and_one_that_shrinks_ends_none(void **state)
{
    (void)state;
    struct scene scene;
    struct item items[4];
    struct item later[4];
    struct qn_pool_counts counts;
    scene_init(&scene);
    struct qn_pool *pool = new_pool(1);
    submit(pool, &scene, items, 4, true);
    wait_started(&scene, 1);
    qn_pool_resize(pool, 4);
    wait_started(&scene, 4);
    assert_int_equal(scene.inside_max, 4);
    qn_pool_resize(pool, 1);
    qn_pool_count(pool, &counts);
    assert_int_equal(counts.alive, 4);
    open_gate(&scene);
    wait_ended(&scene, 4);
    assert_true(test_until(has_one_thread, pool));
    scene.gate = false;
    submit(pool, &scene, later, 4, false);
    wait_ended(&scene, 8);
    qn_pool_resize(pool, 3); /* from a pool whose threads sleep */
    submit(pool, &scene, items, 3, true);
    wait_started(&scene, 11);
    open_gate(&scene);
    wait_ended(&scene, 11);
    qn_pool_resize(pool, 1);
    assert_true(test_until(has_one_thread, pool));
    assert_true(qn_pool_stop(pool, soon()));
    scene_finish(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_pool_that_grows_runs_waiting_items_and_one_that_shrinks_ends_none),
    cmocka_unit_test(one_thread_runs_items_in_the_order_they_came),
    cmocka_unit_test(blocking_items_get_a_thread_each_up_to_the_size),
    cmocka_unit_test(sleeping_threads_are_woken_one_after_the_other_until_all_run),
    cmocka_unit_test(an_item_that_has_not_started_can_be_taken_back),
    cmocka_unit_test(a_quarantined_thread_is_replaced_up_to_the_limit),
    cmocka_unit_test(stop_reports_that_threads_still_run_and_can_be_called_again),
    cmocka_unit_test(threads_block_the_signals_of_the_program),
};
TEST_MAIN(tests)
