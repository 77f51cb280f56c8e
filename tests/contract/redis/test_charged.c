/* SPDX-License-Identifier: MIT */
/* test_charged.c - charged tasks on Redis: they stay in pending, where Go sees them, and an index
 * finds them. The effects of Go programs there, how little other tasks pay for them, that a reboot
 * charges no task, and that garbage in the records of deaths stops no queue. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "lib_store.h"

#define Q "asynq:{default}:"
#define HOST "host-a"
#define SLOTS 8

static struct test_redis *server(void)
{
    return test_store_server();
}

static const char *run_command(const char *command)
{
    return test_redis_do(server(), command);
}

/* One exchange of a worker with SLOTS slots that holds nothing. */
static size_t exchange_solo(struct contract *c, enum qn_solo solo, uint32_t room,
                            uint32_t *solo_queue, struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = room};
    struct qn_exchange exchange = {.host = HOST,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = room,
                                   .isolation = {.slots = SLOTS},
                                   .solo = solo};
    size_t count = contract_exchange(c, &exchange, NULL, runs);
    if (solo_queue != NULL) {
        *solo_queue = exchange.solo_queue;
    }
    return count;
}

/* As a worker does: again, when there may be more. */
static size_t lease(struct contract *c, uint32_t room, struct qn_leased **runs)
{
    size_t count = exchange_solo(c, QN_SOLO_NONE, room, NULL, runs);
    for (int i = 0; i < 20 && count == 0 && c->more; i++) {
        count = exchange_solo(c, QN_SOLO_NONE, room, NULL, runs);
    }
    return count;
}

/* Puts pending tasks "PREFIX0", .. at the head that were charged so often, unknown to the index. */
static void plant(const char *prefix, int count, int charges)
{
    static const char script[] =
        "local Q = KEYS[1] for i = 0, ARGV[2] - 1 do local id = ARGV[1] .. i "
        "redis.call('HSET', Q .. 't:' .. id, 'msg', '\\10\\1t\\26' .. string.char(#id) .. id .. "
        "'\\34\\7default\\40\\25', 'state', 'pending', 'pending_since', '1799999960000000000', "
        "'quern_place', 1799999960000000 + i, 'quern_past', ARGV[3] .. ' 1799999960000 0 0 6 0 0 '"
        ".. ARGV[3] .. ' 10 1799999970000') "
        "redis.call('LPUSH', Q .. 'pending', id) end";
    (void)test_redis_do(server(), "EVAL %s 1 %s %s %d %d", script, Q, prefix, count, charges);
}

static void five_thousand_charged_tasks_neither_hide_nor_slow_down_the_others(struct contract *c)
{
    struct qn_leased *run = NULL;
    plant("bad", 5000, 4);
    contract_put(c, "default", "good0");
    assert_int_equal(lease(c, 1, &run), 1);
    assert_string_equal(run->task.id, "good0");
    contract_finish(c, run, QN_DONE);
    for (int i = 1; i <= 5; i++) {
        char id[20];
        (void)snprintf(id, sizeof id, "good%d", i);
        contract_put(c, "default", id);
        long long before = test_redis_calls(server());
        assert_int_equal(lease(c, 1, &run), 1);
        assert_true(test_redis_calls(server()) - before < 60);
        assert_string_equal(run->task.id, id);
        contract_finish(c, run, QN_DONE);
    }
    assert_int_equal(test_redis_count(server(), "LLEN " Q "pending"), 5000);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "quern:charged:4"), 5000);
}

static void charged_tasks_behind_which_others_were_taken_run_when_there_is_room(struct contract *c)
{
    struct qn_leased *runs[4];
    struct qn_leased *held[SLOTS];
    plant("bad", 12, 1);
    (void)run_command("HSET " Q "quern:meta charged 1");
    contract_put_many(c, "default", "good", 8);
    assert_int_equal(lease(c, SLOTS, held), SLOTS); /* four charged ones, for so many is room */
    assert_string_equal(held[3]->task.id, "bad3");
    assert_string_equal(held[4]->task.id, "good0000");
    struct qn_queue_share share = {.name = "default", .weight = 1, .quota = 1};
    struct qn_exchange exchange = {.host = HOST,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = 1,
                                   .start_count_now = 1,
                                   .isolation = {.slots = SLOTS, .held = {4}}};
    assert_int_equal(contract_exchange(c, &exchange, NULL, runs), 1);
    assert_string_equal(runs[0]->task.id, "good0004");
    contract_finish(c, runs[0], QN_DONE);
    assert_int_equal(lease(c, 2, runs), 2);
    assert_string_equal(runs[0]->task.id, "bad4");
    assert_string_equal(runs[1]->task.id, "bad5");
    contract_finish(c, runs[0], QN_DONE);
    contract_finish(c, runs[1], QN_DONE);
    for (size_t i = 0; i < SLOTS; i++) {
        contract_finish(c, held[i], QN_DONE);
    }
    while (contract_count(c, "default", QUERN_TASK_PENDING) > 0) {
        assert_true(lease(c, 1, runs) == 1);
        contract_finish(c, runs[0], QN_DONE);
    }
}

