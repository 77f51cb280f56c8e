/* SPDX-License-Identifier: MIT */
/* page.c - selects a part of the tasks of one state of one queue.
 *
 * The statement is put together from the pieces in inspect.sql: which rows (so that the index of
 * that state is used), the filter, the order. Pending tasks are in two indexes, those with a
 * crash on record apart; SQLite merges them by place. Ids have an index of their own. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text/buf.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/store/query.h"

#define STATEMENT_SIZE_MAX 8192

static const char *const state_pieces[QUERN_TASK_STATE_COUNT] = {
    [QUERN_TASK_ACTIVE] = sql_page_state_1,     [QUERN_TASK_PENDING] = sql_page_state_2_plain,
    [QUERN_TASK_SCHEDULED] = sql_page_state_3,  [QUERN_TASK_RETRY] = sql_page_state_4,
    [QUERN_TASK_ARCHIVED] = sql_page_state_5,   [QUERN_TASK_COMPLETED] = sql_page_state_6,
    [QUERN_TASK_AGGREGATING] = sql_page_state_7};

static const char *order_of(const struct qn_page *page)
{
    switch (page->state) {
    case QUERN_TASK_ACTIVE:
        return sql_page_order_lease;
    case QUERN_TASK_PENDING:
        return sql_page_order_place;
    case QUERN_TASK_ARCHIVED:
        return page->in_order ? sql_page_order_soonest : sql_page_order_newest;
    case QUERN_TASK_COMPLETED:
        return page->in_order ? sql_page_order_soonest : sql_page_order_completed;
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
    case QUERN_TASK_AGGREGATING:
        break;
    }
    return sql_page_order_soonest;
}

static const char *select_of(const struct qn_page *page)
{
    if (page->filter->id != NULL) {
        return sql_page_select_id;
    }
    return page->state == QUERN_TASK_ACTIVE ? sql_page_select_active : sql_page_select;
}

static quern_status compose(struct qn_buf *out, const struct qn_page *page)
{
    const char *select = select_of(page);
    bool free = page->in_order && page->state == QUERN_TASK_AGGREGATING;
    const char *state = free ? sql_page_state_7_free : state_pieces[page->state];
    quern_status status = qn_buf_printf(out, "%s%s%s", select, state, sql_page_filter);
    if (status == QUERN_OK && page->state == QUERN_TASK_PENDING) {
        status = qn_buf_printf(out, "%s%s%s%s", sql_page_union, select, sql_page_state_2_suspect,
                               sql_page_filter);
    }
    return status;
}

/* Bytes to compare with; an empty text filters nothing. */
static void bind_bytes(struct qn_query *query, const char *text, size_t size)
{
    if (size == 0) {
        qn_query_text(query, NULL);
    } else {
        qn_query_blob(query, text, size);
    }
}

static void bind_filter(struct qn_query *query, const struct qn_page *page)
{
    const quern_task_filter *filter = page->filter;
    size_t type_size = filter->type == NULL ? 0 : strlen(filter->type);
    bool prefix = type_size > 0 && filter->type[type_size - 1] == '*';
    qn_query_int(query, page->queue_no);
    qn_query_text(query, filter->id);
    qn_query_text(query, prefix ? NULL : filter->type);
    bind_bytes(query, filter->type, prefix ? type_size - 1 : 0);
    qn_query_text(query, filter->group);
    bind_bytes(query, filter->text, filter->text == NULL ? 0 : strlen(filter->text));
    qn_query_int(query, page->cancel_not);
}

quern_status qn_sqlite_page(struct qn_conn *conn, const struct qn_page *page, int64_t *seqs,
                            size_t *ret_count, quern_error *err)
{
    QN_ASSERT(page->state >= QUERN_TASK_ACTIVE && page->state <= QUERN_TASK_AGGREGATING);
    struct qn_buf sql;
    qn_buf_init(&sql, STATEMENT_SIZE_MAX);
    quern_status status = compose(&sql, page);
    if (status == QUERN_OK) {
        status = qn_buf_append_text(&sql, order_of(page));
    }
    if (status != QUERN_OK) {
        qn_buf_finish(&sql);
        return qn_error_nomem(err);
    }
    struct qn_query query = qn_query_start_once(conn, qn_buf_text(&sql));
    bind_filter(&query, page);
    qn_query_int(&query, (int64_t)page->limit);
    qn_query_int(&query, page->offset > INT64_MAX ? INT64_MAX : (int64_t)page->offset);
    size_t count = 0;
    while (qn_query_row(&query)) {
        QN_ASSERT(count < page->limit);
        seqs[count++] = sqlite3_column_int64(query.statement, 0);
    }
    status = qn_query_finish(&query, err);
    qn_buf_finish(&sql);
    if (status == QUERN_OK) {
        *ret_count = count;
    }
    return status;
}

quern_status qn_sqlite_page_count(struct qn_conn *conn, const struct qn_page *page,
                                  uint64_t count_max, uint64_t *ret_count, quern_error *err)
{
    struct qn_buf sql;
    qn_buf_init(&sql, STATEMENT_SIZE_MAX);
    quern_status status = qn_buf_append_text(&sql, sql_page_count_open);
    if (status == QUERN_OK) {
        status = compose(&sql, page);
    }
    if (status == QUERN_OK) {
        status = qn_buf_append_text(&sql, sql_page_count_close);
    }
    if (status != QUERN_OK) {
        qn_buf_finish(&sql);
        return qn_error_nomem(err);
    }
    struct qn_query query = qn_query_start_once(conn, qn_buf_text(&sql));
    bind_filter(&query, page);
    qn_query_int(&query, count_max > INT64_MAX ? INT64_MAX : (int64_t)count_max);
    uint64_t count = qn_query_row(&query) ? (uint64_t)sqlite3_column_int64(query.statement, 0) : 0;
    status = qn_query_finish(&query, err);
    qn_buf_finish(&sql);
    if (status == QUERN_OK) {
        *ret_count = count;
    }
    return status;
}
