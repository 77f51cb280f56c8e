/* SPDX-License-Identifier: MIT */
/* tick.c - enqueues the tasks of ticks, each together with its entry's new last tick.
 *
 * One transaction for all of them, with the writer's lock, so of any number of schedulers that send
 * a tick the first one enqueues it: the last tick only grows, and it has passed the tick then,
 * however soon the task is done and deleted. A task whose id or unique lock is there already
 * advances the last tick all the same, else the next scheduler would try it again; on_duplicate may
 * put its data into the task that holds the lock. */
#include <string.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "broker/sqlite/run/delay_clock.h"
#include "broker/sqlite/run/enqueue.h"
#include "broker/sqlite/schedule/entry_row.h"
#include "broker/sqlite/schedule/lead.h"
#include "broker/sqlite/sqlite.h"
#include "broker/sqlite/store/session.h"
#include "broker/sqlite/store/tables.h"
#include "broker/sqlite/store/transaction.h"
#include "broker/sqlite/wake/waiters.h"

#define KEPT_SIZE 9 /* of a tick in the kept answer: result and last tick */

struct ticking {
    struct qn_sqlite *self;
    struct qn_conn *conn;
    int64_t now_ms;
    int64_t next_number; /* 0: none taken yet */
    bool changed;
    bool wake;
    struct qn_arena arena; /* for ids of tasks that hold locks */
};

static enum qn_tick_result decide(const struct ticking *ticking, const struct qn_tick *tick,
                                  const struct qn_entry_row *row)
{
    bool is_last = row->last_s == tick->known_s && tick->tick_s > tick->known_s;
    if (!row->found) {
        return QN_TICK_GONE;
    }
    if (row->revision != tick->revision) {
        return QN_TICK_CHANGED;
    }
    if (row->paused_at_ms != 0) {
        return QN_TICK_PAUSED;
    }
    if (!is_last && !QN_BUG(TICK_AGAIN)) {
        return QN_TICK_PAST;
    }
    return tick->tick_s > ticking->now_ms / 1000 ? QN_TICK_EARLY : QN_TICKED;
}

/* What became of the task alone. */
static quern_status store(struct ticking *ticking, const struct qn_task *task,
                          struct qn_stored *ret_stored, quern_error *err)
{
    *ret_stored = (struct qn_stored){.arena = &ticking->arena, .wake = ticking->wake};
    quern_status status = qn_enqueue_store(ticking->self, ticking->conn, task, ret_stored, err);
    ticking->wake = ret_stored->wake;
    return status;
}

static quern_status next_number(struct ticking *ticking, size_t count, quern_error *err)
{
    return ticking->next_number != 0
               ? QUERN_OK
               : qn_tables_numbers(ticking->conn, count, &ticking->next_number, err);
}

/* Whether the task of a tick was stored or not, the entry advances: sets the result and the event.
 * QUERN_E_FULL and other results are none of these. */
static quern_status settle(struct qn_tick *tick, const struct qn_stored *stored,
                           struct qn_entry_event *event, quern_error *err)
{
    bool is_there = stored->holder != NULL && stored->result == QUERN_OK;
    bool left_out = is_there && tick->task->on_duplicate == QUERN_ON_DUPLICATE_IGNORE;
    if (is_there && (!left_out || QN_BUG(TICK_POLICY_IGNORED))) {
        event->what = QN_TICK_REPLACED;
        event->id = stored->holder;
        tick->result = QN_TICKED_REPLACED;
    } else if (is_there || stored->result == QUERN_E_DUPLICATE) {
        event->what = QN_TICK_DUPLICATE;
        tick->result = QN_TICKED_DUPLICATE;
    } else if (stored->result == QUERN_E_CONFLICT) {
        event->what = QN_TICK_CONFLICT;
        tick->result = QN_TICKED_CONFLICT;
    } else if (stored->result != QUERN_OK) {
        return qn_error_set(err, stored->result, "tick of entry \"%s\": its task was refused",
                            tick->name);
    } else if (tick->task != NULL) {
        event->id = tick->task->id;
    }
    return QUERN_OK;
}

