/* SPDX-License-Identifier: MIT */
/* doctor.h - one check of the data on a server: what its files share. */
#ifndef QN_BROKER_REDIS_DOCTOR_DOCTOR_H
#define QN_BROKER_REDIS_DOCTOR_DOCTOR_H

#include "base/memory/arena.h"
#include "broker/redis/redis.h"

enum qn_severity { QN_SEVERITY_NOTE = 0, QN_SEVERITY_WARNING = 1, QN_SEVERITY_VIOLATED = 2 };

/* Hashes of ids, 8 bytes each: what a queue listed while we looked. */
struct qn_id_set {
    uint64_t *items;
    size_t count;
    size_t capacity;
};
QUERN_NODISCARD bool qn_id_set_add(struct qn_id_set *set, const char *id, size_t size);
void qn_id_set_sort(struct qn_id_set *set);
/* Sorted before. */
bool qn_id_set_has(const struct qn_id_set *set, const char *id, size_t size);
/* Sorted before: those that are in it several times, sorted. False: memory is out. */
QUERN_NODISCARD bool qn_id_set_twins(const struct qn_id_set *set, struct qn_id_set *ret_twins);
void qn_id_set_finish(struct qn_id_set *set);

/* The groups of a queue, also sets of them in aggregation. */
struct qn_checked_group {
    struct qn_checked_group *next;
    const char *container; /* "g:<name>" */
};

struct qn_checked_queue {
    const char *name;
    bool listed;    /* in asynq:queues */
    bool has_tasks; /* it has keys that hold tasks */
    bool served;    /* a living worker of ours serves it */
    bool fetched;   /* any worker does, a Go server included */
    struct qn_checked_group *groups;
    size_t group_count;
    struct qn_id_set ids;    /* all that its containers list */
    struct qn_id_set active; /* what active lists */
    uint64_t token;          /* the largest seen in active */
};

struct qn_kept_finding {
    struct qn_kept_finding *next;
    quern_finding finding;
};

struct qn_redis_check {
    struct qn_redis *self;
    bool repair;
    void (*on_finding)(const quern_finding *finding, void *user);
    void *user;
    int64_t now_ms;
    struct qn_arena names;            /* of queues and groups; lives as long as the check */
    struct qn_arena page;             /* of one step */
    struct qn_checked_queue **queues; /* in order of their names */
    size_t queue_count;
    size_t queue_capacity;
    struct qn_id_set living;                  /* workers, by their ids */
    bool no_memory;                           /* for that */
    struct qn_kept_finding *findings, **last; /* of this step, told when no channel is held */
};

/* Keeps a finding, to be told by qn_check_tell. Texts are copied. "I8", "server" and "lock" are
 * warnings, "note" is a note, all others are violated. */
QUERN_NODISCARD quern_status qn_check_keep(struct qn_redis_check *check, const char *invariant,
                                           const char *queue, const char *id, const char *text,
                                           bool repaired, quern_error *err);
/* Calls on_finding for what was kept, and empties the arena of the step. */
void qn_check_tell(struct qn_redis_check *check);

/* What a first look found; texts live in the arena of the step. */
struct qn_suspect {
    const char *id;
    size_t id_size;
    const char *message; /* without payload, if that is wrong; else NULL */
    size_t message_size;
    const char *why;
    unsigned char addition[12]; /* to be put behind the message, which makes it right */
    size_t addition_size;       /* 0: nothing can */
    const char *seen_in;        /* a container, or "" */
    const char *group;          /* that its message names, or "" */
    int64_t known_at_s;         /* when it was archived, or its retention ends; 0: not known */
};
/* Reads a message without payload; what is of use goes to the suspect. True: it is as it should
 * be. */
bool qn_check_message(struct qn_redis_check *check, const char *queue, const char *message,
                      size_t size, struct qn_suspect *suspect);
/* Looks at each in one script, which mends it if wanted, and keeps the findings. */
QUERN_NODISCARD quern_status qn_check_suspects(struct qn_redis_check *check, const char *queue,
                                               const struct qn_suspect *suspects, size_t count,
                                               quern_error *err);

/* Queues and their groups: those that are listed, and those that have keys (scan.c). */
QUERN_NODISCARD quern_status qn_check_find_queues(struct qn_redis_check *check, quern_error *err);
/* The queue of this name; NULL: there is none. */
struct qn_checked_queue *qn_check_find_queue(const struct qn_redis_check *check, const char *name,
                                             size_t size);
/* All hashes of tasks and all locks, wherever they are; after the sweeps. */
QUERN_NODISCARD quern_status qn_check_keys(struct qn_redis_check *check, quern_error *err);
/* All that the containers of a queue list (containers.c). */
QUERN_NODISCARD quern_status qn_check_sweep(struct qn_redis_check *check,
                                            struct qn_checked_queue *queue, quern_error *err);
/* The index of due moments; last, as what comes back to scheduled or retry needs it. */
QUERN_NODISCARD quern_status qn_check_index(struct qn_redis_check *check,
                                            struct qn_checked_queue *queue, quern_error *err);
/* The queue as a whole: its counters, groups, workers (check_queue.c). */
QUERN_NODISCARD quern_status qn_check_queue(struct qn_redis_check *check,
                                            struct qn_checked_queue *queue, quern_error *err);
/* What endangers tasks, and what is worth knowing (server.c). */
QUERN_NODISCARD quern_status qn_check_server(struct qn_redis_check *check, quern_error *err);

#endif
