/* SPDX-License-Identifier: MIT */
/* lib_steps.c - the steps of contract tests: enqueue, lease, finish, recover, forward.
 *
 * Every call carries a stamp that grows, as the library's own callers send it. */
#include "lib_contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/arena.h"
#include "broker/limit/limit.h"
#include "task/limit.h"
#include "task/task.h"

static struct qn_stamp next_stamp(struct contract *c)
{
    c->sequence++;
    return (struct qn_stamp){.session = c->session, .sequence = c->sequence};
}

/* --- Enqueueing --------------------------------------------------------------------- */

struct qn_task_terms contract_terms(struct contract *c)
{
    return (struct qn_task_terms){.now_wall_ms = qn_clock_wall_ms(&c->clock),
                                  .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                  .ids = &c->ids};
}

quern_status contract_try(struct contract *c, const quern_task *task)
{
    struct qn_arena arena = {0};
    struct qn_task prepared = {0};
    quern_status result = QUERN_E_INVALID;
    quern_error err = {0};
    const struct qn_task_terms terms = contract_terms(c);
    assert_ok(qn_task_prepare(task, &terms, &arena, &prepared, &err), err);
    assert_ok(qn_broker_enqueue(c->broker,
                                &(struct qn_enqueue){next_stamp(c), &prepared, 1, &result}, &err),
              err);
    qn_arena_finish(&arena);
    return result;
}

void contract_enqueue(struct contract *c, const quern_task *task)
{
    assert_int_equal(contract_try(c, task), QUERN_OK);
}

void contract_put(struct contract *c, const char *queue, const char *id)
{
    contract_enqueue(c, &(quern_task){.type = "t", .queue = queue, .id = id});
}

static void put_batch(struct contract *c, const char *queue, const char *prefix, size_t first,
                      size_t count)
{
    struct qn_arena arena = {0};
    struct qn_task tasks[QN_BATCH_MAX] = {0};
    quern_status results[QN_BATCH_MAX];
    quern_error err = {0};
    const struct qn_task_terms terms = contract_terms(c);
    for (size_t i = 0; i < count; i++) {
        quern_task task = {.type = "t", .queue = queue};
        task.id = qn_arena_printf(&arena, "%s%04zu", prefix, first + i);
        assert_ok(qn_task_prepare(&task, &terms, &arena, &tasks[i], &err), err);
    }
    assert_ok(qn_broker_enqueue(c->broker,
                                &(struct qn_enqueue){next_stamp(c), tasks, count, results}, &err),
              err);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(results[i], QUERN_OK);
    }
    qn_arena_finish(&arena);
}

void contract_put_many(struct contract *c, const char *queue, const char *prefix, size_t count)
{
    for (size_t first = 0; first < count; first += QN_BATCH_MAX) {
        size_t rest = count - first;
        put_batch(c, queue, prefix, first, rest < QN_BATCH_MAX ? rest : QN_BATCH_MAX);
    }
}

/* --- Running ------------------------------------------------------------------------ */

size_t contract_exchange(struct contract *c, struct qn_exchange *exchange, enum qn_applied *applied,
                         struct qn_leased **runs)
{
    struct qn_exchange_reply reply = {.applied = applied, .runs = runs};
    quern_error err = {0};
    if (exchange->stamp.session == 0) {
        exchange->stamp = next_stamp(c);
    }
    if (exchange->worker_id == NULL) {
        exchange->worker_id = CONTRACT_WORKER;
    }
    if (exchange->host == NULL) {
        exchange->host = CONTRACT_HOST;
    }
    if (exchange->lease_ms == 0) {
        exchange->lease_ms = CONTRACT_LEASE_MS;
    }
    assert_ok(qn_broker_exchange(c->broker, exchange, &reply, &err), err);
    assert_true(reply.run_count <= exchange->room);
    c->more = reply.more;
    c->late_count += reply.late_count;
    if (exchange->queue_count == 1) {
        c->deaths = exchange->queues[0].deaths;
        c->braked = exchange->queues[0].braked;
        c->paused = exchange->queues[0].paused;
        c->wait_ms = exchange->queues[0].wait_ms;
    }
    return reply.run_count;
}

