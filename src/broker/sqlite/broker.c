/* SPDX-License-Identifier: MIT */
/* broker.c - opens and closes a broker object on an SQLite file.
 *
 * Opening goes from the outside in: the parameters of the URL, the place (file/), the first bytes
 * and the tables (schema/), the settings of the connection; if one of them refuses, nothing was
 * changed. Closing syncs all commits, removes the sockets of a waiter and closes the connections.
 * In the child of a fork none of that may happen, since the file, its locks and the sockets belong
 * to the parent: there the object is left untouched. */
#include "broker/sqlite/sqlite.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "broker/sqlite/file/file.h"
#include "broker/sqlite/file/presence.h"
#include "broker/sqlite/schema/schema.h"
#include "broker/sqlite/store/open.h"
#include "broker/sqlite/store/sync.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/store/writer_lock.h"
#include "broker/sqlite/upkeep/heartbeat_age.h"
#include "broker/sqlite/wake/wait.h"
#include "broker/sqlite/wake/waiters.h"
#include "broker/sqlite/wake/watch.h"

#define COMMAND_TIMEOUT_MS 10000

/* A line each, in the order of ops.h. */
static const struct qn_broker_ops ops = {
    .scheme = "sqlite",
    .exchanges_max = 1,
    .has_priorities = true,
    .close = qn_sqlite_close,
    .find_queue = qn_sqlite_find_queue,
    .enqueue = qn_sqlite_enqueue,
    .enqueue_in = qn_sqlite_enqueue_in,
    .exchange = qn_sqlite_exchange,
    .extend = qn_sqlite_extend,
    .write_result = qn_sqlite_write_result,
    .write_progress = qn_sqlite_write_progress,
    .forward = qn_sqlite_forward,
    .recover = qn_sqlite_recover,
    .prune = qn_sqlite_prune,
    .arm = qn_sqlite_arm,
    .wait = qn_sqlite_wait,
    .interrupt = qn_sqlite_interrupt,
    .watch = qn_sqlite_watch,
    .await = qn_sqlite_await,
    .is_gone = qn_sqlite_is_gone,
    .wake = qn_sqlite_wake,
    .heartbeat = qn_sqlite_heartbeat,
    .deregister = qn_sqlite_deregister,
    .drained = qn_sqlite_drained,
    .aggregate = qn_sqlite_aggregate,
    .extend_sets = qn_sqlite_extend_sets,
    .return_set = qn_sqlite_return_set,
    .finish_set = qn_sqlite_finish_set,
    .reclaim_sets = qn_sqlite_reclaim_sets,
    .queues = qn_sqlite_queues,
    .tasks = qn_sqlite_tasks,
    .workers = qn_sqlite_workers,
    .find_worker = qn_sqlite_find_worker,
    .command = qn_sqlite_command,
    .history = qn_sqlite_history,
    .lock_holder = qn_sqlite_lock_holder,
    .match_id = qn_sqlite_match_id,
    .server_info = qn_sqlite_server_info,
    .backup = qn_sqlite_backup,
    .operate = qn_sqlite_operate,
    .operate_all = qn_sqlite_operate_all,
    .edit = qn_sqlite_edit,
    .move = qn_sqlite_move,
    .search = qn_sqlite_search,
    .search_act = qn_sqlite_search_act,
    .trash_search = qn_sqlite_trash_search,
    .trash_act = qn_sqlite_trash_act,
    .trash_use = qn_sqlite_trash_use,
    .standing = qn_sqlite_standing,
    .pause = qn_sqlite_pause,
    .set_queue = qn_sqlite_set_queue,
    .remove_queue = qn_sqlite_remove_queue,
    .doctor = qn_sqlite_doctor,
    .schedule_put = qn_sqlite_schedule_put,
    .schedule_remove = qn_sqlite_schedule_remove,
    .schedule_pause = qn_sqlite_schedule_pause,
    .schedule_list = qn_sqlite_schedule_list,
    .schedule_lead = qn_sqlite_schedule_lead,
    .schedule_claim = qn_sqlite_schedule_claim,
    .schedule_tick = qn_sqlite_schedule_tick,
    .schedule_trigger = qn_sqlite_schedule_trigger,
    .schedule_history = qn_sqlite_schedule_history,
    .schedule_record = qn_sqlite_schedule_record,
    .set_limit = qn_sqlite_set_limit,
    .remove_limit = qn_sqlite_remove_limit,
    .limits = qn_sqlite_limits,
};