static void solo_lock_is_not_requested_once_go_has_taken_the_task(struct contract *c)
{
    struct qn_leased *run = NULL;
    uint32_t queue = 0;
    plant("bad", 1, 4);
    assert_int_equal(lease(c, 1, &run), 0);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "quern:charged:4"), 1);
    (void)run_command("RPOPLPUSH " Q "pending " Q "active");
    (void)run_command("HSET " Q "t:bad0 state active");
    (void)run_command("HDEL " Q "t:bad0 pending_since");
    (void)run_command("ZADD " Q "lease 1800000030 bad0");
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
    assert_int_equal(queue, 1);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "quern:charged:4"), 0);
}

/* A task from the index that is not where it was known leaves no other one hidden. */
static void uncharged_task_that_go_gave_back_before_charged_ones_is_found(struct contract *c)
{
    struct qn_leased *run = NULL;
    plant("bad", 3, 4);
    assert_int_equal(lease(c, 1, &run), 0);
    contract_put(c, "default", "good");
    (void)run_command("LREM " Q "pending 1 good");
    (void)run_command("RPUSH " Q "pending good");
    (void)run_command("LREM " Q "pending 1 bad0"); /* as many as before */
    (void)run_command("DEL " Q "t:bad0");
    contract_advance(c, 11000);
    assert_int_equal(lease(c, 1, &run), 1);
    assert_string_equal(run->task.id, "good");
    contract_finish(c, run, QN_DONE);
}

static void task_that_must_be_alone_is_found_though_go_forwarded_it(struct contract *c)
{
    struct qn_leased *run = NULL;
    uint32_t queue = 9;
    plant("bad", 1, 4);
    contract_put(c, "default", "good");
    assert_int_equal(lease(c, 1, &run), 1);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
    assert_int_equal(queue, 0);
    queue = 0;
    assert_int_equal(exchange_solo(c, QN_SOLO_RUN, 1, &queue, &run), 1);
    assert_string_equal(run->task.id, "bad0");
    assert_int_equal(run->crash_count, 4);
    assert_int_equal(run->life_ms, 10);
    assert_true(run->started);
    contract_finish(c, run, QN_DONE);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "quern:charged:4"), 0);
}

static const char *lock_owner(void)
{
    return strrchr(run_command("HGET " Q "quern:meta solo"), ' ') + 1;
}

/* A worker that did not get the answer to its return of a lock may still own it. Its next request
 * returns it, so that others need not wait until it expires. */
static void lock_that_was_kept_by_mistake_is_not_taken_without_need(struct contract *c)
{
    struct qn_leased *run = NULL;
    uint32_t queue = 9;
    plant("bad", 1, 4);
    assert_int_equal(lease(c, 1, &run), 0);
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
    assert_int_equal(queue, 0);
    assert_int_equal(exchange_solo(c, QN_SOLO_RUN, 1, &queue, &run), 1);
    contract_put(c, "default", "good");
    struct qn_leased *good = NULL;
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &good), 1);
    assert_int_equal(queue, 1);
    assert_string_equal(lock_owner(), "");
    contract_finish(c, good, QN_DONE);
    contract_finish(c, run, QN_DONE);
}

/* The worker left, or it was dead and forgotten before its last request was carried out. */
static void lock_of_a_worker_without_a_record_is_returned_by_recovery(struct contract *c)
{
    struct qn_leased *run = NULL;
    uint32_t queue = 9;
    plant("bad", 1, 4);
    assert_int_equal(lease(c, 1, &run), 0);
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
    assert_int_equal(queue, 0);
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(lock_owner(), CONTRACT_WORKER);
    (void)run_command("HDEL " Q "quern:workers " CONTRACT_WORKER);
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(lock_owner(), "");
    contract_advance(c, QN_SOLO_DEATH_MS);
    assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
    assert_int_equal(queue, 0);
}

/* Each reads 512 tasks from one end. */
static void probe_is_found_between_many_charged_tasks(struct contract *c)
{
    struct qn_leased *run = NULL;
    plant("bad", 1100, 4);
    contract_put(c, "default", "good");
    plant("worse", 600, 4);
    /* Ten deaths in a row, one of them a probe's; the next is due, and is to be the oldest. */
    (void)test_redis_do(server(), "HSET " Q "quern:meta h:" HOST " %s", "0 10 1 1 1 0 ");
    for (int i = 0; i < 5 && run == NULL; i++) {
        (void)lease(c, 1, &run);
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "good");
    contract_finish(c, run, QN_DONE);
}