/* Stores the task of a tick that passed all tests, and advances its entry. */
static quern_status apply(struct ticking *ticking, struct qn_tick *tick,
                          const struct qn_entry_row *row, quern_error *err)
{
    struct qn_stored stored = {.result = QUERN_OK};
    struct qn_entry_event event = {.number = ticking->next_number++,
                                   .tick_s = tick->tick_s,
                                   .now_ms = ticking->now_ms,
                                   .what = tick->what,
                                   .skipped = tick->skipped};
    quern_status status = QUERN_OK;
    if (tick->task != NULL && !QN_BUG(TICK_WITHOUT_TASK)) {
        status = store(ticking, tick->task, &stored, err);
    }
    if (status == QUERN_OK && stored.result == QUERN_E_FULL) {
        tick->result = QN_TICK_FULL;
        tick->stored_s = row->last_s;
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = settle(tick, &stored, &event, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    tick->stored_s = tick->tick_s;
    ticking->changed = true;
    return qn_entry_row_advance(ticking->conn, row, tick->name, &event, err);
}

static quern_status tick_all(struct ticking *ticking, struct qn_ticks *ticks, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < ticks->count; i++) {
        struct qn_tick *tick = &ticks->ticks[i];
        struct qn_entry_row row;
        QN_ASSERT(tick->task == NULL || strcmp(tick->task->queue, tick->queue) == 0);
        status = qn_entry_row_find(ticking->conn, tick->queue, tick->name, &row, err);
        if (status != QUERN_OK) {
            return status;
        }
        tick->result = decide(ticking, tick, &row);
        tick->stored_s = row.last_s;
        if (tick->result == QN_TICKED) {
            status = next_number(ticking, ticks->count - i, err);
            if (status == QUERN_OK) {
                status = apply(ticking, tick, &row, err);
            }
        }
    }
    return status;
}

static void refuse_all(struct qn_ticks *ticks)
{
    for (size_t i = 0; i < ticks->count; i++) {
        ticks->ticks[i].result = QN_TICK_STALE;
        ticks->ticks[i].stored_s = 0;
    }
}

static quern_status keep_results(struct ticking *ticking, const struct qn_ticks *ticks,
                                 quern_error *err)
{
    uint8_t reply[QN_BATCH_MAX * KEPT_SIZE];
    for (size_t i = 0; i < ticks->count; i++) {
        reply[i * KEPT_SIZE] = (uint8_t)ticks->ticks[i].result;
        memcpy(&reply[i * KEPT_SIZE + 1], &ticks->ticks[i].stored_s, sizeof(int64_t));
    }
    const struct qn_bytes bytes = {.data = reply, .size = ticks->count * KEPT_SIZE};
    return qn_sqlite_session_keep(ticking->conn, ticks->stamp, ticking->now_ms, bytes, err);
}

static quern_status find_results(struct ticking *ticking, struct qn_ticks *ticks, bool *ret_known,
                                 quern_error *err)
{
    uint8_t reply[QN_BATCH_MAX * KEPT_SIZE];
    const struct qn_room room = {.data = reply, .size = ticks->count * KEPT_SIZE};
    quern_status status = qn_sqlite_session_find(ticking->conn, ticks->stamp, room, ret_known, err);
    for (size_t i = 0; status == QUERN_OK && *ret_known && i < ticks->count; i++) {
        ticks->ticks[i].result = (enum qn_tick_result)reply[i * KEPT_SIZE];
        memcpy(&ticks->ticks[i].stored_s, &reply[i * KEPT_SIZE + 1], sizeof(int64_t));
    }
    return status;
}

/* Between begin and the end of the transaction. */
static quern_status tick_in(struct ticking *ticking, struct qn_ticks *ticks, quern_error *err)
{
    bool known = false;
    uint64_t epoch = 0;
    quern_status status = find_results(ticking, ticks, &known, err);
    if (status != QUERN_OK || known) {
        ticking->wake = known;
        return status;
    }
    status = qn_lead_epoch(ticking->conn, &epoch, err);
    if (status == QUERN_OK && epoch > ticks->epoch) {
        refuse_all(ticks);
        return QUERN_OK;
    }
    if (status == QUERN_OK) {
        status = tick_all(ticking, ticks, err);
    }
    return status == QUERN_OK && ticking->changed ? keep_results(ticking, ticks, err) : status;
}

static quern_status end(struct ticking *ticking, quern_status status, quern_error *err)
{
    if (status == QUERN_OK && ticking->changed) {
        status = qn_transaction_commit(ticking->self, err);
    } else {
        qn_transaction_rollback(ticking->self);
    }
    if (status == QUERN_OK && ticking->wake) {
        qn_waiters_wake(ticking->self);
    }
    return status;
}

quern_status qn_sqlite_schedule_tick(struct qn_broker *broker, struct qn_ticks *ticks,
                                     quern_error *err)
{
    struct ticking ticking = {.self = qn_sqlite_of(broker),
                              .now_ms = qn_clock_wall_ms(broker->clock)};
    QN_ASSERT(ticks->count <= QN_BATCH_MAX);
    ticks->now_ms = ticking.now_ms;
    if (ticks->count == 0) {
        return QUERN_OK;
    }
    quern_status status = qn_transaction_begin(ticking.self, false, &ticking.conn, err);
    if (status == QUERN_OK) {
        status = end(&ticking, tick_in(&ticking, ticks, err), err);
    }
    qn_arena_finish(&ticking.arena);
    return status;
}

/* --- By hand ------------------------------------------------------------------------ */

/* The kept answer: a byte, then where the task went into another one its id with a NUL. */
static quern_status keep_trigger(struct ticking *ticking, const struct qn_trigger *trigger,
                                 const char *holder, quern_error *err)
{
    size_t size = 1 + (holder == NULL ? 0 : strlen(holder) + 1);
    char *reply = qn_arena_alloc(&ticking->arena, size);
    if (reply == NULL) {
        return qn_error_nomem(err);
    }
    reply[0] = 1;
    if (holder != NULL) {
        memcpy(reply + 1, holder, size - 1);
    }
    return qn_sqlite_session_keep(ticking->conn, trigger->stamp, ticking->now_ms,
                                  (struct qn_bytes){.data = reply, .size = size}, err);
}

static quern_status find_trigger(struct ticking *ticking, const struct qn_trigger *trigger,
                                 bool *ret_known, const char **ret_holder, quern_error *err)
{
    struct qn_room reply;
    quern_status status =
        qn_sqlite_session_copy(ticking->conn, trigger->stamp, &ticking->arena, &reply, err);
    *ret_known = status == QUERN_OK && reply.data != NULL;
    const char *text = reply.data;
    if (*ret_known && reply.size > 1 && text[reply.size - 1] == '\0') {
        *ret_holder = text + 1;
    }
    return status;
}

static quern_status refuse_trigger(const struct qn_trigger *trigger, quern_status result,
                                   quern_error *err)
{
    return qn_error_set(err, result, "entry \"%s\": its task %s", trigger->name,
                        result == QUERN_E_DUPLICATE  ? "is there: the unique lock is held"
                        : result == QUERN_E_CONFLICT ? "has an id that is there"
                                                     : "was refused");
}

static quern_status note_trigger(struct ticking *ticking, const struct qn_trigger *trigger,
                                 const struct qn_entry_row *row, const char *holder,
                                 quern_error *err)
{
    quern_status status = next_number(ticking, 1, err);
    const struct qn_entry_event event = {.number = ticking->next_number,
                                         .now_ms = ticking->now_ms,
                                         .what = holder == NULL ? QN_TICK_MANUAL : QN_TICK_REPLACED,
                                         .id = holder == NULL ? trigger->task->id : holder};
    ticking->changed = true;
    if (status == QUERN_OK) {
        status = qn_entry_row_advance(ticking->conn, row, trigger->name, &event, err);
    }
    return status == QUERN_OK ? keep_trigger(ticking, trigger, holder, err) : status;
}

/* A trigger that changes nothing, as it is refused or left out, is not remembered. */
static quern_status trigger_in(struct ticking *ticking, const struct qn_trigger *trigger,
                               const char **ret_holder, quern_error *err)
{
    struct qn_entry_row row;
    bool known = false;
    struct qn_stored stored;
    const struct qn_entry_key key = {
        .queue = trigger->task->queue, .name = trigger->name, .revision = QN_REVISION_ANY};
    quern_status status = find_trigger(ticking, trigger, &known, ret_holder, err);
    if (status != QUERN_OK || known) {
        ticking->wake = known;
        return status;
    }
    status = qn_entry_row_find_key(ticking->conn, &key, &row, err);
    if (status == QUERN_OK) {
        status = store(ticking, trigger->task, &stored, err);
    }
    if (status == QUERN_OK && stored.result != QUERN_OK) {
        status = refuse_trigger(trigger, stored.result, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    *ret_holder = stored.holder;
    bool is_left_out =
        stored.holder != NULL && trigger->task->on_duplicate == QUERN_ON_DUPLICATE_IGNORE;
    return is_left_out ? QUERN_OK : note_trigger(ticking, trigger, &row, stored.holder, err);
}

static quern_status report_holder(const struct qn_trigger *trigger, const char *holder,
                                  quern_error *err)
{
    const char *copy = holder == NULL ? NULL : qn_arena_strdup(trigger->arena, holder);
    *trigger->ret_holder = copy;
    return copy == NULL && holder != NULL ? qn_error_nomem(err) : QUERN_OK;
}

quern_status qn_sqlite_schedule_trigger(struct qn_broker *broker, const struct qn_trigger *trigger,
                                        quern_error *err)
{
    struct ticking ticking = {.self = qn_sqlite_of(broker),
                              .now_ms = qn_clock_wall_ms(broker->clock)};
    const char *holder = NULL;
    quern_status status = qn_transaction_begin(ticking.self, false, &ticking.conn, err);
    if (status != QUERN_OK) {
        return status;
    }
    status = trigger_in(&ticking, trigger, &holder, err);
    if (status == QUERN_OK && trigger->ret_holder != NULL) {
        status = report_holder(trigger, holder, err);
    }
    status = end(&ticking, status, err);
    qn_arena_finish(&ticking.arena);
    return status;
}
