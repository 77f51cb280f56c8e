/* SPDX-License-Identifier: MIT */
/* test_move.c - tasks that wait go to another queue: the same tasks there, with the locks that they
 * have; clashes are refused, and nothing has changed then. */
#include <string.h>

#include "broker/move/move.h"
#include "lib_contract.h"
#include "quern/search.h"
#include "redis/cluster/slots.h"

#define MINUTE_MS INT64_C(60000)

/* On a cluster queues are in slots of their own: it is refused, and the test is over. */
static bool moves(struct contract *c)
{
    quern_error err = {0};
    quern_inspector *inspector = contract_open_inspector(c);
    contract_put(c, "default", "probe");
    quern_status status = quern_inspector_task_move(inspector, "default", "probe", "other", &err);
    quern_inspector_free(inspector);
    if (status == QUERN_E_UNSUPPORTED) {
        assert_string_equal(c->maker->name, "cluster");
        assert_int_equal(contract_state(c, "default", "probe"), QUERN_TASK_PENDING);
        assert_int_equal(contract_state(c, "other", "probe"), 0);
        return false;
    }
    assert_ok(status, err);
    contract_finish(c, contract_take_id(c, "other", "probe"), QN_DONE);
    return true;
}

static quern_status move(struct contract *c, const char *queue, const char *id, const char *to)
{
    quern_error err = {0};
    quern_inspector *inspector = contract_open_inspector(c);
    quern_status status = quern_inspector_task_move(inspector, queue, id, to, &err);
    quern_inspector_free(inspector);
    return status;
}

static void must_move(struct contract *c, const char *id)
{
    assert_int_equal(move(c, "default", id, "other"), QUERN_OK);
    assert_int_equal(contract_state(c, "default", id), 0);
}

static void note_finding(const quern_finding *finding, void *user)
{
    (void)user;
    if (finding->severity == QUERN_SEVERITY_VIOLATED) {
        fail_msg("doctor: %s %s: %s", finding->queue, finding->id, finding->text);
    }
}

static void assert_healthy(struct contract *c)
{
    quern_error err = {0};
    assert_ok(qn_broker_doctor(c->broker, false, note_finding, NULL, &err), err);
}

static void assert_same(struct contract *c, const char *id, const struct contract_view *before)
{
    struct contract_view after = contract_inspect(c, "other", id);
    assert_int_equal(after.state, before->state);
    assert_int_equal(after.at_ms, before->at_ms);
    assert_int_equal(after.payload_size, before->payload_size);
    assert_int_equal(after.retry_count, before->retry_count);
    assert_int_equal(after.failed_at_ms, before->failed_at_ms);
    assert_int_equal(after.enqueued_at_ms, before->enqueued_at_ms);
    assert_int_equal(after.cause, before->cause);
    assert_string_equal(after.error, before->error);
    assert_string_equal(after.queue, "other");
}

static void task_of_each_state_is_the_same_in_the_other_queue(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    contract_enqueue(c, &(quern_task){.type = "t",
                                      .id = "scheduled",
                                      .payload = "old",
                                      .payload_size = 3,
                                      .delay_ms = MINUTE_MS + 7});
    contract_finish(c, contract_start(c, "retry"), QN_RETRY);
    contract_finish(c, contract_start(c, "archived"), QN_ARCHIVE);
    contract_enqueue(c, &(quern_task){.type = "t", .id = "grouped", .group = "g"});
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "later", .group = "g", .delay_ms = MINUTE_MS});
    contract_put(c, "default", "pending");
    static const char *const ids[] = {"scheduled", "retry",   "archived",
                                      "grouped",   "pending", "later"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        struct contract_view before = contract_inspect(c, "default", ids[i]);
        must_move(c, ids[i]);
        assert_same(c, ids[i], &before);
    }
    assert_healthy(c);
    contract_finish(c, contract_take_id(c, "other", "pending"), QN_DONE);
    contract_advance(c, MINUTE_MS + 7);
    assert_int_equal(contract_forward(c, "default", NULL), 0);
    assert_int_equal(contract_forward(c, "other", NULL), 3);
    assert_int_equal(contract_state(c, "other", "later"), QUERN_TASK_AGGREGATING);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_AGGREGATING), 2);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_PENDING), 2);
    assert_healthy(c);
}

static void pending_tasks_stand_at_the_tail_in_their_order(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    quern_matching matching;
    quern_error err = {0};
    static const char *const order[] = {"x", "a", "b", "c"};
    const quern_search search = {.match = "type = t"};
    quern_inspector *inspector = contract_open_inspector(c);
    contract_put(c, "other", "x");
    contract_put(c, "default", "a");
    contract_put(c, "default", "b");
    contract_put(c, "default", "c");
    assert_ok(quern_inspector_move_matching(inspector, "other", &search, &matching, &err), err);
    assert_int_equal(matching.matched, 3);
    assert_int_equal(matching.done, 3);
    for (size_t i = 0; i < TEST_COUNT(order); i++) {
        contract_finish(c, contract_take_id(c, "other", order[i]), QN_DONE);
    }
    quern_inspector_free(inspector);
    assert_healthy(c);
}

