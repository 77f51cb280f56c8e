/* SPDX-License-Identifier: MIT */
/* model_operate.c - what an operator may do to a task by hand, and what becomes of it then. */
#include "model.h"
#include "quern/inspector.h"

static bool is_kept(const struct sim_task *task)
{
    return task->state == SIM_ARCHIVED || (task->state == SIM_DONE && task->retention_ms > 0);
}

/* Refused, allowed, or either: a task that is due may be in pending already or not. */
enum answer { REFUSED, ALLOWED, EITHER };

static enum answer expect(const struct sim_task *task, quern_action action)
{
    bool waits = task->state == SIM_WAITING;
    switch (action) {
    case QUERN_ACTION_RUN:
        if (waits) {
            return task->due_at_ms > sim_wall_ms() ? ALLOWED : EITHER;
        }
        return is_kept(task) ? ALLOWED : REFUSED;
    case QUERN_ACTION_ARCHIVE:
        return waits || (is_kept(task) && task->state == SIM_DONE) ? ALLOWED : REFUSED;
    case QUERN_ACTION_DELETE:
    case QUERN_ACTION_TRASH:
        return waits || is_kept(task) ? ALLOWED : REFUSED;
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
    case QUERN_ACTION_RESTORE:
        break;
    }
    return task->state == SIM_ACTIVE ? ALLOWED : REFUSED;
}

static void apply(struct sim_task *task, quern_action action)
{
    switch (action) {
    case QUERN_ACTION_RUN:
        task->state = SIM_WAITING;
        sim_model_lock(task);
        task->due_at_ms = sim_wall_ms();
        task->cause = QUERN_CAUSE_OPERATOR;
        task->charges = task->lone = 0;
        task->is_poison = false;
        break;
    case QUERN_ACTION_ARCHIVE: /* no run of it has failed: nothing is counted */
        task->state = SIM_ARCHIVED;
        break;
    case QUERN_ACTION_DELETE:
    case QUERN_ACTION_TRASH:
        task->state = SIM_DROPPED;
        sim_model_unlock(task);
        break;
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
    case QUERN_ACTION_RESTORE:
        break; /* its run ends, or its worker does */
    }
}

void sim_model_operate(struct sim_task *task, quern_action action, quern_status status)
{
    static const char *const names[] = {"",        "runs",    "archives",
                                        "deletes", "cancels", "cancels and archives"};
    bool exists = is_kept(task) || task->state == SIM_WAITING || task->state == SIM_ACTIVE;
    enum answer expected = expect(task, action);
    sim_trace("an operator %s %s: %s", names[action], task->id, quern_status_name(status));
    if (status != QUERN_OK && status != (exists ? QUERN_E_STATE : QUERN_E_NOT_FOUND)) {
        sim_fail("an operator %s %s, and gets %s", names[action], task->id,
                 quern_status_name(status));
    }
    if (expected != EITHER && (status == QUERN_OK) != (expected == ALLOWED)) {
        sim_fail("an operator %s %s in state %d, and gets %s", names[action], task->id,
                 (int)task->state, quern_status_name(status));
    }
    if (status == QUERN_OK) {
        apply(task, action);
    }
}

/* --- Locks ------------------------------------------------------------------------------ */

void sim_model_lock(struct sim_task *task)
{
    if (task->key != 0 && sim_model.keys[task->key] == 0) {
        sim_model.keys[task->key] = (int)(task - sim_model.tasks) + 1;
    }
}

void sim_model_unlock(struct sim_task *task)
{
    if (task->key != 0 && sim_model.keys[task->key] == (int)(task - sim_model.tasks) + 1) {
        sim_model.keys[task->key] = 0;
    }
}
