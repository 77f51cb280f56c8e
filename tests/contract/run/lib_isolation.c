/* SPDX-License-Identifier: MIT */
/* lib_isolation.c - charged tasks, and leases of a worker that reports its runs. */
#include "lib_isolation.h"

#include <string.h>

struct isolation_got isolation_lease(struct contract *c, const struct isolation_want *want)
{
    struct isolation_got got = {0};
    struct qn_queue_share share = {
        .name = want->queue != NULL ? want->queue : "default", .weight = 1, .quota = want->room};
    struct qn_exchange exchange = {.queues = &share,
                                   .queue_count = 1,
                                   .worker_id = want->worker_id,
                                   .room = want->room,
                                   .start_count_now =
                                       want->started > 0 ? want->started : want->room,
                                   .isolation.slots = want->slots > 0 ? want->slots : SLOTS,
                                   .solo = want->solo};
    memcpy(exchange.isolation.held, want->held, sizeof want->held);
    got.count = contract_exchange(c, &exchange, NULL, got.runs);
    assert_int_equal(share.leased, got.count);
    got.locked =
        want->solo != QN_SOLO_NONE && want->solo != QN_SOLO_END && exchange.solo_queue == 0;
    return got;
}

void isolation_give_back(struct contract *c, const struct isolation_got *got)
{
    for (size_t i = 0; i < got->count; i++) {
        contract_finish(c, got->runs[i], QN_GIVE_BACK);
    }
}

void isolation_assert_runs(const struct isolation_got *got, const char *const *ids, size_t count)
{
    assert_int_equal(got->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(got->runs[i]->task.id, ids[i]);
    }
}

void isolation_charge(struct contract *c, const char *queue, const char *prefix, size_t count,
                      int64_t charges)
{
    const struct contract_worker dead = {.id = "doomed", .is_dead = true};
    struct qn_leased *runs[QN_BATCH_MAX];
    quern_error err = {0};
    contract_put_many(c, queue, prefix, count);
    contract_put(c, queue, "mate");
    for (int64_t i = 0; i < charges; i++) {
        contract_heartbeat_as(c->broker, &dead);
        assert_int_equal(contract_lease_as(c, &dead, queue, (uint32_t)count + 1, runs), count + 1);
        for (size_t k = 0; k <= count; k++) {
            qn_leased_free(runs[k]);
        }
        assert_int_equal(contract_recover(c, queue), count + 1);
        contract_advance(c, QN_CHARGED_WAIT_MS);
        (void)contract_forward(c, queue, NULL);
    }
    assert_ok(qn_broker_operate(c->broker, QUERN_ACTION_DELETE, queue, "mate", &err), err);
}

void isolation_crash(struct contract *c, const struct isolation_got *got)
{
    for (size_t i = 0; i < got->count; i++) {
        assert_int_equal(contract_die(c, got->runs[i]), QN_APPLIED);
    }
    contract_advance(c, QN_CHARGED_WAIT_MS);
    (void)contract_forward(c, "default", NULL);
}
