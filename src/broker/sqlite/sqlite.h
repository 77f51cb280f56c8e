/* SPDX-License-Identifier: MIT */
/* sqlite.h - what the files of the SQLite broker share: its struct and its three doors.
 *
 * Writing: qn_sqlite_begin .. qn_sqlite_commit or qn_sqlite_rollback. There is one writing
 * connection, so that what the threads of a process write is one row of transactions; the gate
 * before it lets urgent callers (lease extension) go first. Reading: qn_sqlite_read_begin ..
 * qn_sqlite_read_end, on a second connection, so that a long look never holds up the pump.
 * Waking: qn_sqlite_wake after a commit that made work for somebody. */
#ifndef QN_BROKER_SQLITE_SQLITE_H
#define QN_BROKER_SQLITE_SQLITE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/text/url.h"
#include "broker/broker.h"
#include "broker/sqlite/store/conn.h"
#include "broker/sqlite/upkeep/heartbeat_age.h"
#include "task/limits.h"

/* How long the statements of one transaction may take. No honest file needs a fraction of that; in
 * a crafted one the pages can form a maze. */
#define QN_SQLITE_STEP_MS_MAX 60000
#define QN_SQLITE_LOOK_MS_MAX 300000 /* for reading, since a look may pass over all tasks */
#define QN_WAITER_ID_SIZE 33         /* 32 hexadecimal digits */

/* Lets one thread at a time to the writing connection, urgent ones before all others. */
struct qn_gate {
    pthread_mutex_t mutex;
    pthread_cond_t freed; /* on CLOCK_MONOTONIC */
    bool taken;           /* the rest is guarded by mutex */
    size_t urgent_waiting;
};

/* Makes commits durable within a second, keeps the WAL short (sync.c). */
struct qn_syncer {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    pthread_t thread;
    bool running; /* guarded by mutex, as the next four */
    bool stop;
    bool dirty;
    bool long_wal;       /* a checkpoint is due */
    int pages_seen;      /* length of the WAL when one was due last */
    int fd;              /* of the -wal file; the thread's own, -1 while not open */
    struct qn_conn conn; /* the thread's own, for checkpoints; opened when first needed */
};

/* The sockets of a broker object that waits (wait.c). */
struct qn_waiter {
    pthread_mutex_t mutex; /* guards making and arming them */
    bool ready;
    bool deaf;             /* ready without sockets: the directory is another user's */
    bool armed;            /* set by arm, cleared by the wake-up */
    int64_t armed_version; /* data_version at arm; 0: not known */
    int64_t looked_at_ns;  /* when it was compared last */
    int epoll_fd;
    int interrupt_fd; /* an eventfd, from open to close, so that interrupt needs no lock */
    int dir_fd;
    int lock_fd;
    int wake_fd;
    int control_fd;
    char id[QN_WAITER_ID_SIZE]; /* names the sockets and the lock file */
};

/* Who waits on this file: the directory of sockets, remembered while it does not change (wake.c).
 */
struct qn_roster {
    pthread_mutex_t mutex; /* guards all of it */
    int dir_fd;            /* -1: not open; there is no directory before the first waiter */
    int send_fd;           /* an unbound datagram socket; -1 until needed */
    int64_t changed_at_ns; /* mtime of the directory when it was read; -1: read it again */
    char (*ids)[QN_WAITER_ID_SIZE];
    size_t count;
    size_t capacity;
};

/* By which files on the disk this process would notice that its own were taken away (gone.c). */
struct qn_presence {
    dev_t device;
    ino_t file;
    _Atomic ino_t beside[2]; /* -wal and -shm, as the writer has them open; 0: not known */
    bool beside_known;       /* since the writer was opened; with the gate held */
};

struct qn_sqlite {
    struct qn_broker base;
    char *path; /* absolute, symbolic links resolved */
    char *wal_path;
    struct qn_presence presence;
    char *wake_path; /* the directory of sockets */
    bool full_sync;
    bool unsafe_fs;
    bool trust_owner; /* the file and what lies beside it may belong to others */
    struct qn_gate gate;
    struct qn_conn writer; /* used with the gate held */
    pthread_mutex_t read_mutex;
    struct qn_conn reader; /* guarded by read_mutex, as the next four; opened when first needed */
    bool clock_seen;       /* by prune */
    struct qn_heartbeat_ages heartbeat_ages; /* workers on other hosts; by recover */
    int64_t clock_offset_ms;                 /* wall clock minus boot clock */
    int64_t clock_jumped_at_ms;              /* when that changed by much; boot clock */
    _Atomic int64_t
        rest_until_mono_ns;         /* transaction.c: until then no lease that is over is ended */
    _Atomic int64_t dated_shift_ms; /* redate.c: with it all delays were dated rightly */
    _Atomic int64_t redate_at_mono_ns; /* when to look at that again */
    struct qn_syncer syncer;
    struct qn_waiter waiter;
    struct qn_roster roster;
};

