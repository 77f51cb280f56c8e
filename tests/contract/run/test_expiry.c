/* SPDX-License-Identifier: MIT */
/* test_expiry.c - tasks that are archived unless they start in time (start_within_ms). */
#include "lib_unique.h"

#define WITHIN_MS INT64_C(1000)
#define EXPIRED "expired: not started in time"

static void put(struct contract *c, const char *id)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = id, .start_within_ms = WITHIN_MS});
}

static int64_t start_by_at_ms(struct contract *c, const char *id)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_info *info = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_task(inspector, "default", id, &info, &err), err);
    int64_t at_ms = quern_task_info_start_by_at_ms(info);
    quern_task_info_free(info);
    quern_inspector_free(inspector);
    return at_ms;
}

static void assert_expires(struct contract *c, const char *id)
{
    struct qn_leased *run = contract_take(c, "default");
    if (run != NULL) {
        fail_msg("%s runs", run->task.id);
    }
    struct contract_view view = contract_inspect(c, "default", id);
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, EXPIRED);
}

static void task_not_started_in_time_is_archived_not_leased(struct contract *c)
{
    put(c, "a");
    contract_put(c, "default", "b");
    contract_advance(c, WITHIN_MS);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
    assert_expires(c, "a");
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + WITHIN_MS);
    assert_int_equal(view.failed_at_ms, CONTRACT_NOW_MS + WITHIN_MS);
    assert_int_equal(view.fence, 0);
    assert_int_equal(start_by_at_ms(c, "a"), CONTRACT_NOW_MS + WITHIN_MS);
    contract_assert_counted(c, "default", 2, 1);
    assert_int_equal(c->late_count, 1);
}

static void task_is_leased_until_its_time_is_over(struct contract *c)
{
    put(c, "a");
    assert_int_equal(start_by_at_ms(c, "a"), CONTRACT_NOW_MS + WITHIN_MS);
    contract_advance(c, WITHIN_MS - 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->task.start_by_at_ms, CONTRACT_NOW_MS + WITHIN_MS);
    contract_advance(c, WITHIN_MS);
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, "default", 1, 0);
}

static void time_of_a_delayed_task_begins_when_it_is_due(struct contract *c)
{
    const int64_t delay_ms = 60000;
    for (int i = 0; i < 2; i++) {
        const char *id = i == 0 ? "a" : "b";
        contract_enqueue(
            c, &(quern_task){
                   .type = "t", .id = id, .delay_ms = delay_ms, .start_within_ms = WITHIN_MS});
    }
    contract_advance(c, delay_ms);
    assert_int_equal(contract_forward(c, "default", NULL), 2);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    contract_advance(c, WITHIN_MS);
    assert_expires(c, "b");
}

/* Each way in which a run that has started ends without being the last. */
static void task_that_has_started_once_does_not_expire(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_RETRY, QN_SNOOZE, QN_GIVE_BACK, QN_CRASH};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        put(c, "a");
        contract_finish(c, contract_take_id(c, "default", "a"), kinds[i]);
        assert_int_equal(start_by_at_ms(c, "a"), 0);
        contract_advance(c, 10 * 60000);
        (void)contract_forward(c, "default", NULL);
        contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    }
    put(c, "a");
    qn_leased_free(contract_take_id(c, "default", "a"));
    contract_expire(c, "default");
    contract_advance(c, WITHIN_MS);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(c->late_count, 0);
}

/* Its handler was never called. */
static void task_that_was_only_leased_expires(struct contract *c)
{
    put(c, "a");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_non_null(run);
    const struct qn_outcome back = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &back), QN_APPLIED);
    qn_leased_free(run);
    contract_advance(c, WITHIN_MS);
    assert_expires(c, "a");

    put(c, "b");
    run = contract_take_id(c, "default", "b");
    const struct qn_outcome aside = {
        .run = run, .kind = QN_ASIDE, .started = true, .delay_ms = WITHIN_MS};
    assert_int_equal(contract_end(c, &aside), QN_APPLIED);
    qn_leased_free(run);
    contract_advance(c, WITHIN_MS);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    assert_expires(c, "b");

    put(c, "c");
    qn_leased_free(contract_fetch(c, "default"));
    contract_expire(c, "default");
    contract_advance(c, WITHIN_MS);
    assert_expires(c, "c");
}

