/* SPDX-License-Identifier: MIT */
/* brake.c - keeps the brakes of queues on hosts, and finds their probes.
 *
 * A probe is known by the token of its run. The task shows whether the probe still runs: if none is
 * active with that token, the run was given back, lost its lease or was recovered, and the next
 * probe may go. So no other file needs to know about probes. */
#include "broker/sqlite/queue/brake.h"

#include "base/bug.h"
#include "broker/sqlite/queue/brake_sql.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "task/brake.h"

void qn_brake_columns(const struct qn_query *query, int first, struct qn_brake *ret_brake)
{
    *ret_brake = (struct qn_brake){.ok_at_ms = qn_query_column_sane(query, first),
                                   .streak = qn_query_column_sane(query, first + 1),
                                   .probes = qn_query_column_sane(query, first + 2),
                                   .probe_at_ms = qn_query_column_sane(query, first + 3),
                                   .probe_token =
                                       (uint64_t)sqlite3_column_int64(query->statement, first + 4)};
}

static quern_status read_bug_ok(struct qn_conn *conn, int64_t queue_no, int64_t *ret_ok_at_ms,
                                quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_bug_ok);
    qn_query_int(&query, queue_no);
    if (qn_query_row(&query)) {
        *ret_ok_at_ms = qn_query_column_sane(&query, 0);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_brake_read(struct qn_conn *conn, int64_t queue_no, const char *host,
                           struct qn_brake *ret_brake, quern_error *err)
{
    *ret_brake = (struct qn_brake){0};
    struct qn_query query =
        qn_query_start(conn, QN_BUG(BRAKE_EVERYWHERE) ? sql_bug_brake : sql_brake_read);
    qn_query_int(&query, queue_no);
    if (!QN_BUG(BRAKE_EVERYWHERE)) {
        qn_query_text(&query, host);
    }
    if (qn_query_row(&query)) {
        qn_brake_columns(&query, 0, ret_brake);
    }
    quern_status status = qn_query_finish(&query, err);
    if (status == QUERN_OK && QN_BUG(OK_ELSEWHERE)) {
        status = read_bug_ok(conn, queue_no, &ret_brake->ok_at_ms, err);
    }
    return status;
}

quern_status qn_brake_write(struct qn_queue_counters *counters, int64_t queue_no, const char *host,
                            const struct qn_brake *brake, quern_error *err)
{
    struct qn_query query = qn_query_start(counters->conn, sql_brake_write);
    qn_query_int(&query, queue_no);
    qn_query_text(&query, host);
    qn_query_int(&query, brake->ok_at_ms);
    qn_query_int(&query, brake->streak);
    qn_query_int(&query, brake->probes);
    qn_query_int(&query, brake->probe_at_ms);
    qn_query_int(&query, (int64_t)brake->probe_token);
    qn_query_int(&query, counters->now_ms);
    return qn_query_run(&query, NULL, err);
}

quern_status qn_brake_probe(struct qn_conn *conn, int64_t queue_no, const struct qn_brake *brake,
                            int64_t *ret_seq, quern_error *err)
{
    *ret_seq = 0;
    if (brake->probe_token == 0) {
        return QUERN_OK;
    }
    struct qn_query query = qn_query_start(conn, sql_probe_find);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, (int64_t)brake->probe_token);
    if (qn_query_row(&query)) {
        *ret_seq = sqlite3_column_int64(query.statement, 0);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_brake_put_behind(struct qn_conn *conn, int64_t seq, quern_error *err)
{
    int64_t place = 0;
    quern_status status =
        QN_BUG(PROBE_NOT_BEHIND) ? QUERN_OK : qn_tables_numbers(conn, 1, &place, err);
    if (status != QUERN_OK || place == 0) {
        return status;
    }
    struct qn_query query = qn_query_start(conn, sql_probe_behind);
    qn_query_int(&query, seq);
    qn_query_int(&query, place);
    qn_query_int(&query, QN_PRIORITY_STEP);
    return qn_query_run(&query, NULL, err);
}

/* --- Choosing ------------------------------------------------------------------------- */

static quern_status read_candidate(struct qn_query *query, struct qn_candidate *ret_chosen,
                                   quern_error *err)
{
    if (qn_query_row(query)) {
        ret_chosen->seq = sqlite3_column_int64(query->statement, 0);
        ret_chosen->level = sqlite3_column_int64(query->statement, 1);
    }
    return qn_query_finish(query, err);
}

static quern_status find_uncharged(struct qn_conn *conn, int64_t queue_no, const char *sql,
                                   struct qn_candidate *ret_chosen, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, queue_no);
    return read_candidate(&query, ret_chosen, err);
}

static quern_status find_charged(struct qn_conn *conn, int64_t queue_no,
                                 struct qn_level_range range, struct qn_candidate *ret_chosen,
                                 quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_probe_charged);
    qn_query_int(&query, queue_no);
    qn_query_int(&query, range.first);
    qn_query_int(&query, range.last);
    return read_candidate(&query, ret_chosen, err);
}

quern_status qn_brake_choose(struct qn_conn *conn, const struct qn_counted_queue *queue,
                             struct qn_level_range range, struct qn_candidate *ret_chosen,
                             quern_error *err)
{
    enum qn_probe choice = qn_brake_choice(&queue->brake);
    const char *uncharged = choice == QN_PROBE_OLDEST ? sql_probe_oldest : sql_probe_newest;
    bool charged_first = choice == QN_PROBE_CHARGED;
    quern_status status = QUERN_OK;
    *ret_chosen = (struct qn_candidate){0};
    if (charged_first) {
        status = find_charged(conn, queue->no, range, ret_chosen, err);
    }
    if (status == QUERN_OK && ret_chosen->seq == 0 && range.first == 0) {
        status = find_uncharged(conn, queue->no, uncharged, ret_chosen, err);
    }
    if (status == QUERN_OK && ret_chosen->seq == 0 && !charged_first) {
        status = find_charged(conn, queue->no, range, ret_chosen, err);
    }
    return status;
}
