/* SPDX-License-Identifier: MIT */
/* test_recover.c - recovery on Redis: a Go worker's leases in their grace time, leftovers of
 * asynq's known bugs, and that no call does more than its share, however much there is. */
#include "lib_contract.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "broker/redis/upkeep/count_runs_lua.h"
#include "lib_store.h"

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_store_server();
}

static const char *run_command(const char *command)
{
    return test_redis_do(server(), command);
}

/* As asynq's dequeue: the task moves, and the field that would be our token goes. */
static void go_takes(const char *id)
{
    char script[600];
    (void)snprintf(script, sizeof script,
                   "redis.call('LREM', '%spending', 1, '%s') "
                   "redis.call('LPUSH', '%sactive', '%s') "
                   "redis.call('HSET', '%st:%s', 'state', 'active') "
                   "redis.call('HDEL', '%st:%s', 'pending_since') "
                   "return redis.call('ZADD', '%slease', redis.call('TIME')[1] + 30, '%s')",
                   Q, id, Q, id, Q, id, Q, id, Q, id);
    assert_string_equal(test_redis_do(server(), "EVAL %s 0", script), "1");
}

/* As asynq's done of a task without a lock. */
static bool go_finishes(const char *id)
{
    char script[600];
    (void)snprintf(script, sizeof script,
                   "if redis.call('LREM', '%sactive', 0, '%s') == 0 or "
                   "redis.call('ZREM', '%slease', '%s') == 0 or "
                   "redis.call('DEL', '%st:%s') == 0 then return 0 end "
                   "redis.call('INCR', '%sprocessed') "
                   "return redis.call('INCR', '%sprocessed:2027-01-15') > 0",
                   Q, id, Q, id, Q, id, Q, Q);
    return strcmp(test_redis_do(server(), "EVAL %s 0", script), "1") == 0;
}

/* --- A Go worker's leases ------------------------------------------------------------ */

static void lease_of_a_go_worker_has_thirty_seconds_more(struct contract *c)
{
    contract_put(c, "default", "a");
    go_takes("a");
    contract_advance(c, 59999);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, 1);
    assert_int_equal(contract_recover(c, "default"), 1);
}

/* As asynq's recoverer: a failure like any other, retried after 15 to 44 s. */
static void run_of_a_dead_go_worker_is_retried_with_its_count_and_delay(struct contract *c)
{
    contract_put(c, "default", "a");
    go_takes("a");
    contract_advance(c, 60000);
    int64_t now_ms = CONTRACT_NOW_MS + 60000;
    assert_int_equal(contract_recover(c, "default"), 1);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_RETRY);
    assert_int_equal(view.retry_count, 1);
    assert_int_equal(view.crash_count, 0);
    assert_string_equal(view.error, "asynq: task lease expired");
    assert_in_range(view.at_ms, now_ms + 15000, now_ms + 44000);
    contract_assert_counted(c, "default", 1, 1);
    contract_advance(c, 44000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(run->retry_count, 1);
    contract_finish(c, run, QN_DONE);
}

static void run_of_a_dead_go_worker_without_attempts_left_is_archived(struct contract *c)
{
    const quern_task task = {
        .queue = "default", .type = "t", .id = "a", .retry_max = QUERN_RETRY_NEVER};
    contract_enqueue(c, &task);
    go_takes("a");
    contract_advance(c, 60000);
    assert_int_equal(contract_recover(c, "default"), 1);
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_ARCHIVED);
    assert_string_equal(view.error, "asynq: task lease expired");
    contract_assert_counted(c, "default", 1, 1);
}

static void deaths_of_go_workers_convict_nobody(struct contract *c)
{
    contract_put(c, "default", "a");
    for (int i = 0; i < 5; i++) {
        go_takes("a");
        contract_advance(c, 60000);
        assert_int_equal(contract_recover(c, "default"), 1);
        contract_advance(c, 3600000);
        assert_int_equal(contract_forward(c, "default", NULL), 1);
    }
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 0);
    assert_int_equal(view.retry_count, 5);
}

