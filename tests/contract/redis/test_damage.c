/* SPDX-License-Identifier: MIT */
/* test_damage.c - garbage in Redis: it costs one task, or one queue its service, but never the
 * other queues of the same worker. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_store_server();
}

/* One exchange that asks for a run of each: of the damaged queue first, then of the other. */
static void take_both(struct contract *c, struct qn_leased *runs[2])
{
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 1},
                                      {.name = "other", .weight = 1, .quota = 1}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 2, .start_count_now = 2};
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 2);
}

/* --- quern:meta ---------------------------------------------------------------------- */

static void fence_that_is_no_number_stops_no_queue_and_is_mended(struct contract *c)
{
    static const char *const fences[] = {
        "",
        "x",
        "nan",
        "-1",
        "-9999999999999999999",
        "zzzzzzzzzzzzzzzz",
        "zzzzzzzzzzzzzzzzzzzz",
        "1800000000000000.5",
        "0x7fffffffffffffff",
        "nannannannannannannan",
        "00000000000000000000005",
        "9999999999999999",
        "99999999999999999999",
        "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    };
    uint64_t last = 0;
    for (size_t i = 0; i < TEST_COUNT(fences); i++) {
        struct qn_leased *runs[2];
        contract_put(c, "default", "a");
        contract_put(c, "other", "b");
        (void)test_redis_do(server(), "HSET " Q "quern:meta fence %s", fences[i]);
        take_both(c, runs);
        assert_string_equal(runs[0]->task.id, "a");
        assert_true(runs[0]->fence >= (uint64_t)CONTRACT_NOW_MS * 1000);
        assert_true(runs[0]->fence < (uint64_t)(CONTRACT_NOW_MS + 60000) * 1000);
        assert_true(runs[0]->fence > last);
        assert_int_equal(test_redis_count(server(), "HGET " Q "quern:meta fence"), runs[0]->fence);
        last = runs[1]->fence;
        assert_int_equal(contract_finish(c, runs[0], QN_DONE), QN_APPLIED);
        assert_int_equal(contract_finish(c, runs[1], QN_DONE), QN_APPLIED);
        contract_advance(c, 1);
    }
}

/* The clock went back. */
static void fence_that_is_ahead_of_the_clock_is_kept(struct contract *c)
{
    (void)test_redis_do(server(), "HSET " Q "quern:meta fence 1900000000000000");
    struct qn_leased *run = contract_start(c, "a");
    assert_true(run->fence == UINT64_C(1900000000000001));
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
}

/* --- Fields of a task ---------------------------------------------------------------- */

static const char *const fields[] = {
    "state",      "pending_since", "quern_run",    "quern_past",     "quern_place", "quern_opts",
    "unique_key", "group",         "quern_cancel", "quern_progress", "result",      "msg",
};

/* The first stands for a number of 400 digits. */
static const char *const garbage[] = {
    "9",
    "",
    "x",
    "nan",
    "-1",
    "0",
    "quern:meta",
    "lease",
    "inf inf inf inf inf inf",
    "-1 -1 -1 -1 -1 -1 -1",
    "1 99999999999999999999 99999999999999999999 99999999999999999999 w",
    "9 99999999999999999999 99999999999999999999 99999999999999999999 9 99999999999999999999",
    "99999999999999999999 9 9 99999999999999999999 9 9 9",
};

static void plant(const char *field, const char *value)
{
    char digits[401];
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    (void)test_redis_do(server(), "HSET " Q "t:a %s %s", field,
                        value == garbage[0] ? digits : value);
}

static void keep_up(struct contract *c)
{
    static const char *const queues[] = {"default", "other"};
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_forward(c->broker, (struct qn_upkeep){{queues, 2}, 100}, &count,
                                &next_due_at_ms, &err),
              err);
    assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{queues, 2}, 100}, &count, &err), err);
    (void)contract_recover_all(c, (struct qn_upkeep){{queues, 2}, 100}, NULL);
}

/* A run each, of a damaged task and of a sound one in the same queue and in another, end in this
 * way; then all leases that are left end. Whatever becomes of the damaged one, it hinders none. */
static void end_three(struct contract *c, const char *field, const char *value, int kind)
{
    struct qn_leased *runs[3] = {contract_start(c, "a"), contract_start(c, "b"), NULL};
    struct qn_outcome outcomes[3];
    struct qn_extension extensions[3];
    enum qn_applied applied[3] = {QN_STALE, QN_STALE, QN_STALE};
    quern_error err = {0};
    contract_put(c, "other", "c");
    runs[2] = contract_take_id(c, "other", "c");
    plant(field, value);
    for (size_t i = 0; i < 3; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = (enum qn_outcome_kind)kind,
                                          .started = true,
                                          .cause = QUERN_CAUSE_CHILD_DIED,
                                          .delay_ms = 1500,
                                          .error = "broken"};
        extensions[i] = (struct qn_extension){.run = runs[i]};
    }
    assert_ok(qn_broker_extend(c->broker, extensions, 3, CONTRACT_LEASE_MS, &err), err);
    assert_true(extensions[1].held);
    assert_true(extensions[2].held);
    struct qn_exchange exchange = {
        .outcomes = outcomes, .outcome_count = 3, .starts = (const struct qn_leased *const *)runs};
    exchange.start_count = kind == QN_OUTCOME_KINDS ? 3 : 0;
    exchange.outcome_count = kind == QN_OUTCOME_KINDS ? 0 : 3;
    (void)contract_exchange(c, &exchange, applied, NULL);
    if (exchange.outcome_count > 0) {
        assert_int_not_equal(applied[1], QN_STALE);
        assert_int_not_equal(applied[2], QN_STALE);
    }
    for (int round = 0; round < 3; round++) {
        contract_advance(c, 3 * CONTRACT_LEASE_MS);
        keep_up(c);
    }
    assert_int_not_equal(contract_state(c, "default", "b"), QUERN_TASK_ACTIVE);
    assert_int_not_equal(contract_state(c, "other", "c"), QUERN_TASK_ACTIVE);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "lease"), 0);
    for (size_t i = 0; i < 3; i++) {
        qn_leased_free(runs[i]);
    }
}

