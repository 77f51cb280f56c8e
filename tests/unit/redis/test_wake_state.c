/* SPDX-License-Identifier: MIT */
/* test_wake_state.c - the events that change the state of the wake-up, and those that do not. */
#include "broker/redis/wake/wake_state.h"
#include "lib_test.h"

static struct qn_wake_state after(const enum qn_wake_event *events, size_t count)
{
    struct qn_wake_state state = {0};
    for (size_t i = 0; i < count; i++) {
        qn_wake_state_change(&state, events[i]);
    }
    return state;
}
#define AFTER(...)                                                                                 \
    after((const enum qn_wake_event[]){__VA_ARGS__},                                               \
          sizeof((const enum qn_wake_event[]){__VA_ARGS__}) / sizeof(enum qn_wake_event))

static void refusal_lasts_until_the_next_connection(void **state)
{
    (void)state;
    struct qn_wake_state refused = AFTER(QN_WAKE_CONNECTED, QN_WAKE_REFUSED, QN_WAKE_PAIRED);
    assert_true(qn_wake_state_polls(&refused));
    assert_false(qn_wake_state_is_unpaired(&refused));
    qn_wake_state_change(&refused, QN_WAKE_CONNECTED);
    assert_false(qn_wake_state_polls(&refused));
}

static void pair_that_is_had_again_polls_as_before(void **state)
{
    (void)state;
    struct qn_wake_state lost = AFTER(QN_WAKE_REFUSED, QN_WAKE_UNPAIRED, QN_WAKE_ARMED);
    assert_true(qn_wake_state_is_unpaired(&lost));
    assert_true(qn_wake_state_polls(&lost));
    qn_wake_state_change(&lost, QN_WAKE_PAIRED);
    assert_false(qn_wake_state_is_unpaired(&lost));
    assert_true(qn_wake_state_polls(&lost));
    struct qn_wake_state late = AFTER(QN_WAKE_UNPAIRED, QN_WAKE_REFUSED, QN_WAKE_CONNECTED);
    assert_true(qn_wake_state_is_unpaired(&late));
    assert_false(qn_wake_state_polls(&late));
}

static void work_is_missed_only_after_an_arm_that_saw_none(void **state)
{
    (void)state;
    struct qn_wake_state busy = AFTER(QN_WAKE_ARMED, QN_WAKE_BUSY, QN_WAKE_MISSED);
    assert_false(qn_wake_state_has_missed(&busy));
    struct qn_wake_state armed = AFTER(QN_WAKE_ARMED, QN_WAKE_MISSED);
    assert_true(qn_wake_state_has_missed(&armed));
    assert_false(qn_wake_state_is_armed(&armed)); /* noticed once */
    qn_wake_state_change(&armed, QN_WAKE_TAKEN);
    assert_false(qn_wake_state_has_missed(&armed));
}

static void arm_does_not_forget_what_a_poll_saw(void **state)
{
    (void)state;
    struct qn_wake_state missed = AFTER(QN_WAKE_ARMED, QN_WAKE_MISSED, QN_WAKE_ARMED);
    assert_true(qn_wake_state_has_missed(&missed));
    assert_true(qn_wake_state_is_armed(&missed));
    qn_wake_state_change(&missed, QN_WAKE_TAKEN);
    assert_false(qn_wake_state_has_missed(&missed));
    assert_true(qn_wake_state_is_armed(&missed));
    missed = AFTER(QN_WAKE_ARMED, QN_WAKE_MISSED, QN_WAKE_ARMED, QN_WAKE_BUSY, QN_WAKE_TAKEN);
    assert_false(qn_wake_state_is_armed(&missed));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refusal_lasts_until_the_next_connection),
    cmocka_unit_test(pair_that_is_had_again_polls_as_before),
    cmocka_unit_test(work_is_missed_only_after_an_arm_that_saw_none),
    cmocka_unit_test(arm_does_not_forget_what_a_poll_saw),
};
TEST_MAIN(tests)
