/* SPDX-License-Identifier: MIT */
/* aggregate.c - makes a set of the oldest tasks of a group whose turn it is.
 *
 * The groups are looked at on the reading connection, some hundred of them in a call, by an index
 * that has a row for each waiting member: so nothing is locked while it is the turn of no group.
 * The set is made in one transaction, which checks the group again: another worker may have been
 * faster. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/number.h"
#include "broker/sqlite/group/group_sql.h"
#include "broker/sqlite/run/lease_batch.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/query.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"

#define LOOKS_MAX 500 /* groups in one call: 2 ms */
/* Names that only others can write, with a NUL or too long, are passed over. */
#define BEHIND "\1"
#define LAST_BYTE '\xff'

struct aggregating {
    struct qn_sqlite *self;
    const struct qn_aggregate *aggregate;
    struct qn_aggregate_reply *reply;
    struct qn_conn *conn;
    int64_t queue_no;
    int64_t now_ms;
    int64_t now_boot_ms;
    const char *group; /* whose turn it may be */
    struct qn_group_settings settings;
};

static int64_t size_max_of(const struct qn_group_settings *settings)
{
    bool is_small = settings->max_size > 0 && settings->max_size < QN_GROUP_SET_MAX;
    return is_small ? settings->max_size : QN_GROUP_SET_MAX;
}

/* A number that a query gives about the group. */
struct fact {
    bool known; /* there is a row */
    int64_t number;
};

static quern_status ask(struct aggregating *self, const char *sql, int64_t limit,
                        struct fact *ret_fact, quern_error *err)
{
    struct qn_query query = qn_query_start(self->conn, sql);
    qn_query_int(&query, self->queue_no);
    qn_query_text(&query, self->group);
    if (limit > 0) {
        qn_query_int(&query, limit);
    }
    ret_fact->known = qn_query_row(&query);
    ret_fact->number = ret_fact->known ? qn_query_column_sane(&query, 0) : 0;
    return qn_query_finish(&query, err);
}

/* How long until it is the turn of the group; 0: it is; INT64_MAX: it has no tasks. asynq's rules,
 * in its order. */
static quern_status wait_of(struct aggregating *self, int64_t *ret_wait_ms, quern_error *err)
{
    const struct qn_group_settings *settings = &self->settings;
    struct fact size = {0};
    struct fact oldest = {0};
    struct fact newest = {0};
    bool limited = settings->max_size > 0;
    *ret_wait_ms = 0;
    quern_status status =
        limited ? ask(self, sql_group_size, size_max_of(settings), &size, err) : QUERN_OK;
    if (status != QUERN_OK || (limited && size.number >= size_max_of(settings))) {
        return status;
    }
    status = ask(self, sql_group_oldest, 0, &oldest, err);
    if (status != QUERN_OK || !oldest.known) {
        *ret_wait_ms = INT64_MAX;
        return status;
    }
    status = ask(self, sql_group_newest, 0, &newest, err);
    int64_t quiet_ms = qn_duration_ms_of(settings->grace_ms) - (self->now_ms - newest.number);
    int64_t old_ms = qn_duration_ms_of(settings->max_delay_ms) - (self->now_ms - oldest.number);
    int64_t wait_ms = settings->max_delay_ms > 0 && old_ms < quiet_ms ? old_ms : quiet_ms;
    *ret_wait_ms = wait_ms > 0 ? wait_ms : 0;
    return status;
}

/* --- Looking for a group ----------------------------------------------------------------- */

static quern_status next_group(struct aggregating *self, struct qn_group_cursor *cursor,
                               bool *ret_found, quern_error *err)
{
    struct qn_query query = qn_query_start(self->conn, sql_group_next);
    qn_query_int(&query, self->queue_no);
    qn_query_text(&query, cursor->passed);
    *ret_found = qn_query_row(&query);
    if (*ret_found) {
        const char *group = qn_query_column_text(&query, 0);
        bool is_whole = strlen(group) == (size_t)sqlite3_column_bytes(query.statement, 0);
        (void)snprintf(cursor->passed, sizeof cursor->passed, "%s%s", group,
                       is_whole ? "" : BEHIND);
        if (strlen(group) >= sizeof cursor->passed) {
            cursor->passed[sizeof cursor->passed - 2] = LAST_BYTE;
        }
    }
    return qn_query_finish(&query, err);
}

static quern_status has_groups(struct aggregating *self, bool *ret_has, quern_error *err)
{
    struct qn_query query = qn_query_start(self->conn, sql_group_any);
    qn_query_int(&query, self->queue_no);
    *ret_has = qn_query_row(&query);
    return qn_query_finish(&query, err);
}

/* Leaves the group whose turn it is in the cursor. */
static quern_status find_group(struct aggregating *self, bool *ret_found, quern_error *err)
{
    const struct qn_aggregate *aggregate = self->aggregate;
    struct qn_aggregate_reply *reply = self->reply;
    struct qn_group_cursor *cursor = aggregate->cursor;
    bool more = true;
    *ret_found = false;
    quern_status status = has_groups(self, &more, err);
    for (size_t looks = 0; status == QUERN_OK && more && !*ret_found && looks < LOOKS_MAX;
         looks++) {
        int64_t wait_ms = INT64_MAX;
        status = next_group(self, cursor, &more, err);
        self->group = cursor->passed;
        if (status == QUERN_OK && more &&
            aggregate->settings(aggregate->queue, self->group, &self->settings, aggregate->user)) {
            status = wait_of(self, &wait_ms, err);
            reply->waiting = reply->waiting || wait_ms < INT64_MAX;
            reply->next_ms = wait_ms < reply->next_ms ? wait_ms : reply->next_ms;
            *ret_found = status == QUERN_OK && wait_ms == 0;
        }
    }
    reply->end = !more;
    return status;
}

