/* SPDX-License-Identifier: MIT */
/* test_fetch.c - which runs a worker fetches, how many, and what it gives back unstarted:
 * shares of queues, strict priority, pause, take-back. */
#include "lib_worker.h"

#include <stdlib.h>
#include <string.h>

#include "quern/inspector.h"
#include "task/limits.h"

static void full_queues_get_their_shares_in_every_window(void **state)
{
    (void)state;
    enum { TASKS = 4000, WINDOW = 1000 };
    static const quern_queue queues[] = {
        {.name = "six", .weight = 6}, {.name = "three", .weight = 3}, {.name = "one", .weight = 1}};
    static const double shares[] = {0.6, 0.3, 0.1};
    static const uint32_t concurrencies[] = {1, 16, 128};
    for (size_t c = 0; c < TEST_COUNT(concurrencies); c++) {
        struct rig *rig = rig_new(false);
        for (size_t q = 0; q < TEST_COUNT(queues); q++) {
            rig_put_many(rig, queues[q].name, queues[q].name, TASKS);
        }
        struct rig_worker worker;
        rig_start(rig, &worker,
                  &(quern_worker_options){.queues = queues,
                                          .queue_count = TEST_COUNT(queues),
                                          .concurrency = concurrencies[c]});
        rig_wait_starts(rig, 5000);
        rig_stop(&worker);
        for (size_t first = 0; first + WINDOW <= 5000; first += 250) {
            for (size_t q = 0; q < TEST_COUNT(queues); q++) {
                size_t count = 0;
                for (size_t i = first; i < first + WINDOW; i++) {
                    count += strcmp(rig->starts[i].queue, queues[q].name) == 0 ? 1 : 0;
                }
                double off = (double)count - shares[q] * WINDOW;
                if (off < -0.03 * WINDOW || off > 0.03 * WINDOW) {
                    fail_msg("%s: %zu of %d from start %zu", queues[q].name, count, WINDOW, first);
                }
            }
        }
        rig_free(rig);
    }
}

static void strict_priority_empties_the_higher_queue_first(void **state)
{
    (void)state;
    enum { TASKS = 300 };
    static const quern_queue queues[] = {{.name = "low", .weight = 1},
                                         {.name = "high", .weight = 9}};
    struct rig *rig = rig_new(false);
    rig_put_many(rig, "low", "low", TASKS);
    rig_put_many(rig, "high", "high", TASKS);
    struct rig_worker worker;
    rig_start(rig, &worker,
              &(quern_worker_options){.queues = queues,
                                      .queue_count = TEST_COUNT(queues),
                                      .concurrency = 1,
                                      .strict_priority = true,
                                      .drain = true});
    assert_int_equal(rig_join(&worker), QUERN_OK);
    assert_int_equal(rig->start_count, 2 * TASKS);
    for (size_t i = 0; i < 2 * TASKS; i++) {
        assert_string_equal(rig->starts[i].queue, i < TASKS ? "high" : "low");
    }
    rig_free(rig);
}

/* Counts the starts of the queue from the first-th on. */
static size_t count_starts(const struct rig *rig, const char *queue, size_t first, size_t count)
{
    size_t found = 0;
    for (size_t i = first; i < first + count; i++) {
        found += strcmp(rig->starts[i].queue, queue) == 0 ? 1 : 0;
    }
    return found;
}

static void weights_can_change_while_it_runs(void **state)
{
    (void)state;
    enum { TASKS = 3000, WINDOW = 1000 };
    static const quern_queue before[] = {{.name = "left", .weight = 1}, {.name = "right"}};
    static const quern_queue after[] = {{.name = "left", .weight = 9}};
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_put_task(
        rig, &(quern_task){
                 .id = "h", .queue = "right", .payload = "hold", .payload_size = strlen("hold")});
    rig_start(rig, &worker,
              &(quern_worker_options){.queues = before,
                                      .queue_count = TEST_COUNT(before),
                                      .concurrency = 1,
                                      .prefetch_max = -1});
    rig_wait_starts(rig, 1);
    rig_put_many(rig, "left", "left", TASKS);
    rig_put_many(rig, "right", "right", TASKS);
    assert_int_equal(quern_worker_set_weights(worker.worker, after, 1, NULL), QUERN_OK);
    rig_wait_log(rig, "queues=\"left=9 right=1\"");
    rig_open_gate(rig);
    rig_wait_starts(rig, 1 + WINDOW);
    rig_stop(&worker);
    size_t count = count_starts(rig, "left", 1, WINDOW);
    assert_in_range(count, 870, 930);
    rig_free(rig);
}

