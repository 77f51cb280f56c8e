/* SPDX-License-Identifier: MIT */
/* sqlite.h - what the files of the SQLite broker share: its struct.
 *
 * Rooms, lowest first: file (the path), store (connections, transactions), schema, wake, queue
 * (counters, brakes, solo locks), run, upkeep, inspect, operate, doctor; broker.c stands above all.
 * Writing: qn_transaction_begin .. commit or rollback. Reading: qn_transaction_read_begin ..
 * read_end. Waking: qn_waiters_wake after a commit that made work for somebody. */
#ifndef QN_BROKER_SQLITE_SQLITE_H
#define QN_BROKER_SQLITE_SQLITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock_jump.h"
#include "base/text/url.h"
#include "broker/broker.h"
#include "broker/sqlite/file/presence.h"
#include "broker/sqlite/store/conn.h"
#include "broker/sqlite/store/sync.h"
#include "broker/sqlite/store/writer_lock.h"
#include "broker/sqlite/upkeep/heartbeat_age.h"
#include "broker/sqlite/wake/wait.h"
#include "broker/sqlite/wake/waiters.h"
#include "task/limits.h"

struct qn_sqlite {
    struct qn_broker base;
    char *path; /* absolute, symbolic links resolved */
    char *wal_path;
    struct qn_presence presence;
    char *wake_path; /* the directory of sockets */
    bool full_sync;
    bool unsafe_fs;
    bool trust_owner; /* the file and what lies beside it may belong to others */
    struct qn_writer_lock writer_lock;
    struct qn_conn writer; /* used with the writer lock held */
    pthread_mutex_t read_mutex;
    struct qn_conn reader; /* guarded by read_mutex, as the next two; opened when needed */
    struct qn_clock_jump prune_clock;        /* the wall clock */
    struct qn_heartbeat_ages heartbeat_ages; /* workers on other hosts; by recover */
    _Atomic int64_t
        rest_until_mono_ns; /* store/transaction.c: until then no lease that is over is ended */
    _Atomic int64_t dated_shift_ms; /* run/delay_clock.c: with it all delays were dated rightly */
    _Atomic int64_t redate_at_mono_ns; /* when to look at that again */
    struct qn_syncer syncer;
    struct qn_waiter waiter;
    struct qn_waiters waiters;
};

static inline struct qn_sqlite *qn_sqlite_of(struct qn_broker *broker)
{
    return (struct qn_sqlite *)(void *)broker;
}

/* --- Operations, one file each; contracts in broker.h ------------------------------------- */

quern_status qn_sqlite_open(const struct qn_url *url, const struct qn_broker_options *options,
                            struct qn_broker **ret_broker, quern_error *err);
void qn_sqlite_close(struct qn_broker *broker);
quern_status qn_sqlite_enqueue(struct qn_broker *broker, struct qn_stamp stamp,
                               const struct qn_task *tasks, size_t count, quern_status *results,
                               quern_error *err);
quern_status qn_sqlite_enqueue_in(struct qn_broker *broker, void *tx, const struct qn_task *tasks,
                                  size_t count, quern_status *results, quern_error *err);
void qn_sqlite_wake_all(struct qn_broker *broker);
quern_status qn_sqlite_exchange(struct qn_broker *broker, struct qn_exchange *exchange,
                                struct qn_exchange_reply *reply, quern_error *err);
quern_status qn_sqlite_extend(struct qn_broker *broker, struct qn_extension *extensions,
                              size_t count, int64_t lease_ms, quern_error *err);
quern_status qn_sqlite_write_result(struct qn_broker *broker, const struct qn_leased *run,
                                    const void *data, size_t size, quern_error *err);
quern_status qn_sqlite_write_progress(struct qn_broker *broker, const struct qn_leased *run,
                                      int32_t percent, const char *note, quern_error *err);
quern_status qn_sqlite_forward(struct qn_broker *broker, const char *const *queues,
                               size_t queue_count, size_t limit, size_t *ret_moved,
                               int64_t *ret_next_due_at_ms, quern_error *err);
quern_status qn_sqlite_recover(struct qn_broker *broker, const char *const *queues,
                               size_t queue_count, size_t limit,
                               void (*on_recovery)(const struct qn_recovery *recovery, void *user),
                               void *user, size_t *ret_recovered, quern_error *err);
quern_status qn_sqlite_prune(struct qn_broker *broker, const char *const *queues,
                             size_t queue_count, size_t limit, size_t *ret_removed,
                             quern_error *err);
quern_status qn_sqlite_arm(struct qn_broker *broker, const char *const *queues, size_t queue_count,
                           bool *ret_work, int64_t *ret_next_due_at_ms, quern_error *err);
quern_status qn_sqlite_wait(struct qn_broker *broker, int64_t timeout_ms,
                            struct qn_wakeup *ret_wakeup, quern_error *err);
void qn_sqlite_interrupt(struct qn_broker *broker);
/* For one thread at a time. err: QUERN_E_CORRUPT for a file that was cut to nothing. */
bool qn_sqlite_is_gone(struct qn_broker *broker, quern_error *err);
quern_status qn_sqlite_heartbeat(struct qn_broker *broker, const struct qn_heartbeat *announcement,
                                 quern_error *err);
quern_status qn_sqlite_deregister(struct qn_broker *broker, const char *worker_id,
                                  quern_error *err);
quern_status qn_sqlite_drained(struct qn_broker *broker, const char *const *queues,
                               size_t queue_count, bool *ret_drained, quern_error *err);

quern_status qn_sqlite_queues(struct qn_broker *broker,
                              bool (*on_queue)(const quern_queue_info *queue, void *user),
                              void *user, quern_error *err);
quern_status qn_sqlite_tasks(struct qn_broker *broker, const quern_task_filter *filter,
                             bool (*on_task)(const quern_task_info *info, void *user), void *user,
                             quern_error *err);
quern_status qn_sqlite_workers(struct qn_broker *broker,
                               bool (*on_worker)(const quern_worker_info *worker, void *user),
                               void *user, quern_error *err);
quern_status qn_sqlite_history(struct qn_broker *broker, const char *queue, size_t days,
                               quern_day *ret_days, quern_error *err);
quern_status qn_sqlite_facts(struct qn_broker *broker,
                             void (*on_fact)(const char *name, const char *text, void *user),
                             void *user, quern_error *err);
quern_status qn_sqlite_act(struct qn_broker *broker, quern_action action, const char *queue,
                           const char *id, quern_error *err);
quern_status qn_sqlite_act_all(struct qn_broker *broker, quern_action action,
                               const quern_task_filter *filter, size_t limit, size_t *ret_count,
                               quern_error *err);
quern_status qn_sqlite_pause(struct qn_broker *broker, const char *queue, bool pause,
                             quern_error *err);
quern_status qn_sqlite_remove_queue(struct qn_broker *broker, const char *queue, bool force,
                                    quern_error *err);
quern_status qn_sqlite_check(struct qn_broker *broker, bool repair,
                             void (*on_finding)(const quern_finding *finding, void *user),
                             void *user, quern_error *err);

#endif
