/* SPDX-License-Identifier: MIT */
/* enqueue.c - stores tasks, in a transaction of our own or in one of the caller.
 *
 * Per task: is the unique lock held by another task? Then its policy decides (duplicate.h). Does
 * the id exist? Then it is a conflict, and no lock was taken. Is the queue full? Else the task and
 * its lock are stored. Numbers of the counter are taken once for the batch, the queue is looked up
 * once for each row of tasks of the same queue. Sleeping workers are woken if a task is pending, or
 * is due before all others of its queue.
 *
 * Inside a caller's transaction all is done under a savepoint, so that a failing batch leaves
 * nothing behind and the transaction usable. */
#include "broker/sqlite/run/enqueue.h"

#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/run/duplicate.h"
#include "broker/sqlite/run/enqueue_sql.h"
#include "broker/sqlite/run/insert/insert.h"
#include "broker/sqlite/run/limits/lanes.h"
#include "broker/sqlite/run/limits/sort.h"
#include "broker/sqlite/schema/late.h"
#include "broker/sqlite/schema/migrate.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/session.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

struct batch {
    struct qn_conn *conn;
    int64_t now_ms;
    int64_t shift_ms; /* qn_delay_clock_shift_ms */
    int64_t next_number;
    const char *queue; /* of the task before */
    int64_t queue_no;
    int64_t lanes;           /* as the next two: of that queue */
    bool terms;              /* leases look at the terms of its tasks */
    int64_t queue_due_at_ms; /* the earliest delayed task of that queue; -1: not looked up */
    int64_t queue_room;      /* for how many more it has room */
    bool groups;             /* the file has the indexes of groups */
    bool limited;            /* a task was refused because there was none */
    bool wake;
};

static quern_status count_room(struct batch *batch, int64_t max_pending, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->conn, sql_queue_waiting);
    qn_query_int(&query, batch->queue_no);
    qn_query_int(&query, max_pending);
    int64_t waiting = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    batch->queue_room = max_pending - waiting + (QN_BUG(MAX_PENDING_OFF_BY_ONE) ? 1 : 0);
    return qn_query_finish(&query, err);
}

static quern_status read_queue(struct batch *batch, const char *queue, int64_t *ret_max_pending,
                               quern_error *err)
{
    struct qn_query query = qn_query_start(batch->conn, sql_queue_limit);
    qn_query_text(&query, queue);
    bool found = qn_query_row(&query);
    *ret_max_pending = found ? sqlite3_column_int64(query.statement, 1) : 0;
    batch->queue_no = found ? sqlite3_column_int64(query.statement, 0) : 0;
    batch->lanes = found ? sqlite3_column_int64(query.statement, 2) : 0;
    batch->terms = found && sqlite3_column_int64(query.statement, 3) != 0;
    return qn_query_finish(&query, err);
}

static quern_status enter_queue(struct batch *batch, const char *queue, quern_error *err)
{
    int64_t max_pending = 0;
    if (batch->queue != NULL && strcmp(batch->queue, queue) == 0) {
        return QUERN_OK;
    }
    batch->queue = queue;
    batch->queue_due_at_ms = -1;
    batch->queue_room = INT64_MAX;
    quern_status status = read_queue(batch, queue, &max_pending, err);
    if (status == QUERN_OK && batch->queue_no == 0) {
        int64_t no = 0;
        status = qn_tables_queue_no(batch->conn, queue, true, &no, err);
        if (status == QUERN_OK) { /* it is made with what the limits of all queues need */
            status = read_queue(batch, queue, &max_pending, err);
        }
    }
    return status == QUERN_OK && max_pending > 0 ? count_room(batch, max_pending, err) : status;
}

/* The first task with a key lets the queue have lanes, the first one with terms lets leases look at
 * them, and the first one with a group lets the file have the indexes of groups. */
