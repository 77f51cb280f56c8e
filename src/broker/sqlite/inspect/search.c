/* SPDX-License-Identifier: MIT */
/* search.c - goes through one state of one queue and reports the tasks that fulfil a query.
 *
 * One statement walks along an index from the position on and answers the query for each row as it
 * steps to it, so a call reads no more rows than it may look at. Rows that fulfil the query are
 * then read as for a listing. Pending tasks are in two indexes: first those without a crash on
 * record, then the others by their level; `part` of the position is 0, or the level + 1. */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/inspect/search_sql.h"
#include "broker/sqlite/inspect/search_where.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

#define FIRST_PARAM 7
#define PART_MAX 5 /* levels are 0 to 4 */

struct step {
    const struct qn_search *search;
    struct qn_task_show show;
    int64_t queue_no;
    struct qn_search_end end;
    uint64_t found;
    struct qn_search_where sql;
};

/* --- The statement ------------------------------------------------------------------- */

struct pieces {
    const char *columns;
    const char *rows;
};

static struct pieces pieces_of(const struct step *step)
{
    switch (step->search->state) {
    case QUERN_TASK_ACTIVE:
        return (struct pieces){sql_search_columns_active, sql_search_active};
    case QUERN_TASK_PENDING:
        return step->end.at.part == 0
                   ? (struct pieces){sql_search_columns_place, sql_search_pending}
                   : (struct pieces){sql_search_columns_charged, sql_search_charged};
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
        return (struct pieces){sql_search_columns_due, sql_search_due};
    case QUERN_TASK_ARCHIVED:
    case QUERN_TASK_COMPLETED:
    case QUERN_TASK_AGGREGATING:
        break;
    }
    bool oldest = step->search->oldest_first || step->search->state == QUERN_TASK_AGGREGATING;
    return (struct pieces){sql_search_columns_rest, oldest ? sql_search_oldest : sql_search_newest};
}

static quern_status write_statement(struct step *step, quern_error *err)
{
    struct pieces pieces = pieces_of(step);
    struct qn_buf *text = &step->sql.text;
    qn_buf_reset(text);
    step->sql.first = FIRST_PARAM;
    step->sql.param_count = 0;
    quern_status status = qn_buf_append_text(text, pieces.columns);
    if (status == QUERN_OK) {
        status = qn_buf_append_text(text, "\n");
    }
    if (status == QUERN_OK) {
        status = qn_search_where_write(&step->sql, step->search, step->end.now_ms);
    }
    if (status == QUERN_OK) {
        status = qn_buf_printf(text, "\n%s", pieces.rows);
    }
    return status == QUERN_E_FULL ? qn_error_set(err, QUERN_E_INVALID, "query: too large")
           : status != QUERN_OK   ? qn_error_nomem(err)
                                  : QUERN_OK;
}

static void bind(struct qn_query *query, const struct step *step)
{
    const struct qn_search *search = step->search;
    const struct qn_search_position *at = &step->end.at;
    bool is_rest = search->state >= QUERN_TASK_ARCHIVED;
    bool newest = is_rest && !search->oldest_first && search->state != QUERN_TASK_AGGREGATING;
    int64_t begin = newest ? INT64_MAX : INT64_MIN;
    uint64_t left = search->scan_max - step->end.scanned;
    bool begins = at->seq == 0;
    qn_query_int(query, step->queue_no);
    qn_query_int(query, begins ? begin : at->key);
    qn_query_int(query, begins ? begin : at->key2);
    qn_query_int(query, begins ? begin : at->seq);
    qn_query_int(query, at->part > 0 ? at->part - 1 : (int64_t)search->state);
    qn_query_int(query, left > INT64_MAX ? INT64_MAX : (int64_t)left);
    qn_search_where_bind(query, &step->sql);
}

/* --- Walking ------------------------------------------------------------------------- */

static bool is_full(const struct step *step)
{
    return step->show.stopped || step->found == step->search->limit ||
           step->end.scanned == step->search->scan_max;
}

/* To the end of this part, unless it fills before. */
static quern_status walk_part(struct step *step, quern_error *err)
{
    quern_status status = write_statement(step, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_query query = qn_query_start_once(step->show.conn, qn_buf_text(&step->sql.text));
    bind(&query, step);
    step->end.is_over = true;
    while (status == QUERN_OK && qn_query_row(&query)) {
        step->end.at.seq = sqlite3_column_int64(query.statement, 0);
        step->end.at.key = sqlite3_column_int64(query.statement, 1);
        step->end.at.key2 = sqlite3_column_int64(query.statement, 2);
        step->end.scanned++;
        if (sqlite3_column_int(query.statement, 3) != 0) {
            step->found++;
            status = qn_sqlite_tasks_show(&step->show, step->end.at.seq, err);
        }
        if (is_full(step)) {
            step->end.is_over = false;
            break;
        }
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

static quern_status walk(struct step *step, quern_error *err)
{
    quern_status status = walk_part(step, err);
    bool has_parts = step->search->state == QUERN_TASK_PENDING;
    while (status == QUERN_OK && step->end.is_over && has_parts && step->end.at.part < PART_MAX) {
        step->end.at = (struct qn_search_position){.part = step->end.at.part + 1};
        status = walk_part(step, err);
    }
    return status;
}

static quern_status search_place(struct qn_sqlite *self, struct step *step, quern_error *err)
{
    quern_status status = qn_transaction_read_begin(self, &step->show.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_search_where_prepare(step->show.conn, err);
    if (status == QUERN_OK) {
        status =
            qn_sqlite_tasks_leases_over(self, step->show.conn, &step->show.leases_over_ms, err);
    }
    if (status == QUERN_OK) {
        status =
            qn_tables_queue_no(step->show.conn, step->search->queue, false, &step->queue_no, err);
    }
    step->end.is_over = true;
    if (status == QUERN_OK && step->queue_no != 0) {
        status = walk(step, err);
    }
    qn_transaction_read_end(self);
    return status;
}

quern_status qn_sqlite_search(struct qn_broker *broker, const struct qn_search *search,
                              struct qn_search_end *ret_end, quern_error *err)
{
    struct step *step = qn_alloc_zero(1, sizeof *step);
    if (step == NULL) {
        return qn_error_nomem(err);
    }
    qn_buf_init(&step->sql.text, QN_SEARCH_WHERE_SIZE_MAX);
    step->search = search;
    step->show = (struct qn_task_show){.on_task = search->on_task, .user = search->user};
    step->end.at = search->from;
    step->end.now_ms = search->now_ms != 0 ? search->now_ms : qn_clock_wall_ms(broker->clock);
    quern_status status = search_place(qn_sqlite_of(broker), step, err);
    if (status == QUERN_OK) {
        *ret_end = step->end;
    }
    qn_buf_finish(&step->sql.text);
    qn_free(step);
    return status;
}
