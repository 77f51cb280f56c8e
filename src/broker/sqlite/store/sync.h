/* SPDX-License-Identifier: MIT */
/* sync.h - makes commits durable within a second, keeps the WAL short. */
#ifndef QN_BROKER_SQLITE_STORE_SYNC_H
#define QN_BROKER_SQLITE_STORE_SYNC_H

#include <pthread.h>

#include "broker/sqlite/store/conn.h"

struct qn_sqlite;

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

void qn_sync_init(struct qn_syncer *syncer);
void qn_sync_finish(struct qn_syncer *syncer); /* after qn_sync_stop, if the thread ran */
void qn_sync_watch(struct qn_sqlite *self);    /* the writer was opened: observes its commits */
void qn_sync_note(struct qn_sqlite *self);     /* something was committed */
void qn_sync_stop(struct qn_sqlite *self);     /* syncs the rest, ends the thread */

#endif
