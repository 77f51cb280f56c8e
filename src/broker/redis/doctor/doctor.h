/* SPDX-License-Identifier: MIT */
/* doctor.h - the shared declarations of the files that check the data on a server. */
#ifndef QN_BROKER_REDIS_DOCTOR_DOCTOR_H
#define QN_BROKER_REDIS_DOCTOR_DOCTOR_H

#include "base/memory/arena.h"
#include "broker/redis/doctor/findings.h"
#include "broker/redis/doctor/ids/id_set.h"
#include "broker/redis/redis.h"

/* The groups of a queue, also sets of them in aggregation. */
struct qn_checked_group {
    struct qn_checked_group *next;
    const char *container; /* "g:<name>" */
};

struct qn_checked_queue {
    const char *name;
    bool listed;      /* in asynq:queues */
    bool has_tasks;   /* it has keys that hold tasks */
    bool has_entries; /* or entries of schedulers */
    bool served;      /* a living worker of ours serves it */
    bool fetched;     /* any worker does, a Go server included */
    bool has_limits;  /* it has limits, or lanes, or counted runs */
    struct qn_checked_group *groups;
    size_t group_count;
    struct qn_id_set ids;    /* all that its containers list */
    struct qn_id_set active; /* the entries of active */
    uint64_t token;          /* the largest seen in active */
};

struct qn_redis_doctor {
    struct qn_redis *self;
    bool repair;
    struct qn_redis_findings findings; /* of this step, reported when no channel is held */
    int64_t now_ms;
    struct qn_arena names;            /* of queues and groups; lives as long as the check */
    struct qn_arena page;             /* of one step */
    struct qn_checked_queue **queues; /* in order of their names */
    size_t queue_count;
    size_t queue_capacity;
    bool lists_no_queues;    /* asynq:queues cannot be read */
    struct qn_id_set living; /* workers, by their ids */
    bool no_memory;          /* for that */
};

/* The keys that all queues share; first (registries.c). */
QUERN_NODISCARD quern_status qn_redis_registries_check(struct qn_redis_doctor *doctor,
                                                       quern_error *err);
/* Queues and their groups: those that are listed, and those that have keys (scan.c). */
QUERN_NODISCARD quern_status qn_scan_queues(struct qn_redis_doctor *doctor, quern_error *err);
/* The queue of this name; NULL: there is none. */
struct qn_checked_queue *qn_scan_find_queue(const struct qn_redis_doctor *doctor, const char *name,
                                            size_t size);
/* All hashes of tasks and all locks, wherever they are; after the walks through containers. */
QUERN_NODISCARD quern_status qn_scan_keys(struct qn_redis_doctor *doctor, quern_error *err);
/* All that the containers of a queue list (containers.c). */
QUERN_NODISCARD quern_status qn_containers_walk(struct qn_redis_doctor *doctor,
                                                struct qn_checked_queue *queue, quern_error *err);
/* The index of due moments; last, as tasks that come back to scheduled or retry need it. */
QUERN_NODISCARD quern_status qn_containers_walk_index(struct qn_redis_doctor *doctor,
                                                      struct qn_checked_queue *queue,
                                                      quern_error *err);
/* The queue as a whole: its counters, groups, workers (queue.c). */
QUERN_NODISCARD quern_status qn_redis_queue_check(struct qn_redis_doctor *doctor,
                                                  struct qn_checked_queue *queue, quern_error *err);
/* The entries of schedulers in a queue (entries.c). */
QUERN_NODISCARD quern_status qn_redis_entries_check(struct qn_redis_doctor *doctor,
                                                    const struct qn_checked_queue *queue,
                                                    quern_error *err);
/* Its limits, its lanes, and its counted runs; after qn_redis_queue_check (limits.c). */
QUERN_NODISCARD quern_status qn_redis_limits_check(struct qn_redis_doctor *doctor,
                                                   const struct qn_checked_queue *queue,
                                                   quern_error *err);
/* Its trash (trash.c). */
QUERN_NODISCARD quern_status qn_redis_trash_check(struct qn_redis_doctor *doctor,
                                                  const struct qn_checked_queue *queue,
                                                  quern_error *err);
/* Dangers for tasks, and notes about the server (server.c). */
QUERN_NODISCARD quern_status qn_redis_server_check(struct qn_redis_doctor *doctor,
                                                   quern_error *err);

#endif
