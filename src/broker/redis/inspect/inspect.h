/* SPDX-License-Identifier: MIT */
/* inspect.h - what looking at tasks and acting on them share: spots, and the tasks on them.
 *
 * A spot is an id in one state of one queue. Spots come in blocks by plain commands of reading, so
 * that no look blocks the server and a user who may only read can look; between two blocks the
 * queue may move, so a long list is not one moment. What a task shows is read for a few spots at a
 * time. Everything goes over the channel REST, one pipeline a step. */
#ifndef QN_BROKER_REDIS_INSPECT_INSPECT_H
#define QN_BROKER_REDIS_INSPECT_INSPECT_H

#include "broker/redis/page_bound.h"
#include "broker/redis/redis.h"

#define QN_LOOK_BATCH 128 /* tasks read in one pipeline, if their messages are not too large */
#define QN_LOOK_BLOCK 500 /* ids read in one command */
#define QN_DAY_MS (24 * 3600 * INT64_C(1000))
#define QN_DATE_SIZE 16

struct qn_spot {
    const char *id; /* ends with a NUL, which is not counted; may hold others */
    size_t id_size;
    int64_t score; /* of its zset; 0 in lists */
    int64_t at_ms; /* what the order is by: when it is due, was archived, was completed */
    uint64_t rank; /* in its list or zset, counted from where reading began */
};

/* The server's clock, or ours where this user may not ask for it. */
QUERN_NODISCARD quern_status qn_look_now(struct qn_redis *self, int64_t *ret_now_ms,
                                         quern_error *err);
/* The same of a pipeline whose index-th command was TIME. */
int64_t qn_look_time_ms(const struct qn_redis *self, const struct qn_pipeline *pipeline,
                        size_t index);
/* The UTC day of a moment, as counters are named by it: "2026-11-21". */
void qn_look_date(int64_t at_ms, char out[QN_DATE_SIZE]);
/* Whether the user may not give the index-th command. */
bool qn_look_forbidden(const struct qn_pipeline *pipeline, size_t index);
/* The names of all queues, sorted; in the arena. */
QUERN_NODISCARD quern_status qn_look_queues(struct qn_redis *self, struct qn_arena *arena,
                                            const char ***ret_names, size_t *ret_count,
                                            quern_error *err);
/* The texts of a set, sorted, each once; in the arena. queue NULL: key is a whole key. */
QUERN_NODISCARD quern_status qn_look_set(struct qn_redis *self, const char *queue, const char *key,
                                         struct qn_arena *arena, const char ***ret_names,
                                         size_t *ret_count, quern_error *err);
QUERN_NODISCARD quern_status qn_look_queue_exists(struct qn_redis *self, const char *queue,
                                                  bool *ret_exists, quern_error *err);

/* "asynq:{queue}:t:<id>", in the pipeline's arena. */
void qn_look_task_key(struct qn_pipeline *pipeline, const char *queue, const struct qn_spot *spot);

/* --- The spots of one state of one queue, in order: cursor.c ---------------------------- */

struct qn_spots {
    struct qn_redis *self;
    const char *queue;
    quern_task_state state;
    bool oldest_first; /* archived and completed, too: for bulk actions, which keep the order */
    /* The lists or zsets to read, one after the other; several only for aggregating tasks. */
    const char **keys; /* without the prefix */
    size_t key_count;
    size_t key_at;
    uint64_t rank;              /* where the next block begins in keys[key_at] */
    struct qn_page_bound bound; /* over that */
    /* The present block. */
    struct qn_arena arena;
    struct qn_spot *spots;
    size_t count;
    size_t capacity;
    size_t at;
    struct qn_arena key_arena;
};

/* group: only of this group, when state is aggregating; NULL: of all. */
QUERN_NODISCARD quern_status qn_spots_init(struct qn_spots *spots, struct qn_redis *self,
                                           const char *queue, quern_task_state state,
                                           const char *group, quern_error *err);
void qn_spots_finish(struct qn_spots *spots);
/* Passes over up to `count` spots without reading them; only right after init. */
QUERN_NODISCARD quern_status qn_spots_skip(struct qn_spots *spots, uint64_t count,
                                           uint64_t *ret_skipped, quern_error *err);
/* Up to `room` more spots, in order; none: that was all. They live until the next call. */
QUERN_NODISCARD quern_status qn_spots_next(struct qn_spots *spots, size_t room,
                                           const struct qn_spot **ret_spots, size_t *ret_count,
                                           quern_error *err);
/* So many of the spots that were handed out have been taken out of their list or zset. */
void qn_spots_gone(struct qn_spots *spots, uint64_t count);
/* The list or zset that the latest spots came from, without the prefix. */
const char *qn_spots_key(const struct qn_spots *spots);

/* cursor_order.c. Newest first, as archived and completed tasks are shown. */
bool qn_spots_reversed(const struct qn_spots *spots);
/* Finds the moments of the present block, and puts it in their order. */
QUERN_NODISCARD quern_status qn_spots_sort(struct qn_spots *spots, quern_error *err);

/* --- The tasks on them: read_task.c --------------------------------------------------------- */

struct qn_place {
    const char *queue;
    quern_task_state state;
    const char *key; /* the list or zset, without the prefix; NULL: the state's own */
    int64_t now_ms;
};
/* Reads what is on these spots and hands each task on, with its spot. A task that is gone from its
 * place meanwhile is left out; one that cannot be read has no type and says so in its error. */
QUERN_NODISCARD quern_status qn_info_read(struct qn_redis *self, const struct qn_place *place,
                                          const struct qn_spot *spots, size_t count,
                                          bool (*on_info)(const struct qn_spot *spot,
                                                          const quern_task_info *info, void *user),
                                          void *user, quern_error *err);

/* --- One id, wherever it is: find.c ------------------------------------------------------ */

/* Looks for the id in these queues. on_place is told of each that has it, with its state there;
 * false stops. */
QUERN_NODISCARD quern_status qn_find(struct qn_redis *self, const char *const *queues,
                                     size_t queue_count, const char *id,
                                     bool (*on_place)(const struct qn_place *place,
                                                      const struct qn_spot *spot, void *user),
                                     void *user, quern_error *err);

/* --- The server: server_info.c ------------------------------------------------------------ */

/* Why an idle worker of this user has to poll; "": the server reports news. Asks the server. */
QUERN_NODISCARD quern_status qn_server_info_refusal(struct qn_redis *self,
                                                    char refusal[QN_REFUSAL_SIZE],
                                                    quern_error *err);

/* --- Filters: filter.c ------------------------------------------------------------------- */

bool qn_filter_fits(const quern_task_filter *filter, const quern_task_info *info);
/* Whether the tasks themselves must be read to know which fit; queue, state and id need not. */
bool qn_filter_reads(const quern_task_filter *filter);

#endif
