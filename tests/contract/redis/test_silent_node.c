/* SPDX-License-Identifier: MIT */
/* test_silent_node.c - a node of a cluster does not answer: what lies on the others goes on, and
 * of each task it is known whether it is stored, or that it is unknown. */
#include "lib_isolation.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "broker/group.h"
#include "quern/client.h"

#define DEADLINE_MS 2500                /* of an enqueue */
enum { SEED = 0, OTHER = 1, SICK = 2 }; /* nodes; the URL names the first */

/* The number-th queue of a node. Threads may ask for one that is known. */
static const char *queue_of(int node, unsigned number)
{
    static char names[TEST_CLUSTER_SIZE][4][16];
    char *name = names[node][number];
    if (name[0] != '\0') {
        return name;
    }
    for (unsigned i = 0, found = 0; found <= number; i++) {
        (void)snprintf(name, sizeof names[0][0], "q%u", i);
        found += test_store_owner(name) == node ? 1 : 0;
    }
    return name;
}

static quern_client *open_client(struct contract *c)
{
    quern_client *client = NULL;
    quern_error err = {0};
    const quern_client_options options = {.command_timeout_ms = DEADLINE_MS};
    assert_ok(quern_client_open(c->url, &options, &client, &err), err);
    return client;
}

static quern_task task_for(int node, const char *id)
{
    return (quern_task){.type = "t", .queue = queue_of(node, 0), .id = id};
}

/* Nodes are known, and connections open, as in a program that has run for a while. */
static void store_one_on_each(quern_client *client)
{
    quern_error err = {0};
    const quern_task tasks[] = {task_for(SEED, "first-0"), task_for(OTHER, "first-1"),
                                task_for(SICK, "first-2")};
    assert_ok(quern_client_enqueue_batch(client, tasks, TEST_COUNT(tasks), NULL, &err), err);
}

static bool exists(struct contract *c, int node, const char *id)
{
    return contract_state(c, queue_of(node, 0), id) == (int)QUERN_TASK_PENDING;
}

/* --- Clients ---------------------------------------------------------------------------- */

static void each_task_of_a_batch_has_its_own_result(struct contract *c)
{
    quern_client *client = open_client(c);
    quern_error err = {0};
    quern_enqueue_result results[4];
    store_one_on_each(client);
    const quern_task tasks[] = {task_for(SICK, "a"), task_for(SEED, "b"), task_for(OTHER, "c"),
                                task_for(OTHER, "first-1")};
    test_store_silence(SICK);
    quern_status status =
        quern_client_enqueue_batch(client, tasks, TEST_COUNT(tasks), results, &err);
    assert_int_equal(status, QUERN_E_UNKNOWN);
    assert_non_null(strstr(err.text, "task 0: task a in queue"));
    assert_non_null(strstr(err.text, "does not answer"));
    assert_int_equal(results[0].status, QUERN_E_UNKNOWN);
    assert_int_equal(results[1].status, QUERN_OK);
    assert_int_equal(results[2].status, QUERN_OK);
    assert_int_equal(results[3].status, QUERN_E_CONFLICT);
    assert_true(exists(c, SEED, "b"));
    assert_true(exists(c, OTHER, "c"));
    /* From now on nothing is sent there, so this is not in doubt. */
    const quern_task more[] = {task_for(OTHER, "d"), task_for(SICK, "e")};
    status = quern_client_enqueue_batch(client, more, TEST_COUNT(more), results, &err);
    assert_int_equal(status, QUERN_E_BUSY);
    assert_int_equal(results[0].status, QUERN_OK);
    assert_int_equal(results[1].status, QUERN_E_BUSY);
    test_store_speak(SICK);
    const quern_task again[] = {task_for(SICK, "e"), task_for(SEED, "f")};
    assert_ok(quern_client_enqueue_batch(client, again, TEST_COUNT(again), NULL, &err), err);
    quern_client_free(client);
}

static long long script_calls(int node)
{
    const char *found =
        strstr(test_redis_do(test_store_node(node), "INFO commandstats"), "cmdstat_evalsha:");
    return found == NULL ? 0 : strtoll(strchr(found, '=') + 1, NULL, 10);
}

/* Lets the silent node go on when the client has asked the others again. */
static void *speak_later(void *user)
{
    const long long *asked = user;
    while (script_calls(SEED) < *asked + 2) {
        (void)poll(NULL, 0, 10);
    }
    test_store_speak(SICK);
    return NULL;
}

