/* SPDX-License-Identifier: MIT */
/* served.c - copies of the names that a worker gave, for the threads that ask for them. */
#include "broker/redis/wake/served.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/str.h"

void qn_redis_served_init(struct qn_redis_served *served)
{
    *served = (struct qn_redis_served){.queue_count = 0};
    (void)pthread_mutex_init(&served->mutex, NULL);
}

static void free_queues(char **queues, size_t count)
{
    for (size_t i = 0; queues != NULL && i < count; i++) {
        qn_free(queues[i]);
    }
    qn_free(queues);
}

void qn_redis_served_finish(struct qn_redis_served *served)
{
    free_queues(served->queues, served->queue_count);
    (void)pthread_mutex_destroy(&served->mutex);
}

static bool is_served(const struct qn_redis_served *served, struct qn_names queues)
{
    bool same = queues.count == served->queue_count;
    for (size_t i = 0; same && i < queues.count; i++) {
        same = strcmp(queues.items[i], served->queues[i]) == 0;
    }
    return same;
}

void qn_redis_served_note_queues(struct qn_redis_served *served, struct qn_names queues)
{
    (void)pthread_mutex_lock(&served->mutex);
    if (queues.count > 0 && !is_served(served, queues)) {
        char **copy = qn_alloc_zero(queues.count, sizeof *copy);
        bool whole = copy != NULL;
        for (size_t i = 0; whole && i < queues.count; i++) {
            copy[i] = qn_str_dup(queues.items[i]);
            whole = copy[i] != NULL;
        }
        if (whole) {
            free_queues(served->queues, served->queue_count);
            served->queues = copy;
            served->queue_count = queues.count;
        } else {
            free_queues(copy, queues.count);
        }
    }
    (void)pthread_mutex_unlock(&served->mutex);
}

void qn_redis_served_note_host(struct qn_redis_served *served, const char *host)
{
    (void)pthread_mutex_lock(&served->mutex);
    (void)snprintf(served->host, sizeof served->host, "%s", host);
    (void)pthread_mutex_unlock(&served->mutex);
}

const char *qn_redis_served_host(struct qn_redis_served *served, struct qn_arena *arena)
{
    (void)pthread_mutex_lock(&served->mutex);
    const char *host = qn_arena_strdup(arena, served->host);
    (void)pthread_mutex_unlock(&served->mutex);
    return host;
}

struct qn_names qn_redis_served_queues(struct qn_redis_served *served, struct qn_arena *arena)
{
    (void)pthread_mutex_lock(&served->mutex);
    struct qn_names names = {.count = served->queue_count};
    const char **items = qn_arena_alloc(arena, (names.count + 1) * sizeof *items);
    for (size_t i = 0; items != NULL && i < names.count; i++) {
        items[i] = qn_arena_strdup(arena, served->queues[i]);
        if (items[i] == NULL) {
            items = NULL;
        }
    }
    (void)pthread_mutex_unlock(&served->mutex);
    names.items = items;
    return names;
}
