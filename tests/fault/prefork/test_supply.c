/* SPDX-License-Identifier: MIT */
/* test_supply.c - children that cannot be started: what cannot run is not leased, and no task is
 * charged. */
#include "lib_worker.h"

#include <string.h>

static void die_beyond_the_limit(void *user)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->mutex);
    bool lives = rig->may_live > 0;
    rig->may_live -= lives ? 1 : 0;
    rig->stillborn_count += lives ? 0 : 1;
    pthread_mutex_unlock(&rig->mutex);
    if (!lives) {
        _exit(7);
    }
}

static void prepare(struct rig *rig)
{
    rig->on_child_start = die_beyond_the_limit;
}

static void let_live(struct rig *rig, size_t count)
{
    pthread_mutex_lock(&rig->mutex);
    rig->may_live = count;
    pthread_mutex_unlock(&rig->mutex);
}

static size_t count_of(struct rig *rig, const char *text)
{
    size_t count = 0;
    pthread_mutex_lock(&rig->mutex);
    for (const char *at = strstr(rig->log, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    pthread_mutex_unlock(&rig->mutex);
    return count;
}

struct question {
    struct rig *rig;
    size_t count;
};

static bool has_stillborn(void *user)
{
    const struct question *question = user;
    pthread_mutex_lock(&question->rig->mutex);
    bool enough = question->rig->stillborn_count >= question->count;
    pthread_mutex_unlock(&question->rig->mutex);
    return enough;
}

static void wait_stillborn(struct rig *rig, size_t count)
{
    struct question question = {.rig = rig, .count = count};
    assert_true(test_until(has_stillborn, &question));
}

static void assert_untouched(struct rig *rig, const char *id)
{
    quern_task_info *info = rig_inspect(rig, id);
    assert_int_equal(quern_task_info_state(info), QUERN_TASK_PENDING);
    assert_int_equal(quern_task_info_retry_count(info), 0);
    assert_int_equal(quern_task_info_crash_count(info), 0);
    assert_int_equal(quern_task_info_cause(info), QUERN_CAUSE_NONE); /* was not given back */
    quern_task_info_free(info);
}

static void nothing_is_leased_until_a_child_lives(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    rig_put(rig, "x", "done");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    wait_stillborn(rig, 5);
    rig_wait_log(rig, "children cannot be started");
    rig_wait_log(rig, "exit status 7");
    assert_untouched(rig, "x");
    let_live(rig, 1);
    rig_wait_state(rig, "x", 0);
    rig_wait_log(rig, "children can be started again");
    rig_stop(&worker);
    assert_int_equal(count_of(rig, "children cannot be started"), 1);
    rig_free(rig);
}

static void no_more_is_leased_than_children_live(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    let_live(rig, 2);
    rig_put(rig, "a", "hold");
    rig_put(rig, "b", "hold");
    rig_put(rig, "c", "hold");
    rig_put(rig, "d", "hold");
    rig_start(rig, &worker, NULL);
    rig_wait_starts(rig, 2);
    wait_stillborn(rig, 5);
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_ACTIVE], 2);
    assert_int_equal(rig_queue(rig, "default").counts[QUERN_TASK_PENDING], 2);
    let_live(rig, 2);
    rig_wait_starts(rig, 4);
    rig_open_gate(rig);
    rig_wait_reports(rig, 4);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_that_lost_its_children_waits_for_others(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    let_live(rig, 1);
    rig_put_task(rig, &(quern_task){.id = "exit",
                                    .payload = "exit",
                                    .payload_size = 4,
                                    .retry_max = QUERN_RETRY_NEVER});
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_state(rig, "exit", QUERN_TASK_ARCHIVED);
    wait_stillborn(rig, 2);
    rig_put(rig, "x", "done");
    wait_stillborn(rig, 4);
    assert_untouched(rig, "x");
    let_live(rig, 1);
    rig_wait_state(rig, "x", 0);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_worker_without_children_stops(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare);
    struct rig_worker worker;
    rig_put(rig, "x", "done");
    rig_start(rig, &worker, NULL);
    wait_stillborn(rig, 4);
    rig_stop(&worker);
    assert_int_equal(rig_state(rig, "x"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static void start_slowly(void *user)
{
    (void)user;
    test_pause_ms(5000);
}

static void prepare_slow(struct rig *rig)
{
    rig->on_child_start = start_slowly;
}

/* Else a machine without CPU to spare would kill all children, again and again. */
static void a_child_that_starts_slowly_gets_more_time_after_a_failure(void **state)
{
    (void)state;
    if (!test_full()) {
        TEST_SKIP("takes 10 s");
    }
    struct rig *rig = rig_new_prefork(prepare_slow);
    struct rig_worker worker;
    rig_put(rig, "x", "done");
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_state(rig, "x", 0);
    assert_true(rig_logged(rig, "it was not ready in time"));
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    TEST_ONLY_OVER("sqlite", a_child_that_starts_slowly_gets_more_time_after_a_failure),
    cmocka_unit_test(nothing_is_leased_until_a_child_lives),
    cmocka_unit_test(no_more_is_leased_than_children_live),
    cmocka_unit_test(a_worker_that_lost_its_children_waits_for_others),
    cmocka_unit_test(a_worker_without_children_stops),
};
TEST_MAIN_OVER_BROKERS(tests)
