/* SPDX-License-Identifier: MIT */
/* operations.c - wraps the operations of a broker (src/broker/broker.c).
 *
 * Each operation takes effect at one moment: no other thread runs meanwhile. Before and after it
 * anything may happen: another thread, a delay, a failure, the end of the program. What took effect
 * is reported to the model at once, also if the caller gets no answer. */
#include "operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "broker/inspect.h"
#include "broker/ops.h"
#include "lib_test.h"
#include "model.h"
#include "world.h"

qn_enqueue_fn __wrap_qn_broker_enqueue;
qn_enqueue_fn __real_qn_broker_enqueue;
qn_exchange_fn __wrap_qn_broker_exchange;
qn_exchange_fn __real_qn_broker_exchange;
qn_extend_fn __wrap_qn_broker_extend;
qn_extend_fn __real_qn_broker_extend;
qn_forward_fn __wrap_qn_broker_forward;
qn_forward_fn __real_qn_broker_forward;
qn_recover_fn __wrap_qn_broker_recover;
qn_recover_fn __real_qn_broker_recover;
qn_prune_fn __wrap_qn_broker_prune;
qn_prune_fn __real_qn_broker_prune;
qn_arm_fn __wrap_qn_broker_arm;
qn_arm_fn __real_qn_broker_arm;
qn_wait_fn __wrap_qn_broker_wait;
qn_wait_fn __real_qn_broker_wait;
qn_heartbeat_fn __wrap_qn_broker_heartbeat;
qn_heartbeat_fn __real_qn_broker_heartbeat;
qn_deregister_fn __wrap_qn_broker_deregister;
qn_deregister_fn __real_qn_broker_deregister;

enum { LOOK_MS = 50 };

struct sim_faults sim_faults;

enum fault { SLOW, DIES_BEFORE, REFUSED, DIES_AFTER, LOST, FAULTS };
static const char *const fault_names[FAULTS] = {"slow", "dies before", "refused", "dies after",
                                                "answer lost"};
static struct {
    const char *name;
    int64_t faults[FAULTS];
} counts[] = {{"enqueue"}, {"exchange"}, {"extend"},    {"forward"},   {"recover"},
              {"prune"},   {"arm"},      {"heartbeat"}, {"deregister"}};

static void count_fault(const char *operation, enum fault fault)
{
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        counts[i].faults[fault] += strcmp(counts[i].name, operation) == 0 ? 1 : 0;
    }
}

void sim_faults_print(void)
{
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        (void)printf("%-10s", counts[i].name);
        for (int j = 0; j < FAULTS; j++) {
            (void)printf("  %s %" PRId64, fault_names[j], counts[i].faults[j]);
        }
        (void)printf("\n");
    }
}

const char *sim_faults_missing(void)
{
    static char text[64];
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        for (int j = 0; j < FAULTS; j++) {
            if (counts[i].faults[j] == 0) {
                (void)snprintf(text, sizeof text, "%s: %s", counts[i].name, fault_names[j]);
                return text;
            }
        }
    }
    return NULL;
}

static quern_status refuse_dead(quern_error *err)
{
    return qn_error_set(err, QUERN_E_BROKER, "simulated: this program has ended");
}

/* A worker deregisters once, other operations are many: else no fault would come to that. */
static bool happens(const char *what, int permille, int more)
{
    return sim_chance(strcmp(what, "deregister") == 0 ? more * permille : permille);
}

static void be_slow(const char *what)
{
    if (happens(what, sim_faults.slow, 10)) {
        count_fault(what, SLOW);
        int64_t ms = sim_between(1, sim_faults.slow_ms);
        sim_trace("%s waits %" PRId64 " ms for its broker", sim_self()->name, ms);
        while (ms > 0 && !sim_world.is_quiet) {
            sim_sleep_ms(ms < LOOK_MS ? ms : LOOK_MS);
            ms -= LOOK_MS;
        }
    } else {
        sim_yield();
    }
}

/* Before it takes effect. QUERN_OK: then it takes effect now. */
static quern_status begin(const char *what, quern_error *err)
{
    static const quern_status refusals[] = {QUERN_E_BUSY, QUERN_E_TIMEOUT, QUERN_E_FULL};
    if (sim_self()->dead) {
        return refuse_dead(err);
    }
    be_slow(what);
    if (happens(what, sim_faults.dies_before, 50)) {
        count_fault(what, DIES_BEFORE);
        sim_kill(sim_self(), what);
    }
    if (sim_self()->dead) {
        return refuse_dead(err);
    }
    if (happens(what, sim_faults.refused, 10)) {
        count_fault(what, REFUSED);
        quern_status status = refusals[sim_below(3)];
        sim_trace("%s: %s is refused: %s", sim_self()->name, what, quern_status_name(status));
        return qn_error_set(err, status, "simulated: %s is refused", what);
    }
    sim_begin_step();
    return QUERN_OK;
}

/* After that. QUERN_OK: the caller gets the answer. */
static quern_status end(const char *what, quern_status status, quern_error *err)
{
    sim_end_step();
    if (status != QUERN_OK) {
        sim_trace("%s: %s failed by itself: %s", sim_self()->name, what, quern_status_name(status));
        return status;
    }
    be_slow(what);
    if (happens(what, sim_faults.dies_after, 50)) {
        count_fault(what, DIES_AFTER);
        sim_kill(sim_self(), what);
    }
    if (sim_self()->dead) {
        return refuse_dead(err);
    }
    if (happens(what, sim_faults.lost, 10)) {
        count_fault(what, LOST);
        sim_trace("%s: the answer to %s is lost", sim_self()->name, what);
        return qn_error_set(err, QUERN_E_UNKNOWN, "simulated: the answer to %s is lost", what);
    }
    return QUERN_OK;
}

