/* SPDX-License-Identifier: MIT */
/* seen.c - a hash table of tasks, by queue and id.
 *
 * A task that is forgotten leaves a hole, which searches pass by, and which a later task may fill.
 * When there are many holes the table is made again; there are twice as many places as tasks. */
#include "cli/watch/seen.h"

#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/hash.h"
#include "base/text/str.h"
#include "cli/memory.h"

#define PLACES ((size_t)1 << 17)
#define HOLES_MAX (PLACES / 4)

static struct qn_seen_task *new_places(void)
{
    return qn_memory_must(qn_alloc_zero(PLACES, sizeof(struct qn_seen_task)));
}

void qn_seen_init(struct qn_seen *seen)
{
    *seen = (struct qn_seen){.places = new_places()};
}

static void forget(struct qn_seen *seen, struct qn_seen_task *task)
{
    qn_free(task->queue);
    qn_free(task->id);
    qn_free(task->type);
    *task = (struct qn_seen_task){.is_hole = true};
    seen->hole_count++;
    seen->count--;
}

void qn_seen_finish(struct qn_seen *seen)
{
    for (size_t i = 0; i < PLACES; i++) {
        if (seen->places[i].queue != NULL) {
            forget(seen, &seen->places[i]);
        }
    }
    qn_free(seen->places);
}

static size_t first_place(const char *queue, const char *id)
{
    uint64_t hash = qn_hash_part(QN_HASH_START, queue, strlen(queue));
    return (size_t)qn_hash_part(hash, id, strlen(id)) % PLACES;
}

struct qn_seen_task *qn_seen_find(struct qn_seen *seen, const char *queue, const char *id)
{
    size_t place = first_place(queue, id);
    for (size_t i = 0; i < PLACES; i++) {
        struct qn_seen_task *task = &seen->places[(place + i) % PLACES];
        if (task->queue == NULL && !task->is_hole) {
            return NULL;
        }
        if (task->queue != NULL && strcmp(task->queue, queue) == 0 && strcmp(task->id, id) == 0) {
            return task;
        }
    }
    return NULL;
}

static struct qn_seen_task *free_place(struct qn_seen_task *places, const char *queue,
                                       const char *id)
{
    size_t place = first_place(queue, id);
    while (places[place].queue != NULL) {
        place = (place + 1) % PLACES;
    }
    return &places[place];
}

struct qn_seen_task *qn_seen_add(struct qn_seen *seen, const quern_task_info *info)
{
    const char *queue = quern_task_info_queue(info);
    const char *id = quern_task_info_id(info);
    if (seen->count >= QN_SEEN_MAX) {
        seen->was_full = true;
        return NULL;
    }
    struct qn_seen_task *task = free_place(seen->places, queue, id);
    seen->hole_count -= task->is_hole ? 1 : 0;
    *task = (struct qn_seen_task){.queue = qn_memory_must(qn_str_dup(queue)),
                                  .id = qn_memory_must(qn_str_dup(id)),
                                  .type = qn_memory_must(qn_str_dup(quern_task_info_type(info)))};
    qn_seen_update(task, info);
    seen->count++;
    return task;
}

void qn_seen_update(struct qn_seen_task *task, const quern_task_info *info)
{
    task->state = quern_task_info_state(info);
    task->retry_count = quern_task_info_retry_count(info);
    task->crash_count = quern_task_info_crash_count(info);
}

static void close_holes(struct qn_seen *seen)
{
    struct qn_seen_task *places = new_places();
    for (size_t i = 0; i < PLACES; i++) {
        const struct qn_seen_task *task = &seen->places[i];
        if (task->queue != NULL) {
            *free_place(places, task->queue, task->id) = *task;
        }
    }
    qn_free(seen->places);
    seen->places = places;
    seen->hole_count = 0;
}

void qn_seen_each(struct qn_seen *seen, bool (*visit)(struct qn_seen_task *task, void *user),
                  void *user)
{
    for (size_t i = 0; i < PLACES; i++) {
        struct qn_seen_task *task = &seen->places[i];
        if (task->queue != NULL && visit(task, user)) {
            forget(seen, task);
        }
    }
    if (seen->hole_count > HOLES_MAX) {
        close_holes(seen);
    }
}