static quern_status prepare(struct batch *batch, const struct qn_task *task, quern_error *err)
{
    quern_status status = QUERN_OK;
    if (task->limit_key != NULL && batch->lanes == 0) {
        batch->lanes = QN_LANES_BY_KEY;
        status = qn_sort_begin(batch->conn, batch->queue_no, QN_LANES_BY_KEY, err);
    }
    if (status == QUERN_OK && !batch->terms && qn_insert_has_terms(task) &&
        !QN_BUG(TERMS_UNNOTED)) {
        batch->terms = true;
        struct qn_query query = qn_query_start(batch->conn, sql_terms_begin);
        qn_query_int(&query, batch->queue_no);
        status = qn_query_run(&query, NULL, err);
    }
    if (status == QUERN_OK && !batch->groups && task->group != NULL) {
        batch->groups = true;
        status = qn_sqlite_late_groups(batch->conn, err);
    }
    return status;
}

/* Will a sleeping worker want to know of it? */
static quern_status note_work(struct batch *batch, const struct qn_task *task, quern_error *err)
{
    if (batch->wake || task->state == QUERN_TASK_AGGREGATING) {
        return QUERN_OK;
    }
    if (task->state == QUERN_TASK_PENDING) {
        batch->wake = true;
        return QUERN_OK;
    }
    if (batch->queue_due_at_ms < 0) {
        quern_status status =
            qn_tables_next_due(batch->conn, batch->queue_no, &batch->queue_due_at_ms, err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    if (task->process_at_ms < batch->queue_due_at_ms && !QN_BUG(EARLIER_DUE_NOT_ARMED)) {
        batch->wake = true;
    }
    return QUERN_OK;
}

/* A delay ends on the boot clock, a moment of the day does not. */
static int64_t due_boot_ms_of(const struct batch *batch, const struct qn_task *task)
{
    bool is_delay = task->state == QUERN_TASK_SCHEDULED && task->delay_ms > 0;
    if (!is_delay || batch->shift_ms == 0) {
        return 0;
    }
    int64_t due_boot_ms = batch->now_ms - batch->shift_ms + task->delay_ms;
    return due_boot_ms > 0 ? due_boot_ms : 1;
}

/* The result of a task for which there is no room; a conflict takes precedence. */
static quern_status refuse(struct batch *batch, const struct qn_task *task,
                           quern_status *ret_result, quern_error *err)
{
    struct qn_query query = qn_query_start(batch->conn, sql_task_known);
    qn_query_int(&query, batch->queue_no);
    qn_query_text(&query, task->id);
    bool known = qn_query_row(&query);
    *ret_result = known ? QUERN_E_CONFLICT : QUERN_E_FULL;
    batch->limited = batch->limited || !known;
    return qn_query_finish(&query, err);
}

static struct qn_newcomer newcomer_of(const struct batch *batch, const struct qn_enqueue *enqueue,
                                      size_t index)
{
    return (struct qn_newcomer){.task = &enqueue->tasks[index],
                                .queue_no = batch->queue_no,
                                .now_ms = batch->now_ms,
                                .due_boot_ms = due_boot_ms_of(batch, &enqueue->tasks[index]),
                                .arena = enqueue->arena};
}

static quern_status store(struct batch *batch, const struct qn_enqueue *enqueue, size_t index,
                          quern_error *err)
{
    const struct qn_task *task = &enqueue->tasks[index];
    quern_status *ret_result = &enqueue->results[index];
    bool stored = false;
    quern_status status = enter_queue(batch, task->queue, err);
    if (status == QUERN_OK) {
        status = prepare(batch, task, err);
    }
    const struct qn_newcomer newcomer = newcomer_of(batch, enqueue, index);
    if (status == QUERN_OK && task->unique_key != NULL) {
        status =
            qn_duplicate_settle(batch->conn, &newcomer, &enqueue->holders[index], ret_result, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    if (enqueue->holders[index] != NULL) {
        bool moved = task->on_duplicate == QUERN_ON_DUPLICATE_DEBOUNCE;
        return moved ? note_work(batch, task, err) : QUERN_OK;
    }
    bool waits = task->state != QUERN_TASK_AGGREGATING;
    if (batch->queue_room <= 0 && waits) {
        return refuse(batch, task, ret_result, err);
    }
    status = note_work(batch, task, err);
    if (status == QUERN_OK) {
        const struct qn_insertion insertion = {.task = task,
                                               .number = batch->next_number++,
                                               .queue_no = batch->queue_no,
                                               .lanes = batch->lanes,
                                               .now_ms = batch->now_ms,
                                               .due_boot_ms = newcomer.due_boot_ms};
        status = qn_insert_task(batch->conn, &insertion, &stored, err);
    }
    if (status != QUERN_OK || !stored) {
        *ret_result = QUERN_E_CONFLICT;
        return status;
    }
    batch->queue_room -= waits ? 1 : 0;
    *ret_result = QUERN_OK;
    return task->unique_key == NULL ? QUERN_OK
                                    : qn_duplicate_take_lock(batch->conn, &newcomer, err);
}

static quern_status store_all(struct batch *batch, const struct qn_enqueue *enqueue,
                              quern_error *err)
{
    quern_status status = qn_tables_numbers(batch->conn, enqueue->count, &batch->next_number, err);
    for (size_t i = 0; status == QUERN_OK && i < enqueue->count; i++) {
        status = store(batch, enqueue, i, err);
    }
    if (batch->limited && enqueue->ret_limited != NULL) {
        *enqueue->ret_limited = true;
    }
    return status;
}

quern_status qn_enqueue_store(struct qn_sqlite *self, struct qn_conn *conn,
                              const struct qn_task *task, struct qn_stored *stored,
                              quern_error *err)
{
    struct batch batch = {.conn = conn};
    const struct qn_enqueue enqueue = {.tasks = task,
                                       .count = 1,
                                       .results = &stored->result,
                                       .holders = &stored->holder,
                                       .arena = stored->arena};
    batch.shift_ms = qn_delay_clock_shift_ms(self, &batch.now_ms);
    stored->result = QUERN_OK;
    stored->holder = NULL;
    quern_status status = store_all(&batch, &enqueue, err);
    stored->wake = stored->wake || batch.wake;
    return status;
}

/* The answer as it is remembered for a replay: one byte per task, then for each that has a holder
 * its index and that id with a NUL. */
static quern_status keep_results(struct batch *batch, const struct qn_enqueue *enqueue,
                                 quern_error *err)
{
    uint8_t statuses[QN_BATCH_MAX];
    struct qn_bytes reply = {.data = statuses, .size = enqueue->count};
    for (size_t i = 0; i < enqueue->count; i++) {
        statuses[i] = (uint8_t)enqueue->results[i];
        reply.size += enqueue->holders[i] == NULL ? 0 : strlen(enqueue->holders[i]) + 2;
    }
    if (reply.size > enqueue->count) {
        uint8_t *at = qn_arena_alloc(enqueue->arena, reply.size);
        if (at == NULL) {
            return qn_error_nomem(err);
        }
        reply.data = at;
        memcpy(at, statuses, enqueue->count);
        at += enqueue->count;
        for (size_t i = 0; i < enqueue->count; i++) {
            if (enqueue->holders[i] != NULL) {
                size_t size = strlen(enqueue->holders[i]) + 1;
                *at++ = (uint8_t)i;
                memcpy(at, enqueue->holders[i], size);
                at += size;
            }
        }
    }
    return qn_sqlite_session_keep(batch->conn, enqueue->stamp, batch->now_ms, reply, err);
}

static quern_status find_results(struct batch *batch, const struct qn_enqueue *enqueue,
                                 bool *ret_known, quern_error *err)
{
    struct qn_room reply;
    quern_status status =
        qn_sqlite_session_copy(batch->conn, enqueue->stamp, enqueue->arena, &reply, err);
    *ret_known = status == QUERN_OK && reply.data != NULL;
    if (status != QUERN_OK || !*ret_known) {
        return status;
    }
    const char *bytes = reply.data;
    size_t count = enqueue->count;
    if (reply.size < count || (reply.size > count && bytes[reply.size - 1] != '\0')) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the request that was sent before had another number of tasks");
    }
    for (size_t i = 0; i < count; i++) {
        enqueue->results[i] = (quern_status)(uint8_t)bytes[i];
        if (enqueue->results[i] == QUERN_E_FULL && enqueue->ret_limited != NULL) {
            *enqueue->ret_limited = true;
        }
    }
    for (size_t at = count; at + 1 < reply.size; at += strlen(bytes + at + 1) + 2) {
        size_t index = (uint8_t)bytes[at];
        if (index < count) {
            enqueue->holders[index] = bytes + at + 1;
        }
    }
    return QUERN_OK;
}

quern_status qn_sqlite_enqueue(struct qn_broker *broker, const struct qn_enqueue *enqueue,
                               quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    QN_ASSERT(enqueue->count <= QN_BATCH_MAX);
    if (enqueue->count == 0) {
        return QUERN_OK;
    }
    struct batch batch = {0};
    batch.shift_ms = qn_delay_clock_shift_ms(self, &batch.now_ms);
    quern_status status = qn_transaction_begin(self, false, &batch.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    bool known = false;
    status = find_results(&batch, enqueue, &known, err);
    if (status == QUERN_OK && !known) {
        status = store_all(&batch, enqueue, err);
    }
    if (status == QUERN_OK && !known) {
        status = keep_results(&batch, enqueue, err);
    }
    if (status == QUERN_OK && !known) {
        status = qn_transaction_commit(self, err);
    } else {
        qn_transaction_rollback(self);
    }
    if (status == QUERN_OK && (batch.wake || known)) {
        qn_waiters_wake(self);
    }
    return status;
}

/* Whether the caller's connection is in a transaction on our file. */
static quern_status check_caller(const struct qn_sqlite *self, sqlite3 *db, quern_error *err)
{
    if (self->memory != NULL) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "the client's broker is in memory: a transaction of another connection "
                            "needs a file");
    }
    const char *name = sqlite3_db_filename(db, "main");
    struct stat ours;
    struct stat theirs;
    if (name == NULL || stat(name, &theirs) != 0 || stat(self->path, &ours) != 0 ||
        ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the connection is to %s, the client's file is %s",
                            name == NULL || name[0] == '\0' ? "no file" : name, self->path);
    }
    if (sqlite3_get_autocommit(db)) {
        return qn_error_set(err, QUERN_E_STATE,
                            "the connection is not in a transaction: call BEGIN IMMEDIATE before");
    }
    return QUERN_OK;
}

static quern_status check_meta(struct qn_conn *conn, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_meta_version);
    int64_t version = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && version != QN_SQLITE_SCHEMA_VERSION) {
        status = qn_error_set(err, QUERN_E_CORRUPT, "sqlite %s: schema %lld, this library has %d",
                              conn->path, (long long)version, QN_SQLITE_SCHEMA_VERSION);
    }
    return status;
}