quern_status __wrap_qn_broker_enqueue(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                                      quern_error *err)
{
    quern_status status = begin("enqueue", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_enqueue(broker, enqueue, err);
    if (status == QUERN_OK) {
        sim_model_enqueue(enqueue);
    }
    return end("enqueue", status, err);
}

quern_status __wrap_qn_broker_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                       struct qn_exchange_reply *reply, quern_error *err)
{
    quern_status status = begin("exchange", err);
    if (status != QUERN_OK) {
        reply->run_count = 0;
        return status;
    }
    status = __real_qn_broker_exchange(broker, exchange, reply, err);
    bool has_runs = status == QUERN_OK;
    if (status == QUERN_OK) {
        sim_model_exchange(sim_self(), exchange, reply);
    }
    status = end("exchange", status, err);
    if (status != QUERN_OK && has_runs) {
        qn_exchange_free_runs(reply);
    }
    return status;
}

quern_status __wrap_qn_broker_extend(struct qn_broker *broker, struct qn_extension *extensions,
                                     size_t count, int64_t lease_ms, quern_error *err)
{
    quern_status status = begin("extend", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_extend(broker, extensions, count, lease_ms, err);
    if (status == QUERN_OK) {
        sim_model_extend(sim_self(), extensions, count, lease_ms);
    }
    return end("extend", status, err);
}

quern_status __wrap_qn_broker_forward(struct qn_broker *broker, struct qn_upkeep upkeep,
                                      size_t *ret_moved, int64_t *ret_next_due_at_ms,
                                      quern_error *err)
{
    quern_status status = begin("forward", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_forward(broker, upkeep, ret_moved, ret_next_due_at_ms, err);
    return end("forward", status, err);
}

/* What was recovered; reported to the caller after the operation, if its answer is not lost. */
struct recovered {
    struct qn_recovery recoveries[SIM_TASKS_MAX];
    size_t count;
};

static void note_recovery(const struct qn_recovery *recovery, void *user)
{
    struct recovered *recovered = user;
    sim_model_recover(sim_self(), recovery);
    recovered->recoveries[recovered->count] = *recovery;
    /* Names that live longer than the call. */
    recovered->recoveries[recovered->count].id = sim_task_of(recovery->id)->id;
    recovered->recoveries[recovered->count++].queue = sim_queue_of(recovery->queue)->name;
}

quern_status __wrap_qn_broker_recover(struct qn_broker *broker, struct qn_upkeep upkeep,
                                      const struct qn_recovery_sink *sink, size_t *ret_recovered,
                                      quern_error *err)
{
    struct recovered recovered = {.count = 0};
    const struct qn_recovery_sink ours = {.on_recovery = note_recovery, .user = &recovered};
    quern_status status = begin("recover", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_recover(broker, upkeep, &ours, ret_recovered, err);
    status = end("recover", status, err);
    for (size_t i = 0; status == QUERN_OK && i < recovered.count; i++) {
        sink->on_recovery(&recovered.recoveries[i], sink->user);
    }
    return status;
}

quern_status __wrap_qn_broker_prune(struct qn_broker *broker, struct qn_upkeep upkeep,
                                    size_t *ret_removed, quern_error *err)
{
    quern_status status = begin("prune", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_prune(broker, upkeep, ret_removed, err);
    return end("prune", status, err);
}

quern_status __wrap_qn_broker_arm(struct qn_broker *broker, struct qn_names queues, bool *ret_work,
                                  int64_t *ret_next_due_at_ms, quern_error *err)
{
    quern_status status = begin("arm", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_arm(broker, queues, ret_work, ret_next_due_at_ms, err);
    return end("arm", status, err);
}

/* It takes its time anyway, and changes nothing. */
quern_status __wrap_qn_broker_wait(struct qn_broker *broker, int64_t timeout_ms,
                                   struct qn_wakeup *ret_wakeup, quern_error *err)
{
    if (sim_self()->dead) {
        return refuse_dead(err);
    }
    if (sim_chance(sim_faults.refused)) {
        return qn_error_set(err, QUERN_E_BUSY, "simulated: no waiting now");
    }
    quern_status status = __real_qn_broker_wait(broker, timeout_ms, ret_wakeup, err);
    return sim_self()->dead ? refuse_dead(err) : status;
}

quern_status __wrap_qn_broker_heartbeat(struct qn_broker *broker,
                                        const struct qn_heartbeat *heartbeat, quern_error *err)
{
    quern_status status = begin("heartbeat", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_heartbeat(broker, heartbeat, err);
    if (status == QUERN_OK) {
        sim_model_heartbeat(sim_self(), heartbeat);
    }
    return end("heartbeat", status, err);
}

quern_status __wrap_qn_broker_deregister(struct qn_broker *broker, const char *worker_id,
                                         quern_error *err)
{
    quern_status status = begin("deregister", err);
    if (status != QUERN_OK) {
        return status;
    }
    status = __real_qn_broker_deregister(broker, worker_id, err);
    if (status == QUERN_OK) {
        sim_model_deregister(sim_self());
    }
    return end("deregister", status, err);
}
