/* SPDX-License-Identifier: MIT */
/* sqlite.h - shared by the files of the SQLite broker: its struct, with the parts that rooms above
 * the store use.
 *
 * The rooms, lowest first: file (the path), store (connections, transactions), schema, wake, queue
 * (counters, brakes, solo locks), run, upkeep, inspect, operate, doctor; schedule is above run;
 * broker.c is above all.
 * Writing: qn_transaction_begin .. commit or rollback. Reading: qn_transaction_read_begin ..
 * read_end. Waking: qn_waiters_wake after a commit that made work, qn_waiters_report_ends after one
 * that may have ended tasks. */
#ifndef QN_BROKER_SQLITE_SQLITE_H
#define QN_BROKER_SQLITE_SQLITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock_jump.h"
#include "base/text/url.h"
#include "broker/ops.h"
#include "broker/sqlite/file/presence.h"
#include "broker/sqlite/store/conn.h"
#include "broker/sqlite/store/memory.h"
#include "broker/sqlite/store/sync.h"
#include "broker/sqlite/store/writer_lock.h"
#include "task/limits.h"

#define QN_WAITER_ID_SIZE 33 /* 32 hexadecimal digits */

/* The names of sockets in the directory beside the file (wake/sockets.c). */
struct qn_sockets {
    int dir_fd;
    int lock_fd;
    char id[QN_WAITER_ID_SIZE]; /* names the sockets and the lock file */
};

/* How a broker object waits for work (wake/wait.c). */
struct qn_waiter {
    pthread_mutex_t mutex; /* guards making and arming them */
    bool ready;
    bool deaf;             /* ready without sockets: the directory is another user's */
    bool armed;            /* set by arm, cleared by the wake-up */
    int64_t armed_version; /* data_version at arm; 0: not known */
    int64_t polled_at_ns;  /* when it was compared last */
    int epoll_fd;
    int interrupt_fd; /* an eventfd, from open to finish, so that interrupt needs no lock */
    struct qn_sockets sockets;
    int wake_fd;
    int control_fd;
    struct qn_memory_socket wake_sender; /* in memory: the other ends of the two */
    struct qn_memory_socket control_sender;
};

/* How a broker object waits for the end of tasks (wake/watch.c). */
struct qn_watcher {
    pthread_mutex_t mutex; /* guards making it */
    struct qn_sockets sockets;
    int fd;
    struct qn_memory_socket sender; /* in memory: its other end */
};

struct qn_waiter_ids {
    char (*items)[QN_WAITER_ID_SIZE];
    size_t count;
    size_t capacity;
};

/* All that wait on this file: the directory of sockets, cached while it does not change
 * (wake/waiters.c). */
struct qn_waiters {
    pthread_mutex_t mutex; /* guards all of it */
    int dir_fd;            /* -1: not open; there is no directory before the first waiter */
    int send_fd;           /* an unbound datagram socket; -1 until needed */
    int ends_fd;           /* the same for the ends of tasks: unread ones fill only this one */
    int64_t changed_at_ns; /* mtime of the directory when it was read; -1: read it again */
    struct qn_waiter_ids workers;
    struct qn_waiter_ids watchers;
};

/* An observed heartbeat of a worker on another host (upkeep/heartbeat_age.c). */
struct qn_heartbeat_age {
    int64_t worker_no;
    int64_t heartbeat_at_ms; /* as the worker wrote it */
    int64_t since_boot_ms;   /* when it was first seen so */
    bool changed;            /* that was a heartbeat; else we read it for the first time */
};

struct qn_heartbeat_age_list {
    struct qn_heartbeat_age *records;
    size_t count;
    size_t capacity;
};

struct qn_heartbeat_ages {
    struct qn_heartbeat_age_list before; /* of the look before */
    size_t at;                           /* in that */
    struct qn_heartbeat_age_list now;
};

struct qn_sqlite {
    struct qn_broker base;
    struct qn_memory *memory; /* NULL: a file */
    char *path;               /* absolute, symbolic links resolved; in memory its URL */
    char *wal_path;           /* NULL in memory, as wake_path */
    struct qn_presence presence;
    char *wake_path; /* the directory of sockets */
    bool full_sync;
    bool unsafe_fs;
    bool trust_owner; /* the file and the files beside it may belong to others */
    struct qn_writer_lock writer_lock;
    struct qn_conn writer; /* used with the writer lock held */
    pthread_mutex_t read_mutex;
    struct qn_conn reader; /* guarded by read_mutex, as the next two; opened when needed */
    struct qn_clock_jump prune_clock;        /* the wall clock */
    struct qn_heartbeat_ages heartbeat_ages; /* workers on other hosts; by recover */
    _Atomic int64_t
        rest_until_mono_ns;         /* store/transaction.c: until then no expired lease is ended */
    _Atomic int64_t dated_shift_ms; /* run/delay_clock.c: with it all delays were dated rightly */
    _Atomic int64_t redate_at_mono_ns; /* when to check that again */
    struct qn_syncer syncer;
    struct qn_waiter waiter;
    struct qn_watcher watcher;
    struct qn_waiters waiters;
};