static quern_status run_sql(struct qn_conn *conn, const char *sql, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_sqlite_enqueue_in(struct qn_broker *broker, void *tx,
                                  const struct qn_enqueue *enqueue, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    sqlite3 *db = tx;
    quern_status status = check_caller(self, db, err);
    if (status != QUERN_OK || enqueue->count == 0) {
        return status;
    }
    struct qn_conn *conn = qn_alloc_zero(1, sizeof *conn);
    if (conn == NULL) {
        return qn_error_nomem(err);
    }
    qn_conn_borrow(conn, db, self->path);
    struct batch batch = {.conn = conn};
    batch.shift_ms = qn_delay_clock_shift_ms(self, &batch.now_ms);
    status = check_meta(conn, err);
    if (status == QUERN_OK) {
        status = run_sql(conn, sql_savepoint, err);
    }
    if (status == QUERN_OK) {
        status = store_all(&batch, enqueue, err);
        if (status != QUERN_OK) {
            /* Fails only where SQLite has rolled back everything already. */
            (void)run_sql(conn, sql_savepoint_rollback, NULL);
            (void)run_sql(conn, sql_savepoint_release, NULL);
        } else {
            status = run_sql(conn, sql_savepoint_release, err);
        }
    }
    qn_conn_return(conn);
    qn_free(conn);
    return status;
}