/* They are in no index: a Go inspector ran archived tasks. */
static void probe_is_found_where_go_put_only_charged_tasks(struct contract *c)
{
    static const char *const brakes[] = {"0 10 0 1 1 0 ", "0 10 1 1 1 0 ", "0 10 2 1 1 0 "};
    for (size_t probes = 0; probes < TEST_COUNT(brakes); probes++) {
        struct qn_leased *run = NULL;
        plant("bad", 12, 1);
        (void)test_redis_do(server(), "HSET " Q "quern:meta h:" HOST " %s", brakes[probes]);
        assert_int_equal(lease(c, 1, &run), 1);
        contract_finish(c, run, QN_DONE);
        (void)run_command("FLUSHALL");
    }
}

/* Whatever the index holds of tasks that Go took away, a probe is found in a few looks. */
static void probe_is_found_behind_what_go_took_away(struct contract *c)
{
    struct qn_leased *run = NULL;
    plant("gone", 200, 1);
    plant("bad", 1, 1);
    (void)test_redis_do(server(), "EVAL %s 1 " Q,
                        "for i = 0, 199 do local id = 'gone' .. i "
                        "redis.call('ZADD', KEYS[1] .. 'quern:charged:1', i, id) "
                        "redis.call('LREM', KEYS[1] .. 'pending', 1, id) "
                        "redis.call('DEL', KEYS[1] .. 't:' .. id) end "
                        "redis.call('HSET', KEYS[1] .. 'quern:meta', 'charged', 1, 'h:" HOST
                        "', '0 10 0 1 1 0 ')");
    for (int i = 0; i < 6 && run == NULL; i++) {
        (void)lease(c, 1, &run);
    }
    assert_non_null(run);
    assert_string_equal(run->task.id, "bad0");
    contract_finish(c, run, QN_DONE);
}

/* --- A reboot ------------------------------------------------------------------------- */

static void host_that_was_rebooted_charges_nobody(struct contract *c)
{
    static const struct {
        const char *later; /* the record of another worker */
        int64_t charges;
    } cases[] = {
        {"1799999990000 active b:1:2:1 h", 0},
        {"1799999990000 active a:1:2:1 h", 1},
        {"1799999990000 active b:1:2:1 i", 1},
        {"1799999970000 active b:1:2:1 h", 1},
        {"nothing", 1},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        contract_put(c, "default", "a");
        qn_leased_free(contract_take(c, "default"));
        (void)test_redis_do(server(), "HSET " Q "quern:workers %s %s", CONTRACT_WORKER,
                            "1799999980000 active a:1:1:1 h");
        (void)test_redis_do(server(), "HSET " Q "quern:workers w2 %s", cases[i].later);
        (void)test_redis_do(server(), "HSET " Q "quern:workers w3 %s",
                            "1799999985000 active a:1:3:1 h");
        contract_advance(c, CONTRACT_LEASE_MS + 1);
        assert_int_equal(contract_recover(c, "default"), 1);
        assert_int_equal(contract_inspect(c, "default", "a").crash_count, cases[i].charges);
        (void)run_command("FLUSHALL");
    }
}

/* --- Sleeping ------------------------------------------------------------------------ */

static bool arm(struct contract *c)
{
    const char *queue = "default";
    bool work = false;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(c->broker, (struct qn_names){&queue, 1}, &work, &next_due_at_ms, &err),
              err);
    return work;
}

static bool is_woken(struct contract *c, int64_t timeout_ms)
{
    struct qn_wakeup wakeup;
    quern_error err = {0};
    assert_ok(qn_broker_wait(c->broker, timeout_ms, &wakeup, &err), err);
    return wakeup.work;
}

static void charged_tasks_that_nobody_could_take_are_no_work(struct contract *c)
{
    struct qn_leased *run = NULL;
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    plant("bad", 5, 4);
    assert_true(arm(c));
    assert_int_equal(lease(c, 1, &run), 0);
    assert_false(arm(c));
    contract_put(c, "default", "good");
    assert_true(is_woken(c, TEST_PATIENCE_MS));
    assert_true(arm(c));
    assert_int_equal(lease(c, 1, &run), 1);
    assert_false(arm(c));
    contract_finish(c, run, QN_DONE);
}

/* --- Garbage ------------------------------------------------------------------------- */

