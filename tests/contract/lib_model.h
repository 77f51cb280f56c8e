/* SPDX-License-Identifier: MIT */
/* lib_model.h - a model of a broker, in memory and without regard to speed: the executable
 * form of the table of outcomes, against which test_random.c compares a real broker.
 *
 * It has one worker, which lives but loses leases, so no death is ever charged; deaths have tests
 * of their own. The caller must avoid cases in which the contract allows two answers (equal due
 * times, moments that are met to the millisecond). */
#ifndef TESTS_CONTRACT_LIB_MODEL_H
#define TESTS_CONTRACT_LIB_MODEL_H

#include "lib_contract.h"

#define MODEL_TASKS 64
#define MODEL_QUEUES 2
#define MODEL_LOCKS 4
#define MODEL_UNIQUE_MS INT64_C(15000) /* of all unique tasks */

struct model_task {
    quern_task_state state; /* 0: does not exist */
    size_t queue;
    int64_t place; /* of its order in pending */
    int64_t at_ms; /* due, archived, or to be removed */
    int64_t lease_until_ms;
    bool started;
    uint64_t token; /* of its latest lease; 0: of none that may still be salvaged */
    int64_t retry_count;
    int64_t retry_max;
    int64_t retention_ms;
    size_t lock;  /* its key, 1 ..; 0: none; see model_lock_of */
    char payload; /* '\0': empty */
};

/* A checkpoint. */
struct model_change {
    char payload;      /* '\0': as before */
    int64_t retry_max; /* -1: as before */
    size_t queue;      /* SIZE_MAX: as before */
};

struct model_lock {
    size_t task; /* index + 1; 0: free */
    int64_t until_ms;
};

struct model {
    struct model_task tasks[MODEL_TASKS];
    struct model_lock locks[MODEL_LOCKS + 1];
    bool paused[MODEL_QUEUES];
    uint64_t processed[MODEL_QUEUES];
    uint64_t failed[MODEL_QUEUES];
    int64_t next_place;
    int64_t wall_ms;
    int64_t boot_ms;
};

/* Where a task with this number as its id stands while it is in this queue. Each queue can have a
 * task with any id. */
size_t model_index(size_t number, size_t queue);
/* A lock is of one queue, as its name contains that of the queue. */
size_t model_lock_of(size_t key, size_t queue);

/* The reply that the broker must give. */
quern_status model_enqueue(struct model *m, size_t index, const struct model_task *task,
                           int64_t unique_ms);
/* The task that must be leased next from the queue; SIZE_MAX: none. */
size_t model_lease(struct model *m, size_t queue, bool started);
/* The end of a run of this task; change NULL: none. */
struct model_end {
    size_t index;
    uint64_t token;
    enum qn_outcome_kind kind;
    int64_t delay_ms;
    const struct model_change *change;
};
enum qn_applied model_end(struct model *m, const struct model_end *end);
bool model_extend(struct model *m, size_t index, uint64_t token);
size_t model_recover(struct model *m, size_t queue);
/* Whether a recovery would let two tasks take the same lock: which of them gets it is left open. */
bool model_is_contested(const struct model *m, size_t queue);
size_t model_forward(struct model *m, size_t queue);
void model_prune(struct model *m, size_t queue);
quern_status model_act(struct model *m, quern_action action, size_t index);
/* Whether some moment of the model is exactly now. */
bool model_on_edge(const struct model *m);
bool model_is_due_at(const struct model *m, int64_t at_ms);

#endif
