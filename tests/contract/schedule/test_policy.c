/* SPDX-License-Identifier: MIT */
/* test_policy.c - on_duplicate of the tasks that ticks and triggers enqueue. */
#include "lib_schedule.h"
#include "lib_unique.h"

#define T0 SCHEDULE_LAST_S

struct sending {
    struct contract *c;
    struct qn_arena arena;
    uint64_t revision;
    uint64_t epoch;
    int64_t last_s;
    uint64_t sequence;
    struct qn_task task; /* the last one that was made */
};

static struct sending begin(struct contract *c)
{
    return (struct sending){.c = c,
                            .revision = schedule_put(c, "e"),
                            .epoch = schedule_take(c->broker, "a"),
                            .last_s = T0};
}

/* Equal to unique_keyed. */
static const struct qn_task *make(struct sending *sending, const quern_task *given)
{
    quern_error err = {0};
    const struct qn_task_terms terms = contract_terms(sending->c);
    assert_ok(qn_task_prepare(given, &terms, &sending->arena, &sending->task, &err), err);
    return &sending->task;
}

static quern_task policy(const char *id, int32_t on_duplicate)
{
    quern_task task = unique_keyed;
    task.id = id;
    task.payload = "new";
    task.on_duplicate = on_duplicate;
    return task;
}

/* The next tick of the entry; sent twice, as after a lost reply. */
static enum qn_tick_result send(struct sending *sending, const quern_task *given)
{
    quern_error err = {0};
    struct qn_tick tick = {.queue = "default",
                           .name = "e",
                           .revision = sending->revision,
                           .known_s = sending->last_s,
                           .tick_s = sending->last_s + 60,
                           .what = QN_TICK_ENQUEUE,
                           .task = make(sending, given)};
    struct qn_ticks ticks = {.stamp = {.session = 90, .sequence = ++sending->sequence},
                             .epoch = sending->epoch,
                             .ticks = &tick,
                             .count = 1};
    assert_ok(qn_schedule_tick(sending->c->broker, &ticks, &err), err);
    enum qn_tick_result first = tick.result;
    assert_ok(qn_schedule_tick(sending->c->broker, &ticks, &err), err);
    assert_int_equal(tick.result, first);
    assert_int_equal(tick.stored_s, tick.tick_s);
    sending->last_s = tick.tick_s;
    return first;
}

static enum qn_tick_result send_policy(struct sending *sending, const char *id, int32_t policy_is)
{
    const quern_task task = policy(id, policy_is);
    return send(sending, &task);
}

static void end(struct sending *sending, uint64_t runs)
{
    struct schedule_view view = schedule_look(sending->c, "e");
    assert_int_equal(view.last_s, sending->last_s);
    assert_int_equal(view.runs, runs);
    qn_arena_finish(&sending->arena);
}

static void assert_newest(struct contract *c, enum qn_tick_what what, const char *id)
{
    static struct schedule_events events;
    schedule_history(c, "e", &events);
    assert_int_equal(events.events[0].what, what);
    assert_string_equal(events.events[0].id, id);
}

/* --- Ticks -------------------------------------------------------------------------- */

