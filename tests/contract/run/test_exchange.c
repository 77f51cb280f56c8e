/* SPDX-License-Identifier: MIT */
/* test_exchange.c - leasing: the fields of a run, FIFO, room, deadlines, starts, and outcomes and
 * leases in one exchange. The choice between queues is in test_queues.c. */
#include "lib_contract.h"

#include <string.h>

static void free_runs(struct qn_leased **runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static void leased_run_carries_its_lease(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_advance(c, 500);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_true(run->token != 0);
    assert_true(run->fence != 0);
    assert_int_equal(run->cause, QUERN_CAUSE_NONE);
    assert_int_equal(run->retry_count, 0);
    assert_int_equal(run->crash_count, 0);
    assert_int_equal(run->queue_index, 0);
    assert_true(run->started);
    assert_int_equal(run->leased_at_boot_ms, qn_clock_boot_ms(&c->clock));
    assert_int_equal(run->task.process_at_ms, CONTRACT_NOW_MS);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ACTIVE);
    assert_int_equal(view.fence, run->fence);
    assert_string_equal(view.worker, CONTRACT_WORKER);
    assert_int_equal(view.started_at_ms, CONTRACT_NOW_MS + 500);
    qn_leased_free(run);
}

static void copy_of_a_run_is_as_good_as_the_run(struct contract *c)
{
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "a", .payload = "x\0y", .payload_size = 3});
    struct qn_leased *run = contract_take_id(c, "default", "a");
    struct qn_leased *copy = qn_leased_copy(NULL, run);
    assert_non_null(copy);
    qn_leased_free(run);
    assert_string_equal(copy->task.id, "a");
    assert_memory_equal(copy->task.payload, "x\0y", 3);
    assert_int_equal(contract_finish(c, copy, QN_DONE), QN_APPLIED);
}

static void room_is_never_exceeded(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    contract_put_many(c, "default", "a", 20);
    assert_int_equal(contract_lease(c, "default", 0, runs), 0);
    assert_int_equal(contract_lease(c, "default", 1, runs), 1);
    free_runs(runs, 1);
    assert_int_equal(contract_lease(c, "default", 7, runs), 7);
    free_runs(runs, 7);
    assert_int_equal(contract_lease(c, "default", 100, runs), 12);
    free_runs(runs, 12);
    assert_int_equal(contract_lease(c, "default", 100, runs), 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 20);
}

static void leased_task_is_not_leased_again(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    assert_null(contract_take(c, "default"));
    contract_finish(c, run, QN_DONE);
}

static void fence_grows_over_all_runs(struct contract *c)
{
    uint64_t fence = 0;
    uint64_t token = 0;
    for (int i = 0; i < 4; i++) {
        struct qn_leased *run = contract_start(c, i % 2 == 0 ? "a" : "b");
        assert_true(run->fence > fence);
        assert_true(run->token != token);
        fence = run->fence;
        token = run->token;
        contract_finish(c, run, QN_DONE);
    }
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    struct qn_leased *run = contract_start(c, "a");
    assert_true(run->fence > fence);
    contract_finish(c, run, QN_DONE);
}

static void fences_of_one_batch_differ(struct contract *c)
{
    struct qn_leased *runs[10];
    contract_put_many(c, "default", "a", 10);
    assert_int_equal(contract_lease(c, "default", 10, runs), 10);
    for (size_t i = 1; i < 10; i++) {
        assert_true(runs[i]->fence > runs[i - 1]->fence);
    }
    free_runs(runs, 10);
}

static void outcome_and_lease_share_one_exchange(struct contract *c)
{
    struct qn_leased *next = NULL;
    enum qn_applied applied = QN_STALE;
    contract_put_many(c, "default", "a", 2);
    struct qn_leased *first = contract_take_id(c, "default", "a0000");
    struct qn_outcome outcome = {.run = first, .kind = QN_DONE};
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.outcomes = &outcome,
                                   .outcome_count = 1,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1};
    assert_int_equal(contract_exchange(c, &exchange, &applied, &next), 1);
    assert_int_equal(applied, QN_APPLIED);
    assert_string_equal(next->task.id, "a0001");
    qn_leased_free(first);
    contract_finish(c, next, QN_DONE);
    contract_assert_counted(c, "default", 2, 0);
}

/* --- Deadlines ---------------------------------------------------------------------- */

static void task_past_its_deadline_is_archived_not_leased(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    contract_put(c, "default", "b");
    contract_advance(c, 1001);
    contract_finish(c, contract_take_id(c, "default", "b"), QN_DONE);
    assert_null(contract_take(c, "default"));
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "deadline exceeded");
    assert_int_equal(view.at_ms, CONTRACT_NOW_MS + 1001);
    assert_int_equal(view.fence, 0);
    contract_assert_counted(c, "default", 2, 1);
    assert_int_equal(c->late_count, 1);
}

static void task_before_its_deadline_is_leased(struct contract *c)
{
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "a", .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    contract_advance(c, 999);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    contract_assert_counted(c, "default", 1, 0);
}

static void many_tasks_past_their_deadline_hide_no_live_one(struct contract *c)
{
    char id[16];
    for (int i = 0; i < 40; i++) {
        (void)snprintf(id, sizeof id, "dead%d", i);
        contract_enqueue(
            c, &(quern_task){.type = "t", .id = id, .deadline_at_ms = CONTRACT_NOW_MS + 1});
    }
    contract_put(c, "default", "alive");
    contract_advance(c, 2);
    struct qn_leased *run = NULL;
    for (int i = 0; run == NULL && i < 50; i++) {
        run = contract_take(c, "default");
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "alive");
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, "default", 41, 40);
    assert_int_equal(c->late_count, 40);
}

