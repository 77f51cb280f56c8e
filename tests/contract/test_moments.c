/* SPDX-License-Identifier: MIT */
/* test_moments.c - every moment that a broker keeps, while the wall clock is an hour ahead or
 * behind for a moment and comes back: no task waits for that hour, none is early by it.
 *
 * Delays are in test_forward.c, leases in test_extend.c, the brake in test_brake.c, the archive in
 * test_prune.c. */
#include "lib_contract.h"

enum { HOUR_MS = 3600000, SLOTS = 8 };

/* --- The solo lock --------------------------------------------------------------------- */

/* Leaves task "alone" pending, charged so often that it must run alone. */
static void charge(struct contract *c)
{
    const struct contract_worker dead = {.id = "doomed", .is_dead = true};
    contract_put(c, "default", "alone");
    for (int i = 0; i < 3; i++) {
        struct qn_leased *run = NULL;
        contract_heartbeat_as(c->broker, &dead);
        assert_int_equal(contract_lease_as(c, &dead, "default", 1, &run), 1);
        qn_leased_free(run);
        assert_int_equal(contract_recover(c, "default"), 1);
        contract_advance(c, QN_CHARGED_WAIT_MS);
        (void)contract_forward(c, "default", NULL);
    }
}

/* True: the solo lock is the worker's. */
static bool request_solo(struct contract *c, const char *worker_id, enum qn_solo solo)
{
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange exchange = {.queues = &share,
                                   .queue_count = 1,
                                   .worker_id = worker_id,
                                   .isolation.slots = SLOTS,
                                   .solo = solo};
    (void)contract_exchange(c, &exchange, NULL, NULL);
    return solo != QN_SOLO_END && exchange.solo_queue == 0;
}

/* Asks for the lock, holds it for 2 s and returns it, while the wall clock is set at each step. */
static void rest_after(struct contract *c, int64_t before_ms, int64_t kept_ms, int64_t after_ms)
{
    contract_jump(c, before_ms);
    assert_true(request_solo(c, CONTRACT_WORKER, QN_SOLO_ASK));
    contract_jump(c, kept_ms);
    contract_advance(c, 1000);
    assert_true(request_solo(c, CONTRACT_WORKER, QN_SOLO_KEEP));
    contract_jump(c, after_ms);
    contract_advance(c, 1000);
    (void)request_solo(c, CONTRACT_WORKER, QN_SOLO_END);
    contract_jump(c, -before_ms - kept_ms - after_ms);
    contract_advance(c, 2000);
    assert_true(request_solo(c, CONTRACT_WORKER, QN_SOLO_ASK));
    (void)request_solo(c, CONTRACT_WORKER, QN_SOLO_END);
    contract_advance(c, 2000);
}

static void clock_that_was_wrong_for_a_moment_makes_no_rest_longer(struct contract *c)
{
    charge(c);
    for (int sign = -1; sign <= 1; sign += 2) {
        rest_after(c, sign * HOUR_MS, 0, 0);
        rest_after(c, 0, sign * HOUR_MS, 0);
        rest_after(c, 0, 0, sign * HOUR_MS);
        rest_after(c, sign * HOUR_MS, -sign * HOUR_MS, 0);
        rest_after(c, sign * HOUR_MS, 0, -sign * HOUR_MS);
        rest_after(c, 0, sign * HOUR_MS, -sign * HOUR_MS);
    }
}

static void lock_whose_dead_owner_nobody_saw_for_hours_makes_no_longer_rest(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true};
    charge(c);
    contract_heartbeat_as(c->broker, &dead);
    assert_true(request_solo(c, "dead", QN_SOLO_ASK));
    contract_advance(c, 5 * HOUR_MS);
    (void)contract_recover(c, "default");
    contract_advance(c, QN_SOLO_MS + QN_SOLO_DEATH_MS);
    assert_true(request_solo(c, CONTRACT_WORKER, QN_SOLO_ASK));
}

/* --- Deaths ---------------------------------------------------------------------------- */

static void run_whose_death_nobody_saw_for_hours_lived_for_seconds(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true};
    struct qn_leased *run = NULL;
    contract_put(c, "default", "a");
    contract_heartbeat_as(c->broker, &dead);
    assert_int_equal(contract_lease_as(c, &dead, "default", 1, &run), 1);
    qn_leased_free(run);
    contract_advance(c, 5 * HOUR_MS);
    assert_int_equal(contract_recover(c, "default"), 1);
    run = contract_take_id(c, "default", "a");
    assert_int_equal(run->life_ms, run->crash_count == 0 ? 0 : QN_HEARTBEAT_MS);
    contract_finish(c, run, QN_DONE);
}

/* Its process cannot be seen here. It sends a heartbeat each 5 s until its lease has expired. */
static void leave_a_late_lease(struct contract *c)
{
    const struct contract_worker far = {.id = "far", .is_far = true};
    struct qn_leased *run = NULL;
    contract_put(c, "default", "a");
    contract_heartbeat_as(c->broker, &far);
    assert_int_equal(contract_lease_as(c, &far, "default", 1, &run), 1);
    qn_leased_free(run);
    for (int64_t ms = 0; ms < CONTRACT_LEASE_MS; ms += QN_HEARTBEAT_MS) {
        assert_int_equal(contract_recover(c, "default"), 0);
        contract_advance(c, QN_HEARTBEAT_MS);
        contract_heartbeat_as(c->broker, &far);
    }
    contract_advance(c, 1000); /* some brokers keep whole seconds */
}

static void worker_that_lives_is_not_dead_while_the_clock_is_wrong(struct contract *c)
{
    leave_a_late_lease(c);
    contract_jump(c, HOUR_MS);
    assert_int_equal(contract_recover(c, "default"), 1);
    contract_jump(c, -HOUR_MS);
    struct contract_view task = contract_inspect(c, "default", "a");
    assert_int_equal(task.cause, QUERN_CAUSE_LEASE_EXPIRED);
    assert_int_equal(task.crash_count, 0);
}

/* Its last heartbeat was dated while the clock was an hour ahead. */
static void dead_worker_does_not_live_for_an_hour(struct contract *c)
{
    const struct contract_worker far = {.id = "far", .is_far = true};
    struct qn_leased *run = NULL;
    contract_put(c, "default", "a");
    contract_jump(c, HOUR_MS);
    contract_heartbeat_as(c->broker, &far);
    assert_int_equal(contract_lease_as(c, &far, "default", 1, &run), 1);
    qn_leased_free(run);
    contract_jump(c, -HOUR_MS);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, CONTRACT_LEASE_MS + 1000);
    assert_int_equal(contract_recover(c, "default"), 1);
    struct contract_view task = contract_inspect(c, "default", "a");
    assert_int_equal(task.cause, QUERN_CAUSE_WORKER_DIED);
    assert_int_equal(task.crash_count, 1);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(worker_that_lives_is_not_dead_while_the_clock_is_wrong),
    CONTRACT_TEST(dead_worker_does_not_live_for_an_hour),
    CONTRACT_TEST(run_whose_death_nobody_saw_for_hours_lived_for_seconds),
    CONTRACT_TEST(clock_that_was_wrong_for_a_moment_makes_no_rest_longer),
    CONTRACT_TEST(lock_whose_dead_owner_nobody_saw_for_hours_makes_no_longer_rest),
};

CONTRACT_MAIN(tests)