static void tick_that_is_refused_or_left_out_passes_without_a_task(struct contract *c)
{
    static const int32_t policies[] = {QUERN_ON_DUPLICATE_FAIL, QUERN_ON_DUPLICATE_IGNORE};
    struct sending sending = begin(c);
    unique_put_holder(c, 0);
    for (size_t i = 0; i < TEST_COUNT(policies); i++) {
        assert_int_equal(send_policy(&sending, "b", policies[i]), QN_TICKED_DUPLICATE);
        assert_newest(c, QN_TICK_DUPLICATE, "");
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    unique_assert_payload(c, "holder", "old");
    end(&sending, 0);
}

static void tick_puts_its_data_into_the_task_that_waits(struct contract *c)
{
    static const int32_t policies[] = {QUERN_ON_DUPLICATE_REPLACE, QUERN_ON_DUPLICATE_DEBOUNCE};
    struct sending sending = begin(c);
    for (size_t i = 0; i < TEST_COUNT(policies); i++) {
        unique_put_holder(c, 0);
        assert_int_equal(send_policy(&sending, "b", policies[i]), QN_TICKED_REPLACED);
        assert_newest(c, QN_TICK_REPLACED, "holder");
        assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
        unique_assert_payload(c, "holder", "new");
    }
    end(&sending, 0);
}

static void tick_debounces_a_task_that_is_not_due(struct contract *c)
{
    struct sending sending = begin(c);
    int64_t next_due_at_ms = 0;
    quern_task holder = unique_keyed;
    quern_task task = policy("b", QUERN_ON_DUPLICATE_DEBOUNCE);
    holder.id = "holder";
    holder.delay_ms = 10 * 1000;
    task.delay_ms = 30 * 1000;
    unique_assert(unique_try(c, &holder), QUERN_OK, "");
    assert_int_equal(send(&sending, &task), QN_TICKED_REPLACED);
    contract_advance(c, 20 * 1000);
    (void)contract_forward(c, "default", &next_due_at_ms);
    assert_null(contract_take(c, "default"));
    contract_advance(c, 11 * 1000);
    (void)contract_forward(c, "default", &next_due_at_ms);
    unique_assert_payload(c, "holder", "new");
    end(&sending, 0);
}

static void tick_is_stored_beside_a_task_that_runs(struct contract *c)
{
    struct sending sending = begin(c);
    unique_put_holder(c, 0);
    struct qn_leased *run = contract_take_id(c, "default", "holder");
    assert_int_equal(send_policy(&sending, "b", QUERN_ON_DUPLICATE_REPLACE), QN_TICKED);
    assert_newest(c, QN_TICK_ENQUEUE, "b");
    contract_finish(c, run, QN_DONE);
    unique_assert_payload(c, "b", "new");
    end(&sending, 1);
}

/* Two entries with one key, as a request has them. */
static void ticks_of_one_request_replace_each_other(struct contract *c)
{
    quern_error err = {0};
    struct sending sending = begin(c);
    struct qn_tick ticks[2];
    struct qn_task tasks[2];
    const char *const names[] = {"e", "f"};
    const uint64_t revisions[] = {sending.revision, schedule_put(c, "f")};
    for (size_t i = 0; i < TEST_COUNT(ticks); i++) {
        quern_task task = policy(i == 0 ? "first" : "second", QUERN_ON_DUPLICATE_REPLACE);
        task.payload = i == 0 ? "old" : "new";
        tasks[i] = *make(&sending, &task);
        ticks[i] = (struct qn_tick){.queue = "default",
                                    .name = names[i],
                                    .revision = revisions[i],
                                    .known_s = T0,
                                    .tick_s = T0 + 60,
                                    .what = QN_TICK_ENQUEUE,
                                    .task = &tasks[i]};
    }
    struct qn_ticks call = {.epoch = sending.epoch, .ticks = ticks, .count = 2};
    assert_ok(qn_schedule_tick(c->broker, &call, &err), err);
    assert_int_equal(ticks[0].result, QN_TICKED);
    assert_int_equal(ticks[1].result, QN_TICKED_REPLACED);
    unique_assert_payload(c, "first", "new");
    assert_null(contract_take(c, "default"));
    sending.last_s = T0 + 60;
    end(&sending, 1);
}

/* --- Triggers ----------------------------------------------------------------------- */

/* Twice, as after a lost reply. */
static quern_status trigger(struct sending *sending, int32_t on_duplicate, const char **ret_holder)
{
    const quern_task task = policy("b", on_duplicate);
    const struct qn_trigger trigger = {.stamp = {.session = 91, .sequence = ++sending->sequence},
                                       .name = "e",
                                       .task = make(sending, &task),
                                       .ret_holder = ret_holder,
                                       .arena = &sending->arena};
    quern_status first = qn_schedule_trigger(sending->c->broker, &trigger, NULL);
    *ret_holder = "not set";
    assert_int_equal(qn_schedule_trigger(sending->c->broker, &trigger, NULL), first);
    return first;
}

static void trigger_names_the_task_that_stands_for_its_own(struct contract *c)
{
    static struct schedule_events events;
    const char *holder = NULL;
    struct sending sending = begin(c);
    unique_put_holder(c, 0);
    assert_int_equal(trigger(&sending, QUERN_ON_DUPLICATE_FAIL, &holder), QUERN_E_DUPLICATE);
    assert_int_equal(trigger(&sending, QUERN_ON_DUPLICATE_IGNORE, &holder), QUERN_OK);
    assert_string_equal(holder, "holder");
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 0);
    assert_int_equal(trigger(&sending, QUERN_ON_DUPLICATE_REPLACE, &holder), QUERN_OK);
    assert_string_equal(holder, "holder");
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 1);
    assert_newest(c, QN_TICK_REPLACED, "holder");
    unique_assert_payload(c, "holder", "new");
    assert_null(contract_take(c, "default"));
    assert_int_equal(trigger(&sending, QUERN_ON_DUPLICATE_REPLACE, &holder), QUERN_OK);
    assert_null(holder);
    assert_newest(c, QN_TICK_MANUAL, "b");
    end(&sending, 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(tick_that_is_refused_or_left_out_passes_without_a_task),
    CONTRACT_TEST(tick_puts_its_data_into_the_task_that_waits),
    CONTRACT_TEST(tick_debounces_a_task_that_is_not_due),
    CONTRACT_TEST(tick_is_stored_beside_a_task_that_runs),
    CONTRACT_TEST(ticks_of_one_request_replace_each_other),
    CONTRACT_TEST(trigger_names_the_task_that_stands_for_its_own),
};
CONTRACT_MAIN(tests)
