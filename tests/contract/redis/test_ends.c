/* SPDX-License-Identifier: MIT */
/* test_ends.c - the scripts that end or touch a run, on Redis data that is damaged in every way
 * that one of their preconditions can fail: whatever they answer, nothing is half done. Either not
 * a byte has changed, or the task is in exactly the place that its hash names, or where the damage
 * has left it.
 *
 * A fresh run for each pair of a damage and an action, some hundred in all. */
#include "lib_contract.h"

#include <string.h>

#include "lib_store.h"
#include "quern/inspector.h"
#include "redis/pipeline.h"

#define Q "asynq:{default}:"

/* A digest of all data but what scripts may always write: kept answers and the fence. */
static const char digest_script[] =
    "local keys = redis.call('KEYS', '*') table.sort(keys) local all = {} "
    "for _, key in ipairs(keys) do if not string.find(key, ':quern:s:') then "
    "all[#all + 1] = key .. redis.call('DUMP', key) end end "
    "return redis.sha1hex(table.concat(all))";

/* "" if the task is in no place and has no hash, or in exactly the place that its hash names; else
 * a description. Keys of another type are no place. */
static const char whole_script[] =
    "local Q, id = KEYS[1], ARGV[1] local found = {} "
    "local function is(key, kind) return redis.call('TYPE', Q .. key).ok == kind end "
    "for _, list in ipairs({'pending', 'active'}) do if is(list, 'list') then "
    "for _, one in ipairs(redis.call('LRANGE', Q .. list, 0, -1)) do if one == id then "
    "found[#found + 1] = list end end end end "
    "for _, zset in ipairs({'lease', 'scheduled', 'retry', 'archived', 'completed'}) do "
    "if is(zset, 'zset') and redis.call('ZSCORE', Q .. zset, id) then "
    "found[#found + 1] = zset end end "
    "local state = is('t:' .. id, 'hash') and redis.call('HGET', Q .. 't:' .. id, 'state') or '' "
    "local expected = state == 'active' and 'active lease' or state "
    "found = table.concat(found, ' ') "
    "return found == expected and '' or 'state ' .. state .. ', is in: ' .. found";

static struct test_redis *server(void)
{
    return test_store_server();
}

static void digest(char out[41])
{
    (void)snprintf(out, 41, "%s", test_redis_do(server(), "EVAL %s 0", digest_script));
}

static const char *not_whole(const char *id)
{
    return test_redis_do(server(), "EVAL %s 1 %s %s", whole_script, Q, id);
}

/* --- Damages ------------------------------------------------------------------------- */

/* Commands, one a line; "a" is the task. */
static const char *const damages[] = {
    "EXISTS a",
    "ZREM " Q "lease a",
    "LREM " Q "active 0 a",
    "DEL " Q "t:a",
    "HDEL " Q "t:a msg",
    "HDEL " Q "t:a quern_run",
    "HSET " Q "t:a quern_run nonsense quern_past -1 quern_place x",
    "HSET " Q "t:a state pending",
    "HSET " Q "t:a state what",
    "HDEL " Q "t:a state",
    "HDEL " Q "t:a pending_since",
    "HSET " Q "t:a pending_since 1",
    "DEL " Q "t:a\nSET " Q "t:a x",
    "DEL " Q "active\nSET " Q "active x",
    "DEL " Q "lease\nSET " Q "lease x",
    "SET " Q "pending x",
    "SET " Q "retry x",
    "SET " Q "archived x",
    "SET " Q "completed x",
    "SET " Q "quern:due x",
    "DEL " Q "quern:meta\nSET " Q "quern:meta x",
    "HSET " Q "quern:meta streak nonsense trimmed nonsense",
    "DEL " Q "quern:workers\nSET " Q "quern:workers x",
    "SET " Q "processed nonsense",
    "LPUSH " Q "processed x",
    "SET " Q "processed:2027-01-15 nonsense",
    "LPUSH " Q "processed:2027-01-15 x",
    "SET " Q "failed nonsense",
    "LPUSH " Q "failed x",
    "LPUSH " Q "failed:2027-01-15 x",
    "DEL lock\nLPUSH lock x",
    "SET lock other",
    "LPUSH " Q "quern:s:0000000000000007:o x",
};

