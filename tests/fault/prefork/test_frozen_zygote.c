/* SPDX-License-Identifier: MIT */
/* test_frozen_zygote.c - a zygote that is stopped: its children go on, new ones wait for it, and
 * its worker ends without it. */
#include "lib_freeze.h"
#include "lib_worker.h"

#include <signal.h>

/* Until both have run something. */
static void start_two(struct rig *rig, struct rig_worker *worker,
                      const quern_worker_options *options)
{
    rig_put(rig, "first", "hold");
    rig_put(rig, "second", "hold");
    rig_start(rig, worker, options);
    rig_wait_starts(rig, 2);
    rig_open_gate(rig);
    rig_wait_reports(rig, 2);
    atomic_store(&rig->gate, false);
}

static pid_t zygote_of(struct rig *rig)
{
    return fault_parent_of(fault_parent_of(rig_start_at(rig, 0).pid));
}

static void prepare_lone(struct rig *rig)
{
    quern_error err = {0};
    const quern_handler_options options = {.on_crash = QUERN_ON_CRASH_ARCHIVE};
    assert_ok(quern_mux_handle(rig->mux, "lone", rig_handler(), rig, &options, &err), err);
}

static bool is_done(void *user)
{
    struct rig *rig = user;
    return rig_queue(rig, "default").size == 1; /* the one that has died */
}

static void a_frozen_zygote_delays_new_children_only(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(prepare_lone);
    struct rig_worker worker;
    start_two(rig, &worker, &(quern_worker_options){.concurrency = 2});
    pid_t zygote = zygote_of(rig);
    freeze_process(zygote);
    rig_put_task(rig,
                 &(quern_task){.id = "x", .type = "lone", .payload = "die", .payload_size = 3});
    rig_wait_state(rig, "x", QUERN_TASK_ARCHIVED); /* how it has died is not reported */
    rig_put_many(rig, "default", "m", 100);
    assert_true(test_until(is_done, rig));
    assert_int_equal(kill(zygote, SIGCONT), 0);
    size_t starts = rig->start_count;
    rig_put(rig, "a", "hold");
    rig_put(rig, "b", "hold");
    rig_wait_starts(rig, starts + 2); /* there are two children again */
    assert_int_equal(rig->inside, 3); /* and the one that has died inside */
    rig_open_gate(rig);
    rig_wait_state(rig, "a", 0);
    rig_wait_state(rig, "b", 0);
    assert_int_equal(rig_stats(&worker).archived, 1);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 2 + 1 + 100 + 2);
    rig_free(rig);
}

static void a_frozen_zygote_does_not_keep_its_worker(void **state)
{
    (void)state;
    struct rig *rig = rig_new_prefork(NULL);
    struct rig_worker worker;
    start_two(rig, &worker,
              &(quern_worker_options){
                  .concurrency = 2, .shutdown_timeout_ms = 50, .soft_shutdown_timeout_ms = 50});
    rig_put(rig, "spin", "spin");
    rig_wait_starts(rig, 3);
    pid_t child = rig_start_at(rig, 2).pid;
    freeze_process(zygote_of(rig));
    int64_t begin_ms = test_now_ms();
    rig_stop(&worker);
    assert_in_range(test_now_ms() - begin_ms, 0, 8000);
    assert_int_equal(kill(child, 0), -1);
    assert_int_equal(rig_state(rig, "spin"), QUERN_TASK_PENDING);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_frozen_zygote_delays_new_children_only),
    cmocka_unit_test(a_frozen_zygote_does_not_keep_its_worker),
};
TEST_MAIN_OVER_BROKERS(tests)
