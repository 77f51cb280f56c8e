/* SPDX-License-Identifier: MIT */
/* meter.h - what is used of the limits of a queue, in one transaction.
 *
 * Tasks that run are counted in quern_task itself, so nothing has to be put right when one of them
 * ends, however it ends; starts are counted in quern_limit_use. What is read once is kept until the
 * end of the transaction, with the runs that the same transaction takes. */
#ifndef QN_BROKER_SQLITE_QUEUE_METER_H
#define QN_BROKER_SQLITE_QUEUE_METER_H

#include "base/memory/arena.h"
#include "broker/sqlite/store/conn.h"
#include "quern/inspector.h"
#include "task/limit.h"

/* In place of a queue's number: limits of all queues together. */
#define QN_METER_ALL 0

/* quern_queue.limits: a bit for each scope and kind of which there is a limit; the same for those
 * of all queues, QN_METER_ALL_SHIFT further left, in every queue. */
static inline int64_t qn_meter_bit(int32_t scope, bool rate)
{
    return INT64_C(1) << ((scope - QUERN_LIMIT_QUEUE) * 2 + (rate ? 1 : 0));
}
#define QN_METER_ALL_SHIFT 6
#define QN_METER_SEMAPHORES 0x1000 /* it has some; these are of queues only */
#define QN_METER_RUNS 0x1555       /* those of tasks that run */
#define QN_METER_STARTS 0xaaa      /* those of starts */

/* A task, as far as limits go. */
struct qn_metered {
    int64_t queue_no;
    int64_t limits; /* quern_queue.limits; not 0 */
    const char *type;
    const char *key; /* NULL or "": none */
};

/* Whose meter it is: the queue's, that of a type, of a key or of a semaphore. */
struct qn_meter_owner {
    int64_t queue_no; /* or QN_METER_ALL */
    int32_t scope;
    const char *name; /* of the queue "" */
};

struct qn_meter {
    struct qn_meter_owner of;
    bool has_runs;
    bool has_starts;
    bool changed;
    struct qn_limit runs;
    int64_t running;
    struct qn_limit starts;
    struct qn_limit_use use;
    struct qn_meter *holders; /* of a semaphore in a queue: its meter of QN_METER_ALL, which counts
                               * the runs of all queues that have it */
    struct qn_meter *next;    /* the next semaphore of the queue */
    struct qn_meter *same;    /* the next one in its bucket */
};

/* The limits of one scope in a queue, where they are few. */
struct qn_limit_set;

/* The semaphores of a queue. */
struct qn_semaphores {
    struct qn_semaphores *next;
    int64_t queue_no;
    struct qn_meter *first;
};

struct qn_meters {
    struct qn_conn *conn;
    int64_t now_ms; /* wall clock */
    struct qn_arena arena;
    struct qn_meter **buckets; /* by queue, scope and name; NULL: none has been read */
    struct qn_meter **items;
    size_t count;
    size_t capacity;
    struct qn_limit_set *sets;
    struct qn_semaphores *semaphores; /* of the queues that have been read */
    struct qn_meter **bound;          /* those that bind the task in hand */
    size_t bound_count;
    size_t bound_capacity;
};
/* How many run that a meter counts. */
static inline int64_t *qn_meter_running(struct qn_meter *meter)
{
    return meter->holders != NULL ? &meter->holders->running : &meter->running;
}

void qn_meters_init(struct qn_meters *meters, struct qn_conn *conn, int64_t now_ms);
void qn_meters_finish(struct qn_meters *meters);
/* How many such tasks may start now. *ret_wait_ms, where it is 0: when the next one may; 0: when
 * another run has ended. */
QUERN_NODISCARD quern_status qn_meters_room(struct qn_meters *meters, const struct qn_metered *task,
                                            int64_t *ret_room, int64_t *ret_wait_ms,
                                            quern_error *err);
/* One starts. */
QUERN_NODISCARD quern_status qn_meters_take(struct qn_meters *meters, const struct qn_metered *task,
                                            quern_error *err);
/* One that was taken `age_ms` ago did not start after all. */
QUERN_NODISCARD quern_status qn_meters_give_back(struct qn_meters *meters,
                                                 const struct qn_metered *task, int64_t age_ms,
                                                 quern_error *err);
/* Writes what has changed. */
QUERN_NODISCARD quern_status qn_meters_write(struct qn_meters *meters, quern_error *err);
/* The meter itself; with limits that it does not have it is empty. */
QUERN_NODISCARD quern_status qn_meters_find(struct qn_meters *meters, struct qn_meter_owner of,
                                            struct qn_meter **ret_meter, quern_error *err);

#endif