/* Bytes that no decoder accepts are left to the worker that leases them. */
static void message_that_cannot_be_read_comes_back_as_it_is(struct contract *c)
{
    static const char *const messages[] = {
        "\x28", "\x0a\x7f", "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x0f", "x"};
    for (size_t i = 0; i < TEST_COUNT(messages); i++) {
        contract_put(c, "default", "a");
        go_takes("a");
        (void)test_redis_do(server(), "HSET " Q "t:a msg %s", messages[i]);
        contract_advance(c, 60000);
        assert_int_equal(contract_recover(c, "default"), 1);
        assert_string_equal(run_command("HGET " Q "t:a state"), "pending");
        assert_string_equal(run_command("HGET " Q "t:a msg"), messages[i]);
        (void)run_command("DEL " Q "t:a " Q "pending");
    }
}

/* The lease of our run has expired, asynq's recoverer has retried the task, and a Go worker runs
 * it. */
static void run_that_a_go_worker_took_over_changes_nothing(struct contract *c)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE,    QN_DROP,      QN_RETRY, QN_SNOOZE,
                                                 QN_ARCHIVE, QN_GIVE_BACK, QN_CRASH, QN_CANCEL};
    quern_error err = {0};
    struct qn_leased *zombie = contract_start(c, "a");
    struct qn_extension extension = {.run = zombie};
    contract_advance(c, 2 * CONTRACT_LEASE_MS);
    (void)run_command("LREM " Q "active 0 a");
    (void)run_command("ZREM " Q "lease a");
    (void)run_command("LPUSH " Q "pending a");
    (void)run_command("HSET " Q "t:a state pending pending_since 1800000060000000000");
    go_takes("a");
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        assert_int_equal(contract_report(c, zombie, kinds[i]), QN_STALE);
    }
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_false(extension.held);
    assert_int_equal(qn_broker_write_result(c->broker, zombie, (struct qn_bytes){"x", 1}, &err),
                     QUERN_E_STALE);
    contract_assert_counted(c, "default", 0, 0);
    assert_string_equal(run_command("HEXISTS " Q "t:a result"), "0");
    assert_true(go_finishes("a"));
    contract_assert_counted(c, "default", 1, 0);
    assert_int_equal(contract_report(c, zombie, QN_DONE), QN_STALE);
    contract_assert_counted(c, "default", 1, 0);
    qn_leased_free(zombie);
}

/* --- The server's clock -------------------------------------------------------------- */

static void clock_that_is_set_forward_takes_no_lease_from_the_living(struct contract *c)
{
    quern_error err = {0};
    struct qn_leased *alive = contract_start(c, "a");
    struct qn_leased *lost = contract_start(c, "b");
    struct qn_extension extension = {.run = alive};
    assert_int_equal(contract_recover(c, "default"), 0);
    test_store_advance(&c->store, 3600 * INT64_C(1000)); /* only there: the clock was set */
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, CONTRACT_LEASE_MS / 3);
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_true(extension.held);
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, CONTRACT_LEASE_MS - CONTRACT_LEASE_MS / 3);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_PENDING);
    assert_int_equal(contract_finish(c, alive, QN_DONE), QN_APPLIED);
    qn_leased_free(lost);
}

/* Workers that could not extend their leases while the server was stopped get a moment to do so. */
static void silence_of_the_server_is_nobody_s_death(struct contract *c)
{
    const struct contract_worker far = {.id = "far", .is_far = true};
    struct qn_leased *run = NULL;
    if (!test_full()) {
        return; /* it takes as long as the silence */
    }
    contract_heartbeat_as(c->broker, &far);
    contract_put(c, "default", "a");
    assert_int_equal(contract_lease_as(c, &far, "default", 1, &run), 1);
    assert_int_equal(contract_recover_once(c, "default"), 0);
    assert_int_equal(kill(server()->pid, SIGSTOP), 0);
    test_pause_ms(5100);
    assert_int_equal(kill(server()->pid, SIGCONT), 0);
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover_once(c, "default"), 0);
    test_pause_ms(3100);
    assert_int_equal(contract_recover_once(c, "default"), 1);
    assert_int_equal(contract_inspect(c, "default", "a").crash_count, 1);
    qn_leased_free(run);
}

/* --- What should not be there -------------------------------------------------------- */

static void task_without_a_lease_gets_one_and_comes_back(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    contract_put(c, "default", "b");
    go_takes("b");
    (void)run_command("ZREM " Q "lease a b");
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(run_command("ZCARD " Q "lease"), "2");
    /* Its worker may still finish: the task was not taken from it. */
    assert_true(go_finishes("b"));
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_SALVAGED);
    contract_assert_counted(c, "default", 2, 0);
}

