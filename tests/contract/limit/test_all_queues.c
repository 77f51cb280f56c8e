/* SPDX-License-Identifier: MIT */
/* test_all_queues.c - limits of all queues together: how many tasks run at a time, and how many
 * start, whichever queue they are of. */
#include "lib_limits.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "task/limit.h"

/* Shorter than QN_SAFETY_NET_MS, which would find the work without any wake-up. */
#define BRIEFLY_MS 400

static quern_status try_set(struct contract *c, const char *queue, quern_limit_scope scope,
                            const char *name, const char *text)
{
    struct qn_limit parsed;
    quern_error err = {0};
    assert_ok(qn_limit_parse(text, &parsed, &err), err);
    const quern_limit limit = {.queue = queue,
                               .scope = (int32_t)scope,
                               .name = name,
                               .count = parsed.count,
                               .period_ms = parsed.period_ms,
                               .burst = parsed.burst};
    return qn_broker_set_limit(c->broker, &limit, &err);
}

/* A broker that has no such limit skips the test. */
static void set(struct contract *c, quern_limit_scope scope, const char *name, const char *text)
{
    quern_status status = try_set(c, QUERN_ALL_QUEUES, scope, name, text);
    if (status == QUERN_E_UNSUPPORTED) {
        skip();
    }
    assert_int_equal(status, QUERN_OK);
}

static quern_status remove_all(struct contract *c, quern_limit_scope scope, const char *name)
{
    const struct qn_limit_owner owner = {QUERN_ALL_QUEUES, scope, name};
    return qn_broker_remove_limit(c->broker, &owner, NULL);
}

static void put(struct contract *c, const char *queue, const char *id, const char *type,
                const char *key)
{
    contract_enqueue(c, &(quern_task){.queue = queue, .type = type, .id = id, .limit_key = key});
}

/* Leases up to 8 of the queue; the ids are these, "a b". The runs go behind those in `runs`. */
static size_t lease(struct contract *c, const char *queue, struct qn_leased **runs, const char *ids)
{
    char got[1024] = "";
    size_t count = contract_lease(c, queue, 8, runs);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof got - used, "%s%s", used > 0 ? " " : "",
                       runs[i]->task.id);
    }
    assert_string_equal(got, ids);
    return count;
}

static void done(struct contract *c, struct qn_leased *run)
{
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

struct found {
    char lines[512];
};

static bool on_limit(const quern_limit *limit, void *user)
{
    struct found *found = user;
    size_t used = strlen(found->lines);
    (void)snprintf(found->lines + used, sizeof found->lines - used, "%s/%d/%s %lld/%lld;",
                   limit->queue, (int)limit->scope, limit->name, (long long)limit->used,
                   (long long)limit->count);
    return true;
}

static void assert_listed(struct contract *c, const char *queue, const char *lines)
{
    struct found found = {""};
    quern_error err = {0};
    assert_ok(qn_broker_limits(c->broker, queue, on_limit, &found, &err), err);
    assert_string_equal(found.lines, lines);
}

/* --- How many run ---------------------------------------------------------------------- */

static void tasks_of_all_queues_share_a_limit(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_QUEUE, "", "3");
    contract_put_many(c, "default", "d", 2);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(lease(c, "other", runs + 2, "o0000"), 1);
    assert_int_equal(lease(c, "other", runs + 3, ""), 0);
    assert_listed(c, NULL, "{all}/1/ 3/3;");
    done(c, runs[0]);
    assert_int_equal(lease(c, "other", runs, "o0001"), 1);
    assert_int_equal(lease(c, "other", runs + 3, ""), 0);
    done(c, runs[2]);
    assert_int_equal(lease(c, "other", runs + 2, "o0002"), 1);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
    assert_listed(c, QUERN_ALL_QUEUES, "{all}/1/ 0/3;");
}

static void one_lease_from_several_queues_counts_them_together(struct contract *c)
{
    struct qn_leased *runs[8];
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 8, .start_count_now = 8};
    set(c, QUERN_LIMIT_QUEUE, "", "5");
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 5);
    assert_listed(c, NULL, "{all}/1/ 5/5;");
    for (int i = 0; i < 5; i++) {
        done(c, runs[i]);
    }
}

