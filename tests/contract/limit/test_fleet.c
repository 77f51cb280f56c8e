/* SPDX-License-Identifier: MIT */
/* test_fleet.c - four workers on four broker objects, three kinds of limits at once: none is ever
 * exceeded, and as long as tasks wait a limit is used fully. Some leases are lost: their worker
 * dies. Once with one queue; with two, once with limits of all queues and once with a
 * semaphore. */
#include "lib_limits.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "broker/limit/limit.h"

#define WORKERS 4
#define TASKS 1500
#define HELD_MAX 16

enum { QUEUE_MAX = 9, TYPE_MAX = 4, KEY_MAX = 2, KEYS = 5 };

/* What runs now, and the most that ever ran. */
struct gauge {
    _Atomic int now;
    _Atomic int most;
};

static const char *const queues[] = {"default", "other"};

struct fleet {
    struct contract *c;
    size_t queue_count;
    struct gauge queue;
    struct gauge slow; /* the type */
    struct gauge keys[KEYS];
    _Atomic int done;
    _Atomic int lost;
    pthread_mutex_t mutex; /* held by the one that dies */
};

struct member {
    struct fleet *fleet;
    struct qn_broker *broker;
    struct qn_stamp stamp;
    unsigned number;
    unsigned doomed; /* odd: it is another worker for a moment, which dies */
    struct qn_leased *held[HELD_MAX];
    size_t count;
};

static void move_gauge(struct gauge *gauge, int by)
{
    int now = atomic_fetch_add(&gauge->now, by) + by;
    int most = atomic_load(&gauge->most);
    while (now > most && !atomic_compare_exchange_weak(&gauge->most, &most, now)) {
    }
}

static void move_gauges(struct fleet *fleet, const struct qn_leased *run, int by)
{
    move_gauge(&fleet->queue, by);
    if (strcmp(run->task.type, "slow") == 0) {
        move_gauge(&fleet->slow, by);
    }
    move_gauge(&fleet->keys[run->task.limit_key[0] - 'a'], by);
}

static void name_of(const struct member *member, char out[32])
{
    bool dies = member->doomed % 2 == 1;
    (void)snprintf(out, 32, "%s-%u-%u", dies ? "doomed" : "worker", member->number,
                   dies ? member->doomed : 0);
}

/* Reports the held runs as done and leases more. */
static void share(struct member *member)
{
    struct fleet *fleet = member->fleet;
    struct qn_outcome outcomes[HELD_MAX] = {0};
    enum qn_applied applied[HELD_MAX];
    struct qn_leased *next[HELD_MAX];
    char name[32];
    name_of(member, name);
    size_t count = member->count;
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){.run = member->held[i], .kind = QN_DONE, .started = true};
        move_gauges(fleet, member->held[i], -1);
    }
    uint32_t room = 1 + (uint32_t)(member->stamp.sequence++ % 8);
    struct qn_queue_share shares[] = {{.name = queues[0], .weight = 1, .quota = room},
                                      {.name = queues[1], .weight = 1}};
    struct qn_exchange exchange = {.stamp = member->stamp,
                                   .outcomes = outcomes,
                                   .outcome_count = count,
                                   .worker_id = name,
                                   .lease_ms = CONTRACT_LEASE_MS,
                                   .queues = shares,
                                   .queue_count = fleet->queue_count,
                                   .room = room,
                                   .start_count_now = 0};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    quern_error err = {0};
    quern_status status;
    do {
        status = qn_broker_exchange(member->broker, &exchange, &reply, &err);
    } while (status == QUERN_E_BUSY);
    TEST_REQUIRE(status == QUERN_OK);
    for (size_t i = 0; i < count; i++) {
        TEST_REQUIRE(applied[i] == QN_APPLIED);
        qn_leased_free(member->held[i]);
    }
    atomic_fetch_add(&fleet->done, (int)count);
    member->count = reply.run_count;
    for (size_t i = 0; i < reply.run_count; i++) {
        member->held[i] = next[i];
        move_gauges(fleet, next[i], 1);
    }
}

/* A worker that dies with what it has leased, which is recovered. One at a time: recovery would
 * end the leases of another one, too. */
static void die(struct member *member)
{
    struct fleet *fleet = member->fleet;
    char name[32];
    size_t count = 0;
    quern_error err = {0};
    (void)pthread_mutex_lock(&fleet->mutex);
    member->doomed++;
    name_of(member, name);
    contract_heartbeat_as(member->broker, &(struct contract_worker){.id = name, .is_dead = true});
    share(member);
    for (int i = 0; i < 10; i++) {
        (void)sched_yield();
    }
    for (size_t i = 0; i < member->count; i++) {
        move_gauges(fleet, member->held[i], -1);
        qn_leased_free(member->held[i]);
    }
    atomic_fetch_add(&fleet->lost, (int)member->count);
    const struct qn_upkeep upkeep = {{queues, fleet->queue_count}, 100};
    TEST_REQUIRE(qn_broker_recover(member->broker, upkeep, NULL, &count, &err) == QUERN_OK);
    TEST_REQUIRE(count == member->count);
    member->count = 0;
    member->doomed++;
    (void)pthread_mutex_unlock(&fleet->mutex);
}

