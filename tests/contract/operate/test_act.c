/* SPDX-License-Identifier: MIT */
/* test_act.c - actions of an operator on tasks and queues, through the public inspector. */
#include <string.h>

#include "broker/ops.h"
#include "inspect/inspector.h"
#include "lib_contract.h"
#include "quern/inspector.h"

#define MINUTE_MS INT64_C(60000)

/* The status of the action on this task of "default". */
static quern_status act(struct contract *c, quern_action action, const char *id)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_status status = quern_inspector_act(inspector, action, "default", id, NULL);
    quern_inspector_free(inspector);
    return status;
}

/* A task in each state, named like it; returns the run of the active one. */
static struct qn_leased *make_all_states(struct contract *c)
{
    contract_finish(c, contract_start(c, "retry"), QN_RETRY);
    contract_finish(c, contract_start(c, "archived"), QN_ARCHIVE);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "completed", .retention_ms = MINUTE_MS});
    contract_finish(c, contract_take_id(c, "default", "completed"), QN_DONE);
    struct qn_leased *active = contract_start(c, "active");
    contract_put(c, "default", "pending");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "scheduled", .delay_ms = MINUTE_MS});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "aggregating", .group = "g"});
    return active;
}

/* --- One task ------------------------------------------------------------------------------- */

static void run_makes_a_waiting_or_ended_task_pending_at_the_tail(struct contract *c)
{
    static const char *const ids[] = {"scheduled", "retry", "archived", "completed", "aggregating"};
    struct qn_leased *active = make_all_states(c);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(act(c, QUERN_ACTION_RUN, ids[i]), QUERN_OK);
        struct contract_view view = contract_inspect(c, "default", ids[i]);
        assert_int_equal(view.state, QUERN_TASK_PENDING);
        assert_int_equal(view.cause, QUERN_CAUSE_OPERATOR);
        assert_int_equal(view.at_ms, 0);
        assert_int_equal(view.completed_at_ms, 0);
    }
    contract_finish(c, contract_take_id(c, "default", "pending"), QN_DONE);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        contract_finish(c, contract_take_id(c, "default", ids[i]), QN_DROP);
    }
    qn_leased_free(active);
}

static void run_forgives_crashes(struct contract *c)
{
    contract_finish(c, contract_start(c, "a"), QN_CRASH);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_CRASH);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 2);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    assert_int_equal(act(c, QUERN_ACTION_RUN, "a"), QUERN_OK);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 0);
}

static void run_keeps_the_retries_so_far(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retry_max = 1});
    contract_finish(c, contract_take_id(c, "default", "a"), QN_RETRY);
    assert_int_equal(act(c, QUERN_ACTION_RUN, "a"), QUERN_OK);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->retry_count, 1);
    assert_int_equal(run->cause, QUERN_CAUSE_OPERATOR);
    assert_int_equal(contract_report(c, run, QN_RETRY), QN_ARCHIVED);
    qn_leased_free(run);
}

static void task_run_by_hand_is_not_taken_by_a_late_outcome(struct contract *c)
{
    struct qn_leased *late = contract_start(c, "a");
    contract_expire(c, "default"); /* back to pending, could be salvaged */
    assert_int_equal(act(c, QUERN_ACTION_ARCHIVE, "a"), QUERN_OK);
    assert_int_equal(act(c, QUERN_ACTION_RUN, "a"), QUERN_OK);
    assert_int_equal(contract_report(c, late, QN_DONE), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    qn_leased_free(late);
}

static void archive_takes_all_but_active_and_archived(struct contract *c)
{
    static const char *const ids[] = {"scheduled", "retry", "pending", "completed", "aggregating"};
    struct qn_leased *active = make_all_states(c);
    contract_advance(c, 500);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(act(c, QUERN_ACTION_ARCHIVE, ids[i]), QUERN_OK);
        assert_int_equal(contract_state(c, "default", ids[i]), QUERN_TASK_ARCHIVED);
        assert_int_equal(contract_inspect(c, "default", ids[i]).at_ms, CONTRACT_NOW_MS + 500);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 6);
    contract_assert_counted(c, "default", 3, 2); /* as before: an operator counts nothing */
    qn_leased_free(active);
}

static void delete_takes_all_but_active(struct contract *c)
{
    static const char *const ids[] = {"scheduled", "retry",    "pending",
                                      "completed", "archived", "aggregating"};
    struct qn_leased *active = make_all_states(c);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(act(c, QUERN_ACTION_DELETE, ids[i]), QUERN_OK);
        assert_int_equal(contract_state(c, "default", ids[i]), 0);
    }
    assert_int_equal(contract_queue(c, "default").size, 1);
    qn_leased_free(active);
}

