/* SPDX-License-Identifier: MIT */
/* test_trigger.c - an entry's task is enqueued by hand, beside its ticks. */
#include "lib_schedule.h"
#include "lib_task.h"

static void trigger_enqueues_now_and_leaves_the_last_tick(struct contract *c)
{
    static struct schedule_events events;
    quern_error err = {0};
    (void)schedule_put(c, "e");
    struct qn_task task = test_task("e@by-hand");
    struct qn_trigger trigger = {
        .stamp = {.session = 72, .sequence = 1}, .name = "e", .task = &task};
    for (int i = 0; i < 2; i++) {
        assert_ok(qn_schedule_trigger(c->broker, &trigger, &err), err);
    }
    trigger.stamp.sequence = 2;
    assert_int_equal(qn_schedule_trigger(c->broker, &trigger, NULL), QUERN_E_CONFLICT);
    trigger.name = "none";
    assert_int_equal(qn_schedule_trigger(c->broker, &trigger, NULL), QUERN_E_NOT_FOUND);
    struct schedule_view view = schedule_look(c, "e");
    assert_int_equal(view.last_s, SCHEDULE_LAST_S);
    assert_int_equal(view.runs, 1);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.events[0].what, QN_TICK_MANUAL);
    assert_string_equal(events.events[0].id, "e@by-hand");
}

static void paused_entry_can_be_triggered(struct contract *c)
{
    quern_error err = {0};
    (void)schedule_put(c, "e");
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    struct qn_task task = test_task("e@by-hand");
    const struct qn_trigger trigger = {.name = "e", .task = &task};
    assert_ok(qn_schedule_trigger(c->broker, &trigger, &err), err);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(trigger_enqueues_now_and_leaves_the_last_tick),
    CONTRACT_TEST(paused_entry_can_be_triggered),
};
CONTRACT_MAIN(tests)
