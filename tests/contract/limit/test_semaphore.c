/* SPDX-License-Identifier: MIT */
/* test_semaphore.c - semaphores: limits by name, of the queues for which they are set together.
 * What Redis shares with Go's handlers: redis/test_semaphore.c. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"

/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

static quern_status try_set(struct contract *c, const char *queue, quern_limit_scope scope,
                            const char *name, int64_t count)
{
    const quern_limit limit = {
        .queue = queue, .scope = (int32_t)scope, .name = name, .count = count};
    return qn_broker_set_limit(c->broker, &limit, NULL);
}

/* A broker that has no semaphores skips the test. */
static void set_named(struct contract *c, const char *queue, const char *name, int64_t count)
{
    quern_status status = try_set(c, queue, QUERN_LIMIT_SEMAPHORE, name, count);
    if (status == QUERN_E_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, QUERN_OK);
}

static void set(struct contract *c, const char *queue, int64_t count)
{
    set_named(c, queue, "smtp", count);
}

static quern_status unset(struct contract *c, const char *queue, const char *name)
{
    const struct qn_limit_owner owner = {queue, QUERN_LIMIT_SEMAPHORE, name};
    return qn_broker_remove_limit(c->broker, &owner, NULL);
}

static bool on_limit(const quern_limit *limit, void *user)
{
    char *lines = user;
    if (limit->scope == QUERN_LIMIT_SEMAPHORE) {
        (void)snprintf(lines + strlen(lines), 64, "%s %s %lld/%lld;", limit->queue, limit->name,
                       (long long)limit->used, (long long)limit->count);
    }
    return true;
}

/* queue NULL: of all. */
static void assert_listed(struct contract *c, const char *queue, const char *expected)
{
    char lines[1024] = "";
    quern_error err = {0};
    assert_ok(qn_broker_limits(c->broker, queue, on_limit, lines, &err), err);
    assert_string_equal(lines, expected);
}

static void done(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

/* --- How many run ---------------------------------------------------------------------- */

static void queues_share_a_semaphore(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 2);
    set(c, "other", 2);
    contract_put(c, "default", "same-id");
    contract_put(c, "other", "same-id");
    contract_put(c, "other", "b");
    contract_put(c, "third", "c");
    assert_int_equal(contract_lease(c, "default", 8, runs), 1);
    assert_int_equal(contract_lease(c, "other", 8, runs + 1), 1);
    assert_listed(c, NULL, "default smtp 2/2;other smtp 2/2;");
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 0);
    assert_int_equal(contract_lease(c, "third", 8, runs + 2), 1); /* which has none */
    done(c, runs[0]);
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
    assert_listed(c, NULL, "default smtp 0/2;other smtp 0/2;");
}

static void each_queue_has_its_own_count(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 4);
    set(c, "other", 2);
    contract_put_many(c, "default", "d", 6);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(contract_lease(c, "other", 8, runs), 2);
    assert_int_equal(contract_lease(c, "default", 8, runs + 2), 2);
    done(c, runs[0]);
    assert_int_equal(contract_lease(c, "other", 8, runs), 0); /* 3 are held */
    assert_int_equal(contract_lease(c, "default", 8, runs), 1);
    assert_listed(c, "other", "other smtp 4/2;");
    set(c, "other", 5);
    assert_int_equal(contract_lease(c, "other", 8, runs + 4), 1);
    for (int i = 0; i < 5; i++) {
        done(c, runs[i]);
    }
    set(c, "other", 0);
    assert_int_equal(contract_lease(c, "other", 8, runs), 0);
}

static void one_lease_from_two_queues_takes_no_more_tokens_than_are_free(struct contract *c)
{
    struct qn_leased *runs[8];
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 8, .start_count_now = 8};
    set(c, "default", 5);
    set(c, "other", 5);
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 5);
    assert_listed(c, "other", "other smtp 5/5;");
    for (int i = 0; i < 5; i++) {
        done(c, runs[i]);
    }
}

static void queue_may_have_several_semaphores(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 3);
    set_named(c, "default", "data base", 2);
    set_named(c, "other", "data base", 3);
    contract_put_many(c, "default", "a", 5);
    contract_put_many(c, "other", "b", 3);
    assert_int_equal(contract_lease(c, "default", 8, runs), 2);
    assert_listed(c, NULL, "default data base 2/2;default smtp 2/3;other data base 2/3;");
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 1);
    assert_int_equal(unset(c, "default", "data base"), QUERN_OK);
    assert_listed(c, NULL, "default smtp 2/3;other data base 1/3;");
    assert_int_equal(contract_lease(c, "default", 8, runs + 3), 1);
    assert_int_equal(contract_lease(c, "other", 8, runs + 4), 2);
    for (int i = 0; i < 6; i++) {
        done(c, runs[i]);
    }
}

