/* SPDX-License-Identifier: MIT */
/* worker_death.c - notes the death of a worker.
 *
 * Whether a run died alone must be known before the first of its worker's leases is ended, since
 * the others may be ended by later calls, also of other workers for other queues. So it is written
 * into the record of the worker, and the brakes of all its queues are updated at once. */
#include "broker/sqlite/upkeep/worker_death.h"

#include "broker/sqlite/queue/brake.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/upkeep/worker_death_sql.h"
#include "task/brake.h"

/* The probe that it ran goes behind, wherever its task is put in the end. */
static quern_status move_probe(struct qn_queue_counters *counters, int64_t worker_no,
                               uint64_t token, bool *ret_found, quern_error *err)
{
    int64_t seq = 0;
    struct qn_query query = qn_query_start(counters->conn, sql_death_probe);
    qn_query_int(&query, worker_no);
    qn_query_int(&query, (int64_t)token);
    if (qn_query_row(&query)) {
        seq = sqlite3_column_int64(query.statement, 0);
    }
    quern_status status = qn_query_finish(&query, err);
    *ret_found = seq != 0;
    return status == QUERN_OK && seq != 0 ? qn_brake_put_behind(counters->conn, seq, err) : status;
}

static quern_status count_in_brake(struct qn_queue_counters *counters,
                                   const struct qn_worker_death *death, int64_t queue_no,
                                   quern_error *err)
{
    struct qn_brake brake;
    bool is_probe = false;
    quern_status status = qn_brake_read(counters->conn, queue_no, death->host, &brake, err);
    if (status == QUERN_OK && brake.probe_token != 0) {
        status = move_probe(counters, death->no, brake.probe_token, &is_probe, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    qn_brake_death(&brake, is_probe, counters->now_ms);
    return qn_brake_write(counters, queue_no, death->host, &brake, err);
}

static quern_status count_in_brakes(struct qn_queue_counters *counters,
                                    const struct qn_worker_death *death, quern_error *err)
{
    int64_t queue_no = 0;
    for (;;) {
        struct qn_query query = qn_query_start(counters->conn, sql_death_next_queue);
        qn_query_int(&query, death->no);
        qn_query_int(&query, queue_no);
        queue_no = qn_query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        quern_status status = qn_query_finish(&query, err);
        if (status == QUERN_OK && queue_no != 0) {
            status = count_in_brake(counters, death, queue_no, err);
        }
        if (status != QUERN_OK || queue_no == 0) {
            return status;
        }
    }
}

quern_status qn_worker_death_note(struct qn_queue_counters *counters, struct qn_worker_death *death,
                                  quern_error *err)
{
    if (death->noted) {
        return QUERN_OK;
    }
    int64_t changes = 0;
    struct qn_query query = qn_query_start(counters->conn, sql_death_note);
    qn_query_int(&query, death->no);
    quern_status status = qn_query_run(&query, &changes, err);
    if (status == QUERN_OK && changes > 0) {
        status = count_in_brakes(counters, death, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    query = qn_query_start(counters->conn, sql_death_company);
    qn_query_int(&query, death->no);
    death->is_lone = qn_query_row(&query) && sqlite3_column_int64(query.statement, 0) == 1;
    death->noted = true;
    return qn_query_finish(&query, err);
}