static void brake_that_cannot_be_read_is_none(struct contract *c)
{
    static const char *const brakes[] = {"",   "x",    "nan",           "-1 a",
                                         "12", "1 99", "1 99 0 0 0 x ", "1 99 0 0 0 0"};
    for (size_t i = 0; i < TEST_COUNT(brakes); i++) {
        struct qn_leased *run = NULL;
        (void)test_redis_do(server(), "HSET " Q "quern:meta h:" HOST " %s", brakes[i]);
        contract_put(c, "default", "a");
        assert_int_equal(lease(c, 1, &run), 1);
        contract_finish(c, run, QN_DONE);
        assert_non_null(strstr(run_command("HGET " Q "quern:meta h:" HOST), " 0 0 0 "));
    }
}

/* However large it is, the next success ends it. */
static void brake_beyond_all_numbers_ends(struct contract *c)
{
    char digits[401];
    struct qn_leased *run = NULL;
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    (void)test_redis_do(server(), "EVAL %s 1 " Q "quern:meta %s",
                        "local n = ARGV[1] return redis.call('HSET', KEYS[1], 'h:" HOST
                        "', n .. ' ' .. n .. ' ' .. n .. ' ' .. n .. ' ' .. n .. ' 7 a')",
                        digits);
    contract_put(c, "default", "a");
    assert_int_equal(lease(c, 1, &run), 1);
    contract_finish(c, run, QN_DONE);
    contract_put_many(c, "default", "b", 2);
    struct qn_leased *runs[2];
    assert_int_equal(lease(c, 2, runs), 2);
    contract_finish(c, runs[0], QN_DONE);
    contract_finish(c, runs[1], QN_DONE);
}

static void solo_lock_that_cannot_be_read_is_free(struct contract *c)
{
    static const char *const locks[] = {"x", "1 2", "9999999999999999 9999999999999999 0 other",
                                        "0 0 9999999999999999 ", "1 1 0 other"};
    plant("bad", 1, 4);
    struct qn_leased *run = NULL;
    assert_int_equal(lease(c, 1, &run), 0);
    for (size_t i = 0; i < TEST_COUNT(locks); i++) {
        uint32_t queue = 9;
        (void)test_redis_do(server(), "HSET " Q "quern:meta solo %s", locks[i]);
        assert_int_equal(exchange_solo(c, QN_SOLO_ASK, 1, &queue, &run), 0);
        assert_int_equal(queue, 0);
    }
}

static void index_of_the_wrong_type_stops_no_queue(struct contract *c)
{
    static const char *const keys[] = {"quern:charged:1", "quern:charged:4", "quern:skip",
                                       "quern:braked"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        struct qn_leased *runs[2];
        (void)test_redis_do(server(), "LPUSH " Q "%s x", keys[i]);
        plant("bad", 3, 4);
        plant("once", 1, 1);
        (void)run_command("HSET " Q "quern:meta charged 1");
        contract_put(c, "default", "good");
        assert_int_equal(lease(c, 2, runs), 2);
        assert_string_equal(runs[0]->task.id, "once0");
        assert_string_equal(runs[1]->task.id, "good");
        contract_finish(c, runs[0], QN_CRASH);
        contract_finish(c, runs[1], QN_DONE);
        (void)run_command("FLUSHALL");
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", five_thousand_charged_tasks_neither_hide_nor_slow_down_the_others),
    CONTRACT_TEST_ONLY("redis",
                       charged_tasks_behind_which_others_were_taken_run_when_there_is_room),
    CONTRACT_TEST_ONLY("redis", solo_lock_is_not_requested_once_go_has_taken_the_task),
    CONTRACT_TEST_ONLY("redis", uncharged_task_that_go_gave_back_before_charged_ones_is_found),
    CONTRACT_TEST_ONLY("redis", task_that_must_be_alone_is_found_though_go_forwarded_it),
    CONTRACT_TEST_ONLY("redis", lock_that_was_kept_by_mistake_is_not_taken_without_need),
    CONTRACT_TEST_ONLY("redis", lock_of_a_worker_without_a_record_is_returned_by_recovery),
    CONTRACT_TEST_ONLY("redis", probe_is_found_between_many_charged_tasks),
    CONTRACT_TEST_ONLY("redis", probe_is_found_where_go_put_only_charged_tasks),
    CONTRACT_TEST_ONLY("redis", probe_is_found_behind_what_go_took_away),
    CONTRACT_TEST_ONLY("redis", host_that_was_rebooted_charges_nobody),
    CONTRACT_TEST_ONLY("redis", charged_tasks_that_nobody_could_take_are_no_work),
    CONTRACT_TEST_ONLY("redis", brake_that_cannot_be_read_is_none),
    CONTRACT_TEST_ONLY("redis", brake_beyond_all_numbers_ends),
    CONTRACT_TEST_ONLY("redis", solo_lock_that_cannot_be_read_is_free),
    CONTRACT_TEST_ONLY("redis", index_of_the_wrong_type_stops_no_queue),
};
CONTRACT_MAIN(tests)
