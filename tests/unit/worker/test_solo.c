/* SPDX-License-Identifier: MIT */
/* test_solo.c - how long a worker waits for its other runs before a task runs alone. */
#include "lib_test.h"

#include "base/memory/alloc.h"
#include "worker/internal.h"

#define SECOND_NS INT64_C(1000000000)

/* A worker with one queue that has just taken its solo lock, and still holds a run. */
static int open_worker(void **state)
{
    struct quern_worker *worker = qn_alloc_zero(1, sizeof *worker);
    worker->state = QN_WORKER_RUNNING;
    worker->queue_count = 1;
    worker->paused = qn_alloc_zero(1, sizeof *worker->paused);
    worker->run_table.held_count = 1;
    worker->pump.solo = (struct qn_solo_state){.phase = QN_SOLO_CLEARING,
                                               .taken_at_mono_ns = SECOND_NS,
                                               .keep_at_mono_ns = INT64_MAX,
                                               .patience_ms = QN_SOLO_MS};
    *state = worker;
    return 0;
}

static int close_worker(void **state)
{
    struct quern_worker *worker = *state;
    qn_free(worker->paused);
    qn_free(worker);
    return 0;
}

static enum qn_solo plan(struct quern_worker *worker, int64_t after_ms)
{
    struct qn_exchange_request *request = &worker->pump.first;
    qn_solo_plan(worker, request, SECOND_NS + after_ms * QN_NS_PER_MS);
    return request->exchange.solo;
}

static void a_worker_that_waited_in_vain_waits_twice_as_long_the_next_time(void **state)
{
    struct quern_worker *worker = *state;
    assert_int_equal(plan(worker, QN_SOLO_MS), QN_SOLO_NONE);
    assert_int_equal(plan(worker, QN_SOLO_MS + 1), QN_SOLO_END);
    assert_int_equal(worker->pump.solo.patience_ms, 2 * QN_SOLO_MS);
}

static void a_pause_makes_no_worker_more_patient(void **state)
{
    struct quern_worker *worker = *state;
    worker->paused[0] = true;
    assert_int_equal(plan(worker, 1), QN_SOLO_END);
    assert_int_equal(worker->pump.solo.patience_ms, QN_SOLO_MS);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_worker, close_worker)
static const struct CMUnitTest tests[] = {
    CASE(a_worker_that_waited_in_vain_waits_twice_as_long_the_next_time),
    CASE(a_pause_makes_no_worker_more_patient),
};
TEST_MAIN(tests)
