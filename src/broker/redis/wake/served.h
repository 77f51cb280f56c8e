/* SPDX-License-Identifier: MIT */
/* served.h - the queues that the worker of this broker serves, as it last armed or reported
 * them. */
#ifndef QN_BROKER_REDIS_WAKE_SERVED_H
#define QN_BROKER_REDIS_WAKE_SERVED_H

#include <pthread.h>

#include "base/memory/arena.h"
#include "base/memory/view.h"
#include "task/limits.h"

struct qn_redis_served {
    pthread_mutex_t mutex;           /* guards the rest; taken after any other */
    char host[QN_NAME_SIZE_MAX + 1]; /* whose brakes arm reads; "": unknown */
    char **queues;                   /* where a cancelled task is looked for */
    size_t queue_count;
};

void qn_redis_served_init(struct qn_redis_served *served);
void qn_redis_served_finish(struct qn_redis_served *served);
/* No queues: those before stay. So they do when memory is out. */
void qn_redis_served_note_queues(struct qn_redis_served *served, struct qn_names queues);
void qn_redis_served_note_host(struct qn_redis_served *served, const char *host);
/* Copies in the arena. NULL, and items of NULL: memory is out. */
const char *qn_redis_served_host(struct qn_redis_served *served, struct qn_arena *arena);
struct qn_names qn_redis_served_queues(struct qn_redis_served *served, struct qn_arena *arena);

#endif
