/* SPDX-License-Identifier: MIT */
/* test_lock_terms.c - locks of unique tasks whose terms in quern_opts are damaged: they cost the
 * lock its time at most, and no script stops after its first write. */
#include "lib_unique.h"

#include <string.h>

#define Q "asynq:{default}:"
#define LOCK Q "unique:k:custom"

static struct test_redis *server(void)
{
    return test_store_server();
}

/* '#' is a number of 400 digits. */
static const char *const terms[] = {"u0:0",
                                    "u0:9223372036854775807",
                                    "u0:99999999999999999999",
                                    "u2:0",
                                    "u2:99999999999999999999",
                                    "u3:99999999999999999999",
                                    "u0:#",
                                    "u9:0"};

static void plant(const char *word)
{
    char digits[404] = "u0:";
    memset(digits + 3, '9', 400);
    digits[403] = '\0';
    (void)test_redis_do(server(), "EVAL %s 1 " Q "t:holder %s",
                        "return redis.call('HSET', KEYS[1], 'quern_opts', "
                        "'1800000000000 0 0 0 0 0 0 0 ' .. ARGV[1])",
                        strchr(word, '#') == NULL ? word : digits);
}

/* A run of the damaged task beside one of a sound one; both end in this way, and are applied. */
static void end_both(struct contract *c, const char *word, enum qn_outcome_kind kind)
{
    (void)test_redis_do(server(), "FLUSHDB");
    unique_put_holder(c, QUERN_UNIQUE_UNTIL_DONE);
    contract_put(c, "default", "sound");
    plant(word);
    struct qn_leased *runs[2];
    assert_int_equal(contract_lease(c, "default", 2, runs), 2);
    struct qn_extension extensions[2] = {{.run = runs[0]}, {.run = runs[1]}};
    quern_error err = {0};
    assert_ok(qn_broker_extend(c->broker, extensions, 2, CONTRACT_LEASE_MS, &err), err);
    assert_true(extensions[0].held && extensions[1].held);
    struct qn_outcome outcomes[2];
    enum qn_applied applied[2];
    for (size_t i = 0; i < 2; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i],
                                          .kind = kind,
                                          .started = true,
                                          .cause = QUERN_CAUSE_RETRY,
                                          .delay_ms = 1500,
                                          .error = "broken"};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    (void)contract_exchange(c, &exchange, applied, NULL);
    assert_int_equal(applied[0], QN_APPLIED);
    assert_int_equal(applied[1], QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "holder"), contract_state(c, "default", "sound"));
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

static void damaged_terms_keep_no_run_from_ending(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_RETRY, QN_ARCHIVE, QN_GIVE_BACK, QN_DONE};
    for (size_t i = 0; i < TEST_COUNT(terms); i++) {
        for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
            end_both(c, terms[i], kinds[k]);
        }
    }
}

static void damaged_terms_keep_no_lease_from_expiring(struct contract *c)
{
    for (size_t i = 0; i < TEST_COUNT(terms); i++) {
        struct qn_leased *runs[2];
        (void)test_redis_do(server(), "FLUSHDB");
        unique_put_holder(c, QUERN_UNIQUE_UNTIL_DONE);
        contract_put(c, "default", "sound");
        plant(terms[i]);
        assert_int_equal(contract_lease(c, "default", 2, runs), 2);
        contract_expire(c, "default");
        assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 2);
        assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 0);
        qn_leased_free(runs[0]);
        qn_leased_free(runs[1]);
    }
}

/* It is that of one task, and costs neither it nor the others of its batch anything. */
static void lock_of_another_type_is_replaced(struct contract *c)
{
    static const char *const plants[] = {"LPUSH " LOCK " x", "HSET " LOCK " a b",
                                         "SADD " LOCK " x"};
    for (int32_t policy = QUERN_ON_DUPLICATE_FAIL; policy <= QUERN_ON_DUPLICATE_DEBOUNCE;
         policy++) {
        quern_task tasks[2] = {{.type = "t", .id = "sound"}, unique_keyed};
        struct unique_answer answers[2];
        tasks[1].id = "b";
        tasks[1].on_duplicate = policy;
        (void)test_redis_do(server(), "FLUSHDB");
        (void)test_redis_do(server(), plants[(size_t)policy % TEST_COUNT(plants)]);
        unique_store(c, (struct qn_stamp){78, (uint64_t)policy + 1}, tasks, 2, answers);
        unique_assert(answers[0], QUERN_OK, "");
        unique_assert(answers[1], QUERN_OK, "");
        assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    }
}

/* Its task was in the archive, and asynq has trimmed that. */
static void lock_without_end_whose_task_is_gone_is_free(struct contract *c)
{
    for (int32_t policy = QUERN_ON_DUPLICATE_FAIL; policy <= QUERN_ON_DUPLICATE_DEBOUNCE;
         policy++) {
        (void)test_redis_do(server(), "FLUSHDB");
        unique_put_holder(c, QUERN_UNIQUE_UNTIL_REMOVED);
        contract_finish(c, contract_take_id(c, "default", "holder"), QN_ARCHIVE);
        assert_int_equal(test_redis_count(server(), "PTTL " LOCK), -1);
        unique_assert(unique_try_policy(c, "b", QUERN_ON_DUPLICATE_FAIL), QUERN_E_DUPLICATE,
                      "holder");
        (void)test_redis_do(server(), "DEL " Q "t:holder");
        (void)test_redis_do(server(), "ZREM " Q "archived holder");
        unique_assert(unique_try_policy(c, "b", policy), QUERN_OK, "");
        assert_int_equal(unique_again(c), QUERN_E_DUPLICATE);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", damaged_terms_keep_no_run_from_ending),
    CONTRACT_TEST_ONLY("redis", damaged_terms_keep_no_lease_from_expiring),
    CONTRACT_TEST_ONLY("redis", lock_of_another_type_is_replaced),
    CONTRACT_TEST_ONLY("redis", lock_without_end_whose_task_is_gone_is_free),
};
CONTRACT_MAIN(tests)
