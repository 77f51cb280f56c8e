/* SPDX-License-Identifier: MIT */
/* test_aggregator.c - the rounds of an aggregator over a broker that fails for one queue. */
#include "lib_test.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "broker/ops.h"
#include "schedule/group/aggregator.h"

/* The broker: it fails for the queue "bad", and has no groups in the other one. */
static struct {
    struct qn_aggregator aggregator;
    quern_status bad_status;
    size_t calls_max; /* ends after so many calls */
    size_t calls;
    size_t good_calls;
    size_t bad_calls;
    /* What the aggregator has reported. */
    size_t ok_count;
    size_t failure_count;
    int64_t began_mono_ns;
    int64_t ended_mono_ns;
} world;

static quern_status aggregate(struct qn_broker *broker, const struct qn_aggregate *aggregate,
                              struct qn_aggregate_reply *reply, quern_error *err)
{
    (void)broker;
    bool is_bad = strcmp(aggregate->queue, "bad") == 0;
    world.bad_calls += is_bad ? 1 : 0;
    world.good_calls += is_bad ? 0 : 1;
    if (++world.calls == world.calls_max) {
        world.ended_mono_ns = qn_clock_mono_ns();
        qn_aggregator_end(&world.aggregator);
    }
    reply->end = !is_bad;
    reply->next_ms = INT64_MAX;
    return is_bad ? qn_error_set(err, world.bad_status, "bad") : QUERN_OK;
}

static bool may_take(void *user)
{
    (void)user;
    return true;
}

static int64_t note_answer(quern_status status, const quern_error *error, void *user)
{
    (void)error;
    (void)user;
    world.ok_count += status == QUERN_OK ? 1 : 0;
    world.failure_count += status == QUERN_OK ? 0 : 1;
    return status == QUERN_OK ? 0 : qn_clock_mono_ns() + 2 * QN_NS_PER_MS;
}

/* Rounds until there were so many calls. */
static void run(const char *const *queues, quern_status bad_status, size_t calls_max)
{
    const struct qn_broker_ops ops = {.aggregate = aggregate};
    struct qn_broker broker = {.ops = &ops, .opener_pid = getpid()};
    struct qn_log log;
    const struct qn_group_table table = {.count = 0};
    quern_error err = {0};
    qn_log_init(&log, qn_log_to_stderr, NULL);
    const struct qn_aggregator_spec spec = {.broker = &broker,
                                            .clock = qn_clock_system(),
                                            .table = &table,
                                            .queues = {queues, 2},
                                            .worker_id = "w",
                                            .lease_ms = 1000,
                                            .log = &log,
                                            .may_take = may_take,
                                            .on_answer = note_answer};
    memset(&world, 0, sizeof world);
    world.bad_status = bad_status;
    world.calls_max = calls_max;
    world.began_mono_ns = qn_clock_mono_ns();
    assert_ok(qn_aggregator_init(&world.aggregator, &spec, &err), err);
    qn_aggregator_run(&world.aggregator);
    qn_aggregator_finish(&world.aggregator);
    qn_log_finish(&log);
}

/* Else a server of a cluster that is down holds up the groups of all queues behind its own. */
static void queue_that_fails_holds_up_no_other(void **state)
{
    (void)state;
    static const char *const queues[] = {"bad", "good"};
    run(queues, QUERN_E_CONNECT, 40);
    assert_true(world.good_calls >= 15);
    assert_true(world.bad_calls >= 15);
}

/* An outage ends when no queue fails any more: else each round would log that the broker is away
 * and that it is back. */
static void queue_that_works_ends_no_outage_of_another(void **state)
{
    (void)state;
    static const char *const queues[] = {"good", "bad"};
    run(queues, QUERN_E_CONNECT, 40);
    assert_true(world.ok_count <= 1);
    assert_int_equal(world.failure_count, world.bad_calls);
}

static void damaged_queue_is_looked_at_with_the_usual_rounds(void **state)
{
    (void)state;
    static const char *const queues[] = {"good", "bad"};
    run(queues, QUERN_E_CORRUPT, 5);
    assert_true(world.ok_count <= 1);
    assert_int_equal(world.good_calls, 3);
    assert_true(world.ended_mono_ns - world.began_mono_ns >= 1900 * QN_NS_PER_MS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(queue_that_fails_holds_up_no_other),
    cmocka_unit_test(queue_that_works_ends_no_outage_of_another),
    cmocka_unit_test(damaged_queue_is_looked_at_with_the_usual_rounds),
};
TEST_MAIN(tests)
