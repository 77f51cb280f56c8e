/* SPDX-License-Identifier: MIT */
/* test_place.c - a checkpoint against what it may meet: a queue that has a task with the id
 * in any state, that is paused or full, or has limits; members of groups; large payloads; stale
 * runs. The doctor finds nothing afterwards. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "broker/limit/limit.h"

#define HUGE ((size_t)32 << 20)

static const struct qn_task_change to_other = {.queue = "other"};

static void report_violation(const quern_finding *finding, void *user)
{
    if (finding->severity >= 1) {
        print_message("%s: %s\n", finding->invariant, finding->text);
        (*(size_t *)user)++;
    }
}

static void assert_healthy(struct contract *c)
{
    size_t violations = 0;
    quern_error err = {0};
    assert_ok(qn_broker_doctor(c->broker, false, report_violation, &violations, &err), err);
    assert_int_equal(violations, 0);
}

/* Ends the run so, due in a minute, without freeing it. */
static enum qn_applied report(struct contract *c, const struct qn_leased *run,
                              enum qn_outcome_kind kind, const struct qn_task_change *change)
{
    const struct qn_outcome outcome = {.run = run,
                                       .kind = kind,
                                       .started = true,
                                       .cause = QUERN_CAUSE_GIVEN_BACK,
                                       .delay_ms = 60000,
                                       .change = change};
    return contract_end(c, &outcome);
}

static enum qn_applied end_with(struct contract *c, struct qn_leased *run,
                                enum qn_outcome_kind kind, const struct qn_task_change *change)
{
    enum qn_applied applied = report(c, run, kind, change);
    qn_leased_free(run);
    return applied;
}

/* Moves a task with this id to the other queue, where it is due in a minute. */
static void move_over(struct contract *c, const quern_task *task)
{
    contract_enqueue(c, task);
    assert_int_equal(end_with(c, contract_take_id(c, "default", task->id), QN_SNOOZE, &to_other),
                     QN_APPLIED);
}

static quern_inspector *other_queue_with(struct contract *c, const quern_queue_settings *settings)
{
    quern_error err = {0};
    quern_inspector *inspector = contract_open_inspector(c);
    if (settings != NULL) {
        assert_ok(quern_inspector_set_queue(inspector, "other", settings, &err), err);
    }
    return inspector;
}

/* --- Ids ----------------------------------------------------------------------------- */

/* Brings the task "a" of the other queue into this state. */
static struct qn_leased *occupy(struct contract *c, quern_task_state state)
{
    quern_task task = {.type = "mine", .queue = "other", .id = "a"};
    task.delay_ms = state == QUERN_TASK_SCHEDULED ? 3600000 : 0;
    task.group = state == QUERN_TASK_AGGREGATING ? "g" : NULL;
    task.retention_ms = state == QUERN_TASK_COMPLETED ? 3600000 : 0;
    contract_enqueue(c, &task);
    if (state == QUERN_TASK_ACTIVE) {
        return contract_take_id(c, "other", "a");
    }
    if (state == QUERN_TASK_RETRY || state == QUERN_TASK_ARCHIVED ||
        state == QUERN_TASK_COMPLETED) {
        contract_finish(c, contract_take_id(c, "other", "a"),
                        state == QUERN_TASK_RETRY      ? QN_RETRY
                        : state == QUERN_TASK_ARCHIVED ? QN_ARCHIVE
                                                       : QN_DONE);
    }
    return NULL;
}

static void id_in_any_state_keeps_the_task_in_its_queue(struct contract *c)
{
    static const quern_task_state states[] = {
        QUERN_TASK_PENDING,  QUERN_TASK_SCHEDULED, QUERN_TASK_ACTIVE,     QUERN_TASK_RETRY,
        QUERN_TASK_ARCHIVED, QUERN_TASK_COMPLETED, QUERN_TASK_AGGREGATING};
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        quern_error err = {0};
        struct qn_leased *mine = occupy(c, states[i]);
        contract_enqueue(c, &(quern_task){.type = "t", .id = "a"});
        assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_RETRY, &to_other),
                         QN_UNMOVED);
        assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
        struct contract_view view = contract_inspect(c, "other", "a");
        assert_int_equal(view.state, states[i]);
        assert_string_equal(view.type, "mine");
        assert_healthy(c);
        if (mine != NULL) {
            assert_int_equal(contract_finish(c, mine, QN_DONE), QN_APPLIED);
        } else {
            assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "other", "a", &err), err);
        }
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, "default", "a", &err), err);
    }
}