static void refused_action_names_the_state_and_changes_nothing(struct contract *c)
{
    static const struct {
        quern_action action;
        const char *id;
    } cases[] = {{QUERN_ACTION_RUN, "active"},
                 {QUERN_ACTION_RUN, "pending"},
                 {QUERN_ACTION_ARCHIVE, "active"},
                 {QUERN_ACTION_ARCHIVE, "archived"},
                 {QUERN_ACTION_DELETE, "active"},
                 {QUERN_ACTION_CANCEL_RETRY, "pending"},
                 {QUERN_ACTION_CANCEL_RETRY, "retry"},
                 {QUERN_ACTION_CANCEL_ARCHIVE, "scheduled"},
                 {QUERN_ACTION_CANCEL_RETRY, "completed"}};
    struct qn_leased *active = make_all_states(c);
    quern_inspector *inspector = contract_open_inspector(c);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        quern_error err = {0};
        int before = contract_state(c, "default", cases[i].id);
        assert_int_equal(
            quern_inspector_act(inspector, cases[i].action, "default", cases[i].id, &err),
            QUERN_E_STATE);
        assert_non_null(strstr(err.text, quern_task_state_name((quern_task_state)before)));
        assert_int_equal(contract_state(c, "default", cases[i].id), before);
    }
    quern_inspector_free(inspector);
    qn_leased_free(active);
}

static void delete_frees_its_own_lock_only(struct contract *c)
{
    quern_task task = {.type = "t", .id = "a", .unique_ms = MINUTE_MS};
    contract_enqueue(c, &task);
    task.id = "b";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    contract_advance(c, MINUTE_MS + 1); /* the lock of a has expired: b takes it */
    contract_enqueue(c, &task);
    assert_int_equal(act(c, QUERN_ACTION_DELETE, "a"), QUERN_OK);
    task.id = "c";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    assert_int_equal(act(c, QUERN_ACTION_DELETE, "b"), QUERN_OK);
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

static void cancel_is_reported_with_the_next_extension(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_int_equal(act(c, QUERN_ACTION_CANCEL_ARCHIVE, "a"), QUERN_OK);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    struct qn_extension extension = {.run = run};
    quern_error err = {0};
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_true(extension.held);
    assert_int_equal(extension.cancel, QN_CANCEL_ARCHIVE);
    qn_leased_free(run);
}

static void action_finds_the_queue_unless_there_are_several(struct contract *c)
{
    contract_put(c, "other", "one");
    contract_put(c, "default", "both");
    contract_put(c, "other", "both");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    assert_ok(quern_inspector_act(inspector, QUERN_ACTION_DELETE, NULL, "one", &err), err);
    assert_int_equal(contract_state(c, "other", "one"), 0);
    assert_int_equal(quern_inspector_act(inspector, QUERN_ACTION_DELETE, NULL, "both", &err),
                     QUERN_E_STATE);
    assert_non_null(strstr(err.text, "default"));
    assert_non_null(strstr(err.text, "other"));
    assert_int_equal(quern_inspector_act(inspector, QUERN_ACTION_DELETE, NULL, "none", &err),
                     QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_act(inspector, QUERN_ACTION_DELETE, "none", "both", &err),
                     QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_act(inspector, (quern_action)9, NULL, "both", &err),
                     QUERN_E_INVALID);
    assert_int_equal(contract_state(c, "other", "both"), QUERN_TASK_PENDING);
    quern_inspector_free(inspector);
}

/* --- All that fit ---------------------------------------------------------------------------- */

static void action_on_all_counts_each_task_once(struct contract *c)
{
    contract_put_many(c, "default", "t", 1200);
    contract_put_many(c, "other", "o", 3);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    uint64_t count = 0;
    quern_error err = {0};
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_ARCHIVE, &filter, &count, &err), err);
    assert_int_equal(count, 1200);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ARCHIVED), 1200);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_PENDING), 3);
    filter.state = QUERN_TASK_ARCHIVED;
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_RUN, &filter, &count, &err), err);
    assert_int_equal(count, 1200);
    contract_finish(c, contract_take_id(c, "default", "t0000"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "t0001"), QN_DONE);
    filter.state = QUERN_TASK_PENDING;
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err), err);
    assert_int_equal(count, 1198);
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err), err);
    assert_int_equal(count, 0);
    quern_inspector_free(inspector);
}

static void action_on_all_heeds_the_filter(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "image:resize", .id = "a"});
    contract_enqueue(c, &(quern_task){.type = "mail", .id = "b"});
    contract_enqueue(c, &(quern_task){.type = "image:crop", .id = "c"});
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_filter filter = {
        .queue = "default", .state = QUERN_TASK_PENDING, .type = "image:*", .limit = 1};
    uint64_t count = 0;
    quern_error err = {0};
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err), err);
    assert_int_equal(count, 2);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_PENDING);
    quern_inspector_free(inspector);
}

