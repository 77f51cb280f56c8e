/* SPDX-License-Identifier: MIT */
/* test_enqueue.c - storing tasks: completely or not at all, in order, with a result for each. */
#include "lib_contract.h"

#include <string.h>

#include "base/memory/arena.h"
#include "task/retry.h"

static void enqueued_task_keeps_every_field(struct contract *c)
{
    const quern_header headers[] = {{.name = "trace", .value = "a1"},
                                    {.name = "empty", .value = ""}};
    contract_enqueue(c, &(quern_task){.type = "mail:welcome",
                                      .payload = "hello",
                                      .payload_size = 5,
                                      .id = "id-1",
                                      .queue = "other",
                                      .retry_max = 7,
                                      .timeout_ms = 1500,
                                      .deadline_at_ms = CONTRACT_NOW_MS + 90500,
                                      .retention_ms = 2500,
                                      .headers = headers,
                                      .header_count = 2,
                                      .retry = QUERN_BACKOFF_EXPONENTIAL(250, 4750)});
    struct qn_leased *run = contract_take_id(c, "other", "id-1");
    const struct qn_task *task = &run->task;
    assert_string_equal(task->type, "mail:welcome");
    assert_string_equal(task->queue, "other");
    assert_int_equal(task->payload_size, 5);
    assert_string_equal(task->payload, "hello"); /* a NUL is behind it */
    assert_int_equal(task->retry_max, 7);
    assert_int_equal(task->timeout_ms, 1500);
    assert_int_equal(task->deadline_at_ms, CONTRACT_NOW_MS + 90500);
    assert_int_equal(task->retention_ms, 2500);
    assert_int_equal(task->retry.kind, QN_BACKOFF_EXPONENTIAL);
    assert_int_equal(task->retry.base_ms, 250);
    assert_int_equal(task->retry.cap_ms, 4750);
    assert_int_equal(task->header_count, 2);
    assert_string_equal(task->headers[0].name, "trace");
    assert_string_equal(task->headers[0].value, "a1");
    assert_string_equal(task->headers[1].name, "empty");
    assert_string_equal(task->headers[1].value, "");
    qn_leased_free(run);
}

static void enqueued_task_is_seen_as_pending(struct contract *c)
{
    contract_put(c, "default", "a");
    struct contract_view view = contract_inspect(c, "default", "a");
    assert_true(view.found);
    assert_int_equal(view.state, QUERN_TASK_PENDING);
    assert_string_equal(view.type, "t");
    assert_int_equal(view.enqueued_at_ms, CONTRACT_NOW_MS);
    assert_int_equal(view.retry_count, 0);
    assert_int_equal(view.crash_count, 0);
    assert_int_equal(view.cause, QUERN_CAUSE_NONE);
    assert_int_equal(view.fence, 0);
    assert_string_equal(view.error, "");
    assert_string_equal(view.worker, "");
    assert_false(view.has_result);
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 1);
    contract_assert_counted(c, "default", 0, 0);
}

static void full_batch_keeps_its_order(struct contract *c)
{
    struct qn_leased *runs[QN_BATCH_MAX];
    char id[16];
    contract_put_many(c, "default", "a", QN_BATCH_MAX);
    assert_int_equal(contract_lease(c, "default", QN_BATCH_MAX, runs), QN_BATCH_MAX);
    for (size_t i = 0; i < QN_BATCH_MAX; i++) {
        (void)snprintf(id, sizeof id, "a%04zu", i);
        assert_string_equal(runs[i]->task.id, id);
        qn_leased_free(runs[i]);
    }
}