static inline struct qn_sqlite *qn_sqlite_of(struct qn_broker *broker)
{
    return (struct qn_sqlite *)(void *)broker;
}

/* False: it was not free for so long. Urgent ones pass all that wait. */
QUERN_NODISCARD bool qn_gate_enter(struct qn_gate *gate, bool urgent, int64_t timeout_ms);
void qn_gate_leave(struct qn_gate *gate);

/* --- Doors ---------------------------------------------------------------------------- */

/* Waits at the gate and begins a transaction (BEGIN IMMEDIATE). On success the caller must end it
 * with commit or rollback, in the same thread. QUERN_E_BUSY after command_timeout_ms. */
QUERN_NODISCARD quern_status qn_sqlite_begin(struct qn_sqlite *self, bool urgent,
                                             struct qn_conn **ret_conn, quern_error *err);
/* Ends the transaction and opens the gate in any case. On failure nothing was changed, except with
 * QUERN_E_UNKNOWN. */
QUERN_NODISCARD quern_status qn_sqlite_commit(struct qn_sqlite *self, quern_error *err);
void qn_sqlite_rollback(struct qn_sqlite *self);

/* Locks the reading connection and begins a read transaction: one snapshot until read_end. Never
 * call it between begin and commit. */
QUERN_NODISCARD quern_status qn_sqlite_read_begin(struct qn_sqlite *self, struct qn_conn **ret_conn,
                                                  quern_error *err);
void qn_sqlite_read_end(struct qn_sqlite *self);

/* Wakes all workers that wait on this file. Call it after the commit, never inside a transaction.
 */
void qn_sqlite_wake(struct qn_sqlite *self);
/* Tells all workers of this file to cancel a run; lost messages are made good by extend, which
 * reads quern_task.cancel. After the commit. */
void qn_sqlite_tell_cancel(struct qn_sqlite *self, const char *queue, const char *id,
                           enum qn_cancel cancel);

/* --- Pieces that several operations need ------------------------------------------------ */

/* The number of a queue; with create it is made when there is none; else *ret_no = 0 for that. */
QUERN_NODISCARD quern_status qn_sqlite_queue_no(struct qn_conn *conn, const char *name, bool create,
                                                int64_t *ret_no, quern_error *err);
/* Takes `count` numbers from the counter of the database; *ret_first is the first of them. */
QUERN_NODISCARD quern_status qn_sqlite_numbers(struct qn_conn *conn, size_t count,
                                               int64_t *ret_first, quern_error *err);
/* When the next scheduled or retry task of the queue is due; INT64_MAX: none. */
QUERN_NODISCARD quern_status qn_sqlite_next_due(struct qn_conn *conn, int64_t queue_no,
                                                int64_t *ret_due_at_ms, quern_error *err);
/* How far the wall clock, which is read, is ahead of the boot clock; 0: delays are not kept on that
 * (redate.c). */
int64_t qn_sqlite_shift_ms(struct qn_sqlite *self, int64_t *ret_wall_ms);
/* The same for two moments that were read together (qn_clock_both_ms). */
int64_t qn_sqlite_shift_of(struct qn_sqlite *self, int64_t wall_ms, int64_t boot_ms);
/* A delay that ends later than this on the boot clock is not over, whatever its date says. Where it
 * is dated as if, it is dated anew soon. */
#define QN_DATE_TOLERANCE_MS 250
/* Dates delays by the boot clock that the wall clock has left behind, a batch of them. */
QUERN_NODISCARD quern_status qn_sqlite_redate(struct qn_sqlite *self, bool *ret_more,
                                              quern_error *err);
/* Frees the lock if it is held by this task. key NULL: nothing. */
QUERN_NODISCARD quern_status qn_sqlite_lock_free(struct qn_conn *conn, const char *key,
                                                 int64_t queue_no, const char *id,
                                                 quern_error *err);