static void id_is_free_again_where_the_task_was(struct contract *c)
{
    struct qn_leased *first = contract_start(c, "a");
    assert_int_equal(report(c, first, QN_SNOOZE, &to_other), QN_APPLIED);
    struct qn_leased *second = contract_start(c, "a");
    assert_int_equal(report(c, first, QN_DONE, NULL), QN_STALE); /* of neither of the two */
    assert_int_equal(report(c, first, QN_SNOOZE, &to_other), QN_STALE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_RETRY);
    qn_leased_free(first);
    assert_int_equal(end_with(c, second, QN_SNOOZE, &to_other), QN_UNMOVED);
    assert_healthy(c);
}

static void task_goes_there_and_back(struct contract *c)
{
    const struct qn_task_change back = {.queue = "default"};
    quern_task task = {.type = "t", .id = "a", .unique_ms = 600000, .limit_key = "acme"};
    move_over(c, &task);
    for (int i = 0; i < 3; i++) {
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "other", NULL), 1);
        assert_int_equal(end_with(c, contract_take_id(c, "other", "a"), QN_SNOOZE, &back),
                         QN_APPLIED);
        contract_advance(c, 60000);
        assert_int_equal(contract_forward(c, "default", NULL), 1);
        assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_SNOOZE, &to_other),
                         QN_APPLIED);
        assert_healthy(c);
    }
    assert_int_equal(contract_queue(c, "default").size, 0);
}

static void change_to_its_own_queue_changes_nothing(struct contract *c)
{
    const struct qn_task_change same = {.queue = "default"};
    assert_int_equal(end_with(c, contract_start(c, "a"), QN_RETRY, &same), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_RETRY);
    assert_healthy(c);
}

/* --- Stale and lost ------------------------------------------------------------------ */

static void stale_run_takes_its_task_nowhere(struct contract *c)
{
    struct qn_task_change change = to_other;
    change.has_retry_max = true;
    change.retry_max = 1;
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .unique_ms = 600000});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_expire(c, "default");
    assert_int_equal(report(c, run, QN_RETRY, &change), QN_STALE);
    assert_int_equal(report(c, run, QN_GIVE_BACK, &change), QN_STALE);
    struct qn_leased *next = contract_take_id(c, "default", "a");
    assert_int_equal(report(c, run, QN_SNOOZE, &change), QN_STALE);
    assert_int_equal(next->task.retry_max, 25);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_state(c, "other", "a"), 0);
    qn_leased_free(run);
    assert_int_equal(contract_finish(c, next, QN_DONE), QN_APPLIED);
    assert_healthy(c);
}

/* --- The queue where it goes --------------------------------------------------------- */

static void paused_queue_takes_the_task_and_runs_it_later(struct contract *c)
{
    quern_error err = {0};
    contract_put(c, "other", "b");
    assert_ok(qn_broker_pause(c->broker, "other", true, &err), err);
    move_over(c, &(quern_task){.type = "t", .id = "a"});
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    assert_null(contract_take(c, "other"));
    assert_ok(qn_broker_pause(c->broker, "other", false, &err), err);
    contract_finish(c, contract_take_id(c, "other", "b"), QN_DONE);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
}

static void full_queue_takes_the_task(struct contract *c)
{
    quern_inspector_free(other_queue_with(c, &(quern_queue_settings){.max_pending = 1}));
    contract_put(c, "other", "b");
    move_over(c, &(quern_task){.type = "t", .id = "a"});
    assert_int_equal(contract_try(c, &(quern_task){.type = "t", .queue = "other", .id = "d"}),
                     QUERN_E_FULL);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    contract_finish(c, contract_take_id(c, "other", "b"), QN_DONE);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    assert_healthy(c);
}

/* Moves two tasks over; of the two the limit of that queue lets one run at a time. */
static void run_one_by_one(struct contract *c, const char *key)
{
    struct qn_leased *runs[2];
    move_over(c, &(quern_task){.type = "t", .id = "a", .limit_key = key});
    contract_advance(c, 1);
    move_over(c, &(quern_task){.type = "t", .id = "b", .limit_key = key});
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 2);
    assert_int_equal(contract_lease(c, "other", 2, runs), 1);
    assert_string_equal(runs[0]->task.id, "a");
    contract_finish(c, runs[0], QN_DONE);
    contract_finish(c, contract_take_id(c, "other", "b"), QN_DONE);
    assert_int_equal(contract_queue(c, "other").size, 0);
    assert_healthy(c);
}