static void lease_of_a_task_that_is_in_no_list_is_ended(struct contract *c)
{
    qn_leased_free(contract_start(c, "a"));
    (void)run_command("LREM " Q "active 0 a");
    contract_advance(c, 3 * CONTRACT_LEASE_MS);
    assert_int_equal(contract_recover(c, "default"), 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_string_equal(run_command("ZCARD " Q "lease"), "0");
}

static void ghosts_go(struct contract *c)
{
    /* As asynq dequeues an id whose hash is gone: a hash that has only its state. */
    (void)run_command("LPUSH " Q "pending ghost");
    go_takes("ghost");
    (void)run_command("LPUSH " Q "active unleased");
    (void)run_command("ZADD " Q "lease 1800000000 unlisted");
    contract_put(c, "default", "here");
    (void)run_command("LPUSH " Q "active here");
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(run_command("LRANGE " Q "active 0 -1"), "ghost\n");
    contract_advance(c, 120000);
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(run_command("LLEN " Q "active"), "0");
    assert_string_equal(run_command("ZCARD " Q "lease"), "0");
    assert_string_equal(run_command("EXISTS " Q "t:ghost"), "0");
    contract_finish(c, contract_take_id(c, "default", "here"), QN_DONE);
    assert_null(contract_take(c, "default"));
}

static void task_in_active_whose_state_is_wrong_comes_back(struct contract *c)
{
    static const char *const states[] = {"pending", "retry", "what", ""};
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        qn_leased_free(contract_start(c, "a"));
        (void)test_redis_do(server(), "HSET " Q "t:a state %s", states[i]);
        contract_advance(c, 3 * CONTRACT_LEASE_MS);
        assert_int_equal(contract_recover(c, "default"), 1);
        contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    }
}

static void damaged_queue_stops_no_other(struct contract *c)
{
    static const char *const queues[] = {"default", "other"};
    static const char *const keys[] = {"lease", "active", "pending", "quern:workers"};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        struct qn_leased *runs[2];
        struct qn_extension extensions[2] = {0};
        quern_error err = {0};
        size_t count = 0;
        for (size_t k = 0; k < 2; k++) {
            contract_put(c, queues[k], "a");
            runs[k] = contract_take_id(c, queues[k], "a");
            extensions[k].run = runs[k];
        }
        (void)test_redis_do(server(), "DEL " Q "%s", keys[i]);
        (void)test_redis_do(server(), "SET " Q "%s x", keys[i]);
        assert_ok(qn_broker_extend(c->broker, extensions, 2, CONTRACT_LEASE_MS, &err), err);
        assert_int_equal(extensions[0].held, strcmp(keys[i], "lease") != 0);
        assert_true(extensions[1].held);
        contract_advance(c, CONTRACT_LEASE_MS + 1);
        assert_int_equal(
            qn_broker_recover(c->broker, (struct qn_upkeep){{queues, 2}, 10}, NULL, &count, &err),
            QUERN_E_CORRUPT);
        assert_non_null(strstr(err.text, "WRONGTYPE"));
        contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
        (void)test_redis_do(server(), "DEL " Q "%s " Q "t:a " Q "active " Q "lease " Q "pending",
                            keys[i]);
        qn_leased_free(runs[0]);
        qn_leased_free(runs[1]);
    }
}

/* --- Many of them -------------------------------------------------------------------- */

/* count tasks of ours whose lease has expired, each beside one of a Go worker in its grace time. */
static void fill(size_t count)
{
    static const char script[] =
        "local Q, now = KEYS[1], redis.call('TIME')[1] for i = ARGV[1], ARGV[2] do "
        "for _, kind in ipairs({'go', 'our'}) do local id = kind .. i "
        "redis.call('HSET', Q .. 't:' .. id, 'msg', '\\10\\1t\\26' .. string.char(#id) .. id .. "
        "'\\34\\7default\\40\\25', 'state', 'active') "
        "if kind == 'our' then redis.call('HSET', Q .. 't:' .. id, 'pending_since', "
        "string.format('17999999%011d', i), 'quern_run', '1 1 1799999960000000000 ' .. "
        "(now - 10) * 1000 .. ' other') end "
        "redis.call('LPUSH', Q .. 'active', id) "
        "redis.call('ZADD', Q .. 'lease', now - 10, id) end end";
    for (size_t first = 0; first < count; first += 1000) {
        (void)test_redis_do(server(), "EVAL %s 1 %s %d %d", script, Q, (int)first,
                            (int)(first + 1000 < count ? first + 1000 : count) - 1);
    }
}