static void star_is_a_name_like_any_other(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, "default", 3);
    set_named(c, "default", "*", 1);
    contract_put_many(c, "default", "a", 4);
    assert_int_equal(contract_lease(c, "default", 8, runs), 1);
    assert_listed(c, NULL, "default * 1/1;default smtp 1/3;");
    assert_int_equal(unset(c, "default", "*"), QUERN_OK);
    assert_int_equal(contract_lease(c, "default", 8, runs + 1), 2);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
}

/* --- Beside other limits ----------------------------------------------------------------- */

static void semaphore_and_limit_of_all_queues_hold_together(struct contract *c)
{
    const struct qn_limit_owner all = {QUERN_ALL_QUEUES, QUERN_LIMIT_QUEUE, ""};
    struct qn_leased *runs[8];
    set(c, "default", 3);
    assert_int_equal(try_set(c, QUERN_ALL_QUEUES, QUERN_LIMIT_QUEUE, "", 2), QUERN_OK);
    set(c, "other", 3); /* keeps that of all */
    contract_put_many(c, "default", "a", 5);
    contract_put(c, "other", "b");
    assert_int_equal(contract_lease(c, "default", 8, runs), 2);
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 0);
    assert_listed(c, "default", "default smtp 2/3;");
    assert_int_equal(qn_broker_remove_limit(c->broker, &all, NULL), QUERN_OK);
    assert_int_equal(contract_lease(c, "default", 8, runs + 2), 1);
    assert_int_equal(contract_lease(c, "other", 8, runs + 3), 0);
    assert_int_equal(unset(c, "other", "smtp"), QUERN_OK);
    assert_int_equal(contract_lease(c, "other", 8, runs + 3), 1);
    for (int i = 0; i < 4; i++) {
        done(c, runs[i]);
    }
    assert_listed(c, "default", "default smtp 0/3;");
}

static void semaphore_and_limits_by_key_and_queue_hold_together(struct contract *c)
{
    static const char *const keys[] = {"a", "a", "b", "b", "c", NULL};
    static const char *const ids[] = {"a0", "a1", "b0", "b1", "c0", "n0"};
    struct qn_leased *runs[8];
    set(c, "default", 4);
    set(c, "other", 4);
    assert_int_equal(try_set(c, "default", QUERN_LIMIT_KEY, "*", 1), QUERN_OK);
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        contract_enqueue(c, &(quern_task){.type = "t", .id = ids[i], .limit_key = keys[i]});
    }
    contract_put(c, "other", "o");
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    assert_int_equal(contract_lease(c, "default", 8, runs + 1), 3);
    done(c, runs[0]);
    assert_int_equal(contract_lease(c, "default", 8, runs), 1); /* of b1, a1 none may */
    assert_int_equal(contract_lease(c, "default", 8, runs + 4), 0);
    assert_int_equal(try_set(c, "default", QUERN_LIMIT_QUEUE, "", 3), QUERN_OK);
    done(c, runs[0]);
    assert_int_equal(contract_lease(c, "default", 8, runs), 0);
    for (int i = 1; i < 4; i++) {
        done(c, runs[i]);
    }
}

/* --- How tokens end -------------------------------------------------------------------- */

static void every_end_of_a_run_returns_its_token(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE,   QN_DROP,      QN_RETRY,
                                                 QN_SNOOZE, QN_ARCHIVE,   QN_CANCEL,
                                                 QN_ASIDE,  QN_GIVE_BACK, QN_CRASH};
    quern_error err = {0};
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        set(c, "default", 1);
        set(c, "other", 1);
        contract_put(c, "default", "a");
        struct qn_leased *run = contract_take(c, "default");
        assert_listed(c, "other", "other smtp 1/1;");
        (void)contract_finish(c, run, kinds[i]);
        assert_listed(c, "other", "other smtp 0/1;");
        assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    }
}

static void token_of_a_dead_worker_comes_back(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[8];
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    set(c, "default", 2);
    set(c, "other", 2);
    contract_put_many(c, "default", "a", 3);
    contract_put_many(c, "other", "b", 2);
    assert_int_equal(contract_lease_as(c, &dead, "default", 4, runs), 2);
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 0);
    assert_int_equal(contract_recover(c, "default"), 2);
    assert_listed(c, "other", "other smtp 0/2;");
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    assert_int_equal(contract_lease(c, "other", 8, runs), 2);
    done(c, runs[0]);
    done(c, runs[1]);
}

static void run_of_hours_keeps_its_token(struct contract *c)
{
    struct qn_leased *runs[8];
    quern_error err = {0};
    set(c, "default", 1);
    set(c, "other", 1);
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    struct qn_leased *run = contract_take(c, "default");
    for (int i = 0; i < 500; i++) {
        contract_advance(c, CONTRACT_LEASE_MS / 2);
        struct qn_extension extension = {.run = run};
        assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
        assert_true(extension.held);
    }
    assert_int_equal(contract_lease(c, "other", 8, runs), 0);
    done(c, run);
    assert_int_equal(contract_lease(c, "other", 8, runs), 1);
    done(c, runs[0]);
}