static void queue_that_is_made_later_is_bound_too(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put_many(c, "new1", "a", 2);
    assert_int_equal(lease(c, "new1", runs, "a0000"), 1);
    contract_put_many(c, "new2", "b", 2);
    assert_int_equal(lease(c, "new2", runs + 1, ""), 0);
    done(c, runs[0]);
    assert_int_equal(lease(c, "new2", runs, "b0000"), 1);
    assert_int_equal(lease(c, "new1", runs + 1, ""), 0);
    done(c, runs[0]);
}

static void limit_of_a_queue_holds_beside_that_of_all(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_QUEUE, "", "3");
    assert_int_equal(try_set(c, "default", QUERN_LIMIT_QUEUE, "", "2"), QUERN_OK);
    contract_put_many(c, "default", "d", 4);
    contract_put_many(c, "other", "o", 4);
    assert_int_equal(lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(lease(c, "other", runs + 2, "o0000"), 1);
    assert_listed(c, NULL, "{all}/1/ 3/3;default/1/ 2/2;");
    assert_listed(c, "default", "default/1/ 2/2;");
    assert_int_equal(remove_all(c, QUERN_LIMIT_QUEUE, ""), QUERN_OK);
    assert_int_equal(remove_all(c, QUERN_LIMIT_QUEUE, ""), QUERN_E_NOT_FOUND);
    assert_int_equal(lease(c, "default", runs + 3, ""), 0);
    assert_int_equal(lease(c, "other", runs + 3, "o0001 o0002 o0003"), 3);
    for (int i = 0; i < 6; i++) {
        done(c, runs[i]);
    }
}

static void removal_names_its_queue(struct contract *c)
{
    const struct qn_limit_owner missing = {"missing", QUERN_LIMIT_QUEUE, ""};
    set(c, QUERN_LIMIT_QUEUE, "", "1");
    assert_int_equal(qn_broker_remove_limit(c->broker, &missing, NULL), QUERN_E_NOT_FOUND);
    assert_listed(c, NULL, "{all}/1/ 0/1;");
    assert_listed(c, "missing", "");
}

static void removed_queue_leaves_the_limit_of_all(struct contract *c)
{
    struct qn_leased *runs[8];
    quern_error err = {0};
    set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put_many(c, "default", "a", 2);
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    contract_put_many(c, "default", "b", 2);
    assert_int_equal(lease(c, "default", runs, "b0000"), 1);
    done(c, runs[0]);
}

static void place_of_a_dead_worker_comes_back(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true, .is_ahead = true};
    struct qn_leased *runs[8];
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_heartbeat_as(c->broker, &dead);
    set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    assert_int_equal(contract_lease_as(c, &dead, "default", 4, runs), 1);
    assert_int_equal(lease(c, "other", runs + 1, ""), 0);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(lease(c, "other", runs + 1, "b"), 1);
    qn_leased_free(runs[0]);
    done(c, runs[1]);
}

static void end_of_a_run_is_noticed_where_another_queue_waits_for_it(struct contract *c)
{
    const char *const queue = "other";
    struct qn_wakeup wakeup = {0};
    struct qn_leased *runs[8];
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    set(c, QUERN_LIMIT_QUEUE, "", "1");
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    assert_int_equal(lease(c, "default", runs, "a"), 1);
    assert_int_equal(lease(c, "other", runs + 1, ""), 0);
    struct qn_broker *sleeper = contract_open(c);
    for (int i = 0; i < 2; i++) { /* the first wait takes what came before */
        assert_ok(qn_broker_arm(sleeper, (struct qn_names){&queue, 1}, &work, &due_at_ms, &err),
                  err);
        if (i == 1) {
            done(c, runs[0]);
        }
        wakeup = (struct qn_wakeup){0};
        assert_ok(qn_broker_wait(sleeper, i == 0 ? 1 : BRIEFLY_MS, &wakeup, &err), err);
    }
    /* On Redis other queues send no wake-ups: there it looks again at that moment. */
    assert_true(wakeup.work || due_at_ms - qn_clock_wall_ms(&c->clock) <= BRIEFLY_MS);
    qn_broker_close(sleeper);
}

/* --- By type and key ------------------------------------------------------------------- */