static void tasks_of_later_calls_come_after_earlier_ones(struct contract *c)
{
    contract_put(c, "default", "z");
    contract_put(c, "default", "m");
    contract_put(c, "default", "a");
    contract_finish(c, contract_take_id(c, "default", "z"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "m"), QN_DONE);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

/* Prepares tasks as the client does and enqueues them as one batch. */
static void enqueue_batch(struct contract *c, const quern_task *in, size_t count,
                          quern_status *results)
{
    struct qn_arena arena = {0};
    struct qn_task tasks[8] = {0};
    quern_error err = {0};
    for (size_t i = 0; i < count; i++) {
        const struct qn_task_terms terms = contract_terms(c);
        assert_ok(qn_task_prepare(&in[i], &terms, &arena, &tasks[i], &err), err);
    }
    assert_ok(qn_broker_enqueue(c->broker,
                                &(struct qn_enqueue){(struct qn_stamp){0}, tasks, count, results},
                                &err),
              err);
    qn_arena_finish(&arena);
}

static void each_task_of_a_batch_has_its_own_result(struct contract *c)
{
    const quern_task in[] = {{.type = "t", .id = "a"},
                             {.type = "t", .id = "taken"},
                             {.type = "u", .id = "b", .unique_ms = 60000},
                             {.type = "u", .id = "c", .unique_ms = 60000},
                             {.type = "t", .id = "a"},
                             {.type = "t", .id = "d"}};
    const quern_status expected[] = {QUERN_OK,          QUERN_E_CONFLICT, QUERN_OK,
                                     QUERN_E_DUPLICATE, QUERN_E_CONFLICT, QUERN_OK};
    quern_status results[6];
    contract_put(c, "default", "taken");
    enqueue_batch(c, in, 6, results);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(results[i], expected[i]);
    }
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 4);
    assert_false(contract_inspect(c, "default", "c").found);
}

static void same_id_in_another_queue_is_no_conflict(struct contract *c)
{
    contract_put(c, "default", "a");
    contract_put(c, "other", "a");
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    assert_int_equal(contract_state(c, "other", "a"), QUERN_TASK_PENDING);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_PENDING);
    assert_int_equal(contract_state(c, "other", "a"), 0);
}

static quern_status try_id(struct contract *c, const char *id)
{
    return contract_try(c, &(quern_task){.type = "t", .id = id});
}

static void id_conflicts_in_every_state_until_the_task_is_gone(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .retention_ms = 60000});
    assert_int_equal(try_id(c, "a"), QUERN_E_CONFLICT);
    struct qn_leased *run = contract_take_id(c, "default", "a");
    assert_int_equal(try_id(c, "a"), QUERN_E_CONFLICT);
    contract_finish(c, run, QN_RETRY);
    assert_int_equal(try_id(c, "a"), QUERN_E_CONFLICT);
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "default", NULL), 1);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_COMPLETED);
    assert_int_equal(try_id(c, "a"), QUERN_E_CONFLICT);

    contract_finish(c, contract_start(c, "b"), QN_ARCHIVE);
    assert_int_equal(try_id(c, "b"), QUERN_E_CONFLICT);
    contract_finish(c, contract_start(c, "d"), QN_DONE);
    assert_int_equal(try_id(c, "d"), QUERN_OK);
}

static void conflict_leaves_no_lock_behind(struct contract *c)
{
    contract_put(c, "default", "a");
    assert_int_equal(contract_try(c, &(quern_task){.type = "u", .id = "a", .unique_ms = 60000}),
                     QUERN_E_CONFLICT);
    assert_int_equal(contract_try(c, &(quern_task){.type = "u", .id = "b", .unique_ms = 60000}),
                     QUERN_OK);
}

static void lock_is_tested_before_the_id(struct contract *c)
{
    const quern_task task = {.type = "u", .id = "a", .unique_ms = 60000};
    contract_enqueue(c, &task);
    assert_int_equal(contract_try(c, &task), QUERN_E_DUPLICATE);
}

static void delayed_task_is_scheduled_at_its_moment(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .delay_ms = 1234});
    contract_enqueue(c,
                     &(quern_task){.type = "t", .id = "b", .process_at_ms = CONTRACT_NOW_MS + 99});
    contract_enqueue(
        c, &(quern_task){.type = "t", .id = "c", .process_at_ms = CONTRACT_NOW_MS - 5000});
    struct contract_view a = contract_inspect(c, "default", "a");
    struct contract_view b = contract_inspect(c, "default", "b");
    assert_int_equal(a.state, QUERN_TASK_SCHEDULED);
    assert_int_equal(a.at_ms, CONTRACT_NOW_MS + 1234);
    assert_int_equal(b.state, QUERN_TASK_SCHEDULED);
    assert_int_equal(b.at_ms, CONTRACT_NOW_MS + 99);
    assert_int_equal(contract_state(c, "default", "c"), QUERN_TASK_PENDING);
    contract_finish(c, contract_take_id(c, "default", "c"), QN_DONE);
    assert_null(contract_take(c, "default"));
}

