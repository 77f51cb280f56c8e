/* SPDX-License-Identifier: MIT */
/* test_alloc.c - memory runs out at the n-th allocation of a worker: it says so or goes on,
 * and every task ends exactly once. */
#include <stdatomic.h>

#include "lib_alloc.h"
#include "lib_worker.h"

enum { TASKS = 3, SWEEP_MAX = 3000 };

static _Atomic int handled;

static quern_outcome handle(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    atomic_fetch_add(&handled, 1);
    return quern_run_fail(run, QUERN_DONE, "a text that needs memory");
}

/* Drains the queue with one failing allocation; only "out of memory" may come of it. */
static bool drain(struct rig *rig, long n)
{
    const quern_worker_options options = {.concurrency = 2, .drain = true};
    quern_worker *worker = NULL;
    quern_error error = {0};
    atomic_store(&test_alloc_until_failure, n);
    quern_status status = quern_worker_new(rig->url, rig->mux, &options, &worker, &error);
    if (status == QUERN_OK) {
        status = quern_worker_run(worker, &error);
    }
    long left = atomic_exchange(&test_alloc_until_failure, 0);
    quern_worker_free(worker);
    if (status != QUERN_OK && status != QUERN_E_NOMEM) {
        fail_msg("allocation %ld: %s", n, error.text);
    }
    return left < 0;
}

static void a_worker_without_memory_loses_no_task(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    assert_ok(quern_mux_handle(rig->mux, "m", handle, NULL, NULL, &error), error);
    int expected = 0;
    bool failed = true;
    for (long n = 1; failed; n++) {
        assert_true(n < SWEEP_MAX);
        for (int i = 0; i < TASKS; i++) {
            rig_put_task(rig, &(quern_task){.type = "m"});
        }
        expected += TASKS;
        failed = drain(rig, n);
        assert_false(drain(rig, 0)); /* what the first one did not get to */
        assert_int_equal(rig_queue(rig, "default").size, 0);
        assert_int_equal(rig_queue(rig, "default").processed_total, expected);
        assert_int_equal(atomic_load(&handled), expected);
    }
    print_message("%d tasks, a failing allocation for every %d\n", expected, TASKS);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_worker_without_memory_loses_no_task),
};
TEST_MAIN(tests)
