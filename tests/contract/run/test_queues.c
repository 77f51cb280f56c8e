/* SPDX-License-Identifier: MIT */
/* test_queues.c - which queues an exchange leases from: quotas, redraw by weight, strict order,
 * paused queues. The draw itself is pure and has unit tests; here it is tested with the broker. */
#include "lib_contract.h"

#include <string.h>

struct batch {
    struct qn_leased *runs[QN_BATCH_MAX];
    size_t count;
};

static void lease_from(struct contract *c, struct qn_queue_share *shares, size_t share_count,
                       uint32_t room, struct batch *batch)
{
    struct qn_exchange exchange = {
        .queues = shares, .queue_count = share_count, .room = room, .start_count_now = room};
    batch->count = contract_exchange(c, &exchange, NULL, batch->runs);
    uint32_t sum = 0;
    for (size_t i = 0; i < share_count; i++) {
        sum += shares[i].leased;
    }
    assert_int_equal(sum, batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        assert_true(batch->runs[i]->queue_index < share_count);
        assert_string_equal(batch->runs[i]->task.queue, shares[batch->runs[i]->queue_index].name);
    }
}

static void lease_strictly(struct contract *c, struct qn_queue_share *shares, size_t share_count,
                           uint32_t room, struct batch *batch)
{
    struct qn_exchange exchange = {.queues = shares,
                                   .queue_count = share_count,
                                   .strict = true,
                                   .room = room,
                                   .start_count_now = room};
    batch->count = contract_exchange(c, &exchange, NULL, batch->runs);
}

static void finish_batch(struct contract *c, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        contract_finish(c, batch->runs[i], QN_DONE);
    }
    batch->count = 0;
}

static void pause_queue(struct contract *c, const char *queue, bool pause)
{
    quern_error err = {0};
    assert_ok(qn_broker_pause(c->broker, queue, pause, &err), err);
}

static void full_queues_give_their_quotas(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 20);
    contract_put_many(c, "b", "b", 20);
    contract_put_many(c, "c", "c", 20);
    struct qn_queue_share shares[] = {{.name = "a", .weight = 6, .quota = 6},
                                      {.name = "b", .weight = 3, .quota = 3},
                                      {.name = "c", .weight = 1, .quota = 1}};
    lease_from(c, shares, 3, 10, &batch);
    assert_int_equal(batch.count, 10);
    assert_int_equal(shares[0].leased, 6);
    assert_int_equal(shares[1].leased, 3);
    assert_int_equal(shares[2].leased, 1);
    finish_batch(c, &batch);
}

static void runs_come_by_queue_and_in_order_within_it(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 5);
    contract_put_many(c, "b", "b", 5);
    struct qn_queue_share shares[] = {{.name = "b", .weight = 1, .quota = 3},
                                      {.name = "a", .weight = 1, .quota = 3}};
    lease_from(c, shares, 2, 6, &batch);
    const char *expected[] = {"b0000", "b0001", "b0002", "a0000", "a0001", "a0002"};
    assert_int_equal(batch.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(batch.runs[i]->task.id, expected[i]);
    }
    finish_batch(c, &batch);
}

static void slots_of_an_empty_queue_are_redrawn_by_weight(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 30);
    contract_put_many(c, "b", "b", 30);
    struct qn_queue_share shares[] = {{.name = "a", .weight = 3, .quota = 2},
                                      {.name = "empty", .weight = 9, .quota = 8},
                                      {.name = "b", .weight = 1, .quota = 2}};
    lease_from(c, shares, 3, 12, &batch);
    assert_int_equal(batch.count, 12);
    assert_int_equal(shares[0].leased, 8);
    assert_int_equal(shares[1].leased, 0);
    assert_int_equal(shares[2].leased, 4);
    finish_batch(c, &batch);
}

static void redraw_goes_on_until_room_is_full(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 1);
    contract_put_many(c, "b", "b", 3);
    contract_put_many(c, "c", "c", 40);
    struct qn_queue_share shares[] = {{.name = "a", .weight = 8, .quota = 16},
                                      {.name = "b", .weight = 4, .quota = 2},
                                      {.name = "c", .weight = 1, .quota = 2}};
    lease_from(c, shares, 3, 20, &batch);
    assert_int_equal(batch.count, 20);
    assert_int_equal(shares[0].leased, 1);
    assert_int_equal(shares[1].leased, 3);
    assert_int_equal(shares[2].leased, 16);
    finish_batch(c, &batch);
}

