/* SPDX-License-Identifier: MIT */
/* open.c - the two connections of a broker object, each opened with its settings.
 *
 * The object knows its path already. The writer is opened with the object and reopened after some
 * failures; the reader is opened when something is read first. A connection whose settings cannot
 * be made is closed again. */
#include "broker/sqlite/store/open.h"
#include "broker/sqlite/file/presence.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/open_sql.h"
#include "broker/sqlite/store/sync.h"

static quern_status open_conn(const struct qn_sqlite *self, struct qn_conn *conn, quern_error *err)
{
    int64_t timeout_ms = self->base.command_timeout_ms;
    return self->memory != NULL
               ? qn_conn_open_memory(conn, self->memory->vfs_name, self->path, timeout_ms, err)
               : qn_conn_open(conn, self->path, SQLITE_OPEN_READWRITE, timeout_ms, err);
}

quern_status qn_sqlite_open_writer(struct qn_sqlite *self, quern_error *err)
{
    quern_status status = open_conn(self, &self->writer, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_conn_exec(&self->writer, sql_writer_settings, err);
    if (status == QUERN_OK) {
        status =
            qn_conn_exec(&self->writer, self->full_sync ? sql_sync_full : sql_sync_normal, err);
    }
    if (status != QUERN_OK) {
        qn_conn_close(&self->writer);
        return status;
    }
    self->writer.patience_ms = &self->base.command_timeout_ms; /* it may change meanwhile */
    self->writer.hurries = &self->base.hurries;
    qn_sqlite_presence_forget_beside(self);
    qn_sync_watch(self);
    return status;
}

quern_status qn_sqlite_open_reader(struct qn_sqlite *self, quern_error *err)
{
    quern_status status = open_conn(self, &self->reader, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_conn_exec(&self->reader, sql_reader_settings, err);
    if (status != QUERN_OK) {
        qn_conn_close(&self->reader);
        return status;
    }
    self->reader.hurries = &self->base.hurries;
    return status;
}