static void type_is_counted_in_all_queues(struct contract *c)
{
    struct qn_leased *runs[8];
    put(c, "default", "d0", "slow", NULL);
    set(c, QUERN_LIMIT_TYPE, "slow", "2");
    put(c, "default", "d1", "quick", NULL);
    put(c, "other", "o0", "slow", NULL);
    put(c, "other", "o1", "slow", NULL);
    put(c, "other", "o2", "quick", NULL);
    assert_int_equal(lease(c, "default", runs, "d0 d1"), 2);
    assert_int_equal(lease(c, "other", runs + 2, "o0 o2"), 2);
    put(c, "new", "n0", "slow", NULL);
    put(c, "new", "n1", "quick", NULL);
    assert_int_equal(lease(c, "new", runs + 4, "n1"), 1);
    assert_listed(c, NULL, "{all}/2/slow 2/2;");
    done(c, runs[0]);
    assert_int_equal(lease(c, "new", runs, "n0"), 1); /* the first task of that queue */
    assert_int_equal(lease(c, "other", runs + 5, ""), 0);
    for (int i = 0; i < 5; i++) {
        done(c, runs[i]);
    }
}

static void each_key_is_counted_in_all_queues(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_KEY, "*", "1");
    set(c, QUERN_LIMIT_KEY, "big", "3");
    put(c, "default", "d0", "t", "acme");
    put(c, "default", "d1", "t", "big");
    put(c, "default", "d2", "t", "big");
    put(c, "other", "o0", "t", "acme");
    put(c, "other", "o1", "t", "big");
    put(c, "other", "o2", "t", "big");
    put(c, "other", "o3", "t", NULL);
    assert_int_equal(lease(c, "default", runs, "d0 d1 d2"), 3);
    assert_int_equal(lease(c, "other", runs + 3, "o1 o3"), 2);
    assert_listed(c, NULL, "{all}/3/* 0/1;{all}/3/big 3/3;");
    done(c, runs[0]);
    assert_int_equal(lease(c, "other", runs, "o0"), 1);
    for (int i = 0; i < 5; i++) {
        done(c, runs[i]);
    }
}

/* --- How many start -------------------------------------------------------------------- */

static void starts_of_all_queues_share_a_window(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_QUEUE, "", "3/1m");
    contract_put_many(c, "default", "d", 2);
    contract_put_many(c, "other", "o", 3);
    assert_int_equal(lease(c, "default", runs, "d0000 d0001"), 2);
    assert_int_equal(lease(c, "other", runs + 2, "o0000"), 1);
    assert_true(c->wait_ms > 59000 && c->wait_ms < 62000);
    for (int i = 0; i < 3; i++) {
        done(c, runs[i]);
    }
    assert_int_equal(lease(c, "other", runs, ""), 0);
    assert_listed(c, NULL, "{all}/1/ 3/3;");
    contract_advance(c, 62000);
    assert_int_equal(lease(c, "other", runs, "o0001 o0002"), 2);
    done(c, runs[0]);
    done(c, runs[1]);
}

static void run_that_did_not_start_returns_its_start(struct contract *c)
{
    struct qn_leased *runs[8];
    set(c, QUERN_LIMIT_QUEUE, "", "1/1h");
    contract_put(c, "default", "a");
    contract_put(c, "other", "b");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_int_equal(lease(c, "other", runs, ""), 0);
    const struct qn_outcome given_back = {
        .run = run, .kind = QN_GIVE_BACK, .cause = QUERN_CAUSE_GIVEN_BACK};
    assert_int_equal(contract_end(c, &given_back), QN_APPLIED);
    qn_leased_free(run);
    assert_int_equal(lease(c, "other", runs, "b"), 1);
    done(c, runs[0]);
    assert_int_equal(lease(c, "default", runs, ""), 0);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(tasks_of_all_queues_share_a_limit),
    CONTRACT_TEST(one_lease_from_several_queues_counts_them_together),
    CONTRACT_TEST(queue_that_is_made_later_is_bound_too),
    CONTRACT_TEST(limit_of_a_queue_holds_beside_that_of_all),
    CONTRACT_TEST(removal_names_its_queue),
    CONTRACT_TEST(removed_queue_leaves_the_limit_of_all),
    CONTRACT_TEST(place_of_a_dead_worker_comes_back),
    CONTRACT_TEST(end_of_a_run_is_noticed_where_another_queue_waits_for_it),
    CONTRACT_TEST(type_is_counted_in_all_queues),
    CONTRACT_TEST(each_key_is_counted_in_all_queues),
    CONTRACT_TEST(starts_of_all_queues_share_a_window),
    CONTRACT_TEST(run_that_did_not_start_returns_its_start),
};

CONTRACT_MAIN(tests)