static void limit_of_a_key_counts_for_tasks_that_come_over(struct contract *c)
{
    contract_need_limits(c);
    contract_limit(c, "other", QUERN_LIMIT_KEY, "acme", "1");
    run_one_by_one(c, "acme");
}

static void limit_of_a_type_counts_for_tasks_that_come_over(struct contract *c)
{
    contract_need_limits(c);
    contract_limit(c, "other", QUERN_LIMIT_TYPE, "t", "1");
    run_one_by_one(c, NULL);
}

/* The run takes its place in the limit of the queue that it leaves with it. */
static void limit_of_the_old_queue_is_free_again(struct contract *c)
{
    contract_need_limits(c);
    contract_limit(c, "default", QUERN_LIMIT_KEY, "acme", "1");
    struct qn_leased *runs[2];
    for (int i = 0; i < 2; i++) {
        contract_enqueue(c,
                         &(quern_task){.type = "t", .id = i == 0 ? "a" : "b", .limit_key = "acme"});
    }
    assert_int_equal(contract_lease(c, "default", 2, runs), 1);
    assert_int_equal(end_with(c, runs[0], QN_SNOOZE, &to_other), QN_APPLIED);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
    assert_healthy(c);
}

/* Keys take turns: one task of a key that comes over does not wait for all of another's. */
static void key_of_a_task_that_comes_over_has_its_turn(struct contract *c)
{
    struct qn_leased *runs[8];
    contract_need_limits(c);
    move_over(c, &(quern_task){.type = "t", .id = "mine", .limit_key = "acme"});
    for (int i = 0; i < 8; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "b%d", i);
        contract_enqueue(
            c, &(quern_task){.type = "t", .queue = "other", .id = id, .limit_key = "bob"});
    }
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    assert_int_equal(contract_lease(c, "other", 2, runs), 2);
    bool there = false;
    for (int i = 0; i < 2; i++) {
        there = there || strcmp(runs[i]->task.id, "mine") == 0;
        contract_finish(c, runs[i], QN_DONE);
    }
    assert_true(there);
    assert_healthy(c);
}

/* The first task with a key gives that queue lanes: those that come with it get theirs, too. */
static void task_without_a_key_comes_over_with_one_that_has_one(struct contract *c)
{
    static const char *const ids[] = {"a", "b", "c"};
    struct qn_leased *runs[3];
    struct qn_outcome outcomes[3];
    enum qn_applied applied[3];
    for (int i = 0; i < 3; i++) {
        contract_enqueue(
            c, &(quern_task){.type = "t", .id = ids[i], .limit_key = i == 1 ? "acme" : NULL});
    }
    assert_int_equal(contract_lease(c, "default", 3, runs), 3);
    for (int i = 0; i < 3; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = QN_SNOOZE,
                                          .started = true,
                                          .delay_ms = 60000,
                                          .change = &to_other};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 3};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 3);
    assert_int_equal(contract_lease(c, "other", 3, runs), 3);
    for (int i = 0; i < 3; i++) {
        contract_finish(c, runs[i], QN_DONE);
    }
    assert_healthy(c);
}

/* --- Kinds of tasks ------------------------------------------------------------------ */

static void member_of_a_group_goes_to_the_group_there(struct contract *c)
{
    quern_error err = {0};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .group = "g"});
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_SNOOZE, NULL), QN_APPLIED);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    int here = contract_state(c, "default", "a");
    if (here == QUERN_TASK_AGGREGATING) {
        assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_RUN, "default", "a", &err), err);
    }
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_SNOOZE, &to_other),
                     QN_APPLIED);
    assert_healthy(c);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    assert_int_equal(contract_state(c, "other", "a"), here);
    assert_int_equal(contract_queue(c, "default").size, 0);
    assert_healthy(c);
}

static void charged_task_keeps_its_charges(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_die(c, contract_take_id(c, "default", "a"));
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 1);
    assert_int_equal(end_with(c, contract_take_id(c, "default", "a"), QN_SNOOZE, &to_other),
                     QN_APPLIED);
    assert_healthy(c);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    assert_healthy(c);
    struct qn_leased *run = contract_take_id(c, "other", "a");
    assert_int_equal(run->crash_count, 1);
    contract_finish(c, run, QN_DONE);
    assert_healthy(c);
}

