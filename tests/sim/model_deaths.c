/* SPDX-License-Identifier: MIT */
/* model_deaths.c - the rules of docs/internals/deaths.md a second time: who is charged, who is
 * poison, which company a charged task may have, what may be leased from a braked queue. */
#include <inttypes.h>

#include "model.h"
#include "task/limits.h"

/* --- Recovery --------------------------------------------------------------------------- */

static int count_started(const struct sim_process *process, int queue)
{
    int count = 0;
    for (int i = 0; i < sim_model.task_count; i++) {
        const struct sim_task *task = &sim_model.tasks[i];
        bool counts = queue < 0 || task->queue == queue;
        count += task->state == SIM_ACTIVE && task->holder == process && task->started && counts;
    }
    return count;
}

/* The first of its runs that is ended: the death itself is noted, for all its queues. */
static void note_death(struct sim_process *process)
{
    struct sim_worker_facts *facts = sim_facts_of(process);
    if (facts->death_noted) {
        return;
    }
    facts->death_noted = true;
    facts->death_runs = count_started(process, -1);
    for (int i = 0; i < sim_model.queue_count; i++) {
        if (count_started(process, i) > 0) {
            int64_t streak = ++sim_model.queues[i].hosts[process->host].streak;
            sim_model.events[SIM_BRAKED] += streak == QN_BRAKE_DEATHS ? 1 : 0;
            sim_model.queues[i].hosts[process->host].died_at_ms = sim_wall_ms();
        }
    }
}

/* Whether the cause that the broker gives is what really happened. */
static void check_cause(const struct sim_process *by, const struct sim_task *task,
                        quern_cause cause)
{
    struct sim_process *holder = task->holder;
    const struct sim_worker_facts *facts = sim_facts_of(holder);
    bool sees = sim_sees(by, holder);
    bool is_over = task->lease_until_ms <= sim_boot_ms();
    bool is_gone = facts->deregistered || (sees && holder->dead);
    bool is_silent = !sees && is_over && sim_wall_ms() - facts->heartbeat_at_ms > 15000;
    if (cause == QUERN_CAUSE_WORKER_DIED && !is_gone && !is_silent) {
        sim_fail("promise 3: %s recovers from the death of %s with %s, but it lives", by->name,
                 holder->name, task->id);
    }
    if (cause == QUERN_CAUSE_LEASE_EXPIRED && (!is_over || is_gone)) {
        sim_fail("promise 3: %s recovers from an expired lease of %s on %s, but %s", by->name,
                 holder->name, task->id, is_over ? "it has died" : "it is not");
    }
    if (cause != QUERN_CAUSE_WORKER_DIED && cause != QUERN_CAUSE_LEASE_EXPIRED) {
        sim_fail("promise 3: %s is recovered by cause %s", task->id, quern_cause_name(cause));
    }
}

/* Charges the task. True: it is poison. */
static bool charge(struct sim_task *task)
{
    const struct sim_queue *queue = &sim_model.queues[task->queue];
    int64_t ok_at_ms = queue->hosts[task->holder->host].ok_at_ms;
    bool is_lone = sim_facts_of(task->holder)->death_runs == 1;
    if (task->charges == 0) {
        task->first_at_ms = task->started_at_ms;
    }
    task->charges++;
    task->lone += is_lone ? 1 : 0;
    sim_model.events[SIM_LONE] += is_lone ? 1 : 0;
    sim_model.events[SIM_CHARGED]++;
    return is_lone && task->charges >= QN_POISON_CHARGES && task->lone >= QN_POISON_LONE &&
           ok_at_ms > task->first_at_ms;
}

void sim_model_recover(struct sim_process *by, const struct qn_recovery *recovery)
{
    struct sim_task *task = sim_task_of(recovery->id);
    sim_trace("%s recovers %s: %s%s%s", by->name, task->id, quern_cause_name(recovery->cause),
              recovery->charged ? ", charged" : "", recovery->archived ? ", archived" : "");
    if (task->state != SIM_ACTIVE) {
        sim_fail("promise 1: %s is recovered in state %d", task->id, (int)task->state);
        return;
    }
    check_cause(by, task, recovery->cause);
    const struct sim_worker_facts *facts = sim_facts_of(task->holder);
    bool is_death =
        recovery->cause == QUERN_CAUSE_WORKER_DIED && !facts->deregistered && !facts->leaving;
    if (is_death) {
        note_death(task->holder);
    }
    bool is_charged = is_death && task->started;
    if (recovery->charged != is_charged) {
        sim_fail("4.1: %s is %s with the death of %s", task->id,
                 recovery->charged ? "charged" : "not charged", task->holder->name);
    }
    bool spent = task->started && task->retry_count >= task->retry_max;
    task->is_poison = is_charged && charge(task);
    if (recovery->archived != (task->is_poison || spent)) {
        sim_fail("4.1: %s is %s, with %" PRId64 " charges, %" PRId64 " of them lone, %s", task->id,
                 recovery->archived ? "archived" : "not archived", task->charges, task->lone,
                 spent ? "no attempts left" : "attempts left");
    }
    sim_model.events[SIM_POISON] += task->is_poison ? 1 : 0;
    sim_model.events[SIM_UNCHARGED] += recovery->cause == QUERN_CAUSE_WORKER_DIED && !is_charged;
    sim_model.events[SIM_EXPIRED] += recovery->cause == QUERN_CAUSE_LEASE_EXPIRED ? 1 : 0;
    sim_model.events[SIM_SPENT] += spent && !task->is_poison ? 1 : 0;
    if (recovery->archived) {
        sim_model_archive(task);
        return;
    }
    int64_t delay_ms = is_charged && task->charges > 1 ? QN_CHARGED_WAIT_MS : 0;
    task->state = SIM_WAITING;
    sim_model_lock(task);
    task->holder = NULL;
    task->started = false;
    task->is_probe = false;
    task->cause = recovery->cause;
    task->due_at_ms = sim_wall_ms() + delay_ms;
}

