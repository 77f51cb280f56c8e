/* SPDX-License-Identifier: MIT */
/* test_load.c - repairs while workers are busy with all kinds of tasks: locks, retentions, delays,
 * retries, give-backs, crashes, tasks that wait aside for a limit. Nothing is found, nothing is
 * lost, and each task ends once. */
#include "lib_doctor.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/random.h"
#include "broker/limit/limit.h"
#include "task/limits.h"

#define TASKS (QN_BATCH_MAX * 5)
#define ROOM 8

static atomic_int done_count;
static atomic_bool enough;

static void put(struct qn_broker *broker, int number)
{
    char id[24];
    char lock[64];
    (void)snprintf(id, sizeof id, "t%d", number);
    (void)snprintf(lock, sizeof lock, Q "unique:t:%d", number);
    struct qn_task task = test_task(id);
    task.retry_max = 1000;
    task.unique_key = number % 2 == 0 ? lock : NULL;
    task.unique_ms = 3600000;
    task.limit_key = number % 4 == 1 ? "k" : number % 4 == 3 ? lock : NULL;
    task.retention_ms = number % 3 == 0 ? 3600000 : 0;
    if (number % 5 == 0) {
        task.state = QUERN_TASK_SCHEDULED;
        task.process_at_ms = DOCTOR_NOW_MS;
    }
    doctor_put_task(broker, &task);
}

static enum qn_outcome_kind draw(struct qn_random *random)
{
    static const enum qn_outcome_kind kinds[] = {QN_DONE,   QN_DONE,      QN_RETRY,
                                                 QN_SNOOZE, QN_GIVE_BACK, QN_CRASH};
    return kinds[qn_random_below(random, TEST_COUNT(kinds))];
}

/* One exchange: ends what was leased by the last one, and leases. */
static size_t turn_over(struct qn_broker *broker, struct qn_random *random, struct qn_leased **runs,
                        size_t count)
{
    struct qn_outcome outcomes[ROOM];
    enum qn_applied applied[ROOM];
    struct qn_leased *next[ROOM];
    quern_error err = {0};
    for (size_t i = 0; i < count; i++) {
        outcomes[i] = (struct qn_outcome){
            .run = runs[i], .kind = draw(random), .cause = QUERN_CAUSE_CHILD_DIED, .error = "no"};
    }
    struct qn_queue_share queue = {.name = "default", .weight = 1, .quota = ROOM};
    struct qn_exchange exchange = {.worker_id = "w",
                                   .outcomes = outcomes,
                                   .outcome_count = count,
                                   .lease_ms = DOCTOR_LEASE_MS,
                                   .queues = &queue,
                                   .queue_count = 1,
                                   .room = ROOM,
                                   .start_count_now = ROOM};
    struct qn_exchange_reply reply = {.applied = applied, .runs = next};
    assert_ok(qn_broker_exchange(broker, &exchange, &reply, &err), err);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(applied[i], QN_APPLIED);
        atomic_fetch_add(&done_count, outcomes[i].kind == QN_DONE ? 1 : 0);
        qn_leased_free(runs[i]);
    }
    memcpy(runs, next, reply.run_count * sizeof runs[0]);
    return reply.run_count;
}

static void *work(void *user)
{
    struct qn_broker *broker = user;
    const char *queue = "default";
    struct qn_leased *runs[ROOM];
    struct qn_random random;
    size_t count = 0;
    qn_random_init(&random);
    while (!atomic_load(&enough) || count > 0) {
        size_t moved = 0;
        int64_t next_due_at_ms = 0;
        quern_error err = {0};
        assert_ok(qn_broker_forward(broker, (struct qn_upkeep){{&queue, 1}, QN_BATCH_MAX}, &moved,
                                    &next_due_at_ms, &err),
                  err);
        count = turn_over(broker, &random, runs, count);
    }
    return NULL;
}

static void repairs_of_a_busy_queue_change_nothing(void **state)
{
    (void)state;
    pthread_t threads[2];
    struct qn_broker *brokers[2];
    const quern_limit limit = {
        .queue = "default", .scope = QUERN_LIMIT_KEY, .name = "*", .count = 2};
    quern_error err = {0};
    assert_ok(qn_broker_set_limit(doctor.broker, &limit, &err), err);
    atomic_store(&enough, false);
    for (size_t i = 0; i < 2; i++) {
        brokers[i] = doctor_open();
        assert_int_equal(pthread_create(&threads[i], NULL, work, brokers[i]), 0);
    }
    for (int i = 0; i < TASKS; i++) {
        put(doctor.broker, i);
        if (i % 16 == 0) {
            doctor_check(true);
            assert_string_equal(
                doctor.report.violated + doctor.report.repaired > 0 ? doctor.report.lines : "", "");
        }
    }
    for (int ms = 0; atomic_load(&done_count) < TASKS && ms < TEST_PATIENCE_MS; ms++) {
        (void)poll(NULL, 0, 1);
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        qn_broker_close(brokers[i]);
    }
    assert_int_equal(atomic_load(&done_count), TASKS);
    assert_string_equal(test_redis_do(&doctor.redis, "KEYS " Q "unique:*"), "");
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "completed"), (TASKS + 2) / 3);
    assert_int_equal(test_redis_count(&doctor.redis,
                                      "EXISTS " Q "pending " Q "active " Q "lease " Q "retry " Q
                                      "scheduled " Q "quern:due " Q "quern:lanes"),
                     0);
    assert_int_equal(test_redis_count(&doctor.redis, "ZCARD " Q "quern:limit:runs"), 1);
}

static const struct CMUnitTest tests[] = {
    DOCTOR_TEST(repairs_of_a_busy_queue_change_nothing),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = "redis_doctor_load", .tests = tests, .test_count = TEST_COUNT(tests)};
    return doctor_main(argc, argv, &group);
}
