/* SPDX-License-Identifier: MIT */
/* test_many_queues.c - runs of many queues end in one call of a script: each outcome is applied
 * once, whatever the call is repeated for, and a queue that is damaged or refused concerns no other
 * one. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "task/choice.h"

enum { QUEUES = 20, NAME_SIZE = 24 };

static struct test_redis *server(void)
{
    return test_store_server();
}

static const char *name_of(size_t queue)
{
    static char names[QN_QUEUES_MAX][NAME_SIZE];
    (void)snprintf(names[queue], NAME_SIZE, "q%zu", queue);
    return names[queue];
}

/* How often scripts have been called so far. */
static long long script_calls_of(struct test_redis *redis)
{
    const char *found = strstr(test_redis_do(redis, "INFO commandstats"), "cmdstat_evalsha:");
    return found == NULL ? 0 : strtoll(strchr(found, '=') + 1, NULL, 10);
}

static long long script_calls(void)
{
    return script_calls_of(server());
}

/* A run in each queue. */
static void start_all(struct contract *c, const char *id, size_t count, struct qn_leased **runs)
{
    for (size_t i = 0; i < count; i++) {
        contract_put(c, name_of(i), id);
        runs[i] = contract_take_id(c, name_of(i), id);
    }
}

/* How the run in this queue ends, where they are mixed. */
static enum qn_outcome_kind kind_of(size_t queue)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE, QN_RETRY, QN_DONE, QN_ARCHIVE,
                                                 QN_GIVE_BACK};
    return kinds[queue % TEST_COUNT(kinds)];
}

static int state_after(enum qn_outcome_kind kind)
{
    return kind == QN_RETRY       ? (int)QUERN_TASK_RETRY
           : kind == QN_ARCHIVE   ? (int)QUERN_TASK_ARCHIVED
           : kind == QN_GIVE_BACK ? (int)QUERN_TASK_PENDING
                                  : 0;
}

struct report {
    struct qn_outcome outcomes[QN_BATCH_MAX];
    enum qn_applied applied[QN_BATCH_MAX];
    struct qn_exchange exchange;
    struct qn_exchange_reply reply;
};

/* The outcomes of these runs, mixed or all of them done, and nothing else. */
static void prepare(struct report *report, struct qn_leased *const *runs, size_t count,
                    bool is_mixed)
{
    static uint64_t sequence = 0;
    for (size_t i = 0; i < count; i++) {
        enum qn_outcome_kind kind = is_mixed ? kind_of(i) : QN_DONE;
        report->outcomes[i] = (struct qn_outcome){.run = runs[i],
                                                  .kind = kind,
                                                  .started = true,
                                                  .cause = QUERN_CAUSE_GIVEN_BACK,
                                                  .delay_ms = 60000,
                                                  .error = kind == QN_GIVE_BACK ? NULL : "broken"};
    }
    report->exchange = (struct qn_exchange){.stamp = {.session = 77, .sequence = ++sequence},
                                            .outcomes = report->outcomes,
                                            .outcome_count = count,
                                            .worker_id = CONTRACT_WORKER,
                                            .host = CONTRACT_HOST,
                                            .lease_ms = CONTRACT_LEASE_MS};
    report->reply = (struct qn_exchange_reply){.applied = report->applied};
}

static quern_status send(struct contract *c, struct report *report, quern_error *err)
{
    memset(report->applied, 0xff, sizeof report->applied);
    return qn_broker_exchange(c->broker, &report->exchange, &report->reply, err);
}

static void send_well(struct contract *c, struct report *report)
{
    quern_error err = {0};
    assert_ok(send(c, report, &err), err);
}

static void free_all(struct qn_leased **runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_leased_free(runs[i]);
    }
}