static void what_is_unknown_is_stored_once_when_the_node_answers_in_time(struct contract *c)
{
    quern_client *client = open_client(c);
    pthread_t speaker;
    store_one_on_each(client);
    struct test_redis *sick = test_store_node(SICK);
    long long before = test_redis_count(sick, "LLEN asynq:{%s}:pending", queue_of(SICK, 0));
    long long asked = script_calls(SEED);
    test_store_silence(SICK);
    assert_int_equal(pthread_create(&speaker, NULL, speak_later, &asked), 0);
    quern_error err = {0};
    const quern_task tasks[] = {task_for(SICK, "a"), task_for(SEED, "b"), task_for(SICK, "c")};
    quern_status status = quern_client_enqueue_batch(client, tasks, TEST_COUNT(tasks), NULL, &err);
    assert_int_equal(pthread_join(speaker, NULL), 0);
    assert_ok(status, err);
    assert_int_equal(test_redis_count(sick, "LLEN asynq:{%s}:pending", queue_of(SICK, 0)),
                     before + 2);
    quern_client_free(client);
}

struct caller {
    quern_client *client;
    int node;
    const char *id;
    quern_status status;
    _Atomic bool is_done;
};

static void *call(void *user)
{
    enum { PAYLOAD_SIZE = 4000 };
    struct caller *caller = user;
    quern_task task = task_for(caller->node, caller->id);
    char *payload = malloc(PAYLOAD_SIZE);
    assert_non_null(payload);
    memset(payload, 'p', PAYLOAD_SIZE);
    task.payload = payload;
    task.payload_size = PAYLOAD_SIZE;
    caller->status = quern_client_enqueue(caller->client, &task, NULL, NULL);
    free(payload); /* the tasks of others may be tried again after that */
    atomic_store(&caller->is_done, true);
    return NULL;
}

/* However the callers meet in one batch, and whichever thread leads it. */
static void callers_of_one_client_do_not_wait_for_the_node_of_another(struct contract *c)
{
    quern_client *client = open_client(c);
    enum { CALLERS = 6 };
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f"};
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    store_one_on_each(client);
    test_store_silence(SICK);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] =
            (struct caller){.client = client, .node = i % 3 == 0 ? SICK : OTHER, .id = ids[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        if (callers[i].node != SICK) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(callers[i].status, QUERN_OK);
        }
    }
    assert_false(atomic_load(&callers[0].is_done) && atomic_load(&callers[3].is_done));
    quern_error err = {0};
    const quern_task task = task_for(SEED, "later");
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[3], NULL), 0);
    assert_true(callers[0].status == QUERN_E_UNKNOWN || callers[0].status == QUERN_E_BUSY);
    assert_true(callers[3].status == QUERN_E_UNKNOWN || callers[3].status == QUERN_E_BUSY);
    test_store_speak(SICK);
    quern_client_free(client);
}

static void a_silent_node_with_the_list_of_queues_holds_up_no_other_queue(struct contract *c)
{
    int listing = test_store_owner("asynq:queues");
    int other = listing == OTHER ? SICK : OTHER;
    quern_client *client = open_client(c);
    quern_error err = {0};
    store_one_on_each(client);
    test_store_silence(listing);
    const quern_task task = task_for(other, "a");
    assert_ok(quern_client_enqueue(client, &task, NULL, &err), err);
    test_store_speak(listing);
    quern_client_free(client);
}

/* --- Wake-up ---------------------------------------------------------------------------- */

static const char *const *queues_of_two(void)
{
    static const char *names[2];
    names[0] = queue_of(OTHER, 0);
    names[1] = queue_of(SICK, 0);
    return names;
}

