/* SPDX-License-Identifier: MIT */
/* bare.h - quern's own scripts, called by hand. */
#ifndef QN_BENCH_BARE_H
#define QN_BENCH_BARE_H

#include "caller.h"
#include "message/asynq/asynq.h"
#include "message/id.h"

/* Tasks to be stored: their ids are new with each batch, their messages as quern's bench has it. */
struct bare_tasks {
    struct qn_arena arena;
    struct qn_id_source source;
    struct qn_bytes message;
    size_t id_at; /* in the message */
    char ids[BATCH][QN_ID_TEXT_SIZE];
    char messages[BATCH][512];
};
void bare_tasks_init(struct bare_tasks *tasks);
void bare_tasks_finish(struct bare_tasks *tasks);
/* So many new ones. */
void bare_tasks_next(struct bare_tasks *tasks, size_t count);
/* Puts their ids, then their messages. */
void bare_tasks_put(const struct bare_tasks *tasks, struct caller *caller, size_t count);

/* Loads our scripts. */
void bare_open(struct caller *caller, const char *socket);
/* Sends `enqueue` for tasks that were made new, or `lease` for so many. */
void bare_enqueue(struct caller *caller, const struct bare_tasks *tasks, size_t count);
void bare_lease(struct caller *caller, const char *room);
/* Sends `outcome`, all done, for what was leased; returns how many. 0: nothing is sent. */
size_t bare_done(struct caller *caller, const redisReply *leased);

/* The figures; see ceiling.c. */
void least_enqueue(const char *socket, size_t count);
void least_drain(const char *socket, size_t count);
void idle(const char *socket, size_t samples);

#endif