static void cancel_of_all_ends_and_counts_only_new_marks(struct contract *c)
{
    contract_put_many(c, "default", "t", 3);
    struct qn_leased *runs[3];
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    assert_int_equal(act(c, QUERN_ACTION_CANCEL_RETRY, "t0001"), QUERN_OK);
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_ACTIVE};
    uint64_t count = 0;
    quern_error err = {0};
    assert_ok(quern_inspector_act_all(inspector, QUERN_ACTION_CANCEL_RETRY, &filter, &count, &err),
              err);
    assert_int_equal(count, 2);
    struct qn_extension extensions[] = {{.run = runs[0]}, {.run = runs[1]}, {.run = runs[2]}};
    assert_ok(qn_broker_extend(c->broker, extensions, 3, CONTRACT_LEASE_MS, &err), err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(extensions[i].cancel, QN_CANCEL_RETRY);
        qn_leased_free(runs[i]);
    }
    quern_inspector_free(inspector);
}

static void action_on_all_needs_a_queue_and_a_state_that_allows_it(struct contract *c)
{
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_filter filter = {.state = QUERN_TASK_PENDING};
    uint64_t count = 7;
    quern_error err = {0};
    assert_int_equal(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err),
                     QUERN_E_INVALID);
    assert_int_equal(count, 0);
    filter = (quern_task_filter){.queue = "default"};
    assert_int_equal(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err),
                     QUERN_E_INVALID);
    filter.state = QUERN_TASK_ACTIVE;
    assert_int_equal(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err),
                     QUERN_E_STATE);
    filter = (quern_task_filter){.queue = "none", .state = QUERN_TASK_PENDING};
    assert_int_equal(quern_inspector_act_all(inspector, QUERN_ACTION_DELETE, &filter, &count, &err),
                     QUERN_E_NOT_FOUND);
    quern_inspector_free(inspector);
}

static void bulk_archive_beyond_the_limit_is_refused(struct contract *c)
{
    for (size_t i = 0; i < QN_ARCHIVE_SIZE_MAX / 1000; i++) {
        char prefix[8];
        (void)snprintf(prefix, sizeof prefix, "p%zu-", i);
        contract_put_many(c, "default", prefix, 1000);
    }
    contract_put(c, "default", "surplus");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    uint64_t count = 0;
    quern_error err = {0};
    assert_int_equal(
        quern_inspector_act_all(inspector, QUERN_ACTION_ARCHIVE, &filter, &count, &err),
        QUERN_E_STATE);
    assert_non_null(strstr(err.text, "would delete its oldest 1"));
    assert_int_equal(count, QN_ARCHIVE_SIZE_MAX);
    assert_int_equal(contract_state(c, "default", "surplus"), QUERN_TASK_PENDING);
    quern_inspector_free(inspector);
}

/* A broker in which more tasks come than are taken. */
static size_t endless_calls;

static quern_status take_endlessly(struct qn_broker *broker, const struct qn_bulk *bulk,
                                   size_t *ret_count, quern_error *err)
{
    (void)broker;
    (void)err;
    endless_calls++;
    *ret_count = bulk->limit;
    return QUERN_OK;
}

static void bulk_action_that_finds_ever_more_stops_and_reports_it(struct contract *c)
{
    contract_put_many(c, "default", "t", 3);
    quern_inspector *inspector = contract_open_inspector(c);
    const struct qn_broker_ops *ops = inspector->broker->ops;
    struct qn_broker_ops endless = *ops;
    endless.operate_all = take_endlessly;
    inspector->broker->ops = &endless;
    inspector->act_free = 1000;
    endless_calls = 0;
    const quern_task_filter filter = {.queue = "default", .state = QUERN_TASK_PENDING};
    uint64_t count = 0;
    quern_error err = {0};
    assert_int_equal(quern_inspector_act_all(inspector, QUERN_ACTION_RUN, &filter, &count, &err),
                     QUERN_E_BUSY);
    assert_non_null(strstr(err.text, "stopped after 2000 tasks"));
    assert_non_null(strstr(err.text, "repeat the call"));
    assert_int_equal(count, 2000);
    assert_int_equal(endless_calls, 4);
    inspector->broker->ops = ops;
    quern_inspector_free(inspector);
}

/* --- Queues ----------------------------------------------------------------------------------- */

