/* SPDX-License-Identifier: MIT */
/* sync.c - makes commits durable within a second.
 *
 * With synchronous=NORMAL a commit survives a crash of the process, but SQLite itself syncs only
 * at checkpoints. A thread of the broker object, started by its first commit, calls fdatasync on
 * the WAL within a second of each commit, and closing does it once more. It lives here, and not in
 * the worker's keeper, because a program that only enqueues keeps the same promise. With sync=full
 * SQLite syncs every commit and there is no thread.
 *
 * A failed fdatasync is not retried on the same pages (the kernel may have dropped them): the
 * descriptor is opened afresh, and the next commits are synced as before. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/sqlite/sqlite.h"

#define SYNC_AFTER_S 1
#define STACK_SIZE (64 * 1024)

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
        syncer->fd = open(self->wal_path, O_RDONLY | O_CLOEXEC);
    }
    if (syncer->fd >= 0 && fdatasync(syncer->fd) != 0) {
        (void)close(syncer->fd);
        syncer->fd = -1;
    }
}

static void *sync_thread(void *user)
{
    struct qn_sqlite *self = user;
    struct qn_syncer *syncer = &self->syncer;
    pthread_mutex_lock(&syncer->mutex);
    for (;;) {
        while (!syncer->dirty && !syncer->stop) {
            pthread_cond_wait(&syncer->changed, &syncer->mutex);
        }
        int64_t now_ns = qn_clock_mono_ns();
        struct timespec at = {.tv_sec = now_ns / 1000000000 + SYNC_AFTER_S,
                              .tv_nsec = now_ns % 1000000000};
        int code = 0;
        while (!syncer->stop && code != ETIMEDOUT) {
            code = pthread_cond_timedwait(&syncer->changed, &syncer->mutex, &at);
        }
        bool dirty = syncer->dirty;
        bool stop = syncer->stop;
        syncer->dirty = false;
        pthread_mutex_unlock(&syncer->mutex);
        if (dirty) {
            sync_wal(self);
        }
        if (stop) {
            return NULL;
        }
        pthread_mutex_lock(&syncer->mutex);
    }
}

/* With the mutex held. All signals are blocked in the thread: they are the program's. */
static bool start_thread(struct qn_sqlite *self)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&self->syncer.thread, &attributes, sync_thread, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code == 0;
}

void qn_syncer_note(struct qn_sqlite *self)
{
    struct qn_syncer *syncer = &self->syncer;
    if (self->full_sync) {
        return;
    }
    pthread_mutex_lock(&syncer->mutex);
    if (!syncer->dirty) {
        if (!syncer->running) {
            syncer->running = start_thread(self);
        }
        syncer->dirty = syncer->running;
        pthread_cond_signal(&syncer->changed);
    }
    bool alone = !syncer->running;
    pthread_mutex_unlock(&syncer->mutex);
    if (alone) {
        sync_wal(self); /* no thread can be had: slower, but the promise holds; the gate is held */
    }
}

void qn_syncer_stop(struct qn_sqlite *self)
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
    if (syncer->fd >= 0) {
        (void)close(syncer->fd);
        syncer->fd = -1;
    }
}