static void many_expired_leases_are_recovered_in_bounded_steps(struct contract *c)
{
    const size_t count = test_full() ? 100000 : 10000;
    size_t found = 0;
    long long most = 0;
    size_t calls = 0;
    fill(count);
    while (found < count) {
        long long before = test_redis_calls(server());
        found += contract_recover(c, "default");
        long long work = test_redis_calls(server()) - before;
        most = work > most ? work : most;
        assert_true(calls++ < count);
    }
    assert_int_equal(found, count);
    /* Eight pages of 500, and at most 128 tasks that are moved, each with its place in pending. */
    assert_true(most < 8 * 500 * 4 + 128 * 21);
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_int_equal(test_redis_count(server(), "LLEN " Q "active"), count);
    assert_int_equal(test_redis_count(server(), "ZCARD " Q "lease"), count);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), count);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), count);
    assert_string_equal(run_command("HGET " Q "t:go77 state"), "active");
    print_message("%zu calls, at most %lld commands each\n", calls, most);
}

/* --- Pages ---------------------------------------------------------------------------- */

/* Started runs "PREFIX0", "PREFIX1", .. of this worker, whose leases last for an hour. */
static void plant_runs(const char *prefix, int count, const char *worker)
{
    static const char script[] =
        "local Q, now = KEYS[1], redis.call('TIME')[1] for i = 0, ARGV[2] - 1 do "
        "local id = ARGV[1] .. i redis.call('HSET', Q .. 't:' .. id, 'msg', "
        "'\\10\\1t\\26' .. string.char(#id) .. id .. '\\34\\7default\\40\\25', "
        "'state', 'active', 'pending_since', string.format('17999999%%011d', i), 'quern_run', "
        "'1 1799999960000 1799999960000000000 ' .. (now + 3600) * 1000 .. ' ' .. ARGV[3]) "
        "redis.call('LPUSH', Q .. 'active', id) redis.call('ZADD', Q .. 'lease', now + 3600, id) "
        "end";
    (void)test_redis_do(server(), "EVAL %s 1 " Q " %s %d %s", script, prefix, count, worker);
}

static void end_runs(const char *prefix, int first, int count)
{
    static const char script[] =
        "local Q = KEYS[1] for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do local id = ARGV[1] .. i "
        "redis.call('LREM', Q .. 'active', -1, id) redis.call('ZREM', Q .. 'lease', id) "
        "redis.call('DEL', Q .. 't:' .. id) end";
    (void)test_redis_do(server(), "EVAL %s 1 " Q " %s %d %d", script, prefix, first, count);
}

/* One call reads 4000 leases. Ids that move up between two calls must not be skipped, or they are
 * only found when the record of their worker is gone. */
static void runs_that_end_meanwhile_hide_no_lease_of_a_dead_worker(struct contract *c)
{
    static const int first_ended[] = {0, 3900};
    for (size_t i = 0; i < TEST_COUNT(first_ended); i++) {
        contract_heartbeat(c->broker, "other");
        contract_heartbeat_as(c->broker, &(struct contract_worker){.id = "dead", .is_dead = true});
        plant_runs("old", 4000, "other");
        plant_runs("lost", 1, "dead");
        plant_runs("new", 100, "other");
        assert_int_equal(contract_recover(c, "default"), 0);
        end_runs("old", first_ended[i], 100);
        size_t found = 0;
        for (int call = 0; call < 3; call++) {
            found += contract_recover(c, "default");
        }
        assert_int_equal(found, 1);
        assert_int_equal(contract_inspect(c, "default", "lost0").crash_count, 1);
        contract_advance(c, 10001);
        assert_int_equal(contract_recover(c, "default"), 0);
        assert_string_equal(run_command("HEXISTS " Q "quern:workers dead"), "0");
        assert_string_equal(run_command("HEXISTS " Q "quern:workers other"), "1");
        (void)run_command("FLUSHALL");
    }
}

