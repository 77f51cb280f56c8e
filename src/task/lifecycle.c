/* SPDX-License-Identifier: MIT */
/* lifecycle.c - the life-cycle of lifecycle.h as tables. */
#include "task/lifecycle.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define STATE_COUNT 8
#define TO(state) (1u << (state))
#define DELETED TO(0) /* 0 is no state */
#define MAY(action) (1u << (action))

static const struct state {
    const char *name;
    uint32_t next;    /* TO(...) of the states it may become */
    uint32_t actions; /* MAY(...) for the actions of an operator */
} states[STATE_COUNT] = {
    [QUERN_TASK_ACTIVE] =
        {
            "active",
            TO(QUERN_TASK_PENDING) | TO(QUERN_TASK_RETRY) | TO(QUERN_TASK_ARCHIVED) |
                TO(QUERN_TASK_COMPLETED) | DELETED,
            MAY(QUERN_ACTION_CANCEL_RETRY) | MAY(QUERN_ACTION_CANCEL_ARCHIVE),
        },
    /* A pending or retry task may also be completed or deleted as done: salvage. */
    [QUERN_TASK_PENDING] =
        {
            "pending",
            TO(QUERN_TASK_ACTIVE) | TO(QUERN_TASK_ARCHIVED) | TO(QUERN_TASK_COMPLETED) | DELETED,
            MAY(QUERN_ACTION_ARCHIVE) | MAY(QUERN_ACTION_DELETE) | MAY(QUERN_ACTION_TRASH),
        },
    [QUERN_TASK_SCHEDULED] =
        {
            "scheduled",
            TO(QUERN_TASK_PENDING) | TO(QUERN_TASK_AGGREGATING) | TO(QUERN_TASK_ARCHIVED) | DELETED,
            MAY(QUERN_ACTION_RUN) | MAY(QUERN_ACTION_ARCHIVE) | MAY(QUERN_ACTION_DELETE) |
                MAY(QUERN_ACTION_TRASH),
        },
    [QUERN_TASK_RETRY] =
        {
            "retry",
            TO(QUERN_TASK_PENDING) | TO(QUERN_TASK_AGGREGATING) | TO(QUERN_TASK_ARCHIVED) |
                TO(QUERN_TASK_COMPLETED) | DELETED,
            MAY(QUERN_ACTION_RUN) | MAY(QUERN_ACTION_ARCHIVE) | MAY(QUERN_ACTION_DELETE) |
                MAY(QUERN_ACTION_TRASH),
        },
    [QUERN_TASK_ARCHIVED] =
        {
            "archived",
            TO(QUERN_TASK_PENDING) | DELETED,
            MAY(QUERN_ACTION_RUN) | MAY(QUERN_ACTION_DELETE) | MAY(QUERN_ACTION_TRASH),
        },
    [QUERN_TASK_COMPLETED] =
        {
            "completed",
            TO(QUERN_TASK_PENDING) | TO(QUERN_TASK_ARCHIVED) | DELETED,
            MAY(QUERN_ACTION_RUN) | MAY(QUERN_ACTION_ARCHIVE) | MAY(QUERN_ACTION_DELETE) |
                MAY(QUERN_ACTION_TRASH),
        },
    [QUERN_TASK_AGGREGATING] =
        {
            "aggregating",
            TO(QUERN_TASK_PENDING) | TO(QUERN_TASK_ARCHIVED) | DELETED,
            MAY(QUERN_ACTION_RUN) | MAY(QUERN_ACTION_ARCHIVE) | MAY(QUERN_ACTION_DELETE) |
                MAY(QUERN_ACTION_TRASH),
        },
};

static const char *const causes[] = {
    [QUERN_CAUSE_NONE] = "first run",
    [QUERN_CAUSE_RETRY] = "retry",
    [QUERN_CAUSE_SNOOZE] = "snooze",
    [QUERN_CAUSE_GIVEN_BACK] = "given back",
    [QUERN_CAUSE_LEASE_EXPIRED] = "lease expired",
    [QUERN_CAUSE_CHILD_DIED] = "child died",
    [QUERN_CAUSE_WORKER_DIED] = "worker died",
    [QUERN_CAUSE_OPERATOR] = "operator",
    [QUERN_CAUSE_BROKER_LOST] = "broker lost writes",
};

/* Numbers come from databases and callers, so any may come. */
static bool is_state(quern_task_state state)
{
    return (int)state >= 1 && (int)state < STATE_COUNT;
}

bool qn_lifecycle_may_become(quern_task_state from, quern_task_state to)
{
    return is_state(from) && is_state(to) && (states[from].next & TO(to)) != 0;
}

bool qn_lifecycle_may_delete(quern_task_state from)
{
    return is_state(from) && (states[from].next & DELETED) != 0;
}

bool qn_lifecycle_allows(quern_task_state state, quern_action action)
{
    bool is_action = (int)action >= QUERN_ACTION_RUN && (int)action <= QUERN_ACTION_TRASH;
    return is_state(state) && is_action && (states[state].actions & MAY(action)) != 0;
}

const char *qn_lifecycle_verb(quern_action action)
{
    switch (action) {
    case QUERN_ACTION_RUN:
        return "run";
    case QUERN_ACTION_ARCHIVE:
        return "archive";
    case QUERN_ACTION_DELETE:
    case QUERN_ACTION_TRASH:
        return "delete";
    case QUERN_ACTION_RESTORE:
        return "restore";
    case QUERN_ACTION_CANCEL_RETRY:
    case QUERN_ACTION_CANCEL_ARCHIVE:
        break;
    }
    return "cancel";
}

quern_status qn_lifecycle_refuse(quern_action action, quern_task_state state, const char *id,
                                 quern_error *err)
{
    const char *verb = qn_lifecycle_verb(action);
    const char *name = quern_task_state_name(state);
    if (id == NULL) {
        return qn_error_set(err, QUERN_E_STATE, "cannot %s tasks that are %s", verb,
                            name == NULL ? "in no state" : name);
    }
    bool cancels = action == QUERN_ACTION_CANCEL_RETRY || action == QUERN_ACTION_CANCEL_ARCHIVE;
    if (cancels && name != NULL) {
        return qn_error_set(err, QUERN_E_STATE, "cannot %s task %s: it is not running (state: %s)",
                            verb, id, name);
    }
    return qn_error_set(err, QUERN_E_STATE, "cannot %s task %s: it is %s%s", verb, id,
                        name == NULL ? "damaged" : name,
                        state == QUERN_TASK_ACTIVE ? "; cancel it instead" : "");
}

quern_task_state qn_lifecycle_parse(const char *name)
{
    for (int i = 1; i < STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            return (quern_task_state)i;
        }
    }
    return (quern_task_state)0;
}

const char *quern_task_state_name(quern_task_state state)
{
    return is_state(state) ? states[state].name : NULL;
}

const char *quern_cause_name(quern_cause cause)
{
    bool is_cause = (int)cause >= 0 && (size_t)cause < sizeof causes / sizeof *causes;
    return is_cause ? causes[cause] : NULL;
}

quern_status qn_lifecycle_refuse_several(const char *id, const char *queue, const char *other_queue,
                                         quern_error *err)
{
    return qn_error_set(err, QUERN_E_STATE,
                        "task %s is in several queues, %s and %s among them: name the queue", id,
                        queue, other_queue);
}