static void fence_of_a_task_grows_in_the_other_queue(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    struct qn_leased *run = contract_start(c, "a");
    uint64_t fence = run->fence;
    contract_finish(c, run, QN_RETRY);
    must_move(c, "a");
    contract_advance(c, MINUTE_MS);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    run = contract_take_id(c, "other", "a");
    assert_true(run->fence > fence);
    contract_finish(c, run, QN_DONE);
}

/* --- Locks ------------------------------------------------------------------------------- */

static void lock_goes_along(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    quern_task task = {.type = "u", .id = "a", .unique_ms = MINUTE_MS, .delay_ms = MINUTE_MS};
    contract_enqueue(c, &task);
    must_move(c, "a");
    task.id = "b";
    contract_enqueue(c, &task); /* there is no lock left in this queue */
    assert_int_equal(move(c, "default", "b", "other"), QUERN_E_DUPLICATE);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_SCHEDULED);
    task.id = "c";
    task.queue = "other";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    contract_advance(c, MINUTE_MS);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    must_move(c, "b");
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    assert_healthy(c);
}

/* The lock of another task there is not touched. */
static void task_whose_lock_is_over_takes_none(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    quern_task task = {.type = "u", .id = "a", .unique_ms = 1000, .delay_ms = 1};
    contract_enqueue(c, &task);
    contract_advance(c, 5000);
    task.id = "b";
    task.queue = "other";
    task.unique_ms = 90 * MINUTE_MS;
    contract_enqueue(c, &task);
    must_move(c, "a");
    contract_advance(c, 1);
    assert_int_equal(contract_forward(c, "other", NULL), 2);
    contract_finish(c, contract_take(c, "other"), QN_DONE);
    task.id = "c";
    quern_status status = contract_try(c, &task);
    bool is_b_done = contract_state(c, "other", "b") == 0;
    assert_int_equal(status, is_b_done ? QUERN_OK : QUERN_E_DUPLICATE);
    assert_healthy(c);
}

static void lock_of_fixed_time_stays_behind(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    quern_task task = {.type = "u",
                       .id = "a",
                       .unique_ms = 90 * MINUTE_MS,
                       .unique_until = QUERN_UNIQUE_UNTIL_EXPIRED};
    contract_enqueue(c, &task);
    must_move(c, "a");
    task.id = "b";
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
    task.queue = "other";
    assert_int_equal(contract_try(c, &task), QUERN_OK);
}

/* --- Refusals ----------------------------------------------------------------------------- */

static void what_cannot_move_stays_as_it_is(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    struct qn_leased *run = contract_start(c, "active");
    contract_enqueue(c, &(quern_task){.type = "t", .id = "done", .retention_ms = MINUTE_MS});
    contract_finish(c, contract_take_id(c, "default", "done"), QN_DONE);
    contract_put(c, "default", "twice");
    contract_put(c, "other", "twice");
    assert_int_equal(move(c, "default", "active", "other"), QUERN_E_STATE);
    assert_int_equal(move(c, "default", "done", "other"), QUERN_E_STATE);
    assert_int_equal(move(c, "default", "twice", "other"), QUERN_E_CONFLICT);
    assert_int_equal(move(c, "default", "twice", "default"), QUERN_E_STATE);
    assert_int_equal(move(c, "default", "none", "other"), QUERN_E_NOT_FOUND);
    assert_int_equal(move(c, "none", "twice", "other"), QUERN_E_NOT_FOUND);
    assert_int_equal(move(c, "default", "twice", "a{b}"), QUERN_E_INVALID);
    assert_int_equal(move(c, "default", "twice", ""), QUERN_E_INVALID);
    assert_int_equal(contract_state(c, "default", "active"), QUERN_TASK_ACTIVE);
    assert_int_equal(contract_state(c, "default", "done"), QUERN_TASK_COMPLETED);
    assert_int_equal(contract_state(c, "default", "twice"), QUERN_TASK_PENDING);
    contract_finish(c, run, QN_DONE);
    assert_healthy(c);
}

static void queue_is_made_and_found(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    contract_put(c, "default", "a");
    assert_int_equal(move(c, NULL, "a", "fresh"), QUERN_OK);
    assert_int_equal(contract_count(c, "fresh", QUERN_TASK_PENDING), 1);
    assert_int_equal(move(c, NULL, "a", "other"), QUERN_OK);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
}

/* A late outcome of a run that has lost its lease finds the task no more. */
static void task_that_moved_belongs_to_no_former_run(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    struct qn_leased *run = contract_start(c, "a");
    contract_expire(c, "default");
    must_move(c, "a");
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_STALE);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "other", "a"), 0);
}

/* --- Limits ------------------------------------------------------------------------------- */

