/* SPDX-License-Identifier: MIT */
/* operate.h - shared by operations on one task and on many: the script, and its reply. */
#ifndef QN_BROKER_REDIS_OPERATE_OPERATE_H
#define QN_BROKER_REDIS_OPERATE_OPERATE_H

#include "broker/redis/inspect/inspect.h"

struct qn_operate_task {
    const char *id;
    size_t id_size;
    const char *unique_key; /* of its message, whole; "" when there is none or it is not known */
};

/* Tasks of one queue. */
struct qn_operate_tasks {
    const char *queue;
    const char *state; /* NULL: any */
    const struct qn_operate_task *items;
    size_t count;
};
#define QN_OPERATE_WALK_MAX 500000 /* steps along `pending` in one script: some 5 ms */

/* Appends the script. */
void qn_operate_add(struct qn_pipeline *pipeline, quern_action action,
                    const struct qn_operate_tasks *tasks);
/* Whether the archive, or the trash, had no room for all of them; then nothing was changed. */
bool qn_operate_is_full(const struct qn_reply *reply);
/* The error for that. */
quern_status qn_operate_refuse_full(const char *queue, const struct qn_reply *reply,
                                    quern_error *err);

/* --- limit_text.c ----------------------------------------------------------------------- */

/* The field of quern:limit:set: "1r", "2s:mail:digest", "3r:*", "4r:smtp". NULL: memory is out. */
const char *qn_operate_limit_field(struct qn_arena *arena, const struct qn_limit_owner *owner,
                                   bool rate);
/* What it holds: "count", or of starts "count period_ms burst". NULL: memory is out. */
const char *qn_operate_limit_value(struct qn_arena *arena, const quern_limit *limit);

/* --- limit_of_all.c --------------------------------------------------------------------- */

QUERN_NODISCARD quern_status qn_operate_set_limit_of_all(struct qn_redis *self,
                                                         const quern_limit *limit,
                                                         quern_error *err);
QUERN_NODISCARD quern_status qn_operate_remove_limit_of_all(struct qn_redis *self,
                                                            const struct qn_limit_owner *owner,
                                                            quern_error *err);

/* Adds a new queue to the names of all. */
QUERN_NODISCARD quern_status qn_operate_list_queue(struct qn_redis *self, const char *queue,
                                                   quern_error *err);

#endif