/* Nothing that is stored there wakes a worker, which must not sleep until something does. */
static void node_that_refuses_a_listener_is_looked_at_each_second(struct contract *c)
{
    const struct qn_names names = {queues_of_two(), 2};
    struct test_redis *full = test_store_node(SICK);
    bool work = false;
    int64_t due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_arm(c->broker, names, &work, &due_at_ms, &err), err);
    assert_int_equal(due_at_ms, INT64_MAX);
    (void)test_redis_do(full, "CONFIG SET maxclients 1"); /* those that are there may stay */
    (void)test_redis_do(full, "CLIENT KILL TYPE pubsub");
    for (int i = 0; due_at_ms == INT64_MAX && i < 100; i++) {
        struct qn_wakeup wakeup;
        quern_status status = qn_broker_wait(c->broker, 20, &wakeup, &err); /* finds its end */
        assert_true(status == QUERN_OK || status == QUERN_E_CONNECT);
        assert_ok(qn_broker_arm(c->broker, names, &work, &due_at_ms, &err), err);
    }
    (void)test_redis_do(full, "CONFIG SET maxclients 1000");
    assert_false(work);
    assert_true(due_at_ms <= CONTRACT_NOW_MS + 1000);
    while (due_at_ms != INT64_MAX) { /* until its node is known to answer */
        (void)poll(NULL, 0, 10);
        assert_ok(qn_broker_arm(c->broker, names, &work, &due_at_ms, &err), err);
    }
}

/* --- Workers ---------------------------------------------------------------------------- */

static bool holds(int node, const char *queue, const char *worker)
{
    return test_redis_count(test_store_node(node), "HEXISTS asynq:{%s}:quern:workers %s", queue,
                            worker) == 1;
}

static void heartbeat(struct contract *c)
{
    const struct qn_queue_share shares[] = {{.name = queue_of(OTHER, 0), .weight = 1},
                                            {.name = queue_of(SICK, 0), .weight = 1}};
    quern_error err = {0};
    const struct qn_heartbeat beat = {.worker_id = "leaver",
                                      .host = CONTRACT_HOST,
                                      .pid = 1,
                                      .status = "active",
                                      .queue_shares = shares,
                                      .queue_count = TEST_COUNT(shares)};
    while (qn_broker_heartbeat(c->broker, &beat, &err) == QUERN_E_BUSY) {
        (void)poll(NULL, 0, 10); /* until the node that was silent is known to answer */
    }
    assert_true(holds(OTHER, shares[0].name, "leaver"));
}

static void worker_leaves_the_queues_of_the_other_nodes(struct contract *c)
{
    for (int silent = OTHER; silent <= SICK; silent++) {
        quern_error err = {0};
        int answers = silent == SICK ? OTHER : SICK;
        heartbeat(c);
        test_store_silence(silent);
        assert_int_equal(qn_broker_deregister(c->broker, "leaver", &err), QUERN_E_BUSY);
        assert_non_null(strstr(err.text, "does not answer"));
        assert_false(holds(answers, queue_of(answers, 0), "leaver"));
        test_store_speak(silent);
    }
}

static bool all_at_once(const char *queue, const char *group,
                        struct qn_group_settings *ret_settings, void *user)
{
    (void)queue;
    (void)group;
    (void)user;
    *ret_settings = (struct qn_group_settings){0};
    return true;
}

static struct qn_group_set *take_set(struct contract *c, const char *queue)
{
    struct qn_group_cursor cursor = {0};
    struct qn_aggregate_reply reply = {0};
    quern_error err = {0};
    const struct qn_aggregate aggregate = {.queue = queue,
                                           .worker_id = CONTRACT_WORKER,
                                           .lease_ms = CONTRACT_LEASE_MS,
                                           .cursor = &cursor,
                                           .settings = all_at_once};
    contract_enqueue(c, &(quern_task){.type = "t", .id = "member", .queue = queue, .group = "g"});
    assert_ok(qn_broker_aggregate(c->broker, &aggregate, &reply, &err), err);
    assert_non_null(reply.set);
    return reply.set;
}

/* All slots are for a queue of one node, as where they are drawn in rows. The other queue is asked
 * if that one gives too little: because it has no more, or its node is silent. */
static void slots_of_a_queue_that_gives_too_little_are_filled_by_the_others(struct contract *c)
{
    enum { ROOM = 4 };
    for (int silent = 0; silent <= 1; silent++) {
        struct qn_queue_share shares[] = {{.name = queue_of(OTHER, 0), .weight = 1},
                                          {.name = queue_of(SICK, 0), .weight = 1, .quota = ROOM}};
        struct qn_leased *runs[ROOM];
        bool unanswered[1] = {false};
        quern_error err = {0};
        struct qn_exchange exchange = {.stamp = {.session = 4712, .sequence = 1 + (uint64_t)silent},
                                       .worker_id = CONTRACT_WORKER,
                                       .host = CONTRACT_HOST,
                                       .lease_ms = CONTRACT_LEASE_MS,
                                       .queues = shares,
                                       .queue_count = TEST_COUNT(shares),
                                       .in_rows = true,
                                       .room = ROOM,
                                       .start_count_now = ROOM};
        struct qn_exchange_reply reply = {.runs = runs, .unanswered = unanswered};
        contract_put(c, shares[0].name, silent == 0 ? "a" : "b");
        if (silent == 1) {
            test_store_silence(SICK);
        }
        assert_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), err);
        assert_int_equal(reply.run_count, 1);
        assert_int_equal(shares[0].leased, 1);
        assert_int_equal(reply.is_partial, silent == 1);
        assert_int_equal(shares[1].unanswered, silent == 1);
        assert_false(shares[0].unasked);
        qn_leased_free(runs[0]);
    }
    test_store_speak(SICK);
}