static void grouped_task_waits_as_aggregating(struct contract *c)
{
    contract_enqueue(c, &(quern_task){.type = "t", .id = "a", .group = "g"});
    contract_enqueue(c, &(quern_task){.type = "t", .id = "b", .group = "g", .delay_ms = 5000});
    assert_int_equal(contract_state(c, "default", "a"), QUERN_TASK_AGGREGATING);
    assert_int_equal(contract_state(c, "default", "b"), QUERN_TASK_SCHEDULED);
    assert_int_equal(contract_queue(c, "default").group_count, 1);
    assert_null(contract_take(c, "default"));
}

static void enqueue_makes_its_queue_known(struct contract *c)
{
    assert_null(contract_queue(c, "brand new").name);
    contract_put(c, "brand new", "a");
    quern_queue_info info = contract_queue(c, "brand new");
    assert_non_null(info.name);
    assert_int_equal(info.size, 1);
    assert_int_equal(info.paused_at_ms, 0);
}

static void paused_queue_still_takes_tasks(struct contract *c)
{
    quern_error err = {0};
    contract_put(c, "default", "a");
    assert_ok(qn_broker_pause(c->broker, "default", true, &err), err);
    contract_put(c, "default", "b");
    assert_int_equal(contract_count(c, "default", QUERN_TASK_PENDING), 2);
}

static void stored_task_survives_closing_and_opening(struct contract *c)
{
    contract_put(c, "default", "a");
    qn_broker_close(c->broker);
    c->broker = contract_open(c);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static void enqueue_inside_a_transaction_shares_its_fate(struct contract *c)
{
    const struct qn_task task = {
        .id = "a", .queue = "default", .type = "t", .retry_max = 1, .state = QUERN_TASK_PENDING};
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    if (c->maker->begin == NULL) {
        assert_int_equal(qn_broker_enqueue_in(
                             c->broker, c,
                             &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result},
                             &err),
                         QUERN_E_UNSUPPORTED);
        return;
    }
    void *tx = c->maker->begin(c);
    assert_ok(qn_broker_enqueue_in(
                  c->broker, tx,
                  &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result}, &err),
              err);
    assert_int_equal(result, QUERN_OK);
    c->maker->end(tx, false);
    assert_null(contract_take(c, "default"));
    tx = c->maker->begin(c);
    assert_ok(qn_broker_enqueue_in(
                  c->broker, tx,
                  &(struct qn_enqueue){.tasks = &task, .count = 1, .results = &result}, &err),
              err);
    assert_int_equal(result, QUERN_OK);
    c->maker->end(tx, true);
    contract_finish(c, contract_take_id(c, "default", "a"), QN_DONE);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(enqueued_task_keeps_every_field),
    CONTRACT_TEST(enqueued_task_is_seen_as_pending),
    CONTRACT_TEST(full_batch_keeps_its_order),
    CONTRACT_TEST(tasks_of_later_calls_come_after_earlier_ones),
    CONTRACT_TEST(each_task_of_a_batch_has_its_own_result),
    CONTRACT_TEST(same_id_in_another_queue_is_no_conflict),
    CONTRACT_TEST(id_conflicts_in_every_state_until_the_task_is_gone),
    CONTRACT_TEST(conflict_leaves_no_lock_behind),
    CONTRACT_TEST(lock_is_tested_before_the_id),
    CONTRACT_TEST(delayed_task_is_scheduled_at_its_moment),
    CONTRACT_TEST(grouped_task_waits_as_aggregating),
    CONTRACT_TEST(enqueue_makes_its_queue_known),
    CONTRACT_TEST(paused_queue_still_takes_tasks),
    CONTRACT_TEST(stored_task_survives_closing_and_opening),
    CONTRACT_TEST(enqueue_inside_a_transaction_shares_its_fate),
};
CONTRACT_MAIN(tests)
