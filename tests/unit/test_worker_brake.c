/* SPDX-License-Identifier: MIT */
/* test_worker_brake.c - the brake and the measure of how far to fetch ahead, as pure machines. */
#include <string.h>

#include "base/limits.h"
#include "lib_test.h"
#include "worker/brake.h"
#include "worker/fetch.h"

#define MS INT64_C(1000000)

static void the_brake_waits_probes_and_doubles(void **state)
{
    (void)state;
    struct qn_brake brake = {0};
    int64_t now = 5000 * MS;
    assert_int_equal(qn_brake_room(&brake, 7, 3, now), 7);
    assert_false(qn_brake_note(&brake, QN_BRAKE_CRASHES - 1, 7, 3, now));
    assert_int_equal(qn_brake_room(&brake, 7, 3, now), 7);
    assert_true(qn_brake_note(&brake, QN_BRAKE_CRASHES, 0, 0, now));
    int64_t delay_ms = QN_BRAKE_MS_MIN;
    for (int round = 0; round < 8; round++) {
        assert_int_equal(brake.delay_ms, delay_ms);
        assert_int_equal(qn_brake_room(&brake, 7, 0, now + delay_ms * MS - 1), 0);
        now += delay_ms * MS;
        assert_int_equal(qn_brake_room(&brake, 7, 1, now), 0); /* something still runs */
        assert_int_equal(qn_brake_room(&brake, 7, 0, now), 1);
        assert_false(qn_brake_note(&brake, QN_BRAKE_CRASHES, 0, 0, now)); /* nothing to probe */
        assert_int_equal(qn_brake_room(&brake, 7, 0, now), 1);
        assert_false(qn_brake_note(&brake, QN_BRAKE_CRASHES, 1, 1, now)); /* the probe runs */
        assert_int_equal(qn_brake_room(&brake, 7, 1, now), 0);
        assert_true(qn_brake_note(&brake, QN_BRAKE_CRASHES + 1, 0, 0, now)); /* and crashed */
        delay_ms = delay_ms * 2 < QN_BRAKE_MS_MAX ? delay_ms * 2 : QN_BRAKE_MS_MAX;
    }
    assert_int_equal(delay_ms, QN_BRAKE_MS_MAX);
}

static void a_probe_that_ends_well_lets_the_brake_go(void **state)
{
    (void)state;
    struct qn_brake brake = {0};
    assert_true(qn_brake_note(&brake, QN_BRAKE_CRASHES, 0, 0, 0));
    assert_int_equal(qn_brake_room(&brake, 7, 0, QN_BRAKE_MS_MIN * MS), 1);
    assert_false(qn_brake_note(&brake, QN_BRAKE_CRASHES, 1, 1, QN_BRAKE_MS_MIN * MS));
    assert_true(qn_brake_note(&brake, 0, 0, 0, QN_BRAKE_MS_MIN * MS));
    assert_int_equal(qn_brake_room(&brake, 7, 0, QN_BRAKE_MS_MIN * MS), 7);
    assert_true(qn_brake_note(&brake, QN_BRAKE_CRASHES, 0, 0, 0)); /* from the start again */
    assert_int_equal(brake.delay_ms, QN_BRAKE_MS_MIN);
}

static void measure(struct qn_fetch *fetch, const char *type, int64_t run_ns, int count)
{
    for (int i = 0; i < count; i++) {
        qn_fetch_measure(fetch, type, run_ns);
    }
}

static void only_fast_types_that_were_measured_are_fetched_ahead(void **state)
{
    (void)state;
    static struct qn_fetch fetch;
    memset(&fetch, 0, sizeof fetch);
    qn_fetch_init(&fetch, 16);
    assert_int_equal(qn_fetch_ahead(&fetch, "fast", 0), 0);
    measure(&fetch, "fast", 1 * MS, QN_PREFETCH_SAMPLES_MIN - 1);
    assert_int_equal(qn_fetch_ahead(&fetch, "fast", 0), 0);
    measure(&fetch, "fast", 1 * MS, 1);
    assert_int_equal(qn_fetch_ahead(&fetch, "fast", 0), 16);
    measure(&fetch, "slow", 11 * MS, 100);
    assert_int_equal(qn_fetch_ahead(&fetch, "slow", 0), 0);
    assert_int_equal(qn_fetch_ahead(&fetch, "fast", -1), 0); /* the handler's option */
    assert_int_equal(qn_fetch_ahead(&fetch, "slow", 5), 5);
    measure(&fetch, "fast", 100 * MS, 20); /* it has become slow */
    assert_int_equal(qn_fetch_ahead(&fetch, "fast", 0), 0);
    qn_fetch_finish(&fetch);
}

static void nothing_is_fetched_further_ahead_than_the_limit(void **state)
{
    (void)state;
    static struct qn_fetch fetch;
    memset(&fetch, 0, sizeof fetch);
    qn_fetch_init(&fetch, 4096);
    measure(&fetch, "t", 1 * MS, 40);
    assert_int_equal(qn_fetch_ahead(&fetch, "t", 0), QN_PREFETCH_MAX);
    measure(&fetch, "tiny", 1, 40);
    assert_int_equal(qn_fetch_ahead(&fetch, "tiny", 0), QN_PREFETCH_DEEP * QN_PREFETCH_MAX);
    qn_fetch_finish(&fetch);
}

static void only_what_is_over_in_no_time_is_fetched_further_ahead(void **state)
{
    (void)state;
    static const struct {
        int64_t mean_ns;
        uint32_t ahead;
    } cases[] = {{1000, 192}, {26000, 192}, {49999, 100}, {78000, 64}, {10 * MS, 64}, {11 * MS, 0}};
    static struct qn_fetch fetch;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        memset(&fetch, 0, sizeof fetch);
        qn_fetch_init(&fetch, 64);
        measure(&fetch, "t", cases[i].mean_ns, 40);
        assert_int_equal(qn_fetch_ahead(&fetch, "t", 0), cases[i].ahead);
        qn_fetch_finish(&fetch);
    }
}

static void too_many_types_are_simply_not_measured(void **state)
{
    (void)state;
    static struct qn_fetch fetch;
    memset(&fetch, 0, sizeof fetch);
    qn_fetch_init(&fetch, 8);
    char type[16];
    for (int i = 0; i < 2 * QN_FETCH_TYPES_MAX; i++) {
        (void)snprintf(type, sizeof type, "type%d", i);
        measure(&fetch, type, 1 * MS, QN_PREFETCH_SAMPLES_MIN);
    }
    assert_int_equal(qn_fetch_ahead(&fetch, "type0", 0), 8);
    assert_int_equal(qn_fetch_ahead(&fetch, type, 0), 0);
    qn_fetch_finish(&fetch);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_brake_waits_probes_and_doubles),
    cmocka_unit_test(a_probe_that_ends_well_lets_the_brake_go),
    cmocka_unit_test(only_fast_types_that_were_measured_are_fetched_ahead),
    cmocka_unit_test(nothing_is_fetched_further_ahead_than_the_limit),
    cmocka_unit_test(only_what_is_over_in_no_time_is_fetched_further_ahead),
    cmocka_unit_test(too_many_types_are_simply_not_measured),
};
TEST_MAIN(tests)
