/* SPDX-License-Identifier: MIT */
/* enqueue_tx.c - tasks inside the caller's own SQLite transaction.
 *
 * The caller's thread prepares and stores, through the caller's connection; nothing is joined with
 * other calls, and nothing is tried again, because the transaction and its fate are the caller's.
 * Each part of up to QN_BATCH_MAX tasks is stored as one step; when a step fails, the parts before
 * it stay in the transaction and the rest is not tried. */
#include "quern/sqlite.h"

#include "base/error.h"
#include "base/memory/alloc.h"
#include "client/client.h"

/* One part of a call. */
struct part {
    const char *tasks; /* the caller's structs */
    size_t task_size;
    size_t count;
    quern_enqueue_result *results; /* NULL or `count` */
    bool failed;
    quern_status broker_status; /* of the step as a whole */
    size_t failed_index;
    quern_error error; /* of the task at failed_index */
    struct qn_began began;
    size_t prepared_count;
    size_t indexes[QN_BATCH_MAX]; /* of the prepared tasks in `tasks` */
    struct qn_task prepared[QN_BATCH_MAX];
    quern_status statuses[QN_BATCH_MAX];
    const char *holders[QN_BATCH_MAX];
};

static void part_fail(struct part *part, size_t index, const quern_error *error)
{
    if (!part->failed || index < part->failed_index) {
        part->failed = true;
        part->failed_index = index;
        part->error = *error;
    }
}

static void part_prepare(quern_client *client, struct part *part, struct qn_arena *arena)
{
    for (size_t i = 0; i < part->count; i++) {
        struct qn_task *prepared = &part->prepared[part->prepared_count];
        quern_error error;
        const struct qn_bytes task = {part->tasks + i * part->task_size, part->task_size};
        quern_status status = qn_request_prepare(client, task, arena, prepared, &error);
        if (status != QUERN_OK) {
            qn_request_set_result(part->results, i, status, NULL);
            part_fail(part, i, &error);
            continue;
        }
        part->indexes[part->prepared_count] = i;
        part->prepared_count++;
    }
}

static void part_store(quern_client *client, struct part *part, sqlite3 *db, struct qn_arena *arena)
{
    if (part->prepared_count == 0) {
        return;
    }
    quern_error whole = {0};
    bool limited = false;
    const struct qn_enqueue enqueue = {.tasks = part->prepared,
                                       .count = part->prepared_count,
                                       .results = part->statuses,
                                       .ret_limited = &limited,
                                       .holders = part->holders,
                                       .arena = arena};
    quern_status status = qn_broker_enqueue_in(client->broker, db, &enqueue, &whole);
    part->broker_status = status;
    for (size_t i = 0; i < part->prepared_count; i++) {
        const struct qn_task *task = &part->prepared[i];
        quern_status one = status != QUERN_OK ? status : part->statuses[i];
        const char *holder = status == QUERN_OK ? part->holders[i] : NULL;
        qn_request_trace(client, part->began, task, one);
        qn_request_set_stored(part->results, part->indexes[i], one,
                              (struct qn_stored_ids){task->id, holder});
        if (one == QUERN_OK) {
            continue;
        }
        quern_error error = whole;
        if (status == QUERN_OK && one == QUERN_E_FULL && limited) {
            qn_request_refuse_limited(task, &error);
        } else if (status == QUERN_OK) {
            qn_request_refuse(task, one, &error);
        }
        part_fail(part, part->indexes[i], &error);
    }
}

static quern_status enqueue_parts(quern_client *client, sqlite3 *db, struct part *part,
                                  size_t count, quern_error *err)
{
    struct qn_arena arena = {0};
    const char *tasks = part->tasks;
    quern_enqueue_result *results = part->results;
    quern_status first_failure = QUERN_OK;
    for (size_t first = 0; first < count; first += part->count) {
        part->tasks = tasks + first * part->task_size;
        part->results = results == NULL ? NULL : results + first;
        part->count = count - first < QN_BATCH_MAX ? count - first : QN_BATCH_MAX;
        part->failed = false;
        part->prepared_count = 0;
        if (part->broker_status != QUERN_OK) {
            for (size_t i = 0; i < part->count; i++) {
                qn_request_set_result(part->results, i, part->broker_status, NULL);
            }
            continue;
        }
        part->began = qn_request_begin(client);
        part_prepare(client, part, &arena);
        part_store(client, part, db, &arena);
        if (part->failed && first_failure == QUERN_OK) {
            first_failure = part->error.code;
            qn_error_set(err, first_failure, "task %zu: %s", first + part->failed_index,
                         part->error.text);
        }
        qn_arena_reset(&arena);
    }
    qn_arena_finish(&arena);
    return first_failure;
}

quern_status quern_client_enqueue_tx_sized(quern_client *client, sqlite3 *db,
                                           const quern_task *tasks, size_t task_size, size_t count,
                                           quern_enqueue_result *results, quern_error *err)
{
    if (db == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "db: must not be NULL");
    }
    if (tasks == NULL && count > 0) {
        return qn_error_set(err, QUERN_E_INVALID, "tasks: must not be NULL");
    }
    quern_status status = qn_client_enter(client, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct part *part = qn_alloc_zero(1, sizeof *part);
    if (part == NULL) {
        status = qn_error_nomem(err);
        goto leave;
    }
    part->tasks = (const char *)tasks;
    part->task_size = task_size;
    part->results = results;
    status = enqueue_parts(client, db, part, count, err);
    qn_free(part);

leave:
    qn_client_leave(client);
    return status;
}
