/* SPDX-License-Identifier: MIT */
/* inspect.h - shared by listings of tasks and operations on them: cursors over entries, and the
 * tasks of these entries.
 *
 * An entry is an id in one state of one queue. A cursor reads entries in blocks, by plain commands
 * that only read: so no listing blocks the server, and a user who may only read can list. Between
 * two blocks the queue may move, so a long list is not a consistent snapshot. The tasks themselves
 * are read for a few entries at a time. Everything goes over the channel REST, one pipeline a
 * step. */
#ifndef QN_BROKER_REDIS_INSPECT_INSPECT_H
#define QN_BROKER_REDIS_INSPECT_INSPECT_H

#include "broker/redis/inspect/page_bound.h"
#include "broker/redis/redis.h"

#define QN_INSPECT_BATCH 128 /* tasks read in one pipeline, if their messages are not too large */
#define QN_INSPECT_BLOCK 500 /* ids read in one command */
#define QN_DAY_MS (24 * 3600 * INT64_C(1000))
#define QN_DATE_SIZE 16

struct qn_task_entry {
    const char *id; /* ends with a NUL, which is not counted; may hold others */
    size_t id_size;
    int64_t score; /* of its zset; 0 in lists */
    int64_t at_ms; /* the key of the order: when it is due, was archived, was completed */
    uint64_t rank; /* in its list or zset, counted from where reading began */
};

struct qn_task_entries {
    const struct qn_task_entry *items;
    size_t count;
};

/* One state of one queue. */
struct qn_place {
    const char *queue;
    quern_task_state state;
    const char *key; /* the list or zset, without the prefix; NULL: the state's own */
    int64_t now_ms;
    bool alone; /* the entry was searched by its id: one that waits in a lane is shown as pending */
    bool in_trash; /* the state is that of each entry */
};

/* The server's clock, or ours where this user may not ask for it. */
QUERN_NODISCARD quern_status qn_redis_inspect_now(struct qn_redis *self, int64_t *ret_now_ms,
                                                  quern_error *err);
/* The same of a pipeline whose index-th command was TIME. */
int64_t qn_redis_inspect_time_ms(const struct qn_redis *self, const struct qn_pipeline *pipeline,
                                 size_t index);
/* The UTC day of a moment, as counters are named by it: "2026-11-21". */
void qn_redis_inspect_date(int64_t at_ms, char out[QN_DATE_SIZE]);
/* Whether the user may not give the index-th command. */
bool qn_redis_inspect_forbidden(const struct qn_pipeline *pipeline, size_t index);
/* The names of all queues, sorted; in the arena. */
QUERN_NODISCARD quern_status qn_redis_inspect_queues(struct qn_redis *self, struct qn_arena *arena,
                                                     struct qn_names *ret_names, quern_error *err);
/* The names of the groups of a queue, likewise. */
QUERN_NODISCARD quern_status qn_redis_inspect_groups(struct qn_redis *self, const char *queue,
                                                     struct qn_arena *arena,
                                                     struct qn_names *ret_names, quern_error *err);

/* --- The entries of one state of one queue, in order: task_cursor.c ---------------------- */

struct qn_task_cursor {
    struct qn_redis *self;
    const char *queue;
    quern_task_state state;
    bool oldest_first; /* archived and completed, too: for bulk actions, which keep the order */
    bool by_score;     /* tasks of one second in the server's order; completed ones by retention */
    /* The lists or zsets to read, one after the other; several only for aggregating tasks. */
    const char **keys; /* without the prefix */
    size_t key_count;
    size_t key_at;
    uint64_t rank;              /* where the next block begins in keys[key_at] */
    struct qn_page_bound bound; /* over that */
    /* The present block. */
    struct qn_arena arena;
    struct qn_task_entry *entries;
    size_t count;
    size_t capacity;
    size_t at;
    struct qn_arena key_arena;
};