/* Runs commands, one a line; the word "lock" becomes the key of that lock. */
static void damage(const char *commands, const char *lock)
{
    char line[256];
    while (*commands != '\0') {
        size_t size = strcspn(commands, "\n");
        char *words[8];
        size_t count = 0;
        char *rest = NULL;
        (void)snprintf(line, sizeof line, "%.*s", (int)size, commands);
        for (char *word = strtok_r(line, " ", &rest); word != NULL;
             word = strtok_r(NULL, " ", &rest)) {
            words[count++] = strcmp(word, "lock") == 0 ? (char *)(uintptr_t)lock : word;
        }
        static const char *const formats[] = {"",
                                              "%s",
                                              "%s %s",
                                              "%s %s %s",
                                              "%s %s %s %s",
                                              "%s %s %s %s %s",
                                              "%s %s %s %s %s %s",
                                              "%s %s %s %s %s %s %s",
                                              "%s %s %s %s %s %s %s %s"};
        (void)test_redis_do(server(), formats[count], words[0], words[1], words[2], words[3],
                            words[4], words[5], words[6], words[7]);
        commands += size + (commands[size] == '\n' ? 1 : 0);
    }
}

/* --- Actions --------------------------------------------------------------------------- */

enum {
    DEED_DONE_KEPT = QN_OUTCOME_KINDS,
    DEED_DONE_PLAIN,
    DEED_EXTEND,
    DEED_RESULT,
    DEED_RECOVER,
    DEED_START,
    DEEDS
};

static quern_status exchange(struct contract *c, const struct qn_outcome *outcome,
                             const struct qn_leased *start, enum qn_applied *applied)
{
    static uint64_t sequence;
    struct qn_queue_share share = {.name = "default", .weight = 1};
    struct qn_exchange request = {.stamp = {.session = 7, .sequence = ++sequence},
                                  .outcomes = outcome,
                                  .outcome_count = outcome != NULL ? 1 : 0,
                                  .starts = &start,
                                  .start_count = start != NULL ? 1 : 0,
                                  .worker_id = CONTRACT_WORKER,
                                  .lease_ms = CONTRACT_LEASE_MS,
                                  .queues = &share,
                                  .queue_count = 1};
    struct qn_exchange_reply reply = {.applied = applied};
    return qn_broker_exchange(c->broker, &request, &reply, NULL);
}

/* Returns what it answers. A crash is the third one, so that it archives. */
static quern_status do_deed(struct contract *c, int deed, const struct qn_leased *run)
{
    const char *queue = "default";
    size_t count = 0;
    enum qn_applied applied = QN_STALE;
    struct qn_extension extension = {.run = run};
    bool is_done = deed == DEED_DONE_KEPT || deed == DEED_DONE_PLAIN;
    struct qn_outcome outcome = {.run = run,
                                 .kind = is_done ? QN_DONE : (enum qn_outcome_kind)deed,
                                 .started = true,
                                 .cause = QUERN_CAUSE_CHILD_DIED,
                                 .delay_ms = 1500,
                                 .error = "broken",
                                 .result = "42",
                                 .result_size = 2,
                                 .has_result = true};
    switch (deed) {
    case DEED_EXTEND:
        return qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, NULL);
    case DEED_RESULT:
        return qn_broker_write_result(c->broker, run, (struct qn_bytes){"42", 2}, NULL);
    case DEED_RECOVER:
        contract_advance(c, 3 * CONTRACT_LEASE_MS);
        return qn_broker_recover(c->broker, (struct qn_upkeep){{&queue, 1}, 10}, NULL, &count,
                                 NULL);
    case DEED_START:
        return exchange(c, NULL, run, NULL);
    default:
        return exchange(c, &outcome, NULL, &applied);
    }
}