/* It was sent before the worker died, and carried out when all that was known of it had ended. */
static void lease_that_came_too_late_for_a_dead_worker_is_ended_at_once(struct contract *c)
{
    const struct contract_worker dead = {.id = "dead", .is_dead = true};
    struct qn_leased *runs[2];
    contract_heartbeat(c->broker, "other");
    contract_heartbeat_as(c->broker, &dead);
    plant_runs("old", 1, "other");
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_put_many(c, "default", "a", 2);
    assert_int_equal(contract_lease_as(c, &dead, "default", 2, runs), 2);
    assert_int_equal(contract_recover(c, "default"), 2);
    struct contract_view view = contract_inspect(c, "default", "a0000");
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_int_equal(view.crash_count, 0);
    contract_advance(c, 10001);
    assert_string_equal(run_command("HEXISTS " Q "quern:workers dead"), "1");
    assert_int_equal(contract_recover(c, "default"), 0);
    assert_string_equal(run_command("HEXISTS " Q "quern:workers dead"), "0");
    assert_int_equal(contract_report(c, runs[0], QN_DONE), QN_SALVAGED);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

/* The same while a page of 500 is counted after the other: two runs are not one. */
static void runs_that_end_meanwhile_make_no_shared_death_a_lone_one(struct contract *c)
{
    char script[8000];
    (void)c;
    (void)snprintf(script, sizeof script,
                   "local function count_runs(KEYS, ARGV) %s end "
                   "local Q, count, reply = KEYS[1], 0, {0, 0, '', 0} "
                   "for page = 1, 3 do reply = count_runs({Q}, {'dead', reply[2], reply[3], 500}) "
                   "count = count + reply[1] "
                   "if reply[4] ~= 0 or reply[2] == 0 then break end "
                   "redis.call('LREM', Q .. 'active', -1, 'old7') end return {count, reply[4]}",
                   qn_lua_count_runs.text);
    plant_runs("old", 499, "other");
    plant_runs("lost", 2, "dead");
    assert_string_equal(test_redis_do(server(), "EVAL %s 1 " Q, script), "2\n0\n");
}

/* However many records are planted, they are read once. */
static void planted_records_of_workers_hold_up_no_recovery(struct contract *c)
{
    static const char script[] =
        "for i = 1, 20000 do redis.call('HSET', KEYS[1], 'w' .. i, 1800600000000 + i .. "
        "' active 01234567-89ab-cdef-0123-456789abcdef:1:1:1 h') end";
    contract_put(c, "default", "a");
    qn_leased_free(contract_take(c, "default"));
    (void)test_redis_do(server(), "EVAL %s 1 %s", script, Q "quern:workers");
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    int64_t begun_ns = qn_clock_mono_ns();
    assert_int_equal(contract_recover(c, "default"), 1);
    assert_true(qn_clock_mono_ns() - begun_ns < INT64_C(5000000000));
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", lease_of_a_go_worker_has_thirty_seconds_more),
    CONTRACT_TEST_ONLY("redis", run_of_a_dead_go_worker_is_retried_with_its_count_and_delay),
    CONTRACT_TEST_ONLY("redis", run_of_a_dead_go_worker_without_attempts_left_is_archived),
    CONTRACT_TEST_ONLY("redis", deaths_of_go_workers_convict_nobody),
    CONTRACT_TEST_ONLY("redis", message_that_cannot_be_read_comes_back_as_it_is),
    CONTRACT_TEST_ONLY("redis", run_that_a_go_worker_took_over_changes_nothing),
    CONTRACT_TEST_ONLY("redis", clock_that_is_set_forward_takes_no_lease_from_the_living),
    CONTRACT_TEST_ONLY("redis", silence_of_the_server_is_nobody_s_death),
    CONTRACT_TEST_ONLY("redis", task_without_a_lease_gets_one_and_comes_back),
    CONTRACT_TEST_ONLY("redis", lease_of_a_task_that_is_in_no_list_is_ended),
    CONTRACT_TEST_ONLY("redis", ghosts_go),
    CONTRACT_TEST_ONLY("redis", task_in_active_whose_state_is_wrong_comes_back),
    CONTRACT_TEST_ONLY("redis", damaged_queue_stops_no_other),
    CONTRACT_TEST_ONLY("redis", runs_that_end_meanwhile_hide_no_lease_of_a_dead_worker),
    CONTRACT_TEST_ONLY("redis", lease_that_came_too_late_for_a_dead_worker_is_ended_at_once),
    CONTRACT_TEST_ONLY("redis", runs_that_end_meanwhile_make_no_shared_death_a_lone_one),
    CONTRACT_TEST_ONLY("redis", many_expired_leases_are_recovered_in_bounded_steps),
    CONTRACT_TEST_ONLY("redis", planted_records_of_workers_hold_up_no_recovery),
};
CONTRACT_MAIN(tests)