struct parameters {
    bool full_sync;
    bool unsafe_fs;
    bool trust_owner;
};

static quern_status read_flag(const char *name, const char *value, bool *ret_flag, quern_error *err)
{
    if (strcmp(value, "1") != 0 && strcmp(value, "0") != 0) {
        return qn_error_set(err, QUERN_E_INVALID, "sqlite: parameter %s must be 0 or 1, not \"%s\"",
                            name, value);
    }
    *ret_flag = value[0] == '1';
    return QUERN_OK;
}

static quern_status read_sync(const char *value, bool *ret_full, quern_error *err)
{
    if (strcmp(value, "normal") != 0 && strcmp(value, "full") != 0) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "sqlite: parameter sync must be normal or full, not \"%s\"", value);
    }
    *ret_full = value[0] == 'f';
    return QUERN_OK;
}

static quern_status read_parameters(const struct qn_url *url, struct parameters *ret_parameters,
                                    quern_error *err)
{
    if (url->host[0] != '\0' || url->user[0] != '\0' || url->port[0] != '\0') {
        return qn_error_set(err, QUERN_E_INVALID,
                            "sqlite: an absolute path has three slashes: sqlite:///path/file.db");
    }
    if (url->path[0] == '\0') {
        return qn_error_set(err, QUERN_E_INVALID, "sqlite: the URL names no file");
    }
    for (size_t i = 0; i < url->param_count; i++) {
        const char *name = url->params[i].name;
        const char *value = url->params[i].value;
        quern_status status = QUERN_OK;
        if (strcmp(name, "sync") == 0) {
            status = read_sync(value, &ret_parameters->full_sync, err);
        } else if (strcmp(name, "unsafe_fs") == 0) {
            status = read_flag(name, value, &ret_parameters->unsafe_fs, err);
        } else if (strcmp(name, "trust_owner") == 0) {
            status = read_flag(name, value, &ret_parameters->trust_owner, err);
        } else {
            status = qn_error_set(err, QUERN_E_INVALID,
                                  "sqlite: unknown parameter \"%s\"; there are sync, unsafe_fs, "
                                  "trust_owner",
                                  name);
        }
        if (status != QUERN_OK) {
            return status;
        }
    }
    return QUERN_OK;
}

static void init_parts(struct qn_sqlite *self)
{
    pthread_mutex_init(&self->read_mutex, NULL);
    qn_writer_lock_init(&self->writer_lock);
    qn_sync_init(&self->syncer);
    qn_wait_init(&self->waiter);
    qn_watch_init(&self->watcher);
    qn_waiters_init(&self->waiters);
}

/* The last step of closing, and of an opening that failed. */
static void free_parts(struct qn_sqlite *self)
{
    qn_conn_close(&self->reader);
    qn_conn_close(&self->writer);
    qn_waiters_finish(&self->waiters);
    qn_wait_finish(&self->waiter);
    qn_watch_finish(&self->watcher);
    qn_sync_finish(&self->syncer);
    qn_writer_lock_finish(&self->writer_lock);
    pthread_mutex_destroy(&self->read_mutex);
    qn_heartbeat_age_finish(&self->heartbeat_ages);
    qn_free(self->path);
    qn_free(self->wal_path);
    qn_free(self->wake_path);
    qn_memory_close(self->memory);
    qn_free(self);
}

static char *join(const char *path, const char *suffix)
{
    size_t path_size = strlen(path);
    size_t suffix_size = strlen(suffix) + 1;
    char *joined = qn_alloc(path_size + suffix_size);
    if (joined != NULL) {
        memcpy(joined, path, path_size);
        memcpy(joined + path_size, suffix, suffix_size);
    }
    return joined;
}