static void quotas_do_not_exceed_room(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 30);
    contract_put_many(c, "b", "b", 30);
    struct qn_queue_share shares[] = {{.name = "a", .weight = 1, .quota = 5},
                                      {.name = "b", .weight = 1, .quota = 5}};
    lease_from(c, shares, 2, 7, &batch);
    assert_int_equal(batch.count, 7);
    finish_batch(c, &batch);
}

static void strict_empties_one_queue_before_the_next(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "low", "l", 30);
    contract_put_many(c, "high", "h", 7);
    contract_put_many(c, "middle", "m", 2);
    struct qn_queue_share shares[] = {{.name = "high", .weight = 3, .quota = 10},
                                      {.name = "middle", .weight = 2, .quota = 10},
                                      {.name = "low", .weight = 1, .quota = 10}};
    lease_strictly(c, shares, 3, 5, &batch);
    assert_int_equal(shares[0].leased, 5);
    finish_batch(c, &batch);
    lease_strictly(c, shares, 3, 10, &batch);
    assert_int_equal(shares[0].leased, 2);
    assert_int_equal(shares[1].leased, 2);
    assert_int_equal(shares[2].leased, 6);
    assert_string_equal(batch.runs[0]->task.id, "h0005");
    assert_string_equal(batch.runs[9]->task.id, "l0005");
    finish_batch(c, &batch);
}

static void unknown_queue_gives_nothing(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 3);
    struct qn_queue_share shares[] = {{.name = "never heard of", .weight = 1, .quota = 3},
                                      {.name = "a", .weight = 1, .quota = 0}};
    lease_from(c, shares, 2, 3, &batch);
    assert_int_equal(batch.count, 3);
    finish_batch(c, &batch);
}

static void paused_queue_gives_nothing_and_reports_it(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "a", "a", 3);
    contract_put_many(c, "b", "b", 9);
    pause_queue(c, "a", true);
    assert_int_equal(contract_queue(c, "a").paused_at_ms, CONTRACT_NOW_MS);
    struct qn_queue_share shares[] = {{.name = "a", .weight = 1, .quota = 3},
                                      {.name = "b", .weight = 1, .quota = 3}};
    lease_from(c, shares, 2, 6, &batch);
    assert_true(shares[0].paused);
    assert_false(shares[1].paused);
    assert_int_equal(shares[0].leased, 0);
    assert_int_equal(shares[1].leased, 6);
    finish_batch(c, &batch);
    pause_queue(c, "a", false);
    assert_int_equal(contract_queue(c, "a").paused_at_ms, 0);
    lease_from(c, shares, 2, 6, &batch);
    assert_false(shares[0].paused);
    assert_int_equal(shares[0].leased, 3);
    assert_int_equal(shares[1].leased, 3);
    finish_batch(c, &batch);
}

static void strict_skips_a_paused_queue(struct contract *c)
{
    struct batch batch;
    contract_put_many(c, "high", "h", 3);
    contract_put_many(c, "low", "l", 3);
    pause_queue(c, "high", true);
    struct qn_queue_share shares[] = {{.name = "high", .weight = 2, .quota = 6},
                                      {.name = "low", .weight = 1, .quota = 6}};
    lease_strictly(c, shares, 2, 6, &batch);
    assert_int_equal(shares[0].leased, 0);
    assert_int_equal(shares[1].leased, 3);
    finish_batch(c, &batch);
}

static void pausing_twice_is_an_error_of_state(struct contract *c)
{
    quern_error err = {0};
    contract_put(c, "default", "a");
    assert_int_equal(qn_broker_pause(c->broker, "default", false, &err), QUERN_E_STATE);
    pause_queue(c, "default", true);
    assert_int_equal(qn_broker_pause(c->broker, "default", true, &err), QUERN_E_STATE);
    assert_int_equal(qn_broker_pause(c->broker, "no such", true, &err), QUERN_E_NOT_FOUND);
}

static void outcomes_are_applied_while_the_queue_is_paused(struct contract *c)
{
    struct qn_leased *run = contract_start(c, "a");
    pause_queue(c, "default", true);
    assert_int_equal(contract_finish(c, run, QN_DONE), QN_APPLIED);
    assert_true(c->paused);
    contract_assert_counted(c, "default", 1, 0);
}

