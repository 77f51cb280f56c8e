/* SPDX-License-Identifier: MIT */
/* test_beats.c - a thread that has slept for long, and begins a step right now, does not hang. */
#include "lib_test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "worker/internal.h"

#define SLEEP_MS 100
#define LATE_MS (SLEEP_MS * 8 / 10) /* the time since it fell asleep */
#define STEPS 40

static struct quern_worker worker;
static _Atomic bool ends;

static void *step_and_sleep(void *user)
{
    (void)user;
    for (int i = 0; i < STEPS; i++) {
        qn_beats_sleep(&worker, QN_BEAT_PUMP, INT64_MAX);
        (void)poll(NULL, 0, SLEEP_MS);
        qn_beats_step(&worker, QN_BEAT_PUMP);
    }
    atomic_store(&ends, true);
    return NULL;
}

static void a_thread_that_wakes_up_does_not_hang(void **state)
{
    (void)state;
    pthread_t thread;
    const char *name = NULL;
    int64_t longest_ms = 0;
    worker.options.stall_timeout_ms = 1;
    assert_int_equal(pthread_create(&thread, NULL, step_and_sleep, NULL), 0);
    while (!atomic_load(&ends)) {
        int64_t ms = qn_beats_hang_ms(&worker, qn_clock_mono_ns(), &name);
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(longest_ms < LATE_MS);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_wakes_up_does_not_hang),
    };
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return test_main(argc, argv, &group);
}