static void outcomes_of_any_number_of_queues_are_one_call(struct contract *c)
{
    static const size_t counts[] = {1, 12, QUEUES, QN_BATCH_MAX};
    struct qn_leased *runs[QN_BATCH_MAX];
    struct report report;
    for (size_t k = 0; k < TEST_COUNT(counts); k++) {
        test_redis_empty(server());
        start_all(c, "a", counts[k], runs);
        if (k == 0) { /* the server knows the script from then on */
            prepare(&report, runs, 1, false);
            send_well(c, &report);
            free_all(runs, 1);
            start_all(c, "a", 1, runs);
        }
        prepare(&report, runs, counts[k], true);
        long long before = script_calls();
        send_well(c, &report);
        assert_int_equal(script_calls() - before, 1);
        for (size_t i = 0; i < counts[k]; i++) {
            bool fails = kind_of(i) == QN_RETRY || kind_of(i) == QN_ARCHIVE;
            assert_int_equal(report.applied[i], QN_APPLIED);
            assert_int_equal(contract_state(c, name_of(i), "a"), state_after(kind_of(i)));
            if (kind_of(i) != QN_GIVE_BACK && i > 0) {
                contract_assert_counted(c, name_of(i), 1, fails ? 1 : 0);
            }
        }
        free_all(runs, counts[k]);
    }
}

static void repeated_call_for_many_queues_returns_the_answers_and_does_nothing(struct contract *c)
{
    struct qn_leased *runs[QUEUES];
    struct report report;
    enum qn_applied first[QUEUES];
    start_all(c, "a", QUEUES, runs);
    (void)test_redis_do(server(), "HSET asynq:{q5}:t:a pending_since 1"); /* stale */
    prepare(&report, runs, QUEUES, true);
    send_well(c, &report);
    memcpy(first, report.applied, sizeof first);
    for (int again = 0; again < 2; again++) {
        report.exchange.again = true;
        send_well(c, &report);
        assert_memory_equal(report.applied, first, sizeof first);
    }
    for (size_t i = 0; i < QUEUES; i++) {
        bool fails = kind_of(i) == QN_RETRY || kind_of(i) == QN_ARCHIVE;
        assert_int_equal(first[i], i == 5 ? QN_STALE : QN_APPLIED);
        if (kind_of(i) != QN_GIVE_BACK && i != 5) {
            assert_int_equal(contract_state(c, name_of(i), "a"), state_after(kind_of(i)));
            contract_assert_counted(c, name_of(i), 1, fails ? 1 : 0);
        }
    }
    free_all(runs, QUEUES);
}

/* One queue of twenty has a key of another type, whatever the others have to do. */
static void damage_one(struct contract *c, const char *key, bool is_mixed, size_t damaged)
{
    struct qn_leased *runs[QUEUES];
    struct report report;
    test_redis_empty(server());
    start_all(c, "a", QUEUES, runs);
    (void)test_redis_do(server(), "DEL asynq:{%s}:%s", name_of(damaged), key);
    (void)test_redis_do(server(), "SET asynq:{%s}:%s x", name_of(damaged), key);
    prepare(&report, runs, QUEUES, is_mixed);
    for (int again = 0; again < 2; again++) {
        send_well(c, &report);
        for (size_t i = 0; i < QUEUES; i++) {
            if (report.applied[i] != (i == damaged ? QN_STALE : QN_APPLIED)) {
                fail_msg("%s of queue %zu: %d in queue %zu", key, damaged, (int)report.applied[i],
                         i);
            }
        }
    }
    /* There nothing was done. */
    assert_string_equal(test_redis_do(server(), "HGET asynq:{%s}:t:a state", name_of(damaged)),
                        "active");
    assert_string_equal(test_redis_do(server(), "GET asynq:{%s}:processed", name_of(damaged)),
                        "(nil)");
    free_all(runs, QUEUES);
}

static void damaged_queue_among_twenty_concerns_no_other(struct contract *c)
{
    static const char *const keys[] = {"active", "lease", "quern:meta"};
    static const size_t places[] = {0, 6, QUEUES - 1}; /* the first one has the session */
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        for (size_t k = 0; k < TEST_COUNT(places); k++) {
            damage_one(c, keys[i], false, places[k]);
            damage_one(c, keys[i], true, places[k]);
        }
    }
}

