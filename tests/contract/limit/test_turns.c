/* SPDX-License-Identifier: MIT */
/* test_turns.c - the keys of a queue take turns, however many tasks one of them has. */
#include "lib_limits.h"

#include <string.h>

#include "base/memory/arena.h"
#include "task/limit.h"

/* `count` tasks "PREFIX0", "PREFIX1", ...; key NULL: a key for each, its id. */
static void put_numbered(struct contract *c, const char *prefix, const char *key, size_t count)
{
    static quern_status results[QN_BATCH_MAX];
    static struct qn_task tasks[QN_BATCH_MAX];
    const struct qn_task_terms terms = contract_terms(c);
    struct qn_arena arena = {0};
    quern_error err = {0};
    for (size_t first = 0; first < count; first += QN_BATCH_MAX) {
        size_t size = count - first < QN_BATCH_MAX ? count - first : QN_BATCH_MAX;
        for (size_t i = 0; i < size; i++) {
            const char *id = qn_arena_printf(&arena, "%s%zu", prefix, first + i);
            const quern_task task = {.type = "t", .id = id, .limit_key = key != NULL ? key : id};
            assert_ok(qn_task_prepare(&task, &terms, &arena, &tasks[i], &err), err);
        }
        const struct qn_enqueue enqueue = {.stamp = {c->session, ++c->sequence},
                                           .tasks = tasks,
                                           .count = size,
                                           .results = results};
        assert_ok(qn_broker_enqueue(c->broker, &enqueue, &err), err);
        qn_arena_reset(&arena);
    }
    qn_arena_finish(&arena);
}

static void keys_take_turns(struct contract *c)
{
    limits_begin(c);
    put_numbered(c, "a", "a", 5);
    put_numbered(c, "b", "b", 2);
    put_numbered(c, "c", "c", 3);
    limits_lease(c, 4, "a0 b0 c0 a1");
    limits_lease(c, 4, "b1 c1 a2 c2");
    limits_lease(c, 9, "a3 a4");
    limits_finish();
}

static void turn_passes_on_from_lease_to_lease(struct contract *c)
{
    limits_begin(c);
    put_numbered(c, "a", "a", 3);
    put_numbered(c, "b", "b", 2);
    put_numbered(c, "c", "c", 2);
    limits_lease(c, 1, "a0");
    limits_lease(c, 1, "b0");
    limits_lease(c, 1, "c0");
    limits_lease(c, 1, "a1");
    limits_lease(c, 2, "b1 c1");
    limits_lease(c, 1, "a2");
    limits_finish();
}

static void tasks_without_a_key_are_one_more_key(struct contract *c)
{
    limits_begin(c);
    limits_put(c, "before0", NULL, NULL); /* when the queue had no keys */
    limits_put(c, "before1", NULL, NULL);
    put_numbered(c, "a", "a", 3);
    limits_put(c, "after", NULL, NULL);
    limits_lease(c, 2, "a0 before0");
    limits_lease(c, 2, "a1 before1");
    limits_lease(c, 9, "a2 after");
    limits_finish();
}

static void order_within_a_key_is_that_of_the_queue(struct contract *c)
{
    limits_begin(c);
    put_numbered(c, "a", "a", 4);
    limits_lease(c, 2, "a0 a1");
    limits_give_back(c, "a0");
    limits_lease(c, 9, "a0 a2 a3");
    limits_finish();
}

/* The noisy key has a hundred thousand tasks; the other one's single task goes in the next lease,
 * as the first or second run of it. */
static void noisy_key_delays_another_by_one_round_at_most(struct contract *c)
{
    struct qn_leased *runs[2];
    limits_begin(c);
    put_numbered(c, "a", "noisy", 100000);
    limits_lease(c, 3, "a0 a1 a2");
    limits_put(c, "single", NULL, "zz");
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    assert_true(strcmp(runs[0]->task.id, "single") == 0 || strcmp(runs[1]->task.id, "single") == 0);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    limits_put(c, "first", NULL, "aa");
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    assert_true(strcmp(runs[0]->task.id, "first") == 0 || strcmp(runs[1]->task.id, "first") == 0);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
    /* And one that has to wait holds up no other. */
    limits_set(c, QUERN_LIMIT_KEY, "noisy", "1");
    limits_put(c, "quick", NULL, "quick");
    limits_lease(c, 9, "quick");
    limits_finish();
}

/* Leases all of the queue and returns how many; each key has one task. */
static size_t lease_all(struct contract *c, size_t *ret_leases)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t sum = 0;
    size_t count = 0;
    *ret_leases = 0;
    do {
        count = contract_lease(c, "default", QN_BATCH_MAX, runs);
        for (size_t i = 0; i < count; i++) {
            qn_leased_free(runs[i]);
        }
        sum += count;
        (*ret_leases)++;
    } while (count > 0);
    return sum;
}

static void five_thousand_keys_are_served_in_full_leases(struct contract *c)
{
    size_t leases = 0;
    limits_begin(c);
    put_numbered(c, "k", NULL, 5000);
    put_numbered(c, "again-k", "k0", 500);
    assert_int_equal(lease_all(c, &leases), 5500);
    assert_int_equal(leases, 5500 / QN_BATCH_MAX + 2);
    limits_finish();
}

static void keys_behind_very_many_that_wait_are_found(struct contract *c)
{
    struct qn_leased *run = NULL;
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_KEY, "*", "0");
    limits_set(c, QUERN_LIMIT_KEY, "zz", "1");
    put_numbered(c, "k", NULL, 3 * QN_LIMIT_LANES_MAX);
    limits_put(c, "z", NULL, "zz");
    for (int i = 0; run == NULL && i < 5; i++) {
        run = contract_take(c, "default");
        if (run == NULL) {
            assert_int_equal(c->wait_ms, QN_LIMIT_LOOK_MS);
        }
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "z");
    qn_leased_free(run);
    limits_finish();
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(keys_take_turns),
    CONTRACT_TEST(turn_passes_on_from_lease_to_lease),
    CONTRACT_TEST(tasks_without_a_key_are_one_more_key),
    CONTRACT_TEST(order_within_a_key_is_that_of_the_queue),
    CONTRACT_TEST(noisy_key_delays_another_by_one_round_at_most),
    CONTRACT_TEST(five_thousand_keys_are_served_in_full_leases),
    CONTRACT_TEST(keys_behind_very_many_that_wait_are_found),
};

CONTRACT_MAIN(tests)
