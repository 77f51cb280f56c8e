/* SPDX-License-Identifier: MIT */
/* presence.h - by which files on the disk this process notices that its own were taken away. */
#ifndef QN_BROKER_SQLITE_FILE_PRESENCE_H
#define QN_BROKER_SQLITE_FILE_PRESENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "quern/status.h"

struct qn_sqlite;

struct qn_presence {
    dev_t device;
    ino_t file;
    _Atomic ino_t beside[2]; /* -wal and -shm, as the writer has them open; 0: not known */
    bool beside_known;       /* since the writer was opened; with the writer lock held */
};

/* Notes which file was opened. */
QUERN_NODISCARD quern_status qn_sqlite_presence_note(struct qn_sqlite *self, quern_error *err);
/* With the writer lock held: the writer is reopened, and has no log yet; a transaction of it has
 * begun, so it has one. */
void qn_sqlite_presence_forget_beside(struct qn_sqlite *self);
void qn_sqlite_presence_note_beside(struct qn_sqlite *self);

#endif
