/* SPDX-License-Identifier: MIT */
/* watch.h - the socket of a broker object that waits for the end of tasks. */
#ifndef QN_BROKER_SQLITE_WAKE_WATCH_H
#define QN_BROKER_SQLITE_WAKE_WATCH_H

#include "broker/sqlite/sqlite.h"

void qn_watch_init(struct qn_watcher *watcher);
/* Removes the socket. */
void qn_watch_close(struct qn_sqlite *self);
void qn_watch_finish(struct qn_watcher *watcher);

#endif