static inline struct qn_sqlite *qn_sqlite_of(struct qn_broker *broker)
{
    return (struct qn_sqlite *)(void *)broker;
}

/* --- The operations, each in the file of its name ------------------------------------------- */

quern_status qn_sqlite_open(const struct qn_url *url, const struct qn_broker_options *options,
                            struct qn_broker **ret_broker, quern_error *err);
qn_close_fn qn_sqlite_close;
qn_find_queue_fn qn_sqlite_find_queue;
qn_enqueue_fn qn_sqlite_enqueue;
qn_enqueue_in_fn qn_sqlite_enqueue_in;
qn_wake_fn qn_sqlite_wake;
qn_exchange_fn qn_sqlite_exchange;
qn_extend_fn qn_sqlite_extend;
qn_write_result_fn qn_sqlite_write_result;
qn_write_progress_fn qn_sqlite_write_progress;
qn_forward_fn qn_sqlite_forward;
qn_recover_fn qn_sqlite_recover;
qn_prune_fn qn_sqlite_prune;
qn_arm_fn qn_sqlite_arm;
qn_wait_fn qn_sqlite_wait;
qn_interrupt_fn qn_sqlite_interrupt;
qn_watch_fn qn_sqlite_watch;
qn_await_fn qn_sqlite_await;
/* For one thread at a time. err: QUERN_E_CORRUPT for a file that was cut to nothing. */
qn_is_gone_fn qn_sqlite_is_gone;
qn_heartbeat_fn qn_sqlite_heartbeat;
qn_deregister_fn qn_sqlite_deregister;
qn_drained_fn qn_sqlite_drained;
qn_aggregate_fn qn_sqlite_aggregate;
qn_extend_sets_fn qn_sqlite_extend_sets;
qn_return_set_fn qn_sqlite_return_set;
qn_finish_set_fn qn_sqlite_finish_set;
qn_reclaim_sets_fn qn_sqlite_reclaim_sets;
qn_queues_fn qn_sqlite_queues;
qn_tasks_fn qn_sqlite_tasks;
qn_workers_fn qn_sqlite_workers;
qn_find_worker_fn qn_sqlite_find_worker;
qn_command_fn qn_sqlite_command;
qn_history_fn qn_sqlite_history;
qn_lock_holder_fn qn_sqlite_lock_holder;
qn_match_id_fn qn_sqlite_match_id;
qn_server_info_fn qn_sqlite_server_info;
qn_backup_fn qn_sqlite_backup;
qn_operate_fn qn_sqlite_operate;
qn_operate_all_fn qn_sqlite_operate_all;
qn_edit_fn qn_sqlite_edit;
qn_move_fn qn_sqlite_move;
qn_search_fn qn_sqlite_search;
qn_search_act_fn qn_sqlite_search_act;
qn_trash_search_fn qn_sqlite_trash_search;
qn_trash_act_fn qn_sqlite_trash_act;
qn_trash_use_fn qn_sqlite_trash_use;
qn_standing_fn qn_sqlite_standing;
qn_pause_fn qn_sqlite_pause;
qn_set_queue_fn qn_sqlite_set_queue;
qn_remove_queue_fn qn_sqlite_remove_queue;
qn_doctor_fn qn_sqlite_doctor;
qn_schedule_put_fn qn_sqlite_schedule_put;
qn_schedule_remove_fn qn_sqlite_schedule_remove;
qn_schedule_pause_fn qn_sqlite_schedule_pause;
qn_schedule_list_fn qn_sqlite_schedule_list;
qn_schedule_lead_fn qn_sqlite_schedule_lead;
qn_schedule_claim_fn qn_sqlite_schedule_claim;
qn_schedule_tick_fn qn_sqlite_schedule_tick;
qn_schedule_trigger_fn qn_sqlite_schedule_trigger;
qn_schedule_history_fn qn_sqlite_schedule_history;
qn_schedule_record_fn qn_sqlite_schedule_record;
qn_set_limit_fn qn_sqlite_set_limit;
qn_remove_limit_fn qn_sqlite_remove_limit;
qn_limits_fn qn_sqlite_limits;

#endif
