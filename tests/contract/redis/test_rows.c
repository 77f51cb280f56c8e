/* SPDX-License-Identifier: MIT */
/* test_rows.c - on a cluster, a worker that draws its slots in rows asks only the queues that have
 * some: what the others give in a later round, or keep for charged tasks, is not lost. */
#include "lib_isolation.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { WELL = 0, SICK = 1, ROOM = 4 }; /* queues, of which the second is on a node of its own */

struct scene {
    struct qn_queue_share shares[2];
    struct qn_leased *runs[ROOM];
    bool unanswered[2];
    struct qn_exchange exchange;
    struct qn_exchange_reply reply;
    struct qn_broker *broker;
    int sick;        /* node */
    long long calls; /* of scripts there, before it was silent */
};

static void set_scene(struct contract *c, struct scene *scene, uint64_t session)
{
    static char name[16];
    *scene = (struct scene){.broker = c->broker, .sick = test_store_owner("other")};
    for (int i = 0; name[0] == '\0' || test_store_owner(name) == scene->sick; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
    }
    scene->shares[WELL] = (struct qn_queue_share){.name = name, .weight = 1};
    scene->shares[SICK] = (struct qn_queue_share){.name = "other", .weight = 1};
    scene->exchange = (struct qn_exchange){.stamp = {.session = session, .sequence = 1},
                                           .worker_id = CONTRACT_WORKER,
                                           .host = CONTRACT_HOST,
                                           .lease_ms = CONTRACT_LEASE_MS,
                                           .queues = scene->shares,
                                           .queue_count = 2,
                                           .in_rows = true,
                                           .room = ROOM,
                                           .start_count_now = ROOM};
}

static quern_status exchange(struct scene *scene, quern_error *err)
{
    scene->reply = (struct qn_exchange_reply){.runs = scene->runs, .unanswered = scene->unanswered};
    return qn_broker_exchange(scene->broker, &scene->exchange, &scene->reply, err);
}

static long long script_calls(int node)
{
    const char *found =
        strstr(test_redis_do(test_store_node(node), "INFO commandstats"), "cmdstat_evalsha:");
    return found == NULL ? 0 : strtoll(strchr(found, '=') + 1, NULL, 10);
}

static void put_well(struct contract *c, const struct scene *scene, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        contract_put(c, scene->shares[WELL].name, (char[]){(char)('0' + i), '\0'});
    }
}

static void free_runs(struct scene *scene)
{
    for (size_t i = 0; i < scene->reply.run_count; i++) {
        qn_leased_free(scene->runs[i]);
    }
}

/* What was sent to the node while it was silent, and since then. */
static void await_calls(const struct scene *scene, long long count)
{
    while (script_calls(scene->sick) < scene->calls + count) {
        (void)poll(NULL, 0, 10);
    }
}

/* The queue without a slot is asked in the second round. The answer is lost. */
static void lose_the_second_round(struct contract *c, struct scene *scene, uint32_t first_count)
{
    quern_error err = {0};
    assert_ok(exchange(scene, &err), err); /* opens the connections */
    scene->exchange.stamp.sequence++;
    contract_put(c, "other", "a");
    contract_put(c, "other", "b");
    put_well(c, scene, first_count);
    scene->shares[WELL].quota = ROOM;
    scene->calls = script_calls(scene->sick);
    test_store_silence(scene->sick);
    assert_ok(exchange(scene, &err), err);
    assert_true(scene->reply.is_partial && scene->shares[SICK].unanswered);
    assert_int_equal(scene->reply.run_count, first_count);
    free_runs(scene);
    test_store_speak(scene->sick);
}

/* Until the node is known to answer. */
static void repeat(struct scene *scene)
{
    quern_error err = {0};
    bool is_done = false;
    while (!is_done) {
        scene->exchange.again = true;
        scene->shares[SICK].unanswered = false;
        quern_status status = exchange(scene, &err);
        assert_true(status == QUERN_OK || status == QUERN_E_UNKNOWN || status == QUERN_E_BUSY);
        is_done = status == QUERN_OK && !scene->reply.is_partial;
        if (!is_done) {
            free_runs(scene);
            (void)poll(NULL, 0, 10);
        }
    }
}

/* As the worker asks for what was not answered: with the slots that were drawn, which are none. */
static void runs_of_a_lost_second_round_are_given_back(struct contract *c)
{
    struct scene scene;
    set_scene(c, &scene, 4715);
    lose_the_second_round(c, &scene, 1);
    scene.shares[WELL].skip = true;
    scene.exchange.room = 0;
    scene.exchange.start_count_now = 0;
    repeat(&scene);
    assert_int_equal(scene.reply.run_count, 0);
    await_calls(&scene, 2); /* the one that was late, too */
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_PENDING);
    assert_int_equal(contract_state(c, "other", "b"), QUERN_TASK_PENDING);
}

/* The same request as a whole, while the queue with slots gives all: none is left in doubt. */
static void lost_second_round_is_answered_when_it_is_repeated(struct contract *c)
{
    struct scene scene;
    set_scene(c, &scene, 4716);
    lose_the_second_round(c, &scene, 0);
    await_calls(&scene, 1);
    put_well(c, &scene, ROOM);
    repeat(&scene);
    assert_int_equal(scene.reply.run_count, ROOM);
    free_runs(&scene);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_PENDING);
    assert_int_equal(contract_state(c, "other", "b"), QUERN_TASK_PENDING);
}

/* Where its row is drawn in each second exchange only, it is not always the other's turn. */
static void queue_with_slots_has_its_turn_at_the_solo_lock(struct contract *c)
{
    struct scene scene;
    quern_error err = {0};
    set_scene(c, &scene, 4717);
    isolation_charge(c, "other", "alone", 1, SOLO);
    scene.exchange.stamp.sequence = 2; /* of both queues it would be the first's turn */
    scene.exchange.isolation.slots = SLOTS;
    scene.exchange.solo = QN_SOLO_ASK;
    scene.shares[SICK].quota = ROOM;
    assert_ok(exchange(&scene, &err), err);
    assert_int_equal(scene.reply.run_count, 0);
    assert_int_equal(scene.exchange.solo_queue, SICK);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("cluster", runs_of_a_lost_second_round_are_given_back),
    CONTRACT_TEST_ONLY("cluster", lost_second_round_is_answered_when_it_is_repeated),
    CONTRACT_TEST_ONLY("cluster", queue_with_slots_has_its_turn_at_the_solo_lock),
};
CONTRACT_MAIN(tests)
