/* SPDX-License-Identifier: MIT */
/* test_queue.c - limits of a whole queue: how many of its tasks run at a time, and how many start
 * in a period. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "task/limit.h"

#define QUEUE "default"
/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

static void set_limit(struct contract *c, const char *text)
{
    contract_need_limits(c);
    contract_limit(c, QUEUE, QUERN_LIMIT_QUEUE, "", text);
}

static quern_status remove_limits(struct contract *c)
{
    const struct qn_limit_owner owner = {.queue = QUEUE, .scope = QUERN_LIMIT_QUEUE, .name = ""};
    return qn_broker_remove_limit(c->broker, &owner, NULL);
}

struct listing {
    int64_t runs_used; /* -1: none is listed */
    int64_t starts_used;
    size_t count;
};

static bool on_limit(const quern_limit *limit, void *user)
{
    struct listing *listing = user;
    assert_string_equal(limit->queue, QUEUE);
    *(limit->period_ms == 0 ? &listing->runs_used : &listing->starts_used) = limit->used;
    listing->count++;
    return true;
}

static struct listing list(struct contract *c, const char *queue)
{
    struct listing listing = {.runs_used = -1, .starts_used = -1};
    quern_error err = {0};
    assert_ok(qn_broker_limits(c->broker, queue, on_limit, &listing, &err), err);
    return listing;
}

static size_t lease(struct contract *c, uint32_t room, struct qn_leased **runs)
{
    return contract_lease(c, QUEUE, room, runs);
}

static void finish_all(struct contract *c, struct qn_leased **runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)contract_finish(c, runs[i], QN_DONE);
    }
}

/* How many may start now, and how long the next one has to wait; they are done at once. */
static int start_and_wait(struct contract *c, int64_t *ret_wait_ms)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count = lease(c, QN_BATCH_MAX, runs);
    *ret_wait_ms = c->wait_ms;
    finish_all(c, runs, count);
    return (int)count;
}

static int start_all(struct contract *c)
{
    int64_t wait_ms = 0;
    return start_and_wait(c, &wait_ms);
}

/* --- How many run ---------------------------------------------------------------------- */

static void queue_runs_no_more_than_its_limit(struct contract *c)
{
    struct qn_leased *runs[8];
    set_limit(c, "2");
    contract_put_many(c, QUEUE, "a", 5);
    assert_int_equal(lease(c, 8, runs), 2);
    assert_string_equal(runs[0]->task.id, "a0000");
    assert_int_equal(lease(c, 8, runs + 2), 0);
    assert_int_equal(list(c, QUEUE).runs_used, 2);
    assert_int_equal(contract_state(c, QUEUE, "a0002"), QUERN_TASK_PENDING);
    (void)contract_finish(c, runs[0], QN_DONE);
    assert_int_equal(lease(c, 8, runs + 2), 1);
    assert_string_equal(runs[2]->task.id, "a0002");
    finish_all(c, runs + 1, 2);
    assert_int_equal(list(c, QUEUE).runs_used, 0);
}

static void limit_of_none_holds_up_its_queue_alone(struct contract *c)
{
    struct qn_leased *runs[2] = {NULL};
    set_limit(c, "0");
    contract_put_many(c, QUEUE, "a", 3);
    contract_put(c, "other", "b");
    assert_int_equal(lease(c, 2, runs), 0);
    assert_int_equal(c->wait_ms, 0);
    struct qn_leased *run = contract_take(c, "other");
    assert_string_equal(run->task.id, "b");
    (void)contract_finish(c, run, QN_DONE);
    struct contract_view view = contract_inspect(c, QUEUE, "a0000");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.retry_count, 0);
}

static void limit_counts_the_runs_of_all_workers(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[4];
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    set_limit(c, "2");
    contract_put_many(c, QUEUE, "a", 3);
    assert_int_equal(contract_lease_as(c, &dead, QUEUE, 4, runs), 2);
    assert_int_equal(lease(c, 4, runs + 2), 0);
    assert_int_equal(contract_recover(c, QUEUE), 2);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    assert_int_equal(lease(c, 4, runs), 2);
    finish_all(c, runs, 2);
}

static void limit_changes_while_tasks_run(struct contract *c)
{
    struct qn_leased *runs[8];
    set_limit(c, "3");
    contract_put_many(c, QUEUE, "a", 8);
    assert_int_equal(lease(c, 8, runs), 3);
    set_limit(c, "1");
    (void)contract_finish(c, runs[0], QN_DONE);
    (void)contract_finish(c, runs[1], QN_DONE);
    assert_int_equal(lease(c, 5, runs + 3), 0);
    set_limit(c, "2");
    assert_int_equal(lease(c, 5, runs + 3), 1);
    assert_int_equal(remove_limits(c), QUERN_OK);
    assert_int_equal(remove_limits(c), QUERN_E_NOT_FOUND);
    assert_int_equal(lease(c, 4, runs + 4), 4);
    finish_all(c, runs + 2, 6);
}

