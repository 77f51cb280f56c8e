/* SPDX-License-Identifier: MIT */
/* test_groups.c - workers that aggregate groups: what they store, and what becomes of the members
 * when an aggregator fails, is slow, or does not end. */
#include "lib_worker.h"

#include "broker/group.h"

#include <poll.h>
#include <string.h>

enum { LEASE_MS = 1000 };

/* An aggregator acts by the payload of the first member: "fail", "drop", "forget" (done without a
 * task), "wait" (until it is cancelled; retry), "hold" (until the gate is open), "conflict" (an id
 * that exists comes first). Else it stores the payloads, joined by a space, as a task "sum". */
struct crew {
    struct rig *rig;
    size_t calls; /* guarded by the rig's mutex, as the next */
    size_t failures;
    int64_t failed_at_ms[2];
};

static void note_call(struct crew *crew, bool failed)
{
    (void)pthread_mutex_lock(&crew->rig->mutex);
    crew->calls++;
    if (failed && crew->failures < 2) {
        crew->failed_at_ms[crew->failures] = test_now_ms();
    }
    crew->failures += failed ? 1 : 0;
    (void)pthread_mutex_unlock(&crew->rig->mutex);
}

static void wait_for_gate(struct crew *crew)
{
    (void)pthread_mutex_lock(&crew->rig->mutex);
    while (!crew->rig->gate) {
        (void)pthread_cond_wait(&crew->rig->change, &crew->rig->mutex);
    }
    (void)pthread_mutex_unlock(&crew->rig->mutex);
}