static void garbage_in_a_field_costs_one_task(struct contract *c)
{
    for (size_t f = 0; f < TEST_COUNT(fields); f++) {
        for (size_t g = 0; g < TEST_COUNT(garbage); g++) {
            for (int kind = 0; kind <= QN_OUTCOME_KINDS; kind++) {
                (void)test_redis_do(server(), "FLUSHDB");
                end_three(c, fields[f], garbage[g], kind);
            }
        }
    }
}

/* The same of tasks that wait: they are leased, or go, and hinder none. */
static void garbage_in_a_waiting_task_hinders_none(struct contract *c)
{
    for (size_t f = 0; f < TEST_COUNT(fields); f++) {
        for (size_t g = 0; g < TEST_COUNT(garbage); g++) {
            struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 2},
                                              {.name = "other", .weight = 1, .quota = 2}};
            struct qn_exchange exchange = {
                .queues = shares, .queue_count = 2, .room = 4, .start_count_now = 4};
            struct qn_leased *runs[4];
            bool is_sound[2] = {false, false};
            (void)test_redis_do(server(), "FLUSHDB");
            contract_put(c, "default", "a");
            contract_put(c, "default", "b");
            contract_put(c, "other", "c");
            plant(fields[f], garbage[g]);
            size_t count = contract_exchange(c, &exchange, NULL, runs);
            if (c->more) {
                exchange.stamp = (struct qn_stamp){0};
                exchange.room -= (uint32_t)count;
                count += contract_exchange(c, &exchange, NULL, runs + count);
            }
            for (size_t i = 0; i < count; i++) {
                is_sound[0] = is_sound[0] || strcmp(runs[i]->task.id, "b") == 0;
                is_sound[1] = is_sound[1] || strcmp(runs[i]->task.id, "c") == 0;
                assert_int_equal(contract_finish(c, runs[i], QN_DONE), QN_APPLIED);
            }
            assert_true(is_sound[0] && is_sound[1]);
        }
    }
}

/* --- Keys ---------------------------------------------------------------------------- */

static void damaged_queue_lets_the_others_be_drained(struct contract *c)
{
    static const char *const queues[] = {"default", "other"};
    static const char *const keys[] = {"pending", "active", "scheduled", "retry"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        bool drained = false;
        quern_error err = {0};
        (void)test_redis_do(server(), "SET " Q "%s x", keys[i]);
        assert_ok(qn_broker_drained(c->broker, (struct qn_names){queues, 2}, QN_UNTIL_EMPTY,
                                    &drained, &err),
                  err);
        assert_true(drained);
        contract_put(c, "other", "a");
        assert_ok(qn_broker_drained(c->broker, (struct qn_names){queues, 2}, QN_UNTIL_EMPTY,
                                    &drained, &err),
                  err);
        assert_false(drained);
        contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
        (void)test_redis_do(server(), "DEL " Q "%s", keys[i]);
    }
}

static void damaged_queue_hides_no_numbers_of_others(struct contract *c)
{
    static const char *const keys[] = {
        "pending",  "active",           "lease",     "scheduled",  "retry",
        "archived", "completed",        "processed", "quern:meta", "quern:workers",
        "groups",   "aggregation_sets", "g:g",       "paused",     "quern:due",
    };
    contract_put(c, "other", "a");
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        contract_put(c, "default", "b");
        (void)test_redis_do(server(), "SADD " Q "groups g");
        (void)test_redis_do(server(), "DEL " Q "%s", keys[i]);
        (void)test_redis_do(server(), "HSET " Q "%s x y", keys[i]);
        if (strcmp(keys[i], "quern:meta") == 0 || strcmp(keys[i], "quern:workers") == 0) {
            (void)test_redis_do(server(), "DEL " Q "%s", keys[i]);
            (void)test_redis_do(server(), "SET " Q "%s x", keys[i]);
        }
        assert_int_equal(contract_count(c, "other", QUERN_TASK_PENDING), 1);
        (void)test_redis_do(server(), "DEL " Q "%s " Q "t:b " Q "pending", keys[i]);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", fence_that_is_no_number_stops_no_queue_and_is_mended),
    CONTRACT_TEST_ONLY("redis", fence_that_is_ahead_of_the_clock_is_kept),
    CONTRACT_TEST_ONLY("redis", garbage_in_a_field_costs_one_task),
    CONTRACT_TEST_ONLY("redis", garbage_in_a_waiting_task_hinders_none),
    CONTRACT_TEST_ONLY("redis", damaged_queue_lets_the_others_be_drained),
    CONTRACT_TEST_ONLY("redis", damaged_queue_hides_no_numbers_of_others),
};
CONTRACT_MAIN(tests)
