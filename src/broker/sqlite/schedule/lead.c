/* SPDX-License-Identifier: MIT */
/* lead.c - which scheduler leads.
 *
 * The lease of the leader is on the boot clock. A leader of another boot has measured it with
 * another one, so then its end on the wall clock counts, and no lease is longer than the longest
 * that there can be. A leader whose process is known to be dead has none. Looking, and a take that
 * is in vain, write nothing: standbys ask each second.
 *
 * One row has the epoch for all queues, so a take is also the claim. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/lead.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/transaction.h"

#define EPOCH_MAX (INT64_C(1) << 62) /* more was planted */

struct leader {
    uint64_t epoch;
    uint64_t version;
    char owner[QN_OWNER_SIZE];
    char id[QN_LEADER_ID_SIZE_MAX + 1]; /* "": none leads */
    int64_t lease_until;                /* boot clock */
    int64_t until_ms;                   /* the same on the wall clock */
};

struct moment {
    int64_t wall_ms;
    int64_t boot_ms;
};

/* A text that does not fit was planted. */
static void copy_text(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    out[0] = '\0';
    if (length < size) {
        memcpy(out, text, length + 1);
    }
}

static quern_status read_leader(struct qn_conn *conn, struct leader *ret_leader, quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_leader_read);
    *ret_leader = (struct leader){0};
    if (qn_query_row(&query)) {
        int64_t epoch = qn_query_column_sane(&query, 0);
        ret_leader->epoch = (uint64_t)(epoch < EPOCH_MAX ? epoch : 0);
        ret_leader->version = (uint64_t)qn_query_column_sane(&query, 1);
        copy_text(ret_leader->owner, sizeof ret_leader->owner, qn_query_column_text(&query, 2));
        copy_text(ret_leader->id, sizeof ret_leader->id, qn_query_column_text(&query, 3));
        ret_leader->lease_until = qn_query_column_sane(&query, 4);
        ret_leader->until_ms = qn_query_column_moment_ms(query.statement, 5);
    }
    return qn_query_finish(&query, err);
}

quern_status qn_lead_epoch(struct qn_conn *conn, uint64_t *ret_epoch, quern_error *err)
{
    struct leader leader;
    quern_status status = read_leader(conn, &leader, err);
    if (status == QUERN_OK) {
        *ret_epoch = QN_BUG(EPOCH_IGNORED) ? 0 : leader.epoch;
    }
    return status;
}

/* 0: none leads, its lease is over, or it is dead. */
static int64_t lease_left_ms(const struct leader *leader, struct moment now)
{
    if (leader->id[0] == '\0' || qn_owner_judge(leader->owner) == QN_OWNER_DEAD) {
        return 0;
    }
    int64_t left_ms = qn_owner_same_boot(leader->owner) ? leader->lease_until - now.boot_ms
                                                        : leader->until_ms - now.wall_ms;
    return left_ms > 0 && left_ms <= QN_LEAD_MS_MAX ? left_ms : 0;
}

static void fill_reply(struct qn_lead_reply *reply, const struct leader *leader,
                       const struct qn_lead *lead, struct moment now)
{
    *reply = (struct qn_lead_reply){
        .epoch = leader->epoch, .version = leader->version, .now_ms = now.wall_ms};
    reply->lease_left_ms = lease_left_ms(leader, now);
    if (reply->lease_left_ms > 0) {
        memcpy(reply->owner, leader->owner, sizeof reply->owner);
        memcpy(reply->id, leader->id, sizeof reply->id);
        reply->leads = lead->what != QN_LEAD_LOOK && strcmp(leader->id, lead->id) == 0;
    }
}

/* Whether this request changes the row; then `leader` is the new one. */
static bool apply(struct leader *leader, const struct qn_lead *lead, struct moment now)
{
    if (lead->what == QN_LEAD_LOOK) {
        return false;
    }
    bool is_mine = strcmp(leader->id, lead->id) == 0;
    bool is_led = lease_left_ms(leader, now) > 0;
    if (lead->what == QN_LEAD_GIVE_BACK && is_mine) {
        leader->owner[0] = '\0';
        leader->id[0] = '\0';
        leader->lease_until = 0;
        leader->until_ms = 0;
        return true;
    }
    if (!is_mine && (is_led || lead->what != QN_LEAD_TAKE)) {
        return false;
    }
    if (!is_mine || leader->epoch == 0) { /* 0: it was damaged */
        uint64_t next = leader->epoch + 1;
        leader->epoch = next > (uint64_t)now.wall_ms ? next : (uint64_t)now.wall_ms;
    }
    copy_text(leader->owner, sizeof leader->owner, lead->owner);
    copy_text(leader->id, sizeof leader->id, lead->id);
    leader->lease_until = now.boot_ms + lead->lease_ms;
    leader->until_ms = now.wall_ms + lead->lease_ms;
    return true;
}

static quern_status write_leader(struct qn_conn *conn, const struct leader *leader,
                                 quern_error *err)
{
    struct qn_query query = qn_query_start(conn, sql_leader_set);
    qn_query_int(&query, (int64_t)leader->epoch);
    qn_query_text(&query, leader->owner);
    qn_query_text(&query, leader->id);
    qn_query_int(&query, leader->lease_until);
    qn_query_int(&query, leader->until_ms);
    return qn_query_run(&query, NULL, err);
}

static quern_status change_leader(struct qn_sqlite *self, const struct qn_lead *lead,
                                  struct moment now, struct leader *ret_leader, quern_error *err)
{
    struct qn_conn *conn = NULL;
    quern_status status = qn_transaction_begin(self, lead->what == QN_LEAD_RENEW, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = read_leader(conn, ret_leader, err);
    if (status == QUERN_OK && apply(ret_leader, lead, now)) {
        status = write_leader(conn, ret_leader, err);
        if (status == QUERN_OK) {
            return qn_transaction_commit(self, err);
        }
    }
    qn_transaction_rollback(self);
    return status;
}

quern_status qn_sqlite_schedule_lead(struct qn_broker *broker, const struct qn_lead *lead,
                                     struct qn_lead_reply *ret_reply, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    struct leader leader = {0};
    struct moment now;
    QN_ASSERT(lead->lease_ms >= 0 && lead->lease_ms <= QN_LEAD_MS_MAX);
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status == QUERN_OK) {
        status = read_leader(conn, &leader, err);
        qn_transaction_read_end(self);
    }
    qn_clock_both_ms(broker->clock, &now.wall_ms, &now.boot_ms);
    struct leader wanted = leader;
    if (status == QUERN_OK && apply(&wanted, lead, now)) {
        status = change_leader(self, lead, now, &leader, err);
    }
    if (status == QUERN_OK) {
        fill_reply(ret_reply, &leader, lead, now);
    }
    return status;
}

quern_status qn_sqlite_schedule_claim(struct qn_broker *broker, uint64_t epoch, quern_error *err)
{
    struct qn_sqlite *self = qn_sqlite_of(broker);
    struct qn_conn *conn = NULL;
    uint64_t stored = 0;
    quern_status status = qn_transaction_read_begin(self, &conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_lead_epoch(conn, &stored, err);
    qn_transaction_read_end(self);
    if (status == QUERN_OK && stored > epoch) {
        return qn_error_set(err, QUERN_E_STATE, "another scheduler leads now");
    }
    return status;
}