static void late_tasks_are_archived_a_bounded_number_at_a_time(struct contract *c)
{
    enum { LATE = 3 * QN_PRUNE_BATCH_MAX };
    char id[16];
    for (int i = 0; i < LATE; i++) {
        (void)snprintf(id, sizeof id, "late%d", i);
        contract_enqueue(
            c, &(quern_task){.type = "t", .id = id, .deadline_at_ms = CONTRACT_NOW_MS + 1});
    }
    contract_put(c, "default", "alive");
    contract_put(c, "other", "lower");
    contract_advance(c, 2);
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1}, {.name = "other"}};
    struct qn_leased *run = NULL;
    uint64_t archived = 0;
    size_t count = 0;
    for (int i = 0; count == 0 && i < LATE; i++) {
        struct qn_exchange exchange = {
            .queues = shares, .queue_count = 2, .room = 1, .start_count_now = 1, .strict = true};
        count = contract_exchange(c, &exchange, NULL, &run);
        uint64_t now = contract_count(c, "default", QUERN_TASK_ARCHIVED);
        assert_true(now - archived <= QN_PRUNE_BATCH_MAX + QN_BATCH_MAX);
        assert_int_equal(c->more, count == 0);
        archived = now;
    }
    assert_int_equal(count, 1);
    assert_int_equal(archived, LATE);
    assert_string_equal(run->task.id, "alive");
    contract_finish(c, run, QN_DONE);
    contract_assert_counted(c, "default", LATE + 1, LATE);
}

/* --- Starts ------------------------------------------------------------------------- */

/* Whether the broker knows the run as started: its task has no attempts left, so it would not be
 * run again. */
static bool is_started(struct contract *c, const char *id)
{
    contract_expire(c, "default");
    return contract_state(c, "default", id) == QUERN_TASK_ARCHIVED;
}

static void put_spent(struct contract *c, const char *id)
{
    contract_enqueue(
        c,
        &(quern_task){.type = "t", .queue = "default", .id = id, .retry_max = QUERN_RETRY_NEVER});
}

static void run_fetched_ahead_is_not_started(struct contract *c)
{
    put_spent(c, "a");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_non_null(run);
    assert_false(run->started);
    assert_false(is_started(c, "a"));
    qn_leased_free(run);
}

static void only_the_first_runs_of_a_lease_are_started(struct contract *c)
{
    struct qn_leased *runs[3];
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 3};
    struct qn_exchange exchange = {
        .queues = &share, .queue_count = 1, .room = 3, .start_count_now = 2};
    put_spent(c, "a0");
    put_spent(c, "a1");
    put_spent(c, "a2");
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 3);
    assert_true(runs[0]->started);
    assert_true(runs[1]->started);
    assert_false(runs[2]->started);
    contract_expire(c, "default");
    assert_int_equal(contract_state(c, "default", "a0"), QUERN_TASK_ARCHIVED);
    assert_int_equal(contract_state(c, "default", "a1"), QUERN_TASK_ARCHIVED);
    assert_int_equal(contract_state(c, "default", "a2"), QUERN_TASK_PENDING);
    free_runs(runs, 3);
}

static void recorded_start_is_known_to_recovery(struct contract *c)
{
    put_spent(c, "a");
    struct qn_leased *run = contract_fetch(c, "default");
    const struct qn_leased *starts[] = {run};
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange exchange = {
        .starts = starts, .start_count = 1, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &exchange, NULL, NULL), 0);
    assert_true(is_started(c, "a"));
    qn_leased_free(run);
}

static void start_of_a_stale_run_is_not_recorded(struct contract *c)
{
    put_spent(c, "a");
    struct qn_leased *zombie = contract_fetch(c, "default");
    contract_expire(c, "default");
    struct qn_leased *owner = contract_fetch(c, "default");
    const struct qn_leased *starts[] = {zombie};
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange exchange = {
        .starts = starts, .start_count = 1, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &exchange, NULL, NULL), 0);
    assert_false(is_started(c, "a"));
    qn_leased_free(zombie);
    qn_leased_free(owner);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(leased_run_carries_its_lease),
    CONTRACT_TEST(copy_of_a_run_is_as_good_as_the_run),
    CONTRACT_TEST(room_is_never_exceeded),
    CONTRACT_TEST(leased_task_is_not_leased_again),
    CONTRACT_TEST(fence_grows_over_all_runs),
    CONTRACT_TEST(fences_of_one_batch_differ),
    CONTRACT_TEST(outcome_and_lease_share_one_exchange),
    CONTRACT_TEST(task_past_its_deadline_is_archived_not_leased),
    CONTRACT_TEST(task_before_its_deadline_is_leased),
    CONTRACT_TEST(many_tasks_past_their_deadline_hide_no_live_one),
    CONTRACT_TEST(late_tasks_are_archived_a_bounded_number_at_a_time),
    CONTRACT_TEST(run_fetched_ahead_is_not_started),
    CONTRACT_TEST(only_the_first_runs_of_a_lease_are_started),
    CONTRACT_TEST(recorded_start_is_known_to_recovery),
    CONTRACT_TEST(start_of_a_stale_run_is_not_recorded),
};
CONTRACT_MAIN(tests)
