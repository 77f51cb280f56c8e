/* SPDX-License-Identifier: MIT */
/* test_limit_damage.c - garbage of the right type in the keys of limits and lanes: it costs its own
 * limit, or one task its turn, but never the lease of its queue or of another one. */
#include "lib_contract.h"

#include <string.h>

#include "broker/limit/limit.h"
#include "lib_store.h"
#include "task/limit.h"

#define Q "asynq:{default}:"

static struct test_redis *server(void)
{
    return test_store_server();
}

/* '#' stands for a number of 400 digits, and '@' for the byte 31. */
static const char *const commands[] = {
    "ZADD " Q "quern:limit:runs -5 \1",
    "ZADD " Q "quern:limit:runs inf \1",
    "ZADD " Q "quern:limit:runs -inf \1",
    "ZADD " Q "quern:limit:runs 1e300 \1",
    "ZADD " Q "quern:limit:runs 0.5 \1",
    "ZADD " Q "quern:limit:runs 0 3k@ 0 3k 0 2t@@@ 0 ia 0 ia@@@@ 0 @",
    "ZADD " Q "quern:lanes 0 @ 0 @@ 0 k 0 k@ 0 k@@t 5 a@t",
    "ZADD " Q "quern:lane:k@t inf b",
    "ZADD " Q "quern:lane:k@t -inf d",
    "ZADD " Q "quern:lane:k@t -1e300 x",
    "SET " Q "quern:lanes:idle x",
    "HSET " Q "quern:meta limits #",
    "HSET " Q "quern:meta limits x",
    "HSET " Q "quern:meta lane_place #",
    "HSET " Q "quern:meta lane_place 8999999999999999",
    "HSET " Q "quern:meta turn #",
    "HSET " Q "quern:meta turn @",
    "HSET " Q "quern:meta sema #",
    "HSET " Q "t:b quern_aside #",
    "HSET " Q "t:b quern_aside x",
    "HSET " Q "quern:limit:set 3r:k x",
    "HSET " Q "quern:limit:set 3r:k #",
    "HSET " Q "quern:limit:set 3r:k -1",
    "HSET " Q "quern:limit:set 3s:k x",
    "HSET " Q "quern:limit:set 2s:t #",
    "HSET " Q "quern:limit:set 2s:* x",
    "HSET " Q "quern:limit:set 3r: 0 2r: 0 2r 0 5r:x 0 @ @",
    "HSET " Q "quern:limit:set 4 #",
    "SET " Q "quern:limit:use:3:k #",
    "SET " Q "quern:limit:use:3:k 60000-0-#",
    "SET " Q "quern:limit:use:3:k 60000-0-9000000000000000-#-#-#",
    "LPUSH " Q "quern:limit:use:3:k x",
    "SET " Q "quern:max_pending #",
    "SET " Q "quern:max_pending -1",
    "LPUSH " Q "quern:max_pending x",
};

static void plant(const char *command)
{
    char text[1024];
    char digits[401];
    size_t size = 0;
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    for (const char *at = command; *at != '\0'; at++) {
        const char one[] = {*at == '@' ? '\x1f' : *at, '\0'};
        int written = snprintf(text + size, sizeof text - size, "%s", *at == '#' ? digits : one);
        size += (size_t)written;
    }
    (void)test_redis_do(server(), "EVAL %s 0 %s",
                        "local words = {} "
                        "for word in string.gmatch(ARGV[1], '[^ ]+') do "
                        "words[#words + 1] = word == '\\1' and '\\0' or word end "
                        "return redis.call(unpack(words))",
                        text);
}

static void put(struct contract *c, const char *queue, const char *id, const char *key)
{
    contract_enqueue(c, &(quern_task){.type = "t", .queue = queue, .id = id, .limit_key = key});
}

/* One lease of both queues; what it gives is done. Returns whether it had anything of each. */
static size_t run_both(struct contract *c, bool *ret_default, bool *ret_other)
{
    struct qn_leased *runs[8];
    struct qn_queue_share shares[] = {{.name = "default", .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = 2, .room = 8, .start_count_now = 8};
    size_t count = contract_exchange(c, &exchange, NULL, runs);
    for (size_t i = 0; i < count; i++) {
        bool *seen = strcmp(runs[i]->task.queue, "other") == 0 ? ret_other : ret_default;
        *seen = true;
        (void)contract_finish(c, runs[i], QN_DONE);
    }
    return count;
}

static void garbage_costs_its_limit_or_one_turn(struct contract *c)
{
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        bool of_default = false;
        bool of_other = false;
        size_t sum = 0;
        test_redis_empty(server());
        contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1");
        contract_limit(c, "default", QUERN_LIMIT_KEY, "k", "1000/1m");
        contract_limit(c, "default", QUERN_LIMIT_TYPE, "t", "1000/1m burst 5");
        put(c, "default", "a", "k");
        put(c, "default", "b", "k");
        put(c, "default", "c", "k");
        struct qn_leased *run = contract_take_id(c, "default", "a");
        assert_null(contract_take(c, "default"));
        put(c, "default", "d", "other");
        put(c, "default", "e", NULL);
        put(c, "other", "f", NULL);
        plant(commands[i]);
        put(c, "default", "g", "k"); /* nor does it keep a task from being stored */
        sum += run_both(c, &of_default, &of_other);
        if (!of_other) {
            fail_msg("the other queue stands still: %s", commands[i]);
        }
        (void)contract_finish(c, run, QN_DONE);
        for (int n = 0; n < 8; n++) {
            sum += run_both(c, &of_default, &of_other);
        }
        int64_t next_due_at_ms = 0;
        contract_advance(c, (QN_LIMIT_ASIDE_S + 1) * INT64_C(1000));
        while (contract_forward(c, "default", &next_due_at_ms) > 0) {
        }
        for (int n = 0; n < 8; n++) {
            sum += run_both(c, &of_default, &of_other);
        }
        if (sum != 6) {
            fail_msg("%zu of 6 ran: %s", sum, commands[i]);
        }
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("redis", garbage_costs_its_limit_or_one_turn),
};

CONTRACT_MAIN(tests)