static quern_outcome store(quern_aggregation *aggregation, const quern_task *const *members,
                           size_t count)
{
    char payload[4096] = "";
    char id[300];
    quern_error err = {0};
    for (size_t i = 0; i < count && i < 100; i++) {
        size_t used = strlen(payload);
        (void)snprintf(payload + used, sizeof payload - used, "%s%s", i > 0 ? " " : "",
                       (const char *)members[i]->payload);
    }
    (void)snprintf(id, sizeof id, "sum-%s", members[0]->id);
    const quern_task sum = {.type = "sum",
                            .id = id,
                            .payload = payload,
                            .payload_size = strlen(payload),
                            .retention_ms = 3600000};
    quern_status status = quern_aggregation_store(aggregation, &sum, &err);
    return status == QUERN_OK ? QUERN_DONE
                              : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

static quern_outcome aggregate(quern_aggregation *aggregation, const quern_task *const *members,
                               size_t count, void *user)
{
    struct crew *crew = user;
    const char *order = members[0]->payload;
    note_call(crew, strcmp(order, "fail") == 0);
    if (strcmp(order, "fail") == 0) {
        return quern_aggregation_fail(aggregation, QUERN_RETRY, "no luck with %zu", count);
    }
    if (strcmp(order, "drop") == 0) {
        return QUERN_DROP;
    }
    if (strcmp(order, "forget") == 0) {
        return QUERN_DONE;
    }
    if (strcmp(order, "wait") == 0) {
        struct pollfd cancel = {.fd = quern_aggregation_cancel_fd(aggregation), .events = POLLIN};
        (void)poll(&cancel, 1, TEST_PATIENCE_MS);
        return quern_aggregation_cancelled(aggregation) ? QUERN_RETRY : QUERN_DROP;
    }
    if (strcmp(order, "hold") == 0) {
        wait_for_gate(crew);
    }
    if (strcmp(order, "conflict") == 0) {
        quern_error err = {0};
        const quern_task taken = {.type = "sum", .id = "taken"};
        TEST_REQUIRE(quern_aggregation_store(aggregation, &taken, &err) == QUERN_E_CONFLICT);
        const quern_task elsewhere = {.type = "sum", .queue = "elsewhere"};
        TEST_REQUIRE(quern_aggregation_store(aggregation, &elsewhere, &err) == QUERN_E_INVALID);
        const quern_task again = {.type = "sum", .group = quern_aggregation_group(aggregation)};
        TEST_REQUIRE(quern_aggregation_store(aggregation, &again, &err) == QUERN_E_INVALID);
    }
    return store(aggregation, members, count);
}

static quern_outcome run_sum(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static struct rig *crew_new(struct crew *crew, const quern_group_options *options)
{
    quern_error err;
    struct rig *rig = rig_new(false);
    *crew = (struct crew){.rig = rig};
    assert_ok(quern_mux_aggregate(rig->mux, "*", aggregate, crew, options, &err), err);
    assert_ok(quern_mux_handle(rig->mux, "sum", run_sum, NULL, NULL, &err), err);
    return rig;
}

static void put(struct rig *rig, const char *group, const char *id, const char *payload)
{
    rig_put_task(
        rig, &(quern_task){
                 .id = id, .group = group, .payload = payload, .payload_size = strlen(payload)});
}

static void expect_payload(struct rig *rig, const char *id, const char *payload)
{
    size_t size;
    quern_task_info *info = rig_inspect(rig, id);
    assert_string_equal(quern_task_info_payload(info, &size), payload);
    quern_task_info_free(info);
}

static bool was_called_twice_in_vain(void *user)
{
    struct crew *crew = user;
    (void)pthread_mutex_lock(&crew->rig->mutex);
    bool twice = crew->failures >= 2;
    (void)pthread_mutex_unlock(&crew->rig->mutex);
    return twice;
}

static bool was_called(void *user)
{
    struct crew *crew = user;
    (void)pthread_mutex_lock(&crew->rig->mutex);
    bool called = crew->calls > 0;
    (void)pthread_mutex_unlock(&crew->rig->mutex);
    return called;
}

/* --- Tests ----------------------------------------------------------------------------- */

static void a_full_group_becomes_one_task_that_runs(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 3});
    put(rig, "g", "a", "one");
    put(rig, "g", "b", "two");
    put(rig, "other", "x", "alone");
    put(rig, "g", "c", "three");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "sum-a", QUERN_TASK_COMPLETED);
    expect_payload(rig, "sum-a", "one two three");
    assert_int_equal(rig_state(rig, "a"), 0);
    assert_int_equal(rig_state(rig, "c"), 0);
    assert_int_equal(rig_state(rig, "x"), QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static void the_settings_are_those_of_the_longest_pattern(void **state)
{
    (void)state;
    quern_error err;
    struct crew crew;
    struct rig *rig = crew_new(&crew, NULL);
    const quern_group_options eager = {.max_size = 1};
    assert_ok(quern_mux_aggregate(rig->mux, "mail:", aggregate, &crew, &eager, &err), err);
    assert_int_equal(quern_mux_aggregate(rig->mux, "mail:", aggregate, &crew, &eager, &err),
                     QUERN_E_CONFLICT);
    const quern_group_options hasty = {.grace_ms = 999};
    assert_int_equal(quern_mux_aggregate(rig->mux, "x", aggregate, &crew, &hasty, &err),
                     QUERN_E_INVALID);
    put(rig, "mail:ann", "a", "one");
    put(rig, "other", "b", "two");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "sum-a", QUERN_TASK_COMPLETED);
    assert_int_equal(rig_state(rig, "b"), QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_failed_group_rests_and_the_others_go_on(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    put(rig, "bad", "a", "fail");
    put(rig, "good", "b", "fine");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "sum-b", QUERN_TASK_COMPLETED);
    assert_true(test_until(was_called_twice_in_vain, &crew));
    assert_true(crew.failed_at_ms[1] - crew.failed_at_ms[0] >= 1000);
    rig_wait_log(rig, "aggregator failed, its tasks go back");
    rig_wait_log(rig, "no luck with 1");
    rig_wait_state(rig, "a", QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static void done_without_a_task_gives_the_members_back(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    put(rig, "g", "a", "forget");
    put(rig, "d", "b", "drop");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "it stored no task");
    rig_wait_state(rig, "b", 0);
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static void a_refused_task_can_be_replaced_by_another(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    rig_put_task(rig, &(quern_task){.id = "taken", .type = "sum", .delay_ms = 3600000});
    put(rig, "g", "a", "conflict");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_state(rig, "sum-a", QUERN_TASK_COMPLETED);
    assert_int_equal(rig_state(rig, "a"), 0);
    rig_stop(&worker);
    rig_free(rig);
}

static bool time_is_over(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

static void a_slow_aggregator_keeps_its_lease(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    put(rig, "g", "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .lease_ms = LEASE_MS});
    assert_true(test_until(was_called, &crew));
    int64_t until_ms = test_now_ms() + 3 * LEASE_MS;
    assert_true(test_until(time_is_over, &until_ms));
    const char *queue = "default";
    quern_error err;
    size_t reclaimed = 1;
    assert_ok(qn_broker_reclaim_sets(rig->broker, (struct qn_upkeep){{&queue, 1}, QN_GROUP_SET_MAX},
                                     &reclaimed, &err),
              err);
    assert_int_equal(reclaimed, 0);
    rig_open_gate(rig);
    rig_wait_state(rig, "sum-a", QUERN_TASK_COMPLETED);
    assert_int_equal(crew.calls, 1);
    rig_stop(&worker);
    rig_free(rig);
}

static void an_aggregator_over_its_timeout_is_cancelled(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1, .timeout_ms = 50});
    put(rig, "g", "a", "wait");
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "cancelled=timeout");
    rig_wait_state(rig, "a", QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static void at_shutdown_the_members_go_back(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    put(rig, "g", "a", "wait");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    assert_true(test_until(was_called, &crew));
    rig_stop(&worker);
    assert_true(rig_logged(rig, "tasks of a group given back"));
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_AGGREGATING);
    assert_int_equal(crew.calls, 1);
    rig_free(rig);
}

static void an_aggregator_that_does_not_end_loses_its_set(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.max_size = 1});
    put(rig, "g", "a", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .shutdown_timeout_ms = 50});
    assert_true(test_until(was_called, &crew));
    quern_worker_stop(worker.worker);
    rig_wait_log(rig, "runs given back at shutdown");
    (void)pthread_join(worker.thread, NULL);
    worker.joined = true;
    assert_int_equal(worker.status, QUERN_E_TIMEOUT);
    quern_error err;
    size_t reclaimed = 1;
    const char *queue = "default";
    assert_ok(qn_broker_reclaim_sets(rig->broker, (struct qn_upkeep){{&queue, 1}, QN_GROUP_SET_MAX},
                                     &reclaimed, &err),
              err);
    assert_int_equal(reclaimed, 0); /* it is back already */
    rig_open_gate(rig);
    quern_worker_free(worker.worker); /* waits for it: its late store must be refused */
    assert_int_equal(rig_state(rig, "a"), QUERN_TASK_AGGREGATING);
    assert_int_equal(rig_state(rig, "sum-a"), 0);
    rig_free(rig);
}

