/* SPDX-License-Identifier: MIT */
/* trouble.c - faults from outside: SIGKILL, SIGSTOP, quern_worker_stop and quern_worker_quiet, and
 * an operator who pauses queues and runs, archives, deletes and cancels tasks by hand. */
#include <inttypes.h>

#include "broker/inspect.h"
#include "world.h"

/* --- The operator ----------------------------------------------------------------------- */

static void pause_queue(struct qn_broker *broker, struct sim_queue *queue, bool pause)
{
    quern_error err = {0};
    sim_begin_step();
    quern_status status = qn_broker_pause(broker, queue->name, pause, &err);
    sim_end_step();
    if (status == QUERN_OK) {
        queue->paused = pause;
        sim_trace("queue %s is %s", queue->name, pause ? "paused" : "resumed");
    } else if (status != QUERN_E_NOT_FOUND) { /* it is not there yet */
        sim_fail("a queue cannot be paused: %s", err.text);
    }
}

static void operate(struct qn_broker *broker, struct sim_task *task, quern_action action)
{
    sim_begin_step();
    const char *queue = sim_model.queues[task->queue].name;
    quern_status status = qn_broker_operate(broker, action, queue, task->id, NULL);
    sim_model_operate(task, action, status);
    sim_end_step();
}

/* --- All of it -------------------------------------------------------------------------- */

static void disturb_worker(struct sim_program *program)
{
    const struct sim_world *world = &sim_world;
    if (sim_chance(10 * world->paused)) {
        int64_t ms = sim_between(10, 3 * world->lease_ms);
        sim_trace("%s is stopped for %" PRId64 " ms", program->name, ms);
        sim_pause(&program->process, ms);
    }
    if (sim_chance(10 * world->killed)) {
        sim_kill(&program->process, "SIGKILL");
    }
    if (program->worker != NULL && sim_chance(10 * world->worker_stopped)) {
        sim_trace("%s gets quern_worker_stop", program->name);
        quern_worker_stop(program->worker);
    }
    if (program->worker != NULL && sim_chance(10 * world->worker_quiet)) {
        bool quiet = sim_chance(500);
        sim_trace("%s gets quern_worker_%s", program->name, quiet ? "quiet" : "resume");
        if (quiet) {
            quern_worker_quiet(program->worker);
        } else {
            quern_worker_resume(program->worker);
        }
    }
}

void sim_trouble_make(struct qn_broker *broker)
{
    const struct sim_world *world = &sim_world;
    struct sim_program *program = world->running[sim_below(world->workers)];
    struct sim_queue *queue = &sim_model.queues[sim_below(sim_model.queue_count)];
    if (sim_chance(10 * world->queue_paused)) {
        pause_queue(broker, queue, !queue->paused);
    }
    for (int i = 0; i < 3; i++) {
        struct sim_task *task = &sim_model.tasks[sim_below(sim_model.task_count)];
        if (task->id[0] != '\0' && sim_chance(10 * world->operated)) {
            operate(broker, task,
                    (quern_action)sim_between(QUERN_ACTION_RUN, QUERN_ACTION_CANCEL_ARCHIVE));
        }
    }
    if (program != NULL && !program->process.dead) {
        disturb_worker(program);
    }
}

void sim_trouble_end(struct qn_broker *broker)
{
    for (int i = 0; i < sim_world.workers; i++) {
        struct sim_program *program = sim_world.running[i];
        if (program != NULL) {
            sim_resume(&program->process);
        }
        if (program != NULL && program->worker != NULL) {
            quern_worker_resume(program->worker);
        }
    }
    for (int i = 0; i < sim_model.queue_count; i++) {
        if (sim_model.queues[i].paused) {
            pause_queue(broker, &sim_model.queues[i], false);
        }
    }
}