static void weights_of_other_queues_are_refused(void **state)
{
    (void)state;
    static const quern_queue own[] = {{.name = "left", .weight = 3}, {.name = "right"}};
    static const quern_queue wrong[][2] = {
        {{.name = "left", .weight = 2}, {.name = "other", .weight = 1}},
        {{.name = "left", .weight = 2}, {.name = "right", .weight = QN_WEIGHT_MAX + 1}},
        {{.name = "left", .weight = 2}, {.name = "left", .weight = 4}},
        {{.name = "left", .weight = 2}, {.name = NULL}},
    };
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    quern_worker_options options = {.queues = own, .queue_count = TEST_COUNT(own)};
    rig_start(rig, &worker, &options);
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_int_equal(quern_worker_set_weights(worker.worker, wrong[i], 2, NULL),
                         QUERN_E_INVALID);
    }
    assert_int_equal(quern_worker_set_weights(worker.worker, own, TEST_COUNT(own), NULL), QUERN_OK);
    rig_stop(&worker);
    assert_false(rig_logged(rig, "queues have other weights"));
    options.strict_priority = true;
    rig_start(rig, &worker, &options);
    assert_int_equal(quern_worker_set_weights(worker.worker, own, TEST_COUNT(own), NULL),
                     QUERN_E_UNSUPPORTED);
    rig_stop(&worker);
    rig_free(rig);
}

enum { AHEAD = 3 };

/* A worker with one slot, in which "hold0" runs, and AHEAD more of the same type that are, or will
 * soon be, prefetched. The last of them was delayed, and is run by an operator. */
static struct rig *rig_with_runs_ahead(struct rig_worker *worker, const char *queue)
{
    static const quern_queue queues[] = {{.name = "default"}, {.name = "other"}};
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    quern_mux_free(rig->mux);
    assert_ok(quern_mux_new(&rig->mux, &error), error);
    quern_handler_options options = {.prefetch_max = 8};
    assert_ok(quern_mux_handle(rig->mux, "t", rig_handler(), rig, &options, &error), error);
    rig_start(rig, worker,
              &(quern_worker_options){
                  .queues = queues, .queue_count = TEST_COUNT(queues), .concurrency = 1});
    /* The first of the type shows how many may be prefetched. */
    rig_put_task(rig, &(quern_task){.id = "first", .payload = "done", .payload_size = 4});
    rig_wait_reports(rig, 1);
    for (int i = 0; i <= AHEAD; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "hold%d", i);
        rig_put_task(rig, &(quern_task){.id = id,
                                        .queue = queue,
                                        .payload = "hold",
                                        .payload_size = 4,
                                        .delay_ms = i == AHEAD ? 3600000 : 0});
        if (i == AHEAD) {
            rig_act(rig, QUERN_ACTION_RUN, id);
        }
        rig_wait_starts(rig, 2);
    }
    return rig;
}

static void wait_until_none_is_ahead(struct rig *rig)
{
    for (int i = 1; i <= AHEAD; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "hold%d", i);
        rig_wait_state(rig, id, QUERN_TASK_PENDING);
    }
}

static void runs_fetched_ahead_that_do_not_start_are_taken_back(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = rig_with_runs_ahead(&worker, "default");
    rig_wait_given_back(&worker, AHEAD);
    wait_until_none_is_ahead(rig);
    rig_open_gate(rig);
    rig_wait_reports(rig, AHEAD + 2);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, AHEAD + 2);
    assert_int_equal(rig_queue(rig, "default").processed_total, AHEAD + 2);
    for (size_t i = 1; i < AHEAD + 2; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "hold%zu", i - 1);
        assert_string_equal(rig->starts[i].id, id); /* their order was kept */
        assert_int_equal(rig->starts[i].retry_count, 0);
    }
    rig_free(rig);
}

static void a_busy_worker_holds_back_nothing_that_another_could_run(void **state)
{
    (void)state;
    enum { SHORT = 40 };
    static const int32_t prefetch_max[] = {0, 8}; /* measured, and a fixed number */
    for (size_t i = 0; i < TEST_COUNT(prefetch_max); i++) {
        struct rig *rig = rig_new(false);
        struct rig_worker busy;
        struct rig_worker idle;
        rig_start(rig, &busy,
                  &(quern_worker_options){.concurrency = 1, .prefetch_max = prefetch_max[i]});
        rig_put_many_of(rig, "t", NULL, "short", SHORT); /* so short that they are prefetched */
        rig_wait_reports(rig, SHORT);
        for (int k = 0; k < 4; k++) {
            char id[16];
            (void)snprintf(id, sizeof id, "hold%d", k);
            rig_put_task(
                rig, &(quern_task){.id = id, .type = "t", .payload = "hold", .payload_size = 4});
        }
        rig_wait_starts(rig, SHORT + 1);
        rig_start(rig, &idle, &(quern_worker_options){.concurrency = 3});
        rig_wait_starts(rig, SHORT + 4); /* all at a time, though one worker could hold them all */
        assert_int_equal(rig_stats(&busy).running, 1);
        assert_int_equal(rig_stats(&idle).running, 3);
        rig_open_gate(rig);
        rig_wait_reports(rig, SHORT + 4);
        rig_stop(&busy);
        rig_stop(&idle);
        assert_int_equal(rig->start_count, SHORT + 4);
        rig_free(rig);
    }
}

