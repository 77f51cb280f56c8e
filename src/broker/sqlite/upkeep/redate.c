/* SPDX-License-Identifier: MIT */
/* redate.c - keeps delays (of retries, of tasks enqueued with a delay) on the clock since boot.
 *
 * Delayed tasks are ordered by at_ms, a moment of the wall clock. A delay is stored together with
 * its end on the boot clock, so when the wall clock was set meanwhile, at_ms is wrong by as much,
 * and is corrected here: by forward and recover, so within a second, in batches. A task with a
 * given moment has no end on the boot clock, and follows the wall clock.
 *
 * To find wrong dates all delayed tasks are scanned, in an index. So that is done when this process
 * saw the clock change, and otherwise as often as it is cheap, each second if they are few: another
 * process may have seen the clock ahead for a moment only.
 *
 * After a reboot, and where several hosts share the file (unsafe_fs=1), only at_ms counts. */
#include "broker/sqlite/upkeep/redate.h"

#include <string.h>

#include "base/bug.h"
#include "broker/owner.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/upkeep/redate_sql.h"
#include "broker/sqlite/wake/waiters.h"

/* Less is the wall clock being slewed, and no reason to write. */
#define TOLERANCE_MS QN_DELAY_CLOCK_TOLERANCE_MS
#define BATCH 500
#define PAUSE_NS_MIN INT64_C(1000000000)
#define PAUSE_FACTOR 200 /* times as long as a look took */

/* After a look that began then and found nothing wrong. */
static void pause_looks(struct qn_sqlite *self, int64_t shift_ms, int64_t begun_mono_ns)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t pause_ns = (now_mono_ns - begun_mono_ns) * PAUSE_FACTOR;
    atomic_store(&self->dated_shift_ms, shift_ms);
    atomic_store(&self->redate_at_mono_ns,
                 now_mono_ns + (pause_ns > PAUSE_NS_MIN ? pause_ns : PAUSE_NS_MIN));
}

/* *ret_wrong: there are delays that are dated wrongly, on this boot's clock. */
static quern_status check_moments(struct qn_conn *conn, int64_t shift_ms, bool *ret_wrong,
                                  quern_error *err)
{
    char boot_id[QN_BOOT_ID_SIZE];
    bool known = qn_owner_boot_id(boot_id);
    struct qn_query query = qn_query_start(conn, sql_redate_look);
    qn_query_int(&query, shift_ms - TOLERANCE_MS);
    qn_query_int(&query, shift_ms + TOLERANCE_MS);
    *ret_wrong = false;
    if (qn_query_row(&query)) {
        *ret_wrong = known && strcmp(qn_query_column_text(&query, 0), boot_id) == 0 &&
                     sqlite3_column_int(query.statement, 1) != 0;
    }
    return qn_query_finish(&query, err);
}

static quern_status put_right(struct qn_conn *conn, const char *sql, int64_t bound_ms,
                              int64_t shift_ms, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql);
    qn_query_int(&query, bound_ms);
    qn_query_int(&query, shift_ms);
    qn_query_int(&query, BATCH);
    return qn_query_run(&query, NULL, err);
}

static quern_status put_batch_right(struct qn_sqlite *self, int64_t shift_ms, quern_error *err)
{
    struct qn_conn *conn = NULL;
    bool wrong = false;
    quern_status status = qn_transaction_begin(self, false, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = check_moments(conn, shift_ms, &wrong, err); /* another process may have done it */
    if (status == QUERN_OK && wrong) {
        status = put_right(conn, sql_redate_behind, shift_ms - TOLERANCE_MS, shift_ms, err);
    }
    if (status == QUERN_OK && wrong) {
        status = put_right(conn, sql_redate_ahead, shift_ms + TOLERANCE_MS, shift_ms, err);
    }
    if (status != QUERN_OK) {
        qn_transaction_rollback(self);
        return status;
    }
    return qn_transaction_commit(self, err);
}

quern_status qn_sqlite_redate(struct qn_sqlite *self, bool *ret_more, quern_error *err)
{
    struct qn_conn *conn = NULL;
    int64_t now_ms = 0;
    int64_t shift_ms = qn_delay_clock_shift_ms(self, &now_ms);
    bool wrong = false;
    int64_t begun_mono_ns = qn_clock_mono_ns();
    *ret_more = false;
    if (shift_ms == 0 || begun_mono_ns < atomic_load(&self->redate_at_mono_ns)) {
        return QUERN_OK;
    }
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = check_moments(conn, shift_ms, &wrong, err);
    qn_transaction_read_end(self);
    if (status != QUERN_OK || !wrong) {
        if (status == QUERN_OK) {
            pause_looks(self, shift_ms, begun_mono_ns);
        }
        return status;
    }
    status = put_batch_right(self, shift_ms, err);
    if (status == QUERN_OK) {
        qn_waiters_wake(self); /* threads that sleep until the next is due must query again */
        status = qn_transaction_read_begin(self, &conn, err);
    }
    if (status == QUERN_OK) {
        status = check_moments(conn, shift_ms, ret_more, err);
        qn_transaction_read_end(self);
    }
    return status;
}