/* Over queue and state of the place. group: only of this group, when the state is aggregating;
 * NULL: of all. */
QUERN_NODISCARD quern_status qn_task_cursor_init(struct qn_task_cursor *cursor,
                                                 struct qn_redis *self,
                                                 const struct qn_place *place, const char *group,
                                                 quern_error *err);
void qn_task_cursor_finish(struct qn_task_cursor *cursor);
/* Passes over up to `count` entries without reading them; only right after init. */
QUERN_NODISCARD quern_status qn_task_cursor_skip(struct qn_task_cursor *cursor, uint64_t count,
                                                 uint64_t *ret_skipped, quern_error *err);
/* Up to `room` more entries, in order; none: that was all. They live until the next call. */
QUERN_NODISCARD quern_status qn_task_cursor_next(struct qn_task_cursor *cursor, size_t room,
                                                 struct qn_task_entries *ret_entries,
                                                 quern_error *err);
/* So many of the entries that were handed out have been taken out of their list or zset. */
void qn_task_cursor_removed(struct qn_task_cursor *cursor, uint64_t count);
/* The list or zset that the latest entries came from, without the prefix. */
const char *qn_task_cursor_key(const struct qn_task_cursor *cursor);

/* cursor_order.c. Newest first, as archived and completed tasks are shown. */
bool qn_cursor_order_is_reversed(const struct qn_task_cursor *cursor);
/* Finds the exact moments of the present block. */
QUERN_NODISCARD quern_status qn_cursor_order_date(struct qn_task_cursor *cursor, quern_error *err);
/* The same, and puts it in their order. */
QUERN_NODISCARD quern_status qn_cursor_order_sort(struct qn_task_cursor *cursor, quern_error *err);

/* --- The tasks of entries: read_task.c ---------------------------------------------------- */

struct qn_task_sink {
    /* false stops. */
    bool (*on_info)(const struct qn_task_entry *entry, const quern_task_info *info, void *user);
    void *user;
};
/* Reads the tasks of these entries and passes each on, with its entry. A task that has left its
 * place meanwhile is left out; one that cannot be read has no type, and an error that reports
 * this. */
QUERN_NODISCARD quern_status qn_read_task_all(struct qn_redis *self, const struct qn_place *place,
                                              struct qn_task_entries entries,
                                              const struct qn_task_sink *sink, quern_error *err);

/* --- The trash: trash_entry.c ------------------------------------------------------------- */

/* The hash of a deleted task. */
void qn_trash_entry_key(struct qn_pipeline *pipeline, const char *queue,
                        const struct qn_task_entry *entry);
/* What its places had of it, from the field quern_trash: the state, score and at_ms. False: it is
 * no such field. */
bool qn_trash_entry_read(const char *text, size_t size, struct qn_place *place,
                         struct qn_task_entry *entry);

/* --- One id, wherever it is: find.c ------------------------------------------------------ */

struct qn_place_sink {
    /* false stops. */
    bool (*on_place)(const struct qn_place *place, const struct qn_task_entry *entry, void *user);
    void *user;
};
/* Searches the id in these queues, and reports each that has it, with its state there. */
QUERN_NODISCARD quern_status qn_find_id(struct qn_redis *self, struct qn_names queues,
                                        const char *id, const struct qn_place_sink *sink,
                                        quern_error *err);

/* --- The server: server_info.c ------------------------------------------------------------ */

/* Why an idle worker of this user has to poll; "": the server sends notices. Asks the server. */
QUERN_NODISCARD quern_status qn_server_info_refusal(struct qn_redis *self,
                                                    char refusal[QN_REFUSAL_SIZE],
                                                    quern_error *err);

/* --- Filters: filter.c ------------------------------------------------------------------- */

bool qn_filter_fits(const quern_task_filter *filter, const quern_task_info *info);
/* Whether the tasks themselves must be read to know which fit; queue, state and id need not. */
bool qn_filter_reads(const quern_task_filter *filter);

#endif
