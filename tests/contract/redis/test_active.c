/* SPDX-License-Identifier: MIT */
/* test_active.c - ids are removed from any place of the list of active runs, and Redis does not
 * walk along that list for each of them, however many others run. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "lib_store.h"

#define ACTIVE "asynq:{default}:active"

enum { BATCH = 96, WALKS_MAX = 8 };

static struct test_redis *server(void)
{
    return test_store_server();
}

/* Puts `count` tasks and leases them; their ids begin with the prefix. */
static void start_many(struct contract *c, const char *prefix, size_t count,
                       struct qn_leased **runs)
{
    contract_put_many(c, "default", prefix, count);
    for (size_t done = 0; done < count;) {
        struct qn_leased *batch[QN_BATCH_MAX];
        uint32_t room = count - done < QN_BATCH_MAX ? (uint32_t)(count - done) : QN_BATCH_MAX;
        size_t leased = contract_lease(c, "default", room, batch);
        assert_true(leased > 0);
        for (size_t i = 0; i < leased; i++, done++) {
            if (runs != NULL) {
                runs[done] = batch[i];
            } else {
                qn_leased_free(batch[i]);
            }
        }
    }
}

static void finish_many(struct contract *c, struct qn_leased **runs, size_t count)
{
    struct qn_outcome outcomes[BATCH];
    enum qn_applied applied[BATCH];
    assert_true(count <= BATCH);
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = runs[i], .kind = QN_DONE};
    }
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = count};
    contract_exchange(c, &exchange, applied, NULL);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        qn_leased_free(runs[i]);
    }
}

/* How often LREM ran since the statistics were reset. */
static long walks(void)
{
    static const char name[] = "cmdstat_lrem:calls=";
    const char *found = strstr(test_redis_do(server(), "INFO commandstats"), name);
    return found == NULL ? 0 : strtol(found + sizeof name - 1, NULL, 10);
}

/* The remaining ids must keep their order. */
static const char expect_script[] =
    "local expected = {} for id in string.gmatch(ARGV[1], '%S+') do "
    "if redis.call('EXISTS', 'asynq:{default}:t:' .. id) == 1 then "
    "expected[#expected + 1] = id end end "
    "return table.concat(expected, ' ') == "
    "table.concat(redis.call('LRANGE', KEYS[1], 0, -1), ' ') and 1 or 0";

static void finishes_with_few_walks(struct contract *c, struct qn_leased **runs, size_t count)
{
    static char before[400000];
    size_t size = 0;
    for (const char *line = test_redis_do(server(), "LRANGE " ACTIVE " 0 -1"); *line != '\0';
         line++) {
        assert_true(size + 1 < sizeof before);
        before[size++] = *line;
    }
    before[size] = '\0';
    (void)test_redis_do(server(), "CONFIG RESETSTAT");
    finish_many(c, runs, count);
    long walked = walks();
    if (walked > WALKS_MAX) {
        fail_msg("%ld walks for %zu runs", walked, count);
    }
    assert_int_equal(test_redis_count(server(), "EVAL %s 1 " ACTIVE " %s", expect_script, before),
                     1);
}

static void runs_at_either_end_leave_without_walks(struct contract *c)
{
    struct qn_leased *old[BATCH];
    struct qn_leased *new[BATCH];
    start_many(c, "old", BATCH, old);
    start_many(c, "held", 1500, NULL);
    start_many(c, "new", BATCH, new);
    finishes_with_few_walks(c, new, BATCH);
    finishes_with_few_walks(c, old, BATCH);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 1500);
}

static void runs_in_the_middle_leave_with_few_walks(struct contract *c)
{
    struct qn_leased *runs[BATCH];
    start_many(c, "old", 1500, NULL);
    start_many(c, "ours", BATCH, runs);
    start_many(c, "new", 1500, NULL);
    finishes_with_few_walks(c, runs, BATCH);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 3000);
}

static void runs_among_those_of_others_leave_with_few_walks(struct contract *c)
{
    struct qn_leased *runs[BATCH];
    char prefix[16];
    start_many(c, "old", 1500, NULL);
    for (size_t i = 0; i < BATCH; i += 16) {
        (void)snprintf(prefix, sizeof prefix, "ours%zu-", i);
        start_many(c, prefix, 16, runs + i);
        (void)snprintf(prefix, sizeof prefix, "theirs%zu-", i);
        start_many(c, prefix, 16, NULL);
    }
    finishes_with_few_walks(c, runs, BATCH);
}

static void runs_leave_from_several_places(struct contract *c)
{
    struct qn_leased *runs[BATCH];
    char prefix[16];
    for (size_t i = 0; i < BATCH; i += 24) {
        (void)snprintf(prefix, sizeof prefix, "ours%zu-", i);
        start_many(c, prefix, 24, runs + i);
        (void)snprintf(prefix, sizeof prefix, "theirs%zu-", i);
        start_many(c, prefix, 700, NULL);
    }
    finishes_with_few_walks(c, runs, BATCH);
}

static void single_run_leaves_wherever_it_stands(struct contract *c)
{
    struct qn_leased *runs[BATCH];
    start_many(c, "a", 1, runs);
    start_many(c, "held", 1200, NULL);
    start_many(c, "b", 1, runs + 1);
    start_many(c, "more", 1200, NULL);
    start_many(c, "c", 2, runs + 2);
    for (size_t i = 0; i < 4; i++) {
        finishes_with_few_walks(c, &runs[i], 1);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 2400);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", runs_at_either_end_leave_without_walks),
    CONTRACT_TEST_ONLY("redis", runs_in_the_middle_leave_with_few_walks),
    CONTRACT_TEST_ONLY("redis", runs_among_those_of_others_leave_with_few_walks),
    CONTRACT_TEST_ONLY("redis", runs_leave_from_several_places),
    CONTRACT_TEST_ONLY("redis", single_run_leaves_wherever_it_stands),
};
CONTRACT_MAIN(tests)