static void retained_task_is_kept_where_it_ends(struct contract *c)
{
    move_over(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 5000});
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_COMPLETED);
    assert_healthy(c);
}

/* Neither needs its lock any more: so none of them is in the way of the other. */
static void tasks_without_their_lock_go_together(struct contract *c)
{
    quern_task task = {.type = "t",
                       .payload = "p",
                       .payload_size = 1,
                       .unique_ms = 600000,
                       .unique_until = QUERN_UNIQUE_UNTIL_STARTED};
    struct qn_leased *runs[2];
    struct qn_outcome outcomes[2];
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    for (int i = 0; i < 2; i++) {
        task.id = i == 0 ? "a" : "b";
        contract_enqueue(c, &task);
        runs[i] = contract_take_id(c, "default", task.id);
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = QN_SNOOZE,
                                          .started = true,
                                          .delay_ms = 60000,
                                          .change = &to_other};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    assert_int_equal(contract_exchange(c, &exchange, applied, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
    assert_int_equal(contract_count(c, "other", QUERN_TASK_RETRY), 2);
    assert_healthy(c);
}

static void lock_that_ended_belongs_to_whoever_took_it(struct contract *c)
{
    quern_task task = {.type = "t", .id = "a", .unique_ms = 1000};
    quern_task next = {.type = "t", .id = "b", .unique_ms = 600000};
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    contract_advance(c, 2 * CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_try(c, &next), QUERN_OK);
    assert_int_equal(end_with(c, run, QN_SNOOZE, &to_other), QN_APPLIED);
    next.id = "c";
    assert_int_equal(contract_try(c, &next), QUERN_E_DUPLICATE); /* of b */
    assert_healthy(c);
}

/* --- Sizes --------------------------------------------------------------------------- */

static void huge_payload_is_kept_whole(struct contract *c)
{
    char *bytes = malloc(HUGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < HUGE; i++) {
        bytes[i] = (char)(i * 7 + i / 251);
    }
    const struct qn_task_change change = {
        .payload = bytes, .payload_size = HUGE, .has_payload = true, .queue = "other"};
    const struct qn_task_change small = {.payload = "s", .payload_size = 1, .has_payload = true};
    assert_int_equal(end_with(c, contract_start(c, "a"), QN_RETRY, &change), QN_APPLIED);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "other", "a");
    assert_int_equal(run->task.payload_size, HUGE);
    assert_memory_equal(run->task.payload, bytes, HUGE);
    assert_int_equal(end_with(c, run, QN_GIVE_BACK, &small), QN_APPLIED);
    run = contract_take_id(c, "other", "a");
    assert_int_equal(run->task.payload_size, 1);
    contract_finish(c, run, QN_DONE);
    assert_healthy(c);
    free(bytes);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(id_in_any_state_keeps_the_task_in_its_queue),
    CONTRACT_TEST(id_is_free_again_where_the_task_was),
    CONTRACT_TEST(task_goes_there_and_back),
    CONTRACT_TEST(change_to_its_own_queue_changes_nothing),
    CONTRACT_TEST(stale_run_takes_its_task_nowhere),
    CONTRACT_TEST(paused_queue_takes_the_task_and_runs_it_later),
    CONTRACT_TEST(full_queue_takes_the_task),
    CONTRACT_TEST(limit_of_a_key_counts_for_tasks_that_come_over),
    CONTRACT_TEST(limit_of_a_type_counts_for_tasks_that_come_over),
    CONTRACT_TEST(limit_of_the_old_queue_is_free_again),
    CONTRACT_TEST(key_of_a_task_that_comes_over_has_its_turn),
    CONTRACT_TEST(task_without_a_key_comes_over_with_one_that_has_one),
    CONTRACT_TEST(member_of_a_group_goes_to_the_group_there),
    CONTRACT_TEST(charged_task_keeps_its_charges),
    CONTRACT_TEST(retained_task_is_kept_where_it_ends),
    CONTRACT_TEST(tasks_without_their_lock_go_together),
    CONTRACT_TEST(lock_that_ended_belongs_to_whoever_took_it),
    CONTRACT_TEST(huge_payload_is_kept_whole),
};
CONTRACT_MAIN(tests)