static void semaphore_counts_what_runs_when_it_is_set_and_frees_it_when_removed(struct contract *c)
{
    struct qn_leased *runs[8];
    contract_put_many(c, "default", "a", 4);
    contract_put_many(c, "other", "b", 3);
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    set(c, "other", 3);
    assert_listed(c, NULL, "other smtp 0/3;");
    set(c, "default", 3);
    assert_listed(c, NULL, "default smtp 2/3;other smtp 2/3;");
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 1);
    assert_int_equal(contract_lease(c, "default", 8, runs + 3), 0);
    assert_int_equal(unset(c, "default", "smtp"), QUERN_OK);
    assert_int_equal(unset(c, "default", "smtp"), QUERN_E_NOT_FOUND);
    assert_listed(c, NULL, "other smtp 1/3;");
    assert_int_equal(contract_lease(c, "other", 8, runs + 3), 2);
    assert_int_equal(contract_lease(c, "default", 8, runs + 5), 2);
    for (int i = 0; i < 7; i++) {
        done(c, runs[i]);
    }
}

static void removed_queue_leaves_no_semaphore(struct contract *c)
{
    struct qn_leased *runs[8];
    quern_error err = {0};
    set(c, "default", 1);
    set(c, "other", 1);
    contract_put(c, "default", "a");
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    assert_listed(c, NULL, "other smtp 0/1;");
    contract_put_many(c, "default", "b", 2);
    contract_put_many(c, "other", "o", 2);
    assert_int_equal(contract_lease(c, "default", 8, runs), 2);
    assert_int_equal(contract_lease(c, "other", 8, runs + 2), 1);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
}

/* --- Wake-ups -------------------------------------------------------------------------- */

/* A worker of this queue waits for the only token, which a run of "default" holds, while `end` is
 * done about that run. */
static void await_end(struct contract *c, const char *queue,
                      void (*end)(struct contract *c, struct qn_leased *run))
{
    struct qn_wakeup wakeup = {0};
    struct qn_leased *runs[2];
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    set(c, "default", 1);
    set(c, "other", 1);
    contract_put(c, "default", "a");
    contract_put(c, queue, "b");
    assert_int_equal(contract_lease(c, "default", 2, runs), 1);
    assert_int_equal(contract_lease(c, queue, 2, runs + 1), 0);
    struct qn_broker *sleeper = contract_open(c);
    for (int i = 0; i < 2; i++) { /* the first wait takes what came before */
        assert_ok(qn_broker_arm(sleeper, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                  err);
        if (i == 1) {
            end(c, runs[0]);
        }
        wakeup = (struct qn_wakeup){0};
        assert_ok(qn_broker_wait(sleeper, i == 0 ? 1 : BRIEFLY_MS, &wakeup, &err), err);
    }
    /* On Redis other queues send no wake-ups: there it looks again at that moment. */
    bool looks =
        strcmp(queue, "other") == 0 && due_at_ms - qn_clock_wall_ms(&c->clock) <= BRIEFLY_MS;
    assert_true(wakeup.work || looks);
    qn_broker_close(sleeper);
    assert_int_equal(contract_lease(c, queue, 2, runs + 1), 1);
    done(c, runs[1]);
}

static void end_by_removal(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(unset(c, "default", "smtp"), QUERN_OK);
    qn_leased_free(run);
}

static void free_token_wakes_who_waits_for_it(struct contract *c)
{
    await_end(c, "default", done);
}

static void end_of_a_run_is_noticed_where_another_queue_waits_for_its_token(struct contract *c)
{
    await_end(c, "other", done);
}

static void removal_is_noticed_where_another_queue_waits_for_a_token(struct contract *c)
{
    await_end(c, "other", end_by_removal);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(queues_share_a_semaphore),
    CONTRACT_TEST(each_queue_has_its_own_count),
    CONTRACT_TEST(one_lease_from_two_queues_takes_no_more_tokens_than_are_free),
    CONTRACT_TEST(queue_may_have_several_semaphores),
    CONTRACT_TEST(star_is_a_name_like_any_other),
    CONTRACT_TEST(semaphore_and_limit_of_all_queues_hold_together),
    CONTRACT_TEST(semaphore_and_limits_by_key_and_queue_hold_together),
    CONTRACT_TEST(every_end_of_a_run_returns_its_token),
    CONTRACT_TEST(token_of_a_dead_worker_comes_back),
    CONTRACT_TEST(run_of_hours_keeps_its_token),
    CONTRACT_TEST(semaphore_counts_what_runs_when_it_is_set_and_frees_it_when_removed),
    CONTRACT_TEST(removed_queue_leaves_no_semaphore),
    CONTRACT_TEST(free_token_wakes_who_waits_for_it),
    CONTRACT_TEST(end_of_a_run_is_noticed_where_another_queue_waits_for_its_token),
    CONTRACT_TEST(removal_is_noticed_where_another_queue_waits_for_a_token),
};

CONTRACT_MAIN(tests)
