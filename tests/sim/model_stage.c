/* SPDX-License-Identifier: MIT */
/* model_stage.c - checkpoints: the payload that a run leaves for the next one. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

/* Of a payload that a run has left; 0: it is that of the client. */
static int stage_of(const void *payload, size_t size)
{
    int stage = 0;
    char text[24] = "";
    if (size > 0) {
        memcpy(text, payload, size < sizeof text ? size : sizeof text - 1);
    }
    return sscanf(text, "stage %d", &stage) == 1 ? stage : 0;
}

void sim_model_take_change(struct sim_task *task, const struct qn_outcome *outcome)
{
    const struct qn_task_change *change = qn_task_change_of(outcome);
    if (change != NULL && change->has_payload) {
        task->stage = stage_of(change->payload, change->payload_size);
    }
}

void sim_model_check_stage(const struct sim_task *task, const struct qn_leased *run)
{
    int stage = stage_of(run->task.payload, run->task.payload_size);
    if (stage != task->stage) {
        sim_fail("promise 4: %s begins at its checkpoint %d, and should at %d", task->id, stage,
                 task->stage);
    }
    sim_model.events[SIM_STAGE] += stage != 0 ? 1 : 0;
}
