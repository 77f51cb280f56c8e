/* SPDX-License-Identifier: MIT */
/* backup.c - a consistent copy of the file, while others write.
 *
 * SQLite copies the pages out of one read transaction, so that no writer waits and the copy does
 * not start again after a write. The copy is a new file that only its owner may read; it is
 * complete on the disk, or removed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/transaction.h"

#define COPY_BUSY_MS 1000 /* no other process uses the new file */

static quern_status make_file(const char *path, quern_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return qn_error_set(err, errno == EEXIST ? QUERN_E_CONFLICT : QUERN_E_BROKER,
                            "backup to %s: %s", path, strerror(errno));
    }
    (void)close(fd);
    return QUERN_OK;
}

static quern_status copy_pages(struct qn_conn *from, struct qn_conn *copy, quern_error *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(copy->db, "main", from->db, "main");
    if (backup == NULL) {
        return qn_conn_fail(copy, sqlite3_extended_errcode(copy->db), err);
    }
    int code = sqlite3_backup_step(backup, -1);
    int finished = sqlite3_backup_finish(backup);
    if (code == SQLITE_DONE && finished == SQLITE_OK) {
        return QUERN_OK;
    }
    return qn_conn_fail(copy, finished != SQLITE_OK ? finished : code, err);
}

quern_status qn_sqlite_backup(struct qn_broker *broker, const char *path, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *from = NULL;
    struct qn_conn copy = {.db = NULL};
    quern_status status = make_file(path, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_conn_open(&copy, path, SQLITE_OPEN_READWRITE, COPY_BUSY_MS, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = qn_transaction_read_begin(self, &from, err);
    if (status == QUERN_OK) {
        status = copy_pages(from, &copy, err);
        qn_transaction_read_end(self);
    }

fail:
    qn_conn_close(&copy);
    if (status != QUERN_OK) {
        (void)unlink(path);
    }
    return status;
}
