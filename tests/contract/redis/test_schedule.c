/* SPDX-License-Identifier: MIT */
/* test_schedule.c - what only a Redis server can do to the entries of schedulers: keys of the wrong
 * type and damaged rows, no memory left, scripts that are forgotten. */
#include "lib_contract.h"

#include <stdio.h>
#include <string.h>

#include "lib_schedule.h"
#include "lib_task.h"

#define Q "asynq:{default}:"
#define EPOCH 7

static struct test_redis *server(void)
{
    return test_store_server();
}

static int64_t now_s(void)
{
    return test_redis_count(server(), "EVAL %s 0", "return tonumber(redis.call('TIME')[1])");
}

/* Adds an entry whose last tick is ten seconds ago; gives its revision. */
static uint64_t put_in(struct contract *c, const char *queue, const char *name)
{
    struct qn_schedule_entry entry = schedule_entry(name);
    uint64_t revision = 0;
    entry.cron = "* * * * * *";
    entry.with_seconds = true;
    entry.last_s = now_s() - 10;
    entry.task.queue = queue;
    (void)schedule_put_one(c, &entry, QN_REVISION_ANY, &revision);
    return revision;
}

static uint64_t put(struct contract *c, const char *name)
{
    return put_in(c, "default", name);
}

/* The tick of five seconds ago. */
static struct qn_tick tick_of(const char *name, uint64_t revision, const struct qn_task *task)
{
    int64_t now = now_s();
    return (struct qn_tick){.queue = task->queue,
                            .name = name,
                            .revision = revision,
                            .known_s = now - 10,
                            .tick_s = now - 5,
                            .what = QN_TICK_ENQUEUE,
                            .task = task};
}

static quern_status send(struct contract *c, struct qn_tick *ticks, size_t count)
{
    struct qn_ticks all = {
        .stamp = {77, ++c->sequence}, .epoch = EPOCH, .ticks = ticks, .count = count};
    return qn_schedule_tick(c->broker, &all, NULL);
}

/* --- Damage ----------------------------------------------------------------------------- */

static void key_of_another_type_costs_one_entry(struct contract *c)
{
    static const struct {
        const char *plant;
        enum qn_tick_result bad;
    } cases[] = {
        {"SET asynq:scheduler_history:{default}:bad x", QN_TICKED},
        {"SET " Q "quern:ticklog:bad x", QN_TICKED},
        {"LPUSH " Q "t:bad-id x", QN_TICKED_CONFLICT},
        {"LPUSH lock x", QN_TICK_FAILED},
        {"HSET " Q "quern:ticks bad garbage", QN_TICK_FAILED},
        {"HSET " Q "quern:ticks bad", QN_TICK_FAILED}, /* an empty row */
        {"HDEL " Q "quern:ticks bad", QN_TICK_GONE},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_redis_empty(server());
        uint64_t bad = put(c, "bad");
        uint64_t good = put(c, "good");
        struct qn_task bad_task = test_task("bad-id");
        struct qn_task good_task = test_task("good-id");
        bad_task.unique_key = strncmp(cases[i].plant, "LPUSH lock", 10) == 0 ? "lock" : NULL;
        bad_task.unique_ms = 60000;
        if (strcmp(cases[i].plant, "HSET " Q "quern:ticks bad") == 0) {
            (void)test_redis_do(server(), "HSET " Q "quern:ticks bad %s", "");
        } else {
            (void)test_redis_do(server(), cases[i].plant);
        }
        struct qn_tick ticks[] = {tick_of("bad", bad, &bad_task),
                                  tick_of("good", good, &good_task)};
        assert_int_equal(send(c, ticks, 2), QUERN_OK);
        assert_int_equal(ticks[0].result, cases[i].bad);
        assert_int_equal(ticks[1].result, QN_TICKED);
        assert_int_equal(contract_state(c, "default", "good-id"), QUERN_TASK_PENDING);
    }
}

/* As a damaged definition may name them. SET fails with 0 ms, and must not be tried. */
static void lock_that_cannot_be_taken_costs_one_entry(struct contract *c)
{
    static const struct {
        const char *key;
        int64_t ms;
    } locks[] = {{Q "unique:u:", 0},
                 {Q "unique:u:", INT64_MAX},
                 {"asynq:{other}:unique:u:", 60000},
                 {Q "paused", 60000}};
    for (size_t i = 0; i < TEST_COUNT(locks); i++) {
        test_redis_empty(server());
        uint64_t bad = put(c, "bad");
        uint64_t good = put(c, "good");
        struct qn_task bad_task = test_task("bad-id");
        struct qn_task good_task = test_task("good-id");
        bad_task.unique_key = locks[i].key;
        bad_task.unique_ms = locks[i].ms;
        struct qn_tick ticks[] = {tick_of("bad", bad, &bad_task),
                                  tick_of("good", good, &good_task)};
        assert_int_equal(send(c, ticks, 2), QUERN_OK);
        assert_int_equal(ticks[0].result, QN_TICK_FAILED);
        assert_int_equal(ticks[1].result, QN_TICKED);
        assert_int_equal(contract_state(c, "default", "good-id"), QUERN_TASK_PENDING);
        struct qn_trigger trigger = {
            .stamp = {78, ++c->sequence}, .name = "bad", .task = &bad_task};
        assert_int_equal(qn_schedule_trigger(c->broker, &trigger, NULL), QUERN_E_CORRUPT);
        assert_int_equal(contract_state(c, "default", "bad-id"), 0);
        assert_int_equal(test_redis_count(server(), "EXISTS %s", locks[i].key), 0);
    }
}

