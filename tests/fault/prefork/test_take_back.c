/* SPDX-License-Identifier: MIT */
/* test_take_back.c - runs that wait in the window of a busy child go back to the queue after 100 ms
 * and cost nothing, so another worker runs them; also those that were prefetched. */
#include "lib_worker.h"

enum { SHORT = 60, HELD = 4, SLOTS = 3 };

/* In threads of this process. */
static void start_other(struct rig *rig, struct rig_worker *worker)
{
    quern_zygote *zygote = rig->zygote;
    rig->zygote = NULL;
    rig_start(rig, worker, &(quern_worker_options){.concurrency = SLOTS});
    rig->zygote = zygote;
}

/* Each has run once, and none was charged. */
static void check_starts(struct rig *rig)
{
    size_t in_child = 0;
    assert_int_equal(rig->start_count, SHORT + HELD);
    for (size_t i = SHORT; i < SHORT + HELD; i++) {
        struct rig_start start = rig_start_at(rig, i);
        in_child += start.pid != getpid();
        assert_int_equal(start.retry_count, 0);
        assert_int_equal(start.crash_count, 0);
        assert_true(start.cause == QUERN_CAUSE_NONE || start.cause == QUERN_CAUSE_GIVEN_BACK);
    }
    assert_int_equal(in_child, 1);
}

static void what_a_busy_child_does_not_start_runs_elsewhere(void **state)
{
    (void)state;
    static const int32_t prefetch_max[] = {0, 8}; /* measured, and a fixed number */
    for (size_t i = 0; i < TEST_COUNT(prefetch_max); i++) {
        struct rig *rig = rig_new_prefork(NULL);
        struct rig_worker busy;
        struct rig_worker other;
        rig_start(rig, &busy,
                  &(quern_worker_options){.concurrency = 1, .prefetch_max = prefetch_max[i]});
        rig_put_many_of(rig, "t", NULL, "short", SHORT); /* so short that a window is worth it */
        rig_wait_reports(rig, SHORT);
        for (int k = 0; k < HELD; k++) {
            char id[16];
            (void)snprintf(id, sizeof id, "hold%d", k);
            rig_put_task(
                rig, &(quern_task){.id = id, .type = "t", .payload = "hold", .payload_size = 4});
        }
        rig_wait_starts(rig, SHORT + 1);
        if (prefetch_max[i] > 0) {
            rig_wait_given_back(&busy, 1); /* it had them, and not only left them */
        }
        start_other(rig, &other);
        rig_wait_starts(rig, SHORT + HELD); /* the first still runs */
        assert_int_equal(rig_stats(&busy).running, 1);
        assert_int_equal(rig_stats(&other).running, SLOTS);
        assert_int_equal(rig_stats(&busy).crashed, 0);
        rig_open_gate(rig);
        rig_wait_reports(rig, SHORT + HELD);
        rig_stop(&busy);
        rig_stop(&other);
        check_starts(rig);
        rig_free(rig);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_a_busy_child_does_not_start_runs_elsewhere),
};
TEST_MAIN_OVER_BROKERS(tests)