static void a_worker_fetches_a_fixed_number_ahead(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1, .prefetch_max = 2});
    rig_put(rig, "first", "done"); /* shows the worker a type: one run is too few to measure */
    rig_wait_reports(rig, 1);
    rig_put(rig, "hold0", "hold");
    rig_wait_starts(rig, 2);
    rig_put(rig, "hold1", "hold");
    rig_put(rig, "hold2", "hold");
    rig_wait_given_back(&worker, 1); /* it was fetched, though no slot was free */
    rig_open_gate(rig);
    rig_wait_reports(rig, 4);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 4);
    rig_free(rig);
}

static void a_run_taken_back_before_its_start_leaves_the_cause_it_came_with(void **state)
{
    (void)state;
    struct rig_worker worker;
    struct rig *rig = rig_with_runs_ahead(&worker, "default");
    rig_wait_given_back(&worker, AHEAD);
    rig_open_gate(rig);
    rig_wait_reports(rig, AHEAD + 2);
    struct rig_start last = rig_start_at(rig, AHEAD + 1);
    assert_string_equal(last.id, "hold3");
    assert_int_equal(last.cause, QUERN_CAUSE_OPERATOR);
    rig_stop(&worker);
    rig_free(rig);
}

static bool is_noted_as_started(void *user)
{
    quern_task_info *info = rig_inspect(user, "hold");
    bool noted = quern_task_info_started_at_ms(info) != 0;
    quern_task_info_free(info);
    return noted;
}

static void the_start_of_a_prefetched_run_is_reported_to_the_broker(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    quern_error error = {0};
    const quern_handler_options options = {.prefetch_max = 8};
    quern_mux_free(rig->mux);
    assert_ok(quern_mux_new(&rig->mux, &error), error);
    assert_ok(quern_mux_handle(rig->mux, "t", rig_handler(), rig, &options, &error), error);
    /* One slot. "hold" is prefetched while one of the others runs, and stays. */
    rig_put_many(rig, NULL, "n", 8);
    rig_put(rig, "hold", "hold");
    struct rig_worker worker;
    rig_start(rig, &worker, &(quern_worker_options){.concurrency = 1});
    rig_wait_starts(rig, 9);
    assert_true(test_until(is_noted_as_started, rig));
    rig_open_gate(rig);
    rig_wait_reports(rig, 9);
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 9);
    rig_free(rig);
}

static void pause_holds_also_for_runs_fetched_ahead(void **state)
{
    (void)state;
    quern_error error = {0};
    struct rig_worker worker;
    struct rig *rig = rig_with_runs_ahead(&worker, "other");
    assert_ok(qn_broker_pause(rig->broker, "other", true, &error), error);
    rig_put(rig, "free", "done"); /* in the queue that continues */
    wait_until_none_is_ahead(rig);
    rig_open_gate(rig);
    rig_wait_reports(rig, 3);
    assert_string_equal(rig_start_at(rig, 2).id, "free");
    assert_ok(qn_broker_pause(rig->broker, "other", false, &error), error);
    rig_wait_reports(rig, 3 + AHEAD); /* the end of the pause wakes the worker */
    rig_stop(&worker);
    assert_int_equal(rig->start_count, 3 + AHEAD);
    rig_free(rig);
}

static void a_worker_warns_of_groups_that_nobody_serves(void **state)
{
    (void)state;
    struct rig *rig = rig_new(false);
    rig_put_task(rig, &(quern_task){.id = "g", .group = "mails"});
    struct rig_worker worker;
    rig_start(rig, &worker, NULL);
    rig_wait_log(rig, "no aggregator serves the groups of this queue\" queue=default groups=1");
    assert_int_equal(rig_state(rig, "g"), QUERN_TASK_AGGREGATING);
    rig_stop(&worker);
    rig_free(rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(full_queues_get_their_shares_in_every_window),
    cmocka_unit_test(strict_priority_empties_the_higher_queue_first),
    cmocka_unit_test(weights_can_change_while_it_runs),
    cmocka_unit_test(weights_of_other_queues_are_refused),
    cmocka_unit_test(runs_fetched_ahead_that_do_not_start_are_taken_back),
    cmocka_unit_test(a_busy_worker_holds_back_nothing_that_another_could_run),
    cmocka_unit_test(a_worker_fetches_a_fixed_number_ahead),
    cmocka_unit_test(a_run_taken_back_before_its_start_leaves_the_cause_it_came_with),
    cmocka_unit_test(the_start_of_a_prefetched_run_is_reported_to_the_broker),
    cmocka_unit_test(pause_holds_also_for_runs_fetched_ahead),
    cmocka_unit_test(a_worker_warns_of_groups_that_nobody_serves),
};
TEST_MAIN_OVER_BROKERS(tests)