static void limits_of_the_other_queue_hold(struct contract *c)
{
    struct qn_leased *runs[4];
    contract_need_limits(c);
    if (!moves(c)) {
        return;
    }
    quern_task task = {.type = "t", .limit_key = "acme"};
    static const char *const ids[] = {"a", "b", "c"};
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        task.id = ids[i];
        contract_enqueue(c, &task);
    }
    contract_limit(c, "other", QUERN_LIMIT_KEY, "*", "1");
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        must_move(c, ids[i]);
    }
    assert_int_equal(contract_lease(c, "default", 4, runs), 0);
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(contract_lease(c, "other", 4, runs), 1);
        assert_string_equal(runs[0]->task.id, ids[i]);
        assert_string_equal(runs[0]->task.limit_key, "acme");
        contract_finish(c, runs[0], QN_DONE);
    }
    assert_healthy(c);
}

/* --- By a query --------------------------------------------------------------------------- */

static quern_matching move_matching(struct contract *c, const char *match, bool dry_run)
{
    quern_error err = {0};
    quern_matching matching;
    const quern_search search = {.match = match, .dry_run = dry_run};
    quern_inspector *inspector = contract_open_inspector(c);
    assert_ok(quern_inspector_move_matching(inspector, "other", &search, &matching, &err), err);
    quern_inspector_free(inspector);
    return matching;
}

static void query_moves_each_task_once(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    contract_put_many(c, "default", "a", 900);
    contract_put_many(c, "other", "a", 3); /* a0000 to a0002 exist there */
    for (int i = 0; i < 600; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%03d", i);
        contract_enqueue(c, &(quern_task){.type = "t", .id = id, .delay_ms = MINUTE_MS});
    }
    contract_enqueue(c, &(quern_task){.type = "t", .id = "first", .queue = "third"});
    struct qn_leased *run = contract_take_id(c, "third", "first");
    quern_matching would = move_matching(c, "type = t", true);
    assert_int_equal(would.matched, 1501);
    assert_int_equal(would.done, 1500);
    assert_int_equal(would.refused, 1);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 900);
    quern_matching done = move_matching(c, "type = t", false);
    assert_int_equal(done.matched, 1501);
    assert_int_equal(done.done, 1497);
    assert_int_equal(done.changed, 0);
    assert_int_equal(done.refused, 4);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 3);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_PENDING), 900);
    assert_int_equal(contract_count(c, "other", QUERN_TASK_SCHEDULED), 600);
    contract_finish(c, run, QN_DONE);
    assert_healthy(c);
}

static void found_task_that_left_its_state_stays(struct contract *c)
{
    if (!moves(c)) {
        return;
    }
    quern_error err = {0};
    struct qn_leased *run = contract_start(c, "a");
    contract_put(c, "default", "b");
    const struct qn_found items[] = {{.id = "a"}, {.id = "b"}, {.id = "b"}, {.id = "gone"}};
    const struct qn_move_list list = {.queue = "default",
                                      .to = "other",
                                      .state = QUERN_TASK_PENDING,
                                      .items = items,
                                      .count = TEST_COUNT(items)};
    struct qn_move_answer answers[TEST_COUNT(items)];
    assert_ok(qn_broker_move(c->broker, &list, answers, &err), err);
    assert_int_equal(answers[0].result, QN_MOVE_CHANGED);
    assert_int_equal(answers[1].result, QN_MOVE_DONE);
    assert_int_equal(answers[2].result, QN_MOVE_MISSING);
    assert_int_equal(answers[3].result, QN_MOVE_MISSING);
    contract_finish(c, run, QN_DONE);
}

/* --- On a cluster ------------------------------------------------------------------------- */

static void queues_of_one_slot_exchange_tasks(struct contract *c)
{
    char name[32] = "";
    uint16_t slot = qn_slots_of("default", 7);
    for (int i = 0; qn_slots_of(name, strlen(name)) != slot; i++) {
        (void)snprintf(name, sizeof name, "queue-%d", i);
    }
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .unique_ms = MINUTE_MS});
    assert_int_equal(move(c, "default", "a", "other"), QUERN_E_UNSUPPORTED);
    assert_int_equal(move(c, "default", "a", name), QUERN_OK);
    assert_int_equal(contract_state(c, "default", "a"), 0);
    contract_finish(c, contract_take_id(c, name, "a"), QN_DONE);
    assert_int_equal(contract_state(c, name, "a"), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("cluster", queues_of_one_slot_exchange_tasks),
    CONTRACT_TEST(task_of_each_state_is_the_same_in_the_other_queue),
    CONTRACT_TEST(pending_tasks_stand_at_the_tail_in_their_order),
    CONTRACT_TEST(fence_of_a_task_grows_in_the_other_queue),
    CONTRACT_TEST(lock_goes_along),
    CONTRACT_TEST(task_whose_lock_is_over_takes_none),
    CONTRACT_TEST(lock_of_fixed_time_stays_behind),
    CONTRACT_TEST(what_cannot_move_stays_as_it_is),
    CONTRACT_TEST(queue_is_made_and_found),
    CONTRACT_TEST(task_that_moved_belongs_to_no_former_run),
    CONTRACT_TEST(limits_of_the_other_queue_hold),
    CONTRACT_TEST(query_moves_each_task_once),
    CONTRACT_TEST(found_task_that_left_its_state_stays),
};

CONTRACT_MAIN(tests)