static quern_status open_file(struct qn_sqlite *self, const struct qn_url *url,
                              const struct qn_broker_options *options, quern_error *err)
{
    struct parameters parameters = {0};
    quern_status status = read_parameters(url, &parameters, err);
    if (status != QUERN_OK) {
        return status;
    }
    self->full_sync = parameters.full_sync;
    self->unsafe_fs = parameters.unsafe_fs;
    self->trust_owner = parameters.trust_owner;
    bool create = options->create || options->init;
    status = qn_sqlite_file_prepare(self, url->path, create, err);
    if (status != QUERN_OK) {
        return status;
    }
    self->wal_path = join(self->path, "-wal");
    self->wake_path = join(self->path, "-quern");
    if (self->wal_path == NULL || self->wake_path == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_conn_open(&self->writer, self->path, SQLITE_OPEN_READWRITE,
                          self->base.command_timeout_ms, err);
    qn_conn_limit(&self->writer, QN_TRANSACTION_WRITE_MS_MAX);
    if (status == QUERN_OK) {
        status = qn_sqlite_schema_check_file(&self->writer, err);
    }
    if (status == QUERN_OK) {
        status = qn_sqlite_schema_prepare(&self->writer, create, options->init,
                                          qn_clock_wall_ms(self->base.clock), err);
    }
    if (status == QUERN_OK) {
        qn_conn_close(&self->writer);
        status = qn_sqlite_open_writer(self, err);
    }
    return status == QUERN_OK ? qn_sqlite_presence_note(self, err) : status;
}

/* No other object can use the database before it has its tables. */
static quern_status open_memory(struct qn_sqlite *self, const struct qn_url *url, quern_error *err)
{
    quern_status status = qn_memory_open(url->path, &self->memory, err);
    if (status != QUERN_OK) {
        return status;
    }
    self->path = qn_str_dup(url->path);
    if (self->path == NULL) {
        return qn_error_nomem(err);
    }
    status = qn_sqlite_open_writer(self, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (!qn_writer_lock_take(&self->memory->lock, false, self->base.command_timeout_ms)) {
        return qn_error_set(err, QUERN_E_BUSY,
                            "sqlite %s: other threads of this process kept it busy", self->path);
    }
    qn_conn_limit(&self->writer, QN_TRANSACTION_WRITE_MS_MAX);
    status = qn_sqlite_schema_prepare(&self->writer, true, false,
                                      qn_clock_wall_ms(self->base.clock), err);
    qn_writer_lock_release(&self->memory->lock);
    return status;
}

quern_status qn_sqlite_open(const struct qn_url *url, const struct qn_broker_options *options,
                            struct qn_broker **ret_broker, quern_error *err)
{
    struct qn_sqlite *self = qn_alloc_zero(1, sizeof *self);
    if (self == NULL) {
        return qn_error_nomem(err);
    }
    self->base.ops = &ops;
    self->base.clock = options->clock != NULL ? options->clock : qn_clock_system();
    self->base.command_timeout_ms =
        options->command_timeout_ms > 0 ? options->command_timeout_ms : COMMAND_TIMEOUT_MS;
    self->base.opener_pid = getpid();
    init_parts(self);
    bool in_memory = url->scheme[0] == '\0' && qn_memory_is_url(url->path);
    quern_status status =
        in_memory ? open_memory(self, url, err) : open_file(self, url, options, err);
    if (status == QUERN_OK) {
        status = qn_wait_open(self, err);
    }
    if (status != QUERN_OK) {
        free_parts(self);
        return status;
    }
    *ret_broker = &self->base;
    return QUERN_OK;
}

void qn_sqlite_close(struct qn_broker *broker)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    if (getpid() != self->base.opener_pid) {
        return;
    }
    qn_sync_stop(self);
    qn_wait_close(self);
    qn_watch_close(self);
    free_parts(self);
}