static void rows_of_another_type_cost_one_queue(struct contract *c)
{
    uint64_t here = put(c, "a");
    uint64_t there = put_in(c, "other", "a");
    struct qn_task task = test_task("x");
    struct qn_task other = test_task("x");
    other.queue = "other";
    (void)test_redis_do(server(), "DEL " Q "quern:ticks");
    (void)test_redis_do(server(), "SET " Q "quern:ticks x");
    assert_int_equal(qn_schedule_claim(c->broker, EPOCH, NULL), QUERN_OK);
    struct qn_tick ticks[] = {tick_of("a", here, &task), tick_of("a", there, &other)};
    assert_int_equal(send(c, ticks, 2), QUERN_OK);
    assert_int_equal(ticks[0].result, QN_TICK_FAILED);
    assert_int_equal(ticks[1].result, QN_TICKED);
    assert_int_equal(send(c, ticks, 1), QUERN_E_CORRUPT);
}

struct seen {
    size_t good;
    size_t faults;
};

static bool see(const struct qn_schedule_entry *entry, void *user)
{
    struct seen *seen = user;
    seen->faults += entry->fault != NULL ? 1 : 0;
    if (entry->fault == NULL) {
        assert_string_equal(entry->name, "good");
        assert_string_equal(entry->cron, "* * * * * *");
        assert_string_equal(entry->task.type, "t");
        seen->good++;
    }
    return true;
}

static void damaged_definition_is_reported_and_the_others_are_listed(struct contract *c)
{
    const char *const plants[] = {"HSET " Q "quern:entries bad garbage",
                                  "HDEL " Q "quern:entries bad",
                                  "HSET " Q "quern:ticks bad garbage", "SETRANGE nothing 0 x"};
    for (size_t i = 0; i < TEST_COUNT(plants); i++) {
        test_redis_empty(server());
        (void)put(c, "good");
        (void)put(c, "bad");
        (void)test_redis_do(server(), plants[i]);
        if (i == 3) {
            /* Each byte of the definition, one after the other. */
            (void)test_redis_do(server(), "EVAL %s 0",
                                "local k = 'asynq:{default}:quern:entries'; "
                                "local d = redis.call('HGET', k, 'bad'); "
                                "for i = 1, #d do redis.call('HSET', k, 'bad' .. i, "
                                "string.sub(d, 1, i - 1)); redis.call('HSET', "
                                "'asynq:{default}:quern:ticks', 'bad' .. i, '1 1 1 0') end; "
                                "redis.call('HDEL', k, 'bad') return 0");
        }
        struct seen seen = {0};
        struct qn_entry_filter all = {0};
        assert_int_equal(qn_schedule_list(c->broker, &all, see, &seen, NULL), QUERN_OK);
        assert_int_equal(seen.good, 1);
        assert_true(i == 3 ? seen.faults > 50 : seen.faults == 1);
    }
}

/* --- Memory ----------------------------------------------------------------------------- */

