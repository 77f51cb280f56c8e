/* SPDX-License-Identifier: MIT */
/* judge.c - what must hold after the faults have ended, and what must be stored at the end. */
#include <inttypes.h>
#include <string.h>

#include "broker/inspect.h"
#include "world.h"

/* The bounds of the promise, 1 s and 2 s, plus the interval of the checks. */
enum { SEEN_MS = 1300, UNSEEN_MS = 2300, KILLS_MAX = 20 };

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

bool sim_judge_all_ended(void)
{
    for (int i = 0; i < sim_model.task_count; i++) {
        enum sim_state state = sim_model.tasks[i].state;
        if (state == SIM_WAITING || state == SIM_ACTIVE) {
            return false;
        }
    }
    return true;
}

/* Whether a living worker can see the process. */
static bool is_seen(const struct sim_process *process)
{
    for (int i = 0; i < sim_world.workers; i++) {
        const struct sim_program *program = sim_world.running[i];
        if (program != NULL && !program->process.dead && sim_sees(&program->process, process)) {
            return true;
        }
    }
    return false;
}

/* Promise 2: its owner is gone; how long may it take until it is pending again? A worker that can
 * see the process recovers it within a second, all others when the lease is over. */
static void watch_task(const struct sim_task *task)
{
    if (task->state != SIM_ACTIVE || !task->holder->dead) {
        return;
    }
    struct sim_program *program = sim_program_of(task->holder);
    int64_t now_ms = sim_wall_ms();
    int64_t since_ms = later(program->died_at_ms, sim_world.quiet_at_ms);
    if (!is_seen(task->holder)) {
        program->unseen_at_ms = now_ms;
    }
    if (now_ms - later(since_ms, program->unseen_at_ms) > SEEN_MS ||
        now_ms - since_ms > sim_world.lease_ms + UNSEEN_MS) {
        sim_fail("promise 2: %s died %" PRId64 " ms ago, and still has %s", program->name,
                 now_ms - since_ms, task->id);
    }
}

static void watch_kills(const struct sim_task *task)
{
    if (task->quiet_kills > KILLS_MAX) {
        sim_fail("promise 6: %s has ended %d processes, and is not poison", task->id,
                 task->quiet_kills);
    }
}

void sim_judge_watch(void)
{
    for (int i = 0; i < sim_model.task_count; i++) {
        watch_task(&sim_model.tasks[i]);
        watch_kills(&sim_model.tasks[i]);
    }
}

/* --- The end ---------------------------------------------------------------------------- */

struct seen {
    enum sim_state states[SIM_TASKS_MAX];
    int64_t completed;
};

static bool see_task(const quern_task_info *info, void *user)
{
    struct seen *seen = user;
    const struct sim_task *task = sim_task_of(quern_task_info_id(info));
    enum sim_state *state = &seen->states[task - sim_model.tasks];
    if (*state != SIM_ABSENT) {
        sim_fail("promise 1: %s is there twice", task->id);
    }
    switch (quern_task_info_state(info)) {
    case QUERN_TASK_COMPLETED:
        *state = SIM_DONE;
        break;
    case QUERN_TASK_ARCHIVED:
        *state = SIM_ARCHIVED;
        break;
    case QUERN_TASK_ACTIVE:
    case QUERN_TASK_PENDING:
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
    case QUERN_TASK_AGGREGATING:
        *state = SIM_WAITING;
        break;
    }
    return true;
}

static void check_left(struct qn_broker *broker)
{
    struct seen seen = {.completed = 0};
    for (int q = 0; q < sim_model.queue_count; q++) {
        for (int32_t s = QUERN_TASK_ACTIVE; s <= QUERN_TASK_COMPLETED; s++) {
            const quern_task_filter filter = {
                .queue = sim_model.queues[q].name, .state = s, .limit = SIM_TASKS_MAX};
            quern_status status = qn_broker_tasks(broker, &filter, see_task, &seen, NULL);
            if (status != QUERN_OK && status != QUERN_E_NOT_FOUND) {
                sim_fail("tasks cannot be listed: %s", quern_status_name(status));
            }
        }
    }
    for (int i = 0; i < sim_model.task_count; i++) {
        const struct sim_task *task = &sim_model.tasks[i];
        bool is_kept =
            task->state == SIM_ARCHIVED || (task->state == SIM_DONE && task->retention_ms > 0);
        enum sim_state expected = is_kept ? task->state : SIM_ABSENT;
        if (seen.states[i] != expected) {
            sim_fail("promise 1: %s ended in state %d, and is kept in state %d", task->id,
                     (int)task->state, (int)seen.states[i]);
        }
    }
}

static bool check_counts(const quern_queue_info *info, void *user)
{
    const struct sim_queue *queue = sim_queue_of(info->name);
    (void)user;
    if (info->processed_total != queue->processed || info->failed_total != queue->failed) {
        sim_fail("queue %s has counted %" PRIu64 " and %" PRIu64 " failed, and there were %" PRIu64
                 " and %" PRIu64,
                 info->name, info->processed_total, info->failed_total, queue->processed,
                 queue->failed);
    }
    return true;
}

static void report_finding(const quern_finding *finding, void *user)
{
    (void)user;
    sim_trace("doctor: %s %s %s %s", finding->invariant, finding->queue, finding->id,
              finding->text);
    if (finding->severity != QUERN_SEVERITY_NOTE) {
        sim_fail("the doctor finds %s: %s", finding->invariant, finding->text);
    }
}

static bool report_worker(const quern_worker_info *worker, void *user)
{
    (void)worker;
    *(int *)user += 1;
    return true;
}

void sim_judge_end(struct qn_broker *broker)
{
    int workers = 0;
    sim_begin_step();
    check_left(broker);
    quern_status status = qn_broker_queues(broker, NULL, check_counts, NULL, NULL);
    if (status == QUERN_OK) {
        status = qn_broker_doctor(broker, false, report_finding, NULL, NULL);
    }
    if (status == QUERN_OK) {
        status = qn_broker_workers(broker, report_worker, &workers, NULL);
    }
    sim_end_step();
    if (status != QUERN_OK) {
        sim_fail("the broker cannot be judged: %s", quern_status_name(status));
    }
    sim_trace("the end: %d workers left, %" PRId64 " deaths, %" PRId64 " poison", workers,
              sim_model.events[SIM_CHARGED], sim_model.events[SIM_POISON]);
}