/* What was answered to this request before: *ret_known, and exactly reply_size bytes. */
QUERN_NODISCARD quern_status qn_sqlite_session_find(struct qn_conn *conn, struct qn_stamp stamp,
                                                    void *reply, size_t reply_size, bool *ret_known,
                                                    quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_session_keep(struct qn_conn *conn, struct qn_stamp stamp,
                                                    int64_t now_ms, const void *reply,
                                                    size_t reply_size, quern_error *err);

/* Headers are stored as one blob: name NUL value NUL, and so on. Packed size of the headers: */
size_t qn_sqlite_headers_size(const quern_header *headers, size_t count);
void qn_sqlite_headers_pack(const quern_header *headers, size_t count, char *out);
/* How many headers a blob holds; a damaged one holds none. */
size_t qn_sqlite_headers_count(const void *blob, size_t size);
/* Fills `count` (from qn_sqlite_headers_count) headers that point into the blob. */
void qn_sqlite_headers_unpack(const void *blob, size_t size, quern_header *headers, size_t count);

/* --- Opening (broker.c, file.c, schema.c, open.c) -------------------------------------------- */

quern_status qn_sqlite_open(const struct qn_url *url, const struct qn_broker_options *options,
                            struct qn_broker **ret_broker, quern_error *err);
/* Open the connections of an object whose path is known, with their settings. */
QUERN_NODISCARD quern_status qn_sqlite_open_writer(struct qn_sqlite *self, quern_error *err);
QUERN_NODISCARD quern_status qn_sqlite_open_reader(struct qn_sqlite *self, quern_error *err);
/* Resolves self's path, checks directory, owners and file system, makes the file (0600) if asked
 * to. unsafe_fs and trust_owner are set. */
QUERN_NODISCARD quern_status qn_sqlite_file_prepare(struct qn_sqlite *self, const char *path,
                                                    bool create, quern_error *err);
/* Refuses a file that others could change (place.c); there may be none yet. */
QUERN_NODISCARD quern_status qn_sqlite_place_check(const char *path, bool trust_owner,
                                                   quern_error *err);
/* The path as the text of an error may name it in a URL: "/PATH" for a long or odd one. */
const char *qn_sqlite_place_shown(const char *path);
/* True: who may write to the file although it is allowed, in words. */
bool qn_sqlite_place_warning(const struct qn_sqlite *self, char *out, size_t out_size);
uid_t qn_sqlite_place_owner(const struct qn_sqlite *self);
/* Whether sockets in this directory are those of people whom we trust. */
bool qn_sqlite_place_trusts(const struct qn_sqlite *self, const struct stat *directory);
/* Looks at the first bytes before SQLite does: is it a database, or an empty file? */
QUERN_NODISCARD quern_status qn_sqlite_file_check(struct qn_conn *conn, bool *ret_empty,
                                                  quern_error *err);
/* The name of the network file system that `path` is on; NULL: a local one. */
const char *qn_sqlite_network_fs(const char *path);
/* Brings the schema to this version. init: also beside the tables of others. */
QUERN_NODISCARD quern_status qn_sqlite_schema_prepare(struct qn_conn *conn, bool create, bool init,
                                                      int64_t now_ms, quern_error *err);
/* Runs the migrations from version `from` to version `to`, without noting that. */
QUERN_NODISCARD quern_status qn_sqlite_schema_make(struct qn_conn *conn, int64_t from, int64_t to,
                                                   quern_error *err);
/* Whether our tables are those of this version, as our own statements make them (trust.c). */
QUERN_NODISCARD quern_status qn_sqlite_schema_trust(struct qn_conn *conn, int64_t version,
                                                    quern_error *err);
#define QN_SQLITE_SCHEMA_VERSION 3

/* --- The sync thread (sync.c) ------------------------------------------------------------ */

void qn_syncer_watch(struct qn_sqlite *self); /* the writer was opened: looks at its commits */
void qn_syncer_note(struct qn_sqlite *self);  /* something was committed */
void qn_syncer_stop(struct qn_sqlite *self);  /* syncs what is left, ends the thread */

/* --- Waiting (wait.c, wake.c) -------------------------------------------------------------- */

/* "/proc/self/fd/N/ID.kind": an address that is short enough whatever the path of the file is. */
void qn_sqlite_socket_address(int dir_fd, const char *id, const char *kind,
                              struct sockaddr_un *ret_address);
void qn_sqlite_waiter_close(struct qn_sqlite *self); /* removes the sockets */
void qn_sqlite_roster_close(struct qn_sqlite *self);

/* --- Operations, one file each; contracts in broker.h ------------------------------------- */

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
/* With the gate held: the writer is opened anew, and has no log yet; a transaction of it has begun,
 * so it has one. */
void qn_sqlite_presence_forget_beside(struct qn_sqlite *self);
void qn_sqlite_presence_note_beside(struct qn_sqlite *self);
/* For one thread at a time. err: QUERN_E_CORRUPT for a file that was cut to nothing. */
bool qn_sqlite_is_gone(struct qn_broker *broker, quern_error *err);
/* Notes which file was opened. */
QUERN_NODISCARD quern_status qn_sqlite_presence_note(struct qn_sqlite *self, quern_error *err);
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
