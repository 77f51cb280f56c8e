/* SPDX-License-Identifier: MIT */
/* environment.h - the variables of a command: its task and its task's headers. */
#ifndef QN_WORKER_EXEC_ENVIRONMENT_H
#define QN_WORKER_EXEC_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/arena.h"
#include "quern/run.h"
#include "task/limits.h"

enum {
    QN_ENVIRONMENT_OTHERS = 16, /* at most this many variables are not headers */
    QN_ENVIRONMENT_MAX = QN_HEADER_COUNT_MAX + QN_ENVIRONMENT_OTHERS
};

struct qn_environment {
    struct qn_arena *arena;
    const char *entries[QN_ENVIRONMENT_MAX + 1]; /* as in pool/exec/spawn.h */
    size_t count;
    bool out_of_memory;
};

/* Zeroed, but for the arena, which the entries live in. False: memory is out. */
QUERN_NODISCARD bool qn_environment_make(struct qn_environment *environment, const quern_run *run,
                                         const quern_task *task);

#endif