static void assert_nothing_half_done(struct contract *c, const char *commands, int deed)
{
    char before[41];
    char after[41];
    char lock[300];
    char found[300];
    const quern_task task = {.type = "t",
                             .id = "a",
                             .unique_ms = deed == DEED_DONE_PLAIN ? 0 : 3600000,
                             .retention_ms = deed == DEED_DONE_KEPT ? 60000 : 0};
    (void)test_redis_do(server(), "FLUSHDB");
    contract_heartbeat(c->broker, CONTRACT_WORKER);
    contract_enqueue(c, &task);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    (void)snprintf(lock, sizeof lock, "%s", test_redis_do(server(), "HGET " Q "t:a unique_key"));
    if (deed == QN_CRASH) {
        (void)test_redis_do(server(), "HSET " Q "t:a quern_past %s", "2 1800000000000 0 0 4 0");
    }
    damage(commands, lock);
    digest(before);
    (void)snprintf(found, sizeof found, "%s", not_whole("a"));
    (void)do_deed(c, deed, run);
    digest(after);
    qn_leased_free(run);
    const char *finds = not_whole("a");
    if (strcmp(before, after) != 0 && finds[0] != '\0' && strcmp(finds, found) != 0) {
        fail_msg("deed %d after \"%s\": %s", deed, commands, finds);
    }
}

static void whatever_is_damaged_nothing_is_half_done(struct contract *c)
{
    for (size_t i = 0; i < TEST_COUNT(damages); i++) {
        for (int deed = 0; deed < DEEDS; deed++) {
            assert_nothing_half_done(c, damages[i], deed);
        }
    }
}

static void damaged_queue_does_not_keep_the_others_waiting(struct contract *c)
{
    contract_put(c, "other", "b");
    struct qn_leased *damaged = contract_start(c, "a");
    struct qn_leased *sound = contract_take_id(c, "other", "b");
    (void)test_redis_do(server(), "SET " Q "retry x");
    const struct qn_outcome outcomes[] = {
        {.run = damaged, .kind = QN_RETRY, .delay_ms = 1000, .error = "broken"},
        {.run = sound, .kind = QN_RETRY, .delay_ms = 1000, .error = "broken"}};
    struct qn_exchange exchange = {.outcomes = outcomes, .outcome_count = 2};
    enum qn_applied applied[2];
    contract_exchange(c, &exchange, applied, NULL);
    assert_int_equal(applied[0], QN_STALE);
    assert_int_equal(applied[1], QN_APPLIED);
    assert_int_equal(contract_state(c, "other", "b"), QUERN_TASK_RETRY);
    qn_leased_free(damaged);
    qn_leased_free(sound);
}

static void damaged_counter_keeps_no_run_from_ending(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    (void)test_redis_do(server(), "SET " Q "processed nonsense");
    (void)test_redis_do(server(), "LPUSH " Q "failed x");
    assert_int_equal(contract_finish(c, run, QN_ARCHIVE), QN_APPLIED);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_ARCHIVED);
    assert_string_equal(test_redis_do(server(), "GET " Q "processed"), "nonsense");
}

static void totals_begin_anew_together_at_the_end_of_64_bits(struct contract *c)
{
    (void)test_redis_do(server(), "SET " Q "processed 9223372036854775807");
    (void)test_redis_do(server(), "SET " Q "failed 5");
    assert_int_equal(contract_finish(c, contract_start(c, "a"), QN_ARCHIVE), QN_APPLIED);
    assert_int_equal(test_redis_count(server(), "GET " Q "processed"), 1);
    assert_int_equal(test_redis_count(server(), "GET " Q "failed"), 1);
    assert_int_equal(contract_finish(c, contract_start(c, "b"), QN_DONE), QN_APPLIED);
    assert_int_equal(test_redis_count(server(), "GET " Q "processed"), 2);
}

