/* SPDX-License-Identifier: MIT */
/* sync.c - makes commits durable within a second, and keeps the WAL short.
 *
 * With synchronous=NORMAL a commit survives a crash of the process, but SQLite itself syncs only
 * at checkpoints. A thread of the broker object, started by its first commit, calls fdatasync on
 * the WAL within a second of each commit, and closing does it once more. It lives here, and not in
 * the worker's keeper, because a program that only enqueues keeps the same promise. With sync=full
 * SQLite syncs every commit and there is no thread; nor is there one for a database in memory.
 *
 * The same thread moves the WAL into the database (a checkpoint), through a connection of its own,
 * each WAL_STEP_PAGES. SQLite would do that inside a commit, where all writers wait for two syncs;
 * and with two busy processes it would do it in every commit, because the WAL can start over only
 * at a moment when nothing has been written since. So when nearly all is moved, the thread holds
 * writers off for the rest (a restart), for READER_PATIENCE_MS at most if a reader stands in the
 * way; then the WAL grows until the next step.
 *
 * A failed fdatasync is not retried on the same pages (the kernel may have dropped them): the
 * descriptor is reopened, and the next commits are synced as before. */
#include "broker/sqlite/store/sync.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/thread.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/open_sql.h"
#include "broker/sqlite/store/writer_lock.h"

#define SYNC_AFTER_S 1
#define WAL_STEP_PAGES 4000
#define READER_PATIENCE_MS 20
#define LOCK_PATIENCE_MS 1000

void qn_sync_init(struct qn_syncer *syncer)
{
    pthread_mutex_init(&syncer->mutex, NULL);
    qn_cond_init(&syncer->changed);
    syncer->fd = -1;
}

void qn_sync_finish(struct qn_syncer *syncer)
{
    pthread_mutex_destroy(&syncer->mutex);
    pthread_cond_destroy(&syncer->changed);
}

/* The -wal file carries no locks, so opening and closing it does not disturb SQLite's. */
static void sync_wal(struct qn_sqlite *self)
{
    struct qn_syncer *syncer = &self->syncer;
    struct stat info;
    if (syncer->fd >= 0 && (fstat(syncer->fd, &info) != 0 || info.st_nlink == 0)) {
        (void)close(syncer->fd); /* another process closed last and removed it */
        syncer->fd = -1;
    }
    if (syncer->fd < 0) {
        syncer->fd = open(self->wal_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (syncer->fd >= 0 && fdatasync(syncer->fd) != 0) {
        (void)close(syncer->fd);
        syncer->fd = -1;
    }
}

static bool open_checkpointer(struct qn_sqlite *self)
{
    struct qn_conn *conn = &self->syncer.conn;
    if (conn->db != NULL) {
        return true;
    }
    quern_status status =
        qn_conn_open(conn, self->path, SQLITE_OPEN_READWRITE, READER_PATIENCE_MS, NULL);
    if (status != QUERN_OK) {
        return false;
    }
    status = qn_conn_exec(conn, sql_checkpoint_settings, NULL);
    if (status != QUERN_OK) {
        qn_conn_close(conn);
    }
    return status == QUERN_OK;
}

/* Moves the WAL into the database, unless another process does so. A failure here shows in the next
 * commit or checkpoint. */
static void checkpoint(struct qn_sqlite *self, bool is_locked)
{
    if (!open_checkpointer(self)) {
        return;
    }
    sqlite3 *db = self->syncer.conn.db;
    int code = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (code != SQLITE_OK) {
        return;
    }
    /* Without the lock a busy writer of this process would hardly ever let SQLite's be had. */
    bool took_it = !is_locked && qn_writer_lock_take(&self->writer_lock, true, LOCK_PATIENCE_MS);
    (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    if (took_it) {
        qn_writer_lock_release(&self->writer_lock);
    }
}

/* With the mutex held: until there is something to do, and a second for more of it to come. */
static void wait_for_work(struct qn_syncer *syncer)
{
    while (!syncer->dirty && !syncer->long_wal && !syncer->stop) {
        pthread_cond_wait(&syncer->changed, &syncer->mutex);
    }
    int64_t until_ns = qn_clock_mono_ns() + SYNC_AFTER_S * INT64_C(1000000000);
    bool in_time = true;
    while (!syncer->stop && !syncer->long_wal && in_time) {
        in_time = qn_cond_wait_until(&syncer->changed, &syncer->mutex, until_ns);
    }
}

static void *sync_thread(void *user)
{
    struct qn_sqlite *self = user;
    struct qn_syncer *syncer = &self->syncer;
    bool stop = false;
    pthread_mutex_lock(&syncer->mutex);
    while (!stop) {
        wait_for_work(syncer);
        bool dirty = syncer->dirty;
        bool long_wal = syncer->long_wal;
        stop = syncer->stop;
        syncer->dirty = false;
        syncer->long_wal = false;
        pthread_mutex_unlock(&syncer->mutex);
        if (long_wal) {
            checkpoint(self, false);
        }
        if (dirty) {
            sync_wal(self); /* also then: a reader can keep a checkpoint from syncing anything */
        }
        pthread_mutex_lock(&syncer->mutex);
    }
    pthread_mutex_unlock(&syncer->mutex);
    return NULL;
}

/* SQLite calls it within each commit, with the length of the WAL. */
static int note_length(void *user, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    struct qn_sqlite *self = user;
    struct qn_syncer *syncer = &self->syncer;
    pthread_mutex_lock(&syncer->mutex);
    if (pages < syncer->pages_seen) {
        syncer->pages_seen = 0; /* it has started over */
    }
    if (pages - syncer->pages_seen >= WAL_STEP_PAGES) {
        syncer->pages_seen = pages;
        syncer->long_wal = true;
        pthread_cond_signal(&syncer->changed);
    }
    pthread_mutex_unlock(&syncer->mutex);
    return SQLITE_OK;
}

void qn_sync_watch(struct qn_sqlite *self)
{
    if (!self->full_sync && self->memory == NULL) {
        (void)sqlite3_wal_hook(self->writer.db, note_length, self);
    }
}

void qn_sync_note(struct qn_sqlite *self)
{
    struct qn_syncer *syncer = &self->syncer;
    if (self->full_sync || self->memory != NULL) {
        return;
    }
    pthread_mutex_lock(&syncer->mutex);
    if (!syncer->dirty) {
        if (!syncer->running) {
            syncer->running =
                qn_thread_start_small(&syncer->thread, "quern-sync", sync_thread, self);
        }
        syncer->dirty = syncer->running;
        pthread_cond_signal(&syncer->changed);
    }
    bool alone = !syncer->running;
    bool long_wal = alone && syncer->long_wal;
    syncer->long_wal = syncer->long_wal && !alone;
    pthread_mutex_unlock(&syncer->mutex);
    if (alone) {
        sync_wal(self); /* no thread can be had: slower, but the promise holds; we hold the lock */
    }
    if (long_wal) {
        checkpoint(self, true);
    }
}

void qn_sync_stop(struct qn_sqlite *self)
{
    struct qn_syncer *syncer = &self->syncer;
    pthread_mutex_lock(&syncer->mutex);
    bool running = syncer->running;
    syncer->stop = true;
    pthread_cond_signal(&syncer->changed);
    pthread_mutex_unlock(&syncer->mutex);
    if (running) {
        pthread_join(syncer->thread, NULL);
        syncer->running = false;
    }
    qn_conn_close(&syncer->conn);
    if (syncer->fd >= 0) {
        (void)close(syncer->fd);
        syncer->fd = -1;
    }
}