static void run_by_hand_does_not_expire(struct contract *c)
{
    quern_error err = {0};
    put(c, "a");
    contract_advance(c, WITHIN_MS);
    assert_expires(c, "a");
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    assert_int_equal(start_by_at_ms(c, "a"), 0);
    contract_advance(c, WITHIN_MS);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void expired_tasks_use_no_slot(struct contract *c)
{
    struct qn_leased *runs[4];
    char id[16];
    for (int i = 0; i < 40; i++) {
        (void)snprintf(id, sizeof id, "late%02d", i);
        put(c, id);
    }
    contract_advance(c, WITHIN_MS);
    contract_put_many(c, "default", "live", 4);
    size_t count = 0;
    for (int i = 0; i < 40 && count == 0; i++) {
        count = contract_lease(c, "default", 4, runs);
    }
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        contract_finish(c, runs[i], QN_DONE);
    }
    assert_int_equal(c->late_count, 40);
    contract_assert_counted(c, "default", 44, 40);
}

/* A delayed one that is debounced: whether it came in an earlier request or in the same. */
static void debounce_moves_the_time_to_start(struct contract *c)
{
    const int64_t minute_ms = INT64_C(60000);
    quern_task tasks[3] = {{.type = "t",
                            .id = "a",
                            .delay_ms = minute_ms,
                            .start_within_ms = WITHIN_MS,
                            .unique_key = "k",
                            .unique_ms = UNIQUE_HOUR_MS,
                            .limit_key = "l",
                            .on_duplicate = QUERN_ON_DUPLICATE_DEBOUNCE}};
    tasks[1] = tasks[0];
    tasks[1].id = "b";
    tasks[1].delay_ms = 10 * minute_ms + 1;
    struct unique_answer answers[2];
    unique_store(c, (struct qn_stamp){78, 1}, tasks, 2, answers);
    unique_assert(answers[1], QUERN_OK, "a");
    int64_t at_ms = CONTRACT_NOW_MS + 10 * minute_ms + 1;
    assert_int_equal(contract_inspect(c, "default", "a").at_ms, at_ms);
    assert_int_equal(start_by_at_ms(c, "a"), at_ms + WITHIN_MS);
    tasks[2] = tasks[1];
    for (int64_t delay_ms = 30 * minute_ms; delay_ms > 0; delay_ms -= 25 * minute_ms - 7) {
        tasks[2].delay_ms = delay_ms;
        unique_assert(unique_try(c, &tasks[2]), QUERN_OK, "a");
        at_ms = CONTRACT_NOW_MS + delay_ms;
        assert_int_equal(contract_inspect(c, "default", "a").at_ms, at_ms);
        assert_int_equal(start_by_at_ms(c, "a"), at_ms + WITHIN_MS);
    }
    contract_advance(c, at_ms - CONTRACT_NOW_MS + WITHIN_MS - 1);
    (void)contract_forward(c, "default", NULL);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(c->late_count, 0);
}

/* A clock that was an hour behind when the task came: the end of its delay is corrected, and so is
 * the time to start. */
static void corrected_delay_corrects_the_time_to_start(struct contract *c)
{
    const int64_t hour_ms = INT64_C(3600000);
    contract_jump(c, -hour_ms);
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .delay_ms = 60000, .start_within_ms = WITHIN_MS});
    contract_jump(c, hour_ms);
    (void)contract_forward(c, "default", NULL);
    assert_int_equal(start_by_at_ms(c, "a"), CONTRACT_NOW_MS + 60000 + WITHIN_MS);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(task_not_started_in_time_is_archived_not_leased),
    CONTRACT_TEST(task_is_leased_until_its_time_is_over),
    CONTRACT_TEST(time_of_a_delayed_task_begins_when_it_is_due),
    CONTRACT_TEST(task_that_has_started_once_does_not_expire),
    CONTRACT_TEST(task_that_was_only_leased_expires),
    CONTRACT_TEST(run_by_hand_does_not_expire),
    CONTRACT_TEST(expired_tasks_use_no_slot),
    CONTRACT_TEST(debounce_moves_the_time_to_start),
    CONTRACT_TEST_ONLY("sqlite", corrected_delay_corrects_the_time_to_start),
};
CONTRACT_MAIN(tests)