/* While that queue gives enough nothing is asked of the other node, but when it is sent again. */
static void queue_without_slots_is_not_asked_unless_a_request_is_repeated(struct contract *c)
{
    struct qn_queue_share shares[] = {{.name = queue_of(OTHER, 0), .weight = 1},
                                      {.name = queue_of(SICK, 0), .weight = 1, .quota = 1}};
    struct qn_leased *runs[1];
    bool unanswered[1] = {false};
    quern_error err = {0};
    struct qn_exchange exchange = {.stamp = {.session = 4713, .sequence = 1},
                                   .worker_id = CONTRACT_WORKER,
                                   .host = CONTRACT_HOST,
                                   .lease_ms = CONTRACT_LEASE_MS,
                                   .queues = shares,
                                   .queue_count = TEST_COUNT(shares),
                                   .in_rows = true,
                                   .room = 1,
                                   .start_count_now = 1};
    struct qn_exchange_reply reply = {.runs = runs, .unanswered = unanswered};
    contract_put(c, shares[1].name, "a");
    for (int again = 0; again <= 1; again++) {
        long long before = script_calls(OTHER);
        exchange.again = again == 1;
        assert_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), err);
        assert_int_equal(reply.run_count, 1);
        assert_string_equal(runs[0]->task.id, "a");
        assert_int_equal(shares[0].unasked, again == 0);
        assert_int_equal(script_calls(OTHER) - before, again);
        qn_leased_free(runs[0]);
    }
}

static void outcome_at_a_silent_node_is_sent_again_and_counts_once(struct contract *c)
{
    contract_put(c, queue_of(SICK, 0), "a");
    contract_put(c, queue_of(OTHER, 0), "b");
    struct qn_leased *runs[] = {contract_take_id(c, queue_of(SICK, 0), "a"),
                                contract_take_id(c, queue_of(OTHER, 0), "b")};
    const struct qn_outcome outcomes[] = {{.run = runs[0], .kind = QN_DONE, .started = true},
                                          {.run = runs[1], .kind = QN_DONE, .started = true}};
    enum qn_applied applied[2] = {QN_STALE, QN_STALE};
    bool unanswered[2] = {false};
    quern_error err = {0};
    struct qn_exchange exchange = {.stamp = {.session = 4711, .sequence = 1},
                                   .outcomes = outcomes,
                                   .outcome_count = 2,
                                   .worker_id = CONTRACT_WORKER,
                                   .host = CONTRACT_HOST,
                                   .lease_ms = CONTRACT_LEASE_MS};
    struct qn_exchange_reply reply = {.applied = applied, .unanswered = unanswered};
    test_store_silence(SICK);
    assert_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), err);
    assert_true(reply.is_partial && unanswered[0] && !unanswered[1]);
    assert_int_equal(applied[1], QN_APPLIED);
    test_store_speak(SICK);
    exchange.outcome_count = 1;
    exchange.again = true;
    quern_status status = QUERN_E_UNKNOWN;
    while (status != QUERN_OK) {
        reply = (struct qn_exchange_reply){.applied = applied, .unanswered = unanswered};
        unanswered[0] = false;
        status = qn_broker_exchange(c->broker, &exchange, &reply, &err);
        assert_true(status == QUERN_OK || status == QUERN_E_UNKNOWN || status == QUERN_E_BUSY);
        (void)poll(NULL, 0, 10); /* until the node is known to answer */
    }
    assert_int_equal(applied[0], QN_APPLIED);
    contract_assert_counted(c, queue_of(SICK, 0), 1, 0);
    qn_leased_free(runs[0]);
    qn_leased_free(runs[1]);
}

