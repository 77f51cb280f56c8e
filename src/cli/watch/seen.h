/* SPDX-License-Identifier: MIT */
/* seen.h - the tasks that a watch knows, as they were when it looked at them last. Bounded. */
#ifndef QN_CLI_WATCH_SEEN_H
#define QN_CLI_WATCH_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/task.h"

#define QN_SEEN_MAX 50000 /* 20 MB or so */

struct qn_seen_task {
    char *queue;  /* NULL: a free place */
    bool is_hole; /* one that had a task: searches go on behind it */
    char *id;
    char *type;
    quern_task_state state;
    int64_t retry_count;
    int64_t crash_count;
    uint64_t round; /* of the last look at it */
};

struct qn_seen {
    struct qn_seen_task *places; /* open addressing; twice QN_SEEN_MAX, a power of 2 */
    size_t count;
    size_t hole_count;
    bool was_full; /* tasks had no place */
};

void qn_seen_init(struct qn_seen *seen);
void qn_seen_finish(struct qn_seen *seen);
/* NULL: it is not known. */
struct qn_seen_task *qn_seen_find(struct qn_seen *seen, const char *queue, const char *id);
/* A task that is not known, as it is now; NULL: there are too many. */
struct qn_seen_task *qn_seen_add(struct qn_seen *seen, const quern_task_info *info);
void qn_seen_update(struct qn_seen_task *task, const quern_task_info *info);
/* Calls visit for each; true: it is forgotten then. */
void qn_seen_each(struct qn_seen *seen, bool (*visit)(struct qn_seen_task *task, void *user),
                  void *user);

#endif
