/* SPDX-License-Identifier: MIT */
/* model_stage.c - checkpoints: the payload that a run leaves for the next one, and its queue. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

/* Of a payload that a run has left: its number, and the queue for which it is meant. 0: it is that
 * of the client. */
static struct sim_stage stage_of(const void *payload, size_t size)
{
    struct sim_stage stage = {.number = 0};
    char text[32] = "";
    if (size > 0) {
        memcpy(text, payload, size < sizeof text ? size : sizeof text - 1);
    }
    if (sscanf(text, "stage %d for %d", &stage.number, &stage.queue) != 2) {
        stage = (struct sim_stage){.number = 0};
    }
    return stage;
}

/* Where the outcome takes its task; by the promise of the handler's header, and not by the library:
 * that of a task that goes on, also if its worker ends. */
static int queue_after(const struct sim_task *task, const struct qn_outcome *outcome)
{
    bool spent = outcome->kind == QN_RETRY && task->retry_count >= task->retry_max;
    if (outcome->change->queue == NULL || spent) {
        return task->queue;
    }
    return (int)(sim_queue_of(outcome->change->queue) - sim_model.queues);
}

void sim_model_take_change(struct sim_task *task, const struct qn_outcome *outcome)
{
    bool goes_on =
        outcome->kind == QN_RETRY || outcome->kind == QN_SNOOZE || outcome->kind == QN_GIVE_BACK;
    if (outcome->change == NULL || !goes_on) {
        return;
    }
    int queue = queue_after(task, outcome);
    sim_model.events[SIM_MOVED] += queue != task->queue ? 1 : 0;
    sim_model.events[SIM_GIVEN_AWAY] +=
        queue != task->queue && outcome->kind == QN_GIVE_BACK ? 1 : 0;
    task->queue = queue;
    if (outcome->change->has_payload) {
        task->stage = stage_of(outcome->change->payload, outcome->change->payload_size);
    }
}

void sim_model_check_stage(const struct sim_task *task, const struct qn_leased *run)
{
    struct sim_stage stage = stage_of(run->task.payload, run->task.payload_size);
    const char *queue = sim_model.queues[task->queue].name;
    if (strcmp(run->task.queue, queue) != 0) {
        sim_fail("promise 4: %s is leased from %s, and should be in %s", task->id, run->task.queue,
                 queue);
    }
    if (stage.number != task->stage.number || stage.queue != task->stage.queue) {
        sim_fail("promise 4: %s begins at its checkpoint %d for queue %d, and should at %d for %d",
                 task->id, stage.number, stage.queue, task->stage.number, task->stage.queue);
    }
    sim_model.events[SIM_STAGE] += stage.number != 0 ? 1 : 0;
}
