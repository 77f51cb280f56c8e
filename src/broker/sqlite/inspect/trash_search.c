/* SPDX-License-Identifier: MIT */
/* trash_search.c - goes through the trash of a queue in the order of the deletions.
 *
 * A step walks along an index from its position on, reads each row as for a listing, and lets the
 * evaluator decide: this is no place for a million tasks. */
#include "base/text/number.h"
#include "broker/sqlite/inspect/inspect.h"
#include "broker/sqlite/queue/trash_rows_sql.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/task_info.h"
#include "broker/trash/trash.h"
#include "task/limits.h"

struct step {
    const struct qn_search *search;
    struct qn_task_show show;
    struct qn_search_end end;
    uint64_t found;
    bool stopped; /* by the caller */
};

static bool on_task(const quern_task_info *info, void *user)
{
    struct step *step = user;
    struct quern_task_info shown = *info;
    int64_t until_ms = qn_moment_ms_of(step->end.at.key);
    shown.deleted_at_ms = until_ms > QN_TRASH_MS ? until_ms - QN_TRASH_MS : 0;
    if (!qn_search_fits(step->search->condition, &shown, step->end.now_ms)) {
        return true;
    }
    step->found++;
    step->stopped = !step->search->on_task(&shown, step->search->user);
    return true;
}

static quern_status walk(struct step *step, int64_t queue_no, quern_error *err)
{
    const struct qn_search *search = step->search;
    const struct qn_search_position *from = &search->from;
    uint64_t most = search->scan_max < INT64_MAX ? search->scan_max : INT64_MAX;
    quern_status status = QUERN_OK;
    int64_t begin = search->oldest_first ? INT64_MIN : INT64_MAX;
    struct qn_query query = qn_query_start(
        step->show.conn, search->oldest_first ? sql_trash_page_oldest : sql_trash_page);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, from->seq == 0 ? begin : from->key);
    qn_query_int(&query, from->seq == 0 ? begin : from->seq);
    qn_query_int(&query, step->end.now_ms);
    qn_query_int(&query, (int64_t)most);
    step->end.is_over = true;
    while (status == QUERN_OK && qn_query_row(&query)) {
        step->end.at.seq = sqlite3_column_int64(query.statement, 0);
        step->end.at.key = sqlite3_column_int64(query.statement, 1);
        step->end.scanned++;
        status = qn_sqlite_tasks_show(&step->show, step->end.at.seq, err);
        if (step->stopped || step->found == search->limit || step->end.scanned == most) {
            step->end.is_over = false;
            break;
        }
    }
    quern_status finished = qn_query_finish(&query, status == QUERN_OK ? err : NULL);
    return status == QUERN_OK ? finished : status;
}

quern_status qn_sqlite_trash_search(struct qn_broker *broker, const struct qn_search *search,
                                    struct qn_search_end *ret_end, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct step step = {.search = search, .show = {.on_task = on_task}};
    int64_t queue_no = 0;
    step.show.user = &step;
    step.end.at = search->from;
    step.end.now_ms = search->now_ms != 0 ? search->now_ms : qn_clock_wall_ms(broker->clock);
    step.end.is_over = true;
    quern_status status = qn_transaction_read_begin(self, &step.show.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(step.show.conn, search->queue, false, &queue_no, err);
    if (status == QUERN_OK && queue_no != 0) {
        status = walk(&step, queue_no, err);
    }
    qn_transaction_read_end(self);
    if (status == QUERN_OK) {
        *ret_end = step.end;
    }
    return status;
}