static void no_tick_is_advanced_while_the_memory_is_full(struct contract *c)
{
    uint64_t revision = put(c, "a");
    struct qn_task task = test_task("x");
    struct qn_lead_reply led;
    const struct qn_lead lead = {
        .what = QN_LEAD_TAKE, .owner = "o", .id = "h:1:i", .lease_ms = 10000};
    const struct qn_entry_key key = {"default", "a", QN_REVISION_ANY};
    struct qn_tick tick = tick_of("a", revision, &task);
    (void)test_redis_do(server(), "CONFIG SET maxmemory 1");
    assert_int_equal(send(c, &tick, 1), QUERN_E_FULL);
    assert_int_equal(qn_schedule_lead(c->broker, &lead, &led, NULL), QUERN_OK);
    assert_true(led.leads);
    assert_int_equal(qn_schedule_claim(c->broker, EPOCH, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_pause(c->broker, &key, QN_ENTRY_PAUSE, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_pause(c->broker, &key, QN_ENTRY_CATCH_UP, NULL), QUERN_OK);
    (void)test_redis_do(server(), "CONFIG SET maxmemory 0");
    assert_int_equal(contract_state(c, "default", "x"), 0);
    tick.revision = put(c, "a"); /* it is the same, but for the pause */
    assert_int_equal(send(c, &tick, 1), QUERN_OK);
    assert_int_equal(tick.result, QN_TICKED);
    assert_int_equal(contract_state(c, "default", "x"), QUERN_TASK_PENDING);
}

/* --- Replays and leaders ------------------------------------------------------------------- */

static void repeated_request_gets_the_answer_of_the_first(struct contract *c)
{
    uint64_t revision = put(c, "a");
    struct qn_task task = test_task("x");
    struct qn_tick tick = tick_of("a", revision, &task);
    struct qn_ticks ticks = {.stamp = {99, 1}, .epoch = EPOCH, .ticks = &tick, .count = 1};
    assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
    assert_int_equal(tick.result, QN_TICKED);
    (void)test_redis_do(server(), "DEL " Q "t:x " Q "pending");
    (void)test_redis_do(server(), "SCRIPT FLUSH");
    tick.result = 0;
    assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
    assert_int_equal(tick.result, QN_TICKED);
    assert_int_equal(contract_state(c, "default", "x"), 0);
    ticks.stamp.sequence = 2;
    assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
    assert_int_equal(tick.result, QN_TICK_PAST);
    assert_int_equal(tick.stored_s, tick.tick_s);
    assert_int_equal(contract_state(c, "default", "x"), 0);
}

static void earlier_leader_enqueues_nothing(struct contract *c)
{
    struct qn_lead_reply first;
    struct qn_lead_reply second;
    const struct qn_lead one = {
        .what = QN_LEAD_TAKE, .owner = "o", .id = "h:1:i", .lease_ms = 10000};
    const struct qn_lead two = {
        .what = QN_LEAD_TAKE, .owner = "p", .id = "h:2:i", .lease_ms = 10000};
    uint64_t revision = put(c, "a");
    struct qn_task task = test_task("x");
    assert_int_equal(qn_schedule_lead(c->broker, &one, &first, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_claim(c->broker, first.epoch, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_lead(c->broker, &two, &second, NULL), QUERN_OK);
    assert_false(second.leads);
    assert_string_equal(second.id, one.id);
    contract_advance(c, 10001);
    assert_int_equal(qn_schedule_lead(c->broker, &two, &second, NULL), QUERN_OK);
    assert_true(second.leads);
    assert_true(second.epoch > first.epoch);
    assert_int_equal(qn_schedule_claim(c->broker, second.epoch, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_claim(c->broker, first.epoch, NULL), QUERN_E_STATE);
    struct qn_tick tick = tick_of("a", revision, &task);
    struct qn_ticks ticks = {.epoch = first.epoch, .ticks = &tick, .count = 1};
    tick.known_s -= 10;
    assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
    assert_int_equal(tick.result, QN_TICK_STALE);
    assert_int_equal(contract_state(c, "default", "x"), 0);
    ticks.epoch = second.epoch;
    assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
    assert_int_equal(tick.result, QN_TICKED);
}

/* Takes the lease, and again where a queue refuses the epoch. Gives the one that it leads with. */
static uint64_t come_to_lead(struct contract *c)
{
    struct qn_lead_reply reply = {.epoch = 0};
    quern_status status = QUERN_E_STATE;
    const struct qn_lead one = {
        .what = QN_LEAD_TAKE, .owner = "o", .id = "h:1:i", .lease_ms = 10000};
    for (int i = 0; i < 2 && status == QUERN_E_STATE; i++) {
        assert_int_equal(qn_schedule_lead(c->broker, &one, &reply, NULL), QUERN_OK);
        assert_true(reply.leads);
        status = qn_schedule_claim(c->broker, reply.epoch, NULL);
    }
    assert_int_equal(status, QUERN_OK);
    return reply.epoch;
}

/* Whatever becomes of the record of the leader, or of the epoch of one queue, while it leads. */
static void damaged_epoch_stops_no_schedule(struct contract *c)
{
    static const struct {
        const char *plant;
        const char *head; /* of the queue; NULL: as it is */
    } cases[] = {
        {"HSET asynq:quern:schedule epoch 9999999999999999", NULL},
        {"HSET asynq:quern:schedule epoch 99999999999999999999999", NULL},
        {"HSET asynq:quern:schedule epoch -5", NULL},
        {"HSET asynq:quern:schedule epoch 0", NULL},
        {"DEL asynq:quern:schedule", NULL},
        {"SET asynq:quern:schedule text", NULL},
        {"PING", "8000000000000000 5"},
        {"PING", "9999999999999999 9999999999999999"},
        {"PING", "99999999999999999999999999999999 5"},
        {"DEL asynq:quern:schedule", "8000000000000000 5"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_redis_empty(server());
        uint64_t revision = put(c, "a");
        struct qn_task task = test_task("x");
        struct qn_tick tick = tick_of("a", revision, &task);
        (void)come_to_lead(c);
        (void)test_redis_do(server(), cases[i].plant);
        if (cases[i].head != NULL) {
            (void)test_redis_do(server(), "HSET " Q "quern:ticks %s %s", "", cases[i].head);
        }
        struct qn_ticks ticks = {.epoch = come_to_lead(c), .ticks = &tick, .count = 1};
        assert_int_equal(qn_schedule_tick(c->broker, &ticks, NULL), QUERN_OK);
        assert_int_equal(tick.result, QN_TICKED);
        contract_advance(c, 1);
        assert_true(put(c, "b") > revision);
    }
}

static void tick_of_a_full_queue_changes_nothing(struct contract *c)
{
    uint64_t full = put(c, "full");
    uint64_t other = put_in(c, "other", "a");
    struct qn_task tasks[] = {test_task("x"), test_task("y"), test_task("z")};
    tasks[2].queue = "other";
    const quern_queue_settings one = {.max_pending = 1};
    assert_int_equal(qn_broker_set_queue(c->broker, "default", &one, NULL), QUERN_OK);
    assert_int_equal(qn_schedule_claim(c->broker, EPOCH, NULL), QUERN_OK);
    for (int round = 0; round < 2; round++) { /* the second time there is no room at all */
        struct qn_tick ticks[] = {tick_of("full", full, &tasks[0]),
                                  tick_of("full", full, &tasks[1]), tick_of("a", other, &tasks[2])};
        ticks[0].known_s = ticks[0].tick_s - 5;
        ticks[1].known_s = ticks[0].tick_s;
        ticks[1].tick_s = ticks[0].tick_s + 1;
        assert_int_equal(send(c, ticks, 3), QUERN_OK);
        assert_int_equal(ticks[0].result, round == 0 ? QN_TICKED : QN_TICK_PAST);
        assert_int_equal(ticks[1].result, QN_TICK_FULL);
        assert_int_equal(ticks[1].stored_s, ticks[0].tick_s);
        assert_int_equal(ticks[2].result, round == 0 ? QN_TICKED : QN_TICK_PAST);
    }
    assert_int_equal(contract_state(c, "default", "y"), 0);
    contract_finish(c, contract_take_id(c, "default", "x"), QN_DONE);
    struct qn_tick again = tick_of("full", full, &tasks[1]);
    again.known_s = again.tick_s;
    again.tick_s++;
    assert_int_equal(send(c, &again, 1), QUERN_OK);
    assert_int_equal(again.result, QN_TICKED);
}

static void lease_is_not_longer_for_a_clock_that_went_back(struct contract *c)
{
    struct qn_lead_reply reply;
    const struct qn_lead one = {
        .what = QN_LEAD_TAKE, .owner = "o", .id = "h:1:i", .lease_ms = 10000};
    const struct qn_lead two = {
        .what = QN_LEAD_TAKE, .owner = "p", .id = "h:2:i", .lease_ms = 10000};
    assert_int_equal(qn_schedule_lead(c->broker, &one, &reply, NULL), QUERN_OK);
    test_redis_turn(server(), (CONTRACT_NOW_MS - 3600 * 1000) * 1000);
    assert_int_equal(qn_schedule_lead(c->broker, &two, &reply, NULL), QUERN_OK);
    assert_false(reply.leads);
    test_redis_turn(server(), (CONTRACT_NOW_MS - 3600 * 1000 + 10001) * 1000);
    assert_int_equal(qn_schedule_lead(c->broker, &two, &reply, NULL), QUERN_OK);
    assert_true(reply.leads);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", key_of_another_type_costs_one_entry),
    CONTRACT_TEST_ONLY("redis", lock_that_cannot_be_taken_costs_one_entry),
    CONTRACT_TEST_ONLY("redis", rows_of_another_type_cost_one_queue),
    CONTRACT_TEST_ONLY("redis", damaged_definition_is_reported_and_the_others_are_listed),
    CONTRACT_TEST_ONLY("redis", no_tick_is_advanced_while_the_memory_is_full),
    CONTRACT_TEST_ONLY("redis", repeated_request_gets_the_answer_of_the_first),
    CONTRACT_TEST_ONLY("redis", earlier_leader_enqueues_nothing),
    CONTRACT_TEST_ONLY("redis", damaged_epoch_stops_no_schedule),
    CONTRACT_TEST_ONLY("redis", tick_of_a_full_queue_changes_nothing),
    CONTRACT_TEST_ONLY("redis", lease_is_not_longer_for_a_clock_that_went_back),
};
CONTRACT_MAIN(tests)