static void charged_task_is_bound_by_a_limit_too(struct contract *c)
{
    struct qn_leased *runs[4];
    set_limit(c, "1");
    contract_put_many(c, QUEUE, "a", 3);
    assert_int_equal(lease(c, 4, runs), 1);
    (void)contract_finish(c, runs[0], QN_CRASH);
    for (int i = 0; i < 3; i++) {
        size_t count = lease(c, 4, runs);
        if (count == 0 && c->more) {
            count = lease(c, 4, runs);
        }
        assert_int_equal(count, 1);
        assert_int_equal(lease(c, 4, runs + 1), 0);
        (void)contract_finish(c, runs[0], QN_DONE);
    }
}

static void end_of_a_run_wakes_who_waits_for_its_place(struct contract *c)
{
    const char *const queue = QUEUE;
    struct qn_wakeup wakeup = {0};
    struct qn_leased *runs[2];
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    set_limit(c, "1");
    contract_put_many(c, QUEUE, "a", 2);
    assert_int_equal(lease(c, 2, runs), 1);
    struct qn_broker *sleeper = contract_open(c);
    for (int i = 0; i < 2; i++) { /* the first wait takes what came before */
        assert_ok(qn_broker_arm(sleeper, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                  err);
        if (i == 1) {
            (void)contract_finish(c, runs[0], QN_DONE);
        }
        wakeup = (struct qn_wakeup){0};
        assert_ok(qn_broker_wait(sleeper, i == 0 ? 1 : BRIEFLY_MS, &wakeup, &err), err);
    }
    assert_true(wakeup.work);
    qn_broker_close(sleeper);
}

/* --- How many start -------------------------------------------------------------------- */

static void window_starts_no_more_than_its_limit(struct contract *c)
{
    set_limit(c, "3/1m");
    contract_put_many(c, QUEUE, "a", 10);
    assert_int_equal(start_all(c), 3);
    assert_int_equal(list(c, QUEUE).starts_used, 3);
    assert_int_equal(start_all(c), 0);
    assert_true(c->wait_ms > 59000);
    assert_true(c->wait_ms < 62000);
    contract_advance(c, 59000);
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 2000);
    assert_int_equal(start_all(c), 3);
    assert_int_equal(start_all(c), 0);
}

static void bucket_gives_its_burst_and_then_its_rate(struct contract *c)
{
    set_limit(c, "60/1m burst 5");
    contract_put_many(c, QUEUE, "a", 40);
    assert_int_equal(start_all(c), 5);
    assert_int_equal(start_all(c), 0);
    assert_int_equal(c->wait_ms, 1000);
    for (int i = 0; i < 10; i++) {
        contract_advance(c, 1000);
        assert_int_equal(start_all(c), 1);
    }
    contract_advance(c, 3600000);
    assert_int_equal(start_all(c), 5);
}

static void limit_of_runs_and_of_starts_hold_together(struct contract *c)
{
    struct qn_leased *runs[8];
    set_limit(c, "2");
    set_limit(c, "3/1m");
    assert_int_equal(list(c, NULL).count, 2);
    contract_put_many(c, QUEUE, "a", 6);
    assert_int_equal(lease(c, 8, runs), 2);
    finish_all(c, runs, 2);
    assert_int_equal(lease(c, 8, runs), 1);
    finish_all(c, runs, 1);
    assert_int_equal(lease(c, 8, runs), 0);
    contract_advance(c, 62000);
    assert_int_equal(lease(c, 8, runs), 2);
    finish_all(c, runs, 2);
}

static void run_that_did_not_start_returns_its_start(struct contract *c)
{
    set_limit(c, "2/1m");
    contract_put_many(c, QUEUE, "a", 4);
    struct qn_leased *first = contract_fetch(c, QUEUE);
    struct qn_leased *second = contract_take(c, QUEUE);
    contract_advance(c, 100);
    const struct qn_outcome given_back = {
        .run = first, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
    qn_leased_free(first);
    assert_int_equal(list(c, QUEUE).starts_used, 1);
    (void)contract_finish(c, second, QN_GIVE_BACK); /* this one had started */
    assert_int_equal(list(c, QUEUE).starts_used, 1);
    assert_int_equal(start_all(c), 1);
    assert_int_equal(start_all(c), 0);
}

static void late_task_uses_no_start(struct contract *c)
{
    set_limit(c, "1/1m");
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "late", .deadline_at_ms = CONTRACT_NOW_MS + 1000});
    contract_put(c, QUEUE, "good");
    contract_advance(c, 2000);
    struct qn_leased *run = contract_take(c, QUEUE);
    while (run == NULL && c->more) {
        run = contract_take(c, QUEUE);
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "good");
    (void)contract_finish(c, run, QN_DONE);
    assert_int_equal(contract_state(c, QUEUE, "late"), QUERN_TASK_ARCHIVED);
}