/* The key is deleted by hand: of the runs in it one is applied. */
static void deleted_lease_lets_one_run_end(struct contract *c)
{
    struct qn_leased *first = contract_start(c, "a");
    (void)test_redis_do(server(), "ZREM " Q "lease a");
    assert_int_equal(contract_report(c, first, QN_DONE), QN_APPLIED);
    assert_int_equal(contract_report(c, first, QN_DONE), QN_STALE);
    qn_leased_free(first);

    first = contract_start(c, "b");
    (void)test_redis_do(server(), "ZREM " Q "lease b");
    assert_int_equal(contract_recover(c, "default"), 0);
    contract_advance(c, 3 * CONTRACT_LEASE_MS);
    assert_int_equal(contract_recover(c, "default"), 1);
    struct qn_leased *second = contract_take_id(c, "default", "b");
    (void)test_redis_do(server(), "ZREM " Q "lease b");
    assert_int_equal(contract_finish(c, first, QN_DONE), QN_STALE);
    assert_int_equal(contract_finish(c, second, QN_DONE), QN_APPLIED);
    contract_assert_counted(c, "default", 2, 0);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_ACTIVE), 0);
}

static void starts_alone_keep_no_answer(struct contract *c)
{
    contract_put(c, "default", "a");
    struct qn_leased *run = contract_fetch(c, "default");
    assert_int_equal(exchange(c, NULL, run, NULL), QUERN_OK);
    assert_int_equal(test_redis_do(server(), "HGET " Q "t:a quern_run")[0], '1');
    assert_int_equal(test_redis_count(server(), "EXISTS " Q "quern:s:0000000000000007:o"), 0);
    contract_finish(c, run, QN_DONE);
}

/* Go workers do not read the mark: the run may continue, or end for another reason. */
static void cancellation_of_a_go_workers_run_is_not_for_the_next_one(struct contract *c)
{
    quern_inspector *inspector = NULL;
    quern_error err = {0};
    contract_put(c, "default", "a");
    (void)test_redis_do(server(), "RPOPLPUSH " Q "pending " Q "active");
    (void)test_redis_do(server(), "HSET " Q "t:a state active");
    (void)test_redis_do(server(), "HDEL " Q "t:a pending_since");
    (void)test_redis_do(server(), "ZADD " Q "lease 1800000030 a");
    assert_ok(quern_inspector_open(c->url, NULL, &inspector, &err), err);
    assert_ok(quern_inspector_act(inspector, QUERN_ACTION_CANCEL_ARCHIVE, "default", "a", &err),
              err);
    quern_inspector_free(inspector);
    (void)test_redis_do(server(), "LREM " Q "active 1 a"); /* its retry, and its forward */
    (void)test_redis_do(server(), "ZREM " Q "lease a");
    (void)test_redis_do(server(), "HSET " Q "t:a state pending pending_since 1800000001000000000");
    (void)test_redis_do(server(), "LPUSH " Q "pending a");
    struct qn_leased *run = contract_take_id(c, "default", "a");
    struct qn_extension extension = {.run = run};
    assert_ok(qn_broker_extend(c->broker, &extension, 1, CONTRACT_LEASE_MS, &err), err);
    assert_true(extension.held);
    assert_int_equal(extension.cancel, QN_CANCEL_NONE);
    contract_finish(c, run, QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", whatever_is_damaged_nothing_is_half_done),
    CONTRACT_TEST_ONLY("redis", damaged_queue_does_not_keep_the_others_waiting),
    CONTRACT_TEST_ONLY("redis", damaged_counter_keeps_no_run_from_ending),
    CONTRACT_TEST_ONLY("redis", totals_begin_anew_together_at_the_end_of_64_bits),
    CONTRACT_TEST_ONLY("redis", deleted_lease_lets_one_run_end),
    CONTRACT_TEST_ONLY("redis", starts_alone_keep_no_answer),
    CONTRACT_TEST_ONLY("redis", cancellation_of_a_go_workers_run_is_not_for_the_next_one),
};
CONTRACT_MAIN(tests)