static void paused_queue_gives_nothing_until_it_is_resumed(struct contract *c)
{
    contract_put(c, "default", "a");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    assert_int_equal(quern_inspector_resume(inspector, "default", &err), QUERN_E_STATE);
    assert_ok(quern_inspector_pause(inspector, "default", &err), err);
    assert_int_equal(contract_queue(c, "default").paused_at_ms, CONTRACT_NOW_MS);
    assert_null(contract_take(c, "default"));
    assert_int_equal(quern_inspector_pause(inspector, "default", &err), QUERN_E_STATE);
    assert_ok(quern_inspector_resume(inspector, "default", &err), err);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(quern_inspector_pause(inspector, "none", &err), QUERN_E_NOT_FOUND);
    assert_int_equal(quern_inspector_pause(inspector, NULL, &err), QUERN_E_INVALID);
    quern_inspector_free(inspector);
}

static void queue_with_tasks_is_removed_only_by_force(struct contract *c)
{
    static const char *const ids[] = {"scheduled", "retry", "archived", "completed", "aggregating"};
    quern_inspector *inspector = contract_open_inspector(c);
    contract_finish(c, make_all_states(c), QN_DROP);
    quern_error err = {0};
    assert_int_equal(act(c, QUERN_ACTION_DELETE, "pending"), QUERN_OK);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(quern_inspector_remove_queue(inspector, "default", false, &err),
                         QUERN_E_STATE);
        if (i + 1 < TEST_COUNT(ids)) {
            assert_int_equal(act(c, QUERN_ACTION_DELETE, ids[i]), QUERN_OK);
        }
    }
    assert_ok(quern_inspector_remove_queue(inspector, "default", true, &err), err);
    assert_null(contract_queue(c, "default").name);
    assert_int_equal(quern_inspector_remove_queue(inspector, "default", true, &err),
                     QUERN_E_NOT_FOUND);
    assert_ok(quern_inspector_remove_queue(inspector, "other", false, &err), err);
    assert_null(contract_queue(c, "other").name);
    quern_inspector_free(inspector);
}

static void queue_with_an_active_task_is_never_removed(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    assert_int_equal(quern_inspector_remove_queue(inspector, "default", true, &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "active"));
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_queue(c, "default").paused_at_ms, 0);
    quern_inspector_free(inspector);
    qn_leased_free(run);
}

static void nothing_is_left_of_a_large_queue_that_was_removed(struct contract *c)
{
    contract_finish(c, contract_start(c, "done"), QN_DONE);
    quern_task locked = {.type = "u", .id = "locked", .unique_ms = MINUTE_MS};
    contract_enqueue(c, &locked);
    contract_put_many(c, "default", "t", 1200);
    contract_put(c, "other", "stays");
    quern_inspector *inspector = contract_open_inspector(c);
    quern_error err = {0};
    assert_ok(quern_inspector_remove_queue(inspector, "default", true, &err), err);
    assert_null(contract_queue(c, "default").name);
    assert_int_equal(contract_state(c, "other", "stays"), QUERN_TASK_PENDING);
    contract_enqueue(c, &locked); /* no conflict, no duplicate */
    quern_queue_info queue = contract_queue(c, "default");
    assert_int_equal(queue.size, 1);
    assert_int_equal(queue.paused_at_ms, 0);
    contract_assert_counted(c, "default", 0, 0);
    quern_inspector_free(inspector);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(run_makes_a_waiting_or_ended_task_pending_at_the_tail),
    CONTRACT_TEST(run_forgives_crashes),
    CONTRACT_TEST(run_keeps_the_retries_so_far),
    CONTRACT_TEST(task_run_by_hand_is_not_taken_by_a_late_outcome),
    CONTRACT_TEST(archive_takes_all_but_active_and_archived),
    CONTRACT_TEST(delete_takes_all_but_active),
    CONTRACT_TEST(refused_action_names_the_state_and_changes_nothing),
    CONTRACT_TEST(delete_frees_its_own_lock_only),
    CONTRACT_TEST(cancel_is_reported_with_the_next_extension),
    CONTRACT_TEST(action_finds_the_queue_unless_there_are_several),
    CONTRACT_TEST(action_on_all_counts_each_task_once),
    CONTRACT_TEST(action_on_all_heeds_the_filter),
    CONTRACT_TEST(cancel_of_all_ends_and_counts_only_new_marks),
    CONTRACT_TEST(action_on_all_needs_a_queue_and_a_state_that_allows_it),
    CONTRACT_TEST(bulk_action_that_finds_ever_more_stops_and_reports_it),
    CONTRACT_TEST(bulk_archive_beyond_the_limit_is_refused),
    CONTRACT_TEST(paused_queue_gives_nothing_until_it_is_resumed),
    CONTRACT_TEST(queue_with_tasks_is_removed_only_by_force),
    CONTRACT_TEST(queue_with_an_active_task_is_never_removed),
    CONTRACT_TEST(nothing_is_left_of_a_large_queue_that_was_removed),
};
CONTRACT_MAIN(tests)
