/* SPDX-License-Identifier: MIT */
/* duplicate.c - the policies for a unique task whose lock is held (quern_on_duplicate).
 *
 * All of it is in the transaction that stores the task, so the one that holds the lock is still in
 * the state in which it was found. */
#include "broker/sqlite/run/duplicate.h"

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/view.h"
#include "broker/sqlite/run/enqueue_sql.h"
#include "broker/sqlite/run/headers.h"
#include "broker/sqlite/store/query.h"

struct holder {
    const char *id; /* NULL: the lock is free */
    bool fixed;
    int64_t seq;
    bool waits;
};

static quern_status find_holder(struct qn_conn *conn, const struct qn_newcomer *newcomer,
                                struct holder *ret_holder, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_holder_find);
    qn_query_text(&query, newcomer->task->unique_key);
    qn_query_int(&query, newcomer->now_ms);
    *ret_holder = (struct holder){.id = NULL};
    bool held = qn_query_row(&query);
    if (held) {
        ret_holder->id = qn_arena_strdup(newcomer->arena, qn_query_column_text(&query, 0));
        ret_holder->fixed = sqlite3_column_int(query.statement, 1) != 0;
        ret_holder->seq = sqlite3_column_int64(query.statement, 2);
        ret_holder->waits = sqlite3_column_int(query.statement, 3) != 0;
        if (QN_BUG(ACTIVE_REPLACED)) {
            ret_holder->waits = ret_holder->waits || sqlite3_column_int(query.statement, 4) == 1;
        }
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && held && ret_holder->id == NULL ? qn_error_nomem(err) : status;
}

static quern_status replace(struct qn_conn *conn, const struct qn_newcomer *newcomer, int64_t seq,
                            quern_error *err)
{
    const struct qn_task *task = newcomer->task;
    struct qn_bytes headers = {0};
    if (task->header_count > 0) {
        size_t size = qn_sqlite_headers_size(task->headers, task->header_count);
        char *packed = qn_arena_alloc(newcomer->arena, size);
        if (packed == NULL) {
            return qn_error_nomem(err);
        }
        qn_sqlite_headers_pack(task->headers, task->header_count, packed);
        headers = (struct qn_bytes){packed, size};
    }
    struct qn_query query = qn_query_start(conn, sql_holder_replace);
    qn_query_int(&query, seq);
    qn_query_text(&query, task->type);
    qn_query_blob(&query, task->payload, task->payload_size);
    qn_query_blob(&query, headers.data, headers.size);
    quern_status status = qn_query_run(&query, NULL, err);
    if (status != QUERN_OK || task->on_duplicate != QUERN_ON_DUPLICATE_DEBOUNCE) {
        return status;
    }
    query = qn_query_start(conn, sql_holder_debounce);
    qn_query_int(&query, seq);
    qn_query_int(&query, task->process_at_ms > 0 ? task->process_at_ms : newcomer->now_ms);
    qn_query_int(&query, newcomer->due_boot_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status renew(struct qn_conn *conn, const struct qn_newcomer *newcomer,
                          quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_holder_renew);
    qn_query_text(&query, newcomer->task->unique_key);
    qn_query_int(&query, newcomer->now_ms + newcomer->task->unique_ms);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_duplicate_settle(struct qn_conn *conn, const struct qn_newcomer *newcomer,
                                 const char **ret_holder, quern_status *ret_result,
                                 quern_error *err)
{
    struct holder holder;
    *ret_holder = NULL;
    quern_status status = find_holder(conn, newcomer, &holder, err);
    if (status != QUERN_OK || holder.id == NULL) {
        return status;
    }
    int32_t policy = newcomer->task->on_duplicate;
    bool may_replace = policy >= QUERN_ON_DUPLICATE_REPLACE;
    if (may_replace && !holder.waits && !holder.fixed) {
        return QUERN_OK;
    }
    *ret_holder = holder.id;
    *ret_result = policy == QUERN_ON_DUPLICATE_IGNORE ? QUERN_OK : QUERN_E_DUPLICATE;
    if (!may_replace || !holder.waits) {
        return QUERN_OK;
    }
    *ret_result = QUERN_OK;
    status = replace(conn, newcomer, holder.seq, err);
    return status == QUERN_OK ? renew(conn, newcomer, err) : status;
}

quern_status qn_duplicate_take_lock(struct qn_conn *conn, const struct qn_newcomer *newcomer,
                                    quern_error *err)
{
    const struct qn_task *task = newcomer->task;
    struct qn_query query = qn_query_start(conn, sql_lock_take);
    qn_query_text(&query, task->unique_key);
    qn_query_int(&query, newcomer->queue_no);
    qn_query_text(&query, task->id);
    qn_query_int(&query, newcomer->now_ms + task->unique_ms);
    qn_query_int(&query, task->unique_until == QUERN_UNIQUE_UNTIL_EXPIRED ? 1 : 0);
    return qn_query_run(&query, NULL, err);
}