static size_t lease_some(struct contract *c, const char *queue, uint32_t room, uint32_t started,
                         struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = queue, .weight = 1, .quota = room};
    struct qn_exchange exchange = {
        .queues = &share, .queue_count = 1, .room = room, .start_count_now = started};
    size_t count = contract_exchange(c, &exchange, NULL, runs);
    assert_int_equal(share.leased, count);
    return count;
}

size_t contract_lease(struct contract *c, const char *queue, uint32_t room, struct qn_leased **runs)
{
    return lease_some(c, queue, room, room, runs);
}

size_t contract_lease_as(struct contract *c, const struct contract_worker *worker,
                         const char *queue, uint32_t room, struct qn_leased **runs)
{
    struct qn_queue_share share = {.name = queue, .weight = 1, .quota = room};
    struct qn_exchange exchange = {.stamp = next_stamp(c),
                                   .worker_id = worker->id,
                                   .host = worker->host != NULL ? worker->host : CONTRACT_HOST,
                                   .lease_ms = CONTRACT_LEASE_MS,
                                   .queues = &share,
                                   .queue_count = 1,
                                   .room = room,
                                   .start_count_now = worker->is_ahead ? 0 : room};
    struct qn_exchange_reply reply = {.runs = runs};
    quern_error err = {0};
    assert_ok(qn_broker_exchange(c->broker, &exchange, &reply, &err), err);
    return reply.run_count;
}

struct qn_leased *contract_take(struct contract *c, const char *queue)
{
    struct qn_leased *run = NULL;
    return lease_some(c, queue, 1, 1, &run) == 1 ? run : NULL;
}

struct qn_leased *contract_fetch(struct contract *c, const char *queue)
{
    struct qn_leased *run = NULL;
    return lease_some(c, queue, 1, 0, &run) == 1 ? run : NULL;
}

struct qn_leased *contract_take_id(struct contract *c, const char *queue, const char *id)
{
    struct qn_leased *run = contract_take(c, queue);
    assert_non_null(run);
    assert_string_equal(run->task.id, id);
    return run;
}

struct qn_leased *contract_start(struct contract *c, const char *id)
{
    contract_put(c, "default", id);
    return contract_take_id(c, "default", id);
}

enum qn_applied contract_end(struct contract *c, const struct qn_outcome *outcome)
{
    enum qn_applied applied = QN_STALE;
    struct qn_queue_share share = {.name = outcome->run->task.queue, .weight = 1};
    struct qn_exchange exchange = {
        .outcomes = outcome, .outcome_count = 1, .queues = &share, .queue_count = 1};
    assert_int_equal(contract_exchange(c, &exchange, &applied, NULL), 0);
    return applied;
}

static quern_cause cause_of(enum qn_outcome_kind kind)
{
    switch (kind) {
    case QN_GIVE_BACK:
        return QUERN_CAUSE_GIVEN_BACK;
    case QN_CRASH:
        return QUERN_CAUSE_CHILD_DIED;
    case QN_DONE:
    case QN_DROP:
    case QN_RETRY:
    case QN_SNOOZE:
    case QN_ASIDE:
    case QN_ARCHIVE:
    case QN_CANCEL:
    case QN_ENDED:
        break;
    }
    return QUERN_CAUSE_NONE;
}

enum qn_applied contract_report(struct contract *c, const struct qn_leased *run,
                                enum qn_outcome_kind kind)
{
    bool failed = kind == QN_RETRY || kind == QN_ARCHIVE;
    bool later = kind == QN_RETRY || kind == QN_SNOOZE || kind == QN_ASIDE;
    struct qn_outcome outcome = {.run = run,
                                 .kind = kind,
                                 .started = true,
                                 .cause = cause_of(kind),
                                 .delay_ms = later ? 60000 : 0,
                                 .error = failed ? "broken" : NULL};
    return contract_end(c, &outcome);
}