static void a_draining_worker_waits_for_its_groups(void **state)
{
    (void)state;
    struct crew crew;
    struct rig *rig = crew_new(&crew, &(quern_group_options){.grace_ms = 1000});
    put(rig, "g", "a", "one");
    rig_put_task(
        rig,
        &(quern_task){
            .id = "b", .group = "late", .payload = "two", .payload_size = 3, .delay_ms = 1500});
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .drain = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig_state(rig, "sum-a"), QUERN_TASK_COMPLETED);
    assert_int_equal(rig_state(rig, "sum-b"), QUERN_TASK_COMPLETED);
    put(rig, "g", "c", "three");
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .until_idle = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig_state(rig, "sum-c"), QUERN_TASK_COMPLETED);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_full_group_becomes_one_task_that_runs),
    cmocka_unit_test(the_settings_are_those_of_the_longest_pattern),
    cmocka_unit_test(a_failed_group_rests_and_the_others_go_on),
    cmocka_unit_test(done_without_a_task_gives_the_members_back),
    cmocka_unit_test(a_refused_task_can_be_replaced_by_another),
    cmocka_unit_test(a_slow_aggregator_keeps_its_lease),
    cmocka_unit_test(an_aggregator_over_its_timeout_is_cancelled),
    cmocka_unit_test(at_shutdown_the_members_go_back),
    cmocka_unit_test(an_aggregator_that_does_not_end_loses_its_set),
    cmocka_unit_test(a_draining_worker_waits_for_its_groups),
};
TEST_MAIN_OVER_BROKERS(tests)
