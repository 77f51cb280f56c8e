/* SPDX-License-Identifier: MIT */
/* lease_batch.h - shared by the files that lease runs for a worker: lease.c chooses the queue,
 * pick.c its task, lease_row.c reads the row. */
#ifndef QN_BROKER_SQLITE_RUN_LEASE_BATCH_H
#define QN_BROKER_SQLITE_RUN_LEASE_BATCH_H

#include "broker/sqlite/queue/meter.h"
#include "broker/sqlite/run/exchange.h"
#include "broker/sqlite/store/query.h"
#include "task/isolation.h"

/* Pending tasks are read in streams: 0 has the uncharged ones, 1 + level those that are charged.
 * The level of a task (struct qn_deaths) limits how many others may run beside it. */
#define QN_LEVELS (QN_ALONE_CHARGES + 1)
#define QN_STREAMS (1 + QN_LEVELS)

struct qn_row {
    struct qn_leased *run;
    int64_t place;
};

struct qn_rows {
    struct qn_row items[QN_BATCH_MAX];
    size_t count;
};

/* One queue of the request; valid until the counters read in another one. */
struct qn_lease_source {
    size_t index; /* in exchange->queues and in the batch's progress */
    struct qn_counted_queue *queue;
};

struct qn_lane_walk; /* limits/lanes.c */

struct qn_queue_progress {
    int64_t places[QN_STREAMS]; /* the last one read of each; with count_known */
    uint32_t stream_count;      /* with tasks, as it was when it was looked up */
    bool count_known;
    bool empty;                /* has no more to give */
    bool probe;                /* its one run is the probe of its brake */
    struct qn_lane_walk *walk; /* of a queue with lanes; NULL: not yet */
};

struct qn_lease_batch {
    struct qn_queue_counters *counters;
    struct qn_exchange *exchange;
    struct qn_lease_terms *terms;
    struct qn_leased **runs;
    struct qn_slab slab; /* of the runs */
    size_t count;
    size_t late_count; /* archived so far */
    /* How many more runs of charged tasks, and probes, there may be: they are all started. */
    uint32_t starts_left;
    struct qn_isolation isolation; /* with the runs taken so far */
    struct qn_queue_progress progress[QN_QUEUES_MAX];
    struct qn_meters meters; /* of queues with limits */
    bool has_walks;
};

/* Too many were past their deadline: the transaction has to end. */
static inline bool qn_lease_batch_ends_early(const struct qn_lease_batch *batch)
{
    return batch->late_count >= QN_PRUNE_BATCH_MAX;
}

/* The source of this index in the request. */
QUERN_NODISCARD static inline quern_status qn_lease_batch_source(const struct qn_lease_batch *batch,
                                                                 size_t index,
                                                                 struct qn_lease_source *ret_source,
                                                                 quern_error *err)
{
    ret_source->index = index;
    return qn_queue_counters_queue(batch->counters, batch->exchange->queues[index].name,
                                   &ret_source->queue, err);
}

/* --- limits/lease_limits.c --------------------------------------------------------------- */

struct qn_lease_kind {
    const char *type;
    const char *key;
};
/* Whether the limits let such a task start now; if not, that is noted in the queue. */
QUERN_NODISCARD quern_status qn_lease_limits_may(struct qn_lease_batch *batch,
                                                 const struct qn_lease_source *source,
                                                 const struct qn_lease_kind *kind, bool *ret_may,
                                                 quern_error *err);
/* The same for `want` tasks of a queue without lanes: how many may. */
QUERN_NODISCARD quern_status qn_lease_limits_room(struct qn_lease_batch *batch,
                                                  const struct qn_lease_source *source, size_t want,
                                                  size_t *ret_room, quern_error *err);
/* The run was taken. */
QUERN_NODISCARD quern_status qn_lease_limits_take(struct qn_lease_batch *batch,
                                                  const struct qn_counted_queue *queue,
                                                  const struct qn_leased *run, quern_error *err);
/* Something that waits now may be leased so much later. */
void qn_lease_limits_note_wait(const struct qn_lease_source *source, int64_t wait_ms);

/* --- lease_row.c ----------------------------------------------------------------------- */

/* Copies the present row of a statement with the columns of lease.sql into one block of the slab;
 * NULL when memory is out. */
QUERN_NODISCARD struct qn_leased *qn_lease_row_copy(struct qn_slab *slab, sqlite3_stmt *row,
                                                    const char *queue);
/* Reads all rows of a statement of lease.sql, which has a limit of QN_BATCH_MAX at most. */
QUERN_NODISCARD quern_status qn_lease_row_read_all(struct qn_lease_batch *batch,
                                                   const struct qn_lease_source *source,
                                                   struct qn_query *query, struct qn_rows *ret_rows,
                                                   quern_error *err);
/* Reads the pending task; *ret_run is NULL when it is not that any more. */
QUERN_NODISCARD quern_status qn_lease_row_read(struct qn_lease_batch *batch,
                                               const struct qn_lease_source *source, int64_t seq,
                                               struct qn_leased **ret_run, quern_error *err);

/* --- pick.c ---------------------------------------------------------------------------- */

/* Takes up to `want` runs of a queue that is not braked, as far as one reading goes. Notes in the
 * queue's progress whether it is empty then. */
QUERN_NODISCARD quern_status qn_pick_pending(struct qn_lease_batch *batch,
                                             const struct qn_lease_source *source, size_t want,
                                             quern_error *err);
/* The same for its charged tasks alone. */
QUERN_NODISCARD quern_status qn_pick_charged(struct qn_lease_batch *batch,
                                             const struct qn_lease_source *source, size_t want,
                                             quern_error *err);
/* Takes the run or archives its task; it is the batch's from now on, in any case. */
QUERN_NODISCARD quern_status qn_pick_take(struct qn_lease_batch *batch,
                                          struct qn_counted_queue *queue, struct qn_leased *run,
                                          quern_error *err);
/* Takes the probe of a queue that is braked, if it is time for one: no task that must run alone. */
QUERN_NODISCARD quern_status qn_pick_probe(struct qn_lease_batch *batch,
                                           const struct qn_lease_source *source, quern_error *err);
/* Takes the task of the queue that is to run alone now, for the worker that has its solo lock. */
QUERN_NODISCARD quern_status qn_pick_solo(struct qn_lease_batch *batch,
                                          const struct qn_lease_source *source, quern_error *err);
/* Whether a task waits there that must run alone, and could run now as far as the brake goes. */
QUERN_NODISCARD quern_status qn_pick_solo_waits(struct qn_lease_batch *batch,
                                                const struct qn_lease_source *source,
                                                bool *ret_waits, quern_error *err);

/* --- lease_solo.c ---------------------------------------------------------------------- */

/* Serves the request. *ret_queue_index: as exchange->solo_queue; *ret_usual: runs are leased as
 * usual. */
QUERN_NODISCARD quern_status qn_lease_solo(struct qn_lease_batch *batch, uint32_t *ret_queue_index,
                                           bool *ret_usual, quern_error *err);

#endif