static void changed_rate_counts_what_has_started(struct contract *c)
{
    set_limit(c, "5/1m");
    contract_put_many(c, QUEUE, "a", 20);
    assert_int_equal(start_all(c), 5);
    set_limit(c, "7/1m");
    assert_int_equal(start_all(c), 2);
    set_limit(c, "2/1m");
    assert_int_equal(start_all(c), 0);
    contract_advance(c, 62000);
    assert_int_equal(start_all(c), 2);
    assert_int_equal(remove_limits(c), QUERN_OK);
    assert_int_equal(start_all(c), 11);
}

/* The same starts as the rules of src/task/limit.c allow, whatever the numbers and the times. */
static void starts_are_those_of_the_rules(struct contract *c)
{
    static const char *const limits[] = {"3/1s", "7/250ms", "50/1m", "4/10s burst 9",
                                         "1000/1m burst 1"};
    uint32_t random = 4711;
    set_limit(c, limits[0]);
    for (size_t k = 0; k < TEST_COUNT(limits); k++) {
        char prefix[8];
        struct qn_limit limit;
        struct qn_limit_use use = {0};
        quern_error err = {0};
        assert_ok(qn_limit_parse(limits[k], &limit, &err), err);
        set_limit(c, limits[k]);
        contract_advance(c, 3600000);
        (void)snprintf(prefix, sizeof prefix, "p%zu-", k);
        contract_put_many(c, QUEUE, prefix, 250);
        for (int64_t left = 250, i = 0; left > 0 && i < 60; i++) {
            int64_t now_ms = atomic_load(&c->clock.wall_ms);
            int64_t room = qn_limit_room(&limit, &use, now_ms);
            room = room < left ? room : left;
            int64_t next_ms = 0;
            assert_int_equal(start_and_wait(c, &next_ms), room);
            left -= room;
            for (int64_t n = 0; n < room; n++) {
                qn_limit_take(&limit, &use, now_ms);
            }
            int64_t wait_ms = qn_limit_wait_ms(&limit, &use, now_ms);
            if (left > 0) {
                assert_int_equal(next_ms, wait_ms);
            }
            random = random * 1103515245 + 12345;
            contract_advance(c, (int64_t)(random >> 16) % (limit.period_ms / 3));
        }
        do {
            contract_advance(c, 3600000);
        } while (start_all(c) > 0);
    }
}

static void removed_queue_has_no_limits(struct contract *c)
{
    quern_error err = {0};
    set_limit(c, "1");
    set_limit(c, "1/1h");
    contract_put_many(c, QUEUE, "a", 2);
    assert_int_equal(start_all(c), 1);
    assert_ok(qn_broker_remove_queue(c->broker, QUEUE, true, &err), err);
    assert_int_equal(list(c, NULL).count, 0);
    contract_put_many(c, QUEUE, "b", 3);
    assert_int_equal(start_all(c), 3);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(queue_runs_no_more_than_its_limit),
    CONTRACT_TEST(limit_of_none_holds_up_its_queue_alone),
    CONTRACT_TEST(limit_counts_the_runs_of_all_workers),
    CONTRACT_TEST(limit_changes_while_tasks_run),
    CONTRACT_TEST(charged_task_is_bound_by_a_limit_too),
    CONTRACT_TEST(end_of_a_run_wakes_who_waits_for_its_place),
    CONTRACT_TEST(window_starts_no_more_than_its_limit),
    CONTRACT_TEST(bucket_gives_its_burst_and_then_its_rate),
    CONTRACT_TEST(limit_of_runs_and_of_starts_hold_together),
    CONTRACT_TEST(run_that_did_not_start_returns_its_start),
    CONTRACT_TEST(late_task_uses_no_start),
    CONTRACT_TEST(changed_rate_counts_what_has_started),
    CONTRACT_TEST(starts_are_those_of_the_rules),
    CONTRACT_TEST(removed_queue_has_no_limits),
};

CONTRACT_MAIN(tests)