static void queue_is_found_once_it_has_had_a_task(struct contract *c)
{
    quern_error err = {0};
    assert_int_equal(qn_broker_find_queue(c->broker, "late", &err), QUERN_E_NOT_FOUND);
    assert_string_equal(err.text, "no queue \"late\"");
    contract_put(c, "late", "a");
    assert_ok(qn_broker_find_queue(c->broker, "late", &err), err);
    contract_finish(c, contract_take_id(c, "late", "a"), QN_DONE);
    assert_ok(qn_broker_find_queue(c->broker, "late", &err), err);
    assert_int_equal(qn_broker_find_queue(c->broker, "lat", NULL), QUERN_E_NOT_FOUND);
}

/* Of "default" and, with two, "other". */
static bool is_drained(struct contract *c, size_t queue_count, enum qn_until until)
{
    const char *queues[] = {"default", "other"};
    const struct qn_names names = {queues, queue_count};
    bool drained = false;
    quern_error err = {0};
    assert_ok(qn_broker_drained(c->broker, names, until, &drained, &err), err);
    return drained;
}

static void drained_sees_all_that_may_still_run(struct contract *c)
{
    assert_true(is_drained(c, 2, QN_UNTIL_EMPTY));
    contract_put(c, "other", "a");
    assert_false(is_drained(c, 2, QN_UNTIL_EMPTY));
    assert_true(is_drained(c, 1, QN_UNTIL_EMPTY));
    struct qn_leased *run = contract_take_id(c, "other", "a");
    assert_false(is_drained(c, 2, QN_UNTIL_EMPTY));
    contract_finish(c, run, QN_RETRY);
    assert_false(is_drained(c, 2, QN_UNTIL_EMPTY));
    contract_advance(c, 60000);
    assert_int_equal(contract_forward(c, "other", NULL), 1);
    contract_finish(c, contract_take_id(c, "other", "a"), QN_ARCHIVE);
    assert_true(is_drained(c, 2, QN_UNTIL_EMPTY));
    contract_enqueue(c, &(quern_task){.type = "t", .queue = "other", .delay_ms = 5000});
    assert_false(is_drained(c, 2, QN_UNTIL_EMPTY));
}

static void idle_is_without_a_task_that_can_start_now(struct contract *c)
{
    assert_true(is_drained(c, 2, QN_UNTIL_IDLE));
    contract_put(c, "other", "a");
    assert_false(is_drained(c, 2, QN_UNTIL_IDLE));
    assert_true(is_drained(c, 1, QN_UNTIL_IDLE));
    pause_queue(c, "other", true);
    assert_true(is_drained(c, 2, QN_UNTIL_IDLE));
    pause_queue(c, "other", false);
    assert_false(is_drained(c, 2, QN_UNTIL_IDLE));
    struct qn_leased *run = contract_take_id(c, "other", "a");
    assert_true(is_drained(c, 2, QN_UNTIL_IDLE));
    contract_finish(c, run, QN_RETRY);
    contract_enqueue(c, &(quern_task){.type = "t", .queue = "other", .delay_ms = 5000});
    assert_true(is_drained(c, 2, QN_UNTIL_IDLE));
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(full_queues_give_their_quotas),
    CONTRACT_TEST(runs_come_by_queue_and_in_order_within_it),
    CONTRACT_TEST(slots_of_an_empty_queue_are_redrawn_by_weight),
    CONTRACT_TEST(redraw_goes_on_until_room_is_full),
    CONTRACT_TEST(quotas_do_not_exceed_room),
    CONTRACT_TEST(strict_empties_one_queue_before_the_next),
    CONTRACT_TEST(unknown_queue_gives_nothing),
    CONTRACT_TEST(paused_queue_gives_nothing_and_reports_it),
    CONTRACT_TEST(strict_skips_a_paused_queue),
    CONTRACT_TEST(pausing_twice_is_an_error_of_state),
    CONTRACT_TEST(outcomes_are_applied_while_the_queue_is_paused),
    CONTRACT_TEST(queue_is_found_once_it_has_had_a_task),
    CONTRACT_TEST(drained_sees_all_that_may_still_run),
    CONTRACT_TEST(idle_is_without_a_task_that_can_start_now),
};
CONTRACT_MAIN(tests)