/* --- The brake -------------------------------------------------------------------------- */

void sim_model_release(const struct sim_process *process, struct sim_queue *queue)
{
    int64_t now_ms = sim_wall_ms();
    if (queue->hosts[process->host].streak > 0 ||
        now_ms - queue->hosts[process->host].ok_at_ms >= QN_OK_NOTE_MS) {
        queue->hosts[process->host].ok_at_ms = now_ms;
    }
    sim_model.events[SIM_RELEASED] += queue->hosts[process->host].streak >= QN_BRAKE_DEATHS ? 1 : 0;
    queue->hosts[process->host].streak = 0;
}

static void check_probe(const struct sim_process *process, struct sim_task *task,
                        int leased_of_queue)
{
    const struct sim_queue *queue = &sim_model.queues[task->queue];
    int64_t since_ms = sim_wall_ms() - queue->hosts[process->host].died_at_ms;
    task->is_probe = true;
    sim_model.events[SIM_PROBE]++;
    for (int i = 0; i < sim_model.task_count; i++) {
        const struct sim_task *other = &sim_model.tasks[i];
        if (other != task && other->state == SIM_ACTIVE && other->is_probe &&
            other->queue == task->queue && other->holder->host == process->host) {
            sim_fail("4.1: %s is leased from a braked queue beside %s", task->id, other->id);
        }
    }
    if (leased_of_queue > 1 || since_ms < QN_BRAKE_MS_MIN) {
        sim_fail("4.1: a braked queue gives %s as run %d, %" PRId64 " ms after the last death",
                 task->id, leased_of_queue, since_ms);
    }
}

void sim_model_check_brakes(const struct sim_process *process, const struct qn_exchange *exchange)
{
    for (size_t i = 0; i < exchange->queue_count; i++) {
        const struct sim_queue *queue = sim_queue_of(exchange->queues[i].name);
        int64_t streak = queue->hosts[process->host].streak;
        if ((int64_t)exchange->queues[i].deaths != streak) {
            sim_fail("4.1: %s gets %u deaths of %s, and there were %" PRId64, process->name,
                     exchange->queues[i].deaths, queue->name, streak);
        }
    }
}

/* --- Isolation -------------------------------------------------------------------------- */

/* Runs whose lease has not ended by the clock: a worker drops the others by itself, before anything
 * recovers them. */
static int count_held(const struct sim_process *process, int64_t charges)
{
    int count = 0;
    for (int i = 0; i < sim_model.task_count; i++) {
        const struct sim_task *task = &sim_model.tasks[i];
        bool held = task->state == SIM_ACTIVE && task->holder == process &&
                    task->lease_until_ms > sim_boot_ms();
        count += held && task->charges >= charges ? 1 : 0;
    }
    return count;
}

static void check_alone(struct sim_process *process, const struct sim_task *task,
                        const struct qn_exchange *exchange)
{
    if (exchange->solo != QN_SOLO_RUN || count_held(process, 0) > 1 ||
        sim_facts_of(process)->running > 0) {
        sim_fail("4.1: %s must run alone, and %s has %d runs and %d handlers", task->id,
                 process->name, count_held(process, 0), sim_facts_of(process)->running);
    }
}

static void check_company(struct sim_process *process, const struct sim_task *task,
                          const struct qn_exchange *exchange)
{
    uint32_t slots = exchange->isolation.slots;
    if (slots <= 1) {
        return;
    }
    if (task->charges >= QN_ALONE_CHARGES || slots >> task->charges <= 1) {
        sim_model.events[SIM_ALONE]++;
        check_alone(process, task, exchange);
        return;
    }
    sim_model.events[SIM_BESIDE]++;
    for (int64_t level = 1; level <= task->charges; level++) {
        int held = count_held(process, level);
        if (held > (int)(slots >> level)) {
            sim_fail("4.1: %s has %d runs of tasks charged %" PRId64 " times in %u slots",
                     process->name, held, level, slots);
        }
    }
}

void sim_model_check_lease(struct sim_process *process, struct sim_task *task,
                           const struct qn_exchange *exchange, int leased_of_queue)
{
    const struct sim_queue *queue = &sim_model.queues[task->queue];
    if (task->charges > 0 && !task->started) {
        sim_fail("4.1: %s has charges, and is not marked as started", task->id);
    }
    if (queue->hosts[process->host].streak >= QN_BRAKE_DEATHS) {
        check_probe(process, task, leased_of_queue);
    }
    if (task->charges > 0) {
        check_company(process, task, exchange);
    }
}