static quern_status look(struct aggregating *self, bool *ret_found, quern_error *err)
{
    *ret_found = false;
    quern_status status = qn_transaction_read_begin(self->self, &self->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = qn_tables_queue_no(self->conn, self->aggregate->queue, false, &self->queue_no, err);
    if (status == QUERN_OK && self->queue_no != 0) {
        status = find_group(self, ret_found, err);
    }
    qn_transaction_read_end(self->self);
    return status;
}

/* --- Making the set ---------------------------------------------------------------------- */

static size_t bytes_of(const struct qn_task *task)
{
    size_t size = task->payload_size;
    for (size_t i = 0; i < task->header_count; i++) {
        size += strlen(task->headers[i].name) + strlen(task->headers[i].value);
    }
    return size;
}

/* The members whose bytes fit into one set. */
static quern_status read_members(struct aggregating *self, struct qn_group_set *set,
                                 struct qn_slab *slab, quern_error *err)
{
    struct qn_query query = qn_query_start(self->conn, sql_group_members);
    qn_query_int(&query, self->queue_no);
    qn_query_text(&query, set->group);
    qn_query_int(&query, size_max_of(&self->settings));
    size_t bytes = 0;
    bool memory = true;
    while (memory && bytes < QN_BATCH_BYTES_MAX && qn_query_row(&query)) {
        struct qn_leased *member = qn_lease_row_copy(slab, query.statement, set->queue);
        memory = member != NULL;
        size_t size = memory ? bytes_of(&member->task) : 0;
        if (memory && set->count > 0 && bytes + size > QN_BATCH_BYTES_MAX) {
            qn_leased_free(member);
            break;
        }
        if (memory) {
            member->task.state = QUERN_TASK_AGGREGATING;
            member->token = set->token;
            set->members[set->count++] = member;
            bytes += size;
        }
    }
    quern_status status = qn_query_finish(&query, err);
    return status == QUERN_OK && !memory ? qn_error_nomem(err) : status;
}

static quern_status write_set(struct aggregating *self, const struct qn_group_set *set,
                              quern_error *err)
{
    struct qn_query query = qn_query_start(self->conn, sql_set_make);
    qn_query_int(&query, set->row);
    qn_query_int(&query, self->queue_no);
    qn_query_text(&query, set->group);
    qn_query_text(&query, self->aggregate->worker_id);
    qn_query_int(&query, self->now_boot_ms + self->aggregate->lease_ms);
    quern_status status = qn_query_run(&query, NULL, err);
    for (size_t i = 0; status == QUERN_OK && i < set->count; i++) {
        query = qn_query_start(self->conn, sql_set_add);
        qn_query_int(&query, set->members[i]->row);
        qn_query_int(&query, set->row);
        status = qn_query_run(&query, NULL, err);
    }
    return status;
}

static quern_status make_set(struct aggregating *self, struct qn_group_set **ret_set,
                             quern_error *err)
{
    int64_t number = 0;
    char name[24];
    struct qn_slab slab = {0};
    quern_status status = qn_tables_numbers(self->conn, 1, &number, err);
    if (status != QUERN_OK) {
        return status;
    }
    (void)snprintf(name, sizeof name, "%lld", (long long)number);
    const struct qn_group_set terms = {.queue = self->aggregate->queue,
                                       .group = self->group,
                                       .name = name,
                                       .token = (uint64_t)number,
                                       .row = number};
    *ret_set = qn_group_set_new(&terms, (size_t)size_max_of(&self->settings));
    if (*ret_set == NULL) {
        return qn_error_nomem(err);
    }
    status = read_members(self, *ret_set, &slab, err);
    qn_slab_finish(&slab);
    return status == QUERN_OK ? write_set(self, *ret_set, err) : status;
}

/* *ret_set: NULL when the group has changed meanwhile. */
static quern_status take_set(struct aggregating *self, struct qn_group_set **ret_set,
                             quern_error *err)
{
    int64_t wait_ms = 0;
    *ret_set = NULL;
    quern_status status = qn_transaction_begin(self->self, false, &self->conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    /* Once more: the lease begins now, however long the lock took. */
    qn_clock_both_ms(self->self->base.clock, &self->now_ms, &self->now_boot_ms);
    status = wait_of(self, &wait_ms, err);
    if (status == QUERN_OK && wait_ms == 0) {
        status = make_set(self, ret_set, err);
    }
    if (status == QUERN_OK && *ret_set != NULL) {
        status = qn_transaction_commit(self->self, err);
    } else {
        qn_transaction_rollback(self->self);
    }
    if (status != QUERN_OK) {
        qn_group_set_free(*ret_set);
        *ret_set = NULL;
    }
    return status;
}

quern_status qn_sqlite_aggregate(struct qn_broker *broker, const struct qn_aggregate *aggregate,
                                 struct qn_aggregate_reply *reply, quern_error *err)
{
    struct aggregating self = {
        .self = qn_sqlite_of(broker), .aggregate = aggregate, .reply = reply};
    qn_clock_both_ms(broker->clock, &self.now_ms, &self.now_boot_ms);
    bool found = false;
    quern_status status = look(&self, &found, err);
    if (status == QUERN_OK && found) {
        status = take_set(&self, &reply->set, err);
        reply->next_ms = 0;
    }
    if (reply->end) {
        aggregate->cursor->passed[0] = '\0';
    }
    return status;
}