enum qn_applied contract_finish(struct contract *c, struct qn_leased *run,
                                enum qn_outcome_kind kind)
{
    enum qn_applied applied = contract_report(c, run, kind);
    qn_leased_free(run);
    return applied;
}

enum qn_applied contract_die(struct contract *c, struct qn_leased *run)
{
    return contract_finish(c, run, QN_CRASH);
}

/* --- Upkeep ------------------------------------------------------------------------- */

static size_t recover_once(struct contract *c, struct qn_upkeep upkeep,
                           const struct qn_recovery_sink *sink)
{
    size_t count = 0;
    quern_error err = {0};
    assert_ok(qn_broker_recover(c->broker, upkeep, sink, &count, &err), err);
    return count;
}

size_t contract_recover_once(struct contract *c, const char *queue)
{
    return recover_once(c, (struct qn_upkeep){{&queue, 1}, QN_BATCH_MAX}, NULL);
}

/* After seconds without a call, on a busy machine, the server seems to have been silent, and for a
 * moment nothing is recovered. No worker waits that long between two calls. */
size_t contract_recover_all(struct contract *c, struct qn_upkeep upkeep,
                            const struct qn_recovery_sink *sink)
{
    enum { SILENCE_MS = 4000, MOMENT_MS = 3500 };
    int64_t since_ms = c->recovered_at_ms == 0 ? 0 : test_now_ms() - c->recovered_at_ms;
    size_t count = recover_once(c, upkeep, sink);
    if (count == 0 && c->maker->has_clock && since_ms > SILENCE_MS) {
        test_pause_ms(MOMENT_MS);
        count = recover_once(c, upkeep, sink);
    }
    c->recovered_at_ms = test_now_ms();
    return count;
}

size_t contract_recover(struct contract *c, const char *queue)
{
    return contract_recover_all(c, (struct qn_upkeep){{&queue, 1}, QN_BATCH_MAX}, NULL);
}

size_t contract_forward(struct contract *c, const char *queue, int64_t *ret_next_due_at_ms)
{
    size_t count = 0;
    int64_t next_due_at_ms = 0;
    quern_error err = {0};
    assert_ok(qn_broker_forward(c->broker, (struct qn_upkeep){{&queue, 1}, QN_BATCH_MAX}, &count,
                                &next_due_at_ms, &err),
              err);
    if (ret_next_due_at_ms != NULL) {
        *ret_next_due_at_ms = next_due_at_ms;
    }
    return count;
}

void contract_expire(struct contract *c, const char *queue)
{
    contract_advance(c, CONTRACT_LEASE_MS + 1);
    assert_true(contract_recover(c, queue) > 0);
}

/* --- Limits ------------------------------------------------------------------------- */

void contract_need_limits(const struct contract *c)
{
    if (!qn_broker_has_limits(c->broker)) {
        print_message("skipped: this broker has no limits\n");
        skip();
    }
}

quern_status contract_try_limit(struct contract *c, const char *queue, quern_limit_scope scope,
                                const char *name, const char *text)
{
    struct qn_limit parsed;
    quern_error err = {0};
    assert_ok(qn_limit_parse(text, &parsed, &err), err);
    const quern_limit limit = {.queue = queue,
                               .scope = (int32_t)scope,
                               .name = name,
                               .count = parsed.count,
                               .period_ms = parsed.period_ms,
                               .burst = parsed.burst};
    return qn_broker_set_limit(c->broker, &limit, &err);
}

void contract_limit(struct contract *c, const char *queue, quern_limit_scope scope,
                    const char *name, const char *text)
{
    assert_int_equal(contract_try_limit(c, queue, scope, name, text), QUERN_OK);
}