static void *work(void *user)
{
    struct member *member = user;
    char name[32];
    name_of(member, name);
    contract_heartbeat(member->broker, name);
    for (unsigned step = 0; atomic_load(&member->fleet->done) < TASKS; step++) {
        share(member);
        if (step % 20 == 19) {
            die(member);
        }
        (void)sched_yield();
    }
    return NULL;
}

static void put_all(struct contract *c, size_t queue_count)
{
    char id[32];
    for (size_t i = 0; i < TASKS; i++) {
        const char key[] = {(char)('a' + i % KEYS), '\0'};
        (void)snprintf(id, sizeof id, "t%zu", i);
        contract_enqueue(c, &(quern_task){.queue = queues[i / KEYS % queue_count],
                                          .id = id,
                                          .type = i % 3 == 0 ? "slow" : "quick",
                                          .limit_key = key});
    }
}

static void run_fleet(struct contract *c, size_t queue_count)
{
    static struct fleet fleet;
    static struct member members[WORKERS];
    pthread_t threads[WORKERS];
    fleet = (struct fleet){.c = c, .queue_count = queue_count, .mutex = PTHREAD_MUTEX_INITIALIZER};
    put_all(c, queue_count);
    for (unsigned i = 0; i < WORKERS; i++) {
        members[i] = (struct member){.fleet = &fleet,
                                     .broker = contract_open(c),
                                     .stamp = {.session = 7000 + i},
                                     .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        qn_broker_close(members[i].broker);
        for (size_t held = 0; held < members[i].count; held++) {
            qn_leased_free(members[i].held[held]);
        }
    }
    assert_int_equal(fleet.done, TASKS);
    assert_true(fleet.lost > 0);
    assert_int_equal(fleet.queue.most, QUEUE_MAX);
    assert_int_equal(fleet.slow.most, TYPE_MAX);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(fleet.keys[i].most, KEY_MAX);
    }
    limits_finish();
}

static void no_limit_is_exceeded_and_all_are_used(struct contract *c)
{
    limits_begin(c);
    limits_set(c, QUERN_LIMIT_QUEUE, "", "9");
    limits_set(c, QUERN_LIMIT_TYPE, "slow", "4");
    limits_set(c, QUERN_LIMIT_KEY, "*", "2");
    run_fleet(c, 1);
}

static void set_all(struct contract *c, const quern_limit *limits, size_t count)
{
    limits_begin(c);
    for (size_t i = 0; i < count; i++) {
        quern_status status = qn_broker_set_limit(c->broker, &limits[i], NULL);
        if (status == QUERN_E_UNSUPPORTED && test_store_is(&c->store, "cluster")) {
            skip(); /* no node sees all queues */
        }
        assert_int_equal(status, QUERN_OK);
    }
}

static void no_limit_of_all_queues_is_exceeded_and_all_are_used(struct contract *c)
{
    static const quern_limit all[] = {
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_QUEUE, .name = "", .count = QUEUE_MAX},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_TYPE, .name = "slow", .count = TYPE_MAX},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_KEY, .name = "*", .count = KEY_MAX}};
    set_all(c, all, TEST_COUNT(all));
    run_fleet(c, 2);
}

static void no_semaphore_is_exceeded_and_all_tokens_are_used(struct contract *c)
{
    static const quern_limit all[] = {
        {.queue = "default", .scope = QUERN_LIMIT_SEMAPHORE, .name = "s", .count = QUEUE_MAX},
        {.queue = "other", .scope = QUERN_LIMIT_SEMAPHORE, .name = "s", .count = QUEUE_MAX},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_TYPE, .name = "slow", .count = TYPE_MAX},
        {.queue = QUERN_ALL_QUEUES, .scope = QUERN_LIMIT_KEY, .name = "*", .count = KEY_MAX}};
    set_all(c, all, TEST_COUNT(all));
    run_fleet(c, 2);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(no_limit_is_exceeded_and_all_are_used),
    CONTRACT_TEST(no_limit_of_all_queues_is_exceeded_and_all_are_used),
    CONTRACT_TEST(no_semaphore_is_exceeded_and_all_tokens_are_used),
};

CONTRACT_MAIN(tests)