/* The user may not use a command that only the retry needs. */
static void queue_that_the_server_refuses_is_tried_again_and_the_others_are_not(struct contract *c)
{
    struct qn_leased *runs[3];
    struct report report;
    quern_error err = {0};
    start_all(c, "a", 3, runs); /* done, retry, done */
    prepare(&report, runs, 3, true);
    (void)test_redis_do(server(), "ACL SETUSER worker -zcard");
    quern_status status = send(c, &report, &err);
    assert_true(status != QUERN_OK);
    assert_non_null(strstr(err.text, "NOPERM"));
    assert_int_equal(report.applied[0], QN_APPLIED);
    assert_int_equal(report.applied[2], QN_APPLIED);
    assert_int_equal(contract_state(c, "q1", "a"), QUERN_TASK_ACTIVE);
    (void)test_redis_do(server(), "ACL SETUSER worker +zcard");
    for (int again = 0; again < 2; again++) {
        send_well(c, &report);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(report.applied[i], QN_APPLIED);
            contract_assert_counted(c, name_of(i), 1, i == 1 ? 1 : 0);
        }
    }
    free_all(runs, 3);
}

/* Queues that need the whole path of the script stand between those that need the short one. */
static void queues_of_all_kinds_share_a_call(struct contract *c)
{
    enum { KINDS = 6 };
    static const quern_task tasks[KINDS] = {
        {.type = "t", .id = "a", .queue = "q0"},
        {.type = "t", .id = "a", .queue = "q1"}, /* limited */
        {.type = "t", .id = "a", .queue = "q2"}, /* paused */
        {.type = "t", .id = "a", .queue = "q3", .unique_ms = 3600000},
        {.type = "t", .id = "a", .queue = "q4", .retention_ms = 60000},
        {.type = "t", .id = "a", .queue = "q5"}};
    struct qn_leased *runs[KINDS];
    struct report report;
    contract_limit(c, "q1", QUERN_LIMIT_QUEUE, NULL, "1");
    for (size_t i = 0; i < KINDS; i++) {
        contract_enqueue(c, &tasks[i]);
        runs[i] = contract_take_id(c, name_of(i), "a");
    }
    contract_put(c, "q1", "b");
    (void)test_redis_do(server(), "SET asynq:{q2}:paused 1");
    prepare(&report, runs, KINDS, false);
    long long before = script_calls();
    send_well(c, &report);
    assert_int_equal(script_calls() - before, 1);
    for (size_t i = 0; i < KINDS; i++) {
        assert_int_equal(report.applied[i], QN_APPLIED);
        assert_int_equal(contract_state(c, name_of(i), "a"), i == 4 ? QUERN_TASK_COMPLETED : 0);
        contract_assert_counted(c, name_of(i), 1, 0);
    }
    qn_leased_free(contract_take_id(c, "q1", "b")); /* the slot of the limit is free again */
    contract_enqueue(c, &tasks[3]);                 /* and so is the lock */
    free_all(runs, KINDS);
}

/* --- The price of queues --------------------------------------------------------------- */

enum { TASKS = 5120 };

struct price {
    double scripts; /* a task */
    double commands;
};

struct sum {
    long long scripts;
    long long commands;
};

/* Of the server, or all nodes. */
static void count_servers(struct contract *c, struct sum *sum, bool empties)
{
    bool is_cluster = test_store_is(&c->store, "cluster");
    for (int i = 0; i < (is_cluster ? TEST_CLUSTER_SIZE : 1); i++) {
        struct test_redis *redis = is_cluster ? test_store_node(i) : server();
        sum->scripts += script_calls_of(redis);
        sum->commands += test_redis_calls(redis);
        if (empties) {
            test_redis_empty(redis);
        }
    }
}