/* The queue whose turn it is to give the lock is at the silent node. */
static void busy_node_gives_no_solo_lock_and_holds_up_no_other(struct contract *c)
{
    struct qn_leased *runs[8];
    bool unanswered[8] = {false};
    quern_error err = {0};
    int sick = test_store_owner("other"); /* the workers of the tests serve it */
    int healthy = (sick + 1) % TEST_CLUSTER_SIZE;
    isolation_charge(c, "other", "alone", 1, SOLO);
    contract_put(c, queue_of(healthy, 0), "a");
    struct qn_queue_share shares[] = {{.name = queue_of(healthy, 0), .weight = 1, .quota = 4},
                                      {.name = "other", .weight = 1, .quota = 4}};
    struct qn_exchange exchange = {
        .stamp = {.session = 4711, .sequence = 1}, /* the second's turn */
        .worker_id = CONTRACT_WORKER,
        .host = CONTRACT_HOST,
        .lease_ms = CONTRACT_LEASE_MS,
        .queues = shares,
        .queue_count = 2,
        .room = 8,
        .start_count_now = 8,
        .isolation.slots = SLOTS,
        .solo = QN_SOLO_ASK};
    struct qn_exchange_reply reply = {.runs = runs, .unanswered = unanswered};
    test_store_silence(sick);
    assert_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), err);
    assert_true(reply.is_partial);
    assert_true(shares[1].unanswered);
    assert_int_equal(exchange.solo_queue, 2); /* none */
    assert_int_equal(reply.run_count, 1);
    assert_string_equal(runs[0]->task.id, "a");
    contract_finish(c, runs[0], QN_DONE);
    test_store_speak(sick);
    /* The lock that was given without an answer is given again to the worker that asks. */
    bool given = false;
    for (exchange.stamp.sequence = 3; !given; exchange.stamp.sequence += 2) {
        reply = (struct qn_exchange_reply){.runs = runs, .unanswered = unanswered};
        exchange.again = shares[1].unanswered = false;
        quern_status status = qn_broker_exchange(c->broker, &exchange, &reply, &err);
        assert_true(status == QUERN_OK || status == QUERN_E_BUSY);
        given = status == QUERN_OK && exchange.solo_queue == 1;
        (void)poll(NULL, 0, 10); /* until the node is known to answer */
    }
}

static void sets_of_the_other_nodes_are_extended(struct contract *c)
{
    struct qn_set_extension extensions[2] = {{.set = take_set(c, queue_of(SICK, 0))},
                                             {.set = take_set(c, queue_of(OTHER, 0))}};
    quern_error err = {0};
    test_store_silence(SICK);
    assert_int_equal(qn_broker_extend_sets(c->broker, extensions, 2, CONTRACT_LEASE_MS, &err),
                     QUERN_E_BUSY);
    assert_false(extensions[0].held);
    assert_true(extensions[1].held);
    test_store_speak(SICK);
    for (int i = 0; i < 2; i++) {
        qn_group_set_free((struct qn_group_set *)(uintptr_t)extensions[i].set);
    }
}

static const struct contract_test tests[] = {
    CONTRACT_TEST_ONLY("cluster", each_task_of_a_batch_has_its_own_result),
    CONTRACT_TEST_ONLY("cluster", what_is_unknown_is_stored_once_when_the_node_answers_in_time),
    CONTRACT_TEST_ONLY("cluster", callers_of_one_client_do_not_wait_for_the_node_of_another),
    CONTRACT_TEST_ONLY("cluster", a_silent_node_with_the_list_of_queues_holds_up_no_other_queue),
    CONTRACT_TEST_ONLY("cluster", node_that_refuses_a_listener_is_looked_at_each_second),
    CONTRACT_TEST_ONLY("cluster", outcome_at_a_silent_node_is_sent_again_and_counts_once),
    CONTRACT_TEST_ONLY("cluster", slots_of_a_queue_that_gives_too_little_are_filled_by_the_others),
    CONTRACT_TEST_ONLY("cluster", queue_without_slots_is_not_asked_unless_a_request_is_repeated),
    CONTRACT_TEST_ONLY("cluster", busy_node_gives_no_solo_lock_and_holds_up_no_other),
    CONTRACT_TEST_ONLY("cluster", worker_leaves_the_queues_of_the_other_nodes),
    CONTRACT_TEST_ONLY("cluster", sets_of_the_other_nodes_are_extended),
};
CONTRACT_MAIN(tests)