/* A worker that is never short of room drains them, and its exchanges are all there is. */
static struct price drain(struct contract *c, size_t queue_count)
{
    struct qn_queue_share shares[QUEUES];
    uint32_t weights[QUEUES];
    struct qn_choice choice;
    struct qn_random random;
    struct qn_leased *runs[QN_BATCH_MAX];
    struct qn_leased *ended[QN_BATCH_MAX];
    size_t ended_count = 0;
    struct report report;
    bool unanswered[2 * QN_BATCH_MAX];
    count_servers(c, &(struct sum){0}, true);
    qn_random_init_seed(&random, 1);
    for (size_t i = 0; i < queue_count; i++) {
        contract_put_many(c, name_of(i), "t", TASKS / queue_count);
        weights[i] = 1;
        shares[i] = (struct qn_queue_share){.name = name_of(i)};
    }
    qn_choice_init(&choice, weights, queue_count, false, &random);
    if (qn_broker_asks_apart(c->broker)) {
        qn_choice_ask_apart(&choice);
    }
    struct sum before = {0};
    struct sum after = {0};
    count_servers(c, &before, false);
    for (size_t done = 0; done < TASKS || ended_count > 0;) {
        uint16_t order[QN_BATCH_MAX];
        uint32_t quota[QUEUES];
        uint32_t taken[QUEUES];
        qn_choice_draw(&choice, QN_BATCH_MAX, true, order, quota);
        for (size_t i = 0; i < queue_count; i++) {
            shares[i].weight = 1;
            shares[i].quota = quota[i];
            shares[i].leased = 0;
        }
        prepare(&report, ended, ended_count, false);
        report.exchange.queues = shares;
        report.exchange.queue_count = queue_count;
        report.exchange.in_rows = choice.in_rows;
        report.exchange.room = report.exchange.start_count_now = QN_BATCH_MAX;
        report.reply.runs = runs;
        report.reply.unanswered = unanswered;
        send_well(c, &report);
        free_all(ended, ended_count);
        for (size_t i = 0; i < queue_count; i++) {
            taken[i] = shares[i].leased;
        }
        qn_choice_settle(&choice, quota, taken);
        ended_count = report.reply.run_count;
        done += ended_count;
        memcpy(ended, runs, ended_count * sizeof runs[0]);
    }
    count_servers(c, &after, false);
    return (struct price){(double)(after.scripts - before.scripts) / TASKS,
                          (double)(after.commands - before.commands) / TASKS};
}

static void twenty_queues_cost_little_more_than_one(struct contract *c)
{
    (void)drain(c, 1); /* the server knows the scripts from then on */
    struct price one = drain(c, 1);
    struct price twenty = drain(c, QUEUES);
    print_message("a task: %.3f scripts and %.2f commands, of 20 queues %.3f and %.2f\n",
                  one.scripts, one.commands, twenty.scripts, twenty.commands);
    assert_true(twenty.scripts <= 1.2 * one.scripts);
    assert_true(twenty.commands <= 1.2 * one.commands);
}

/* Each queue has scripts of its own there; but while all have tasks, an exchange is about one. */
static void queues_of_a_cluster_cost_few_more_commands_than_one(struct contract *c)
{
    (void)drain(c, 2);
    struct price one = drain(c, 1);
    struct price two = drain(c, 2);
    struct price ten = drain(c, 10);
    print_message("a task: %.4f scripts and %.3f commands, of 2 queues %.4f and %.3f, of 10 %.4f "
                  "and %.3f\n",
                  one.scripts, one.commands, two.scripts, two.commands, ten.scripts, ten.commands);
    assert_true(one.commands <= 3.3);
    assert_true(two.commands <= 1.05 * one.commands);
    assert_true(two.scripts <= 1.4 * one.scripts);
    assert_true(ten.scripts <= 2.6 * one.scripts);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", outcomes_of_any_number_of_queues_are_one_call),
    CONTRACT_TEST_ONLY("redis", repeated_call_for_many_queues_returns_the_answers_and_does_nothing),
    CONTRACT_TEST_ONLY("redis", damaged_queue_among_twenty_concerns_no_other),
    CONTRACT_TEST_ONLY("redis",
                       queue_that_the_server_refuses_is_tried_again_and_the_others_are_not),
    CONTRACT_TEST_ONLY("redis", queues_of_all_kinds_share_a_call),
    CONTRACT_TEST_ONLY("redis", twenty_queues_cost_little_more_than_one),
    CONTRACT_TEST_ONLY("cluster", queues_of_a_cluster_cost_few_more_commands_than_one),
};

CONTRACT_MAIN(tests)
