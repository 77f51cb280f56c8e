/* SPDX-License-Identifier: MIT */
/* tick_send.c - from planned ticks to a request, and from its results to the loaded entries.
 *
 * A request whose reply was lost is sent again with the same stamp, so it takes effect once. If
 * that fails, too, the entries are loaded again: their last ticks show what has happened.
 *
 * A refused tick ends the ticks of its entry in this round, since each names the one before it.
 *
 * Where a hook has taken so long that the lease may be over, it is taken again before the request:
 * a tick whose hook is always so slow is enqueued, too, unless another scheduler leads by then. */
#include "schedule/tick/tick_send.h"

#include "base/bug.h"
#include "schedule/tick/tick_task.h"
#include "schedule/tick/ticking_list.h"

enum { ATTEMPTS = 3, REST_MS = 1000, EARLY_MS = 20, SLOW_HOOK_MS = 1000 };

/* --- Making --------------------------------------------------------------------------- */

static quern_tick describe(const struct qn_ticking *ticking, const struct qn_tick *tick,
                           const struct qn_task *task)
{
    return (quern_tick){.name = ticking->entry.name,
                        .queue = ticking->entry.task.queue,
                        .id = task->id,
                        .at_ms = tick->tick_s * 1000,
                        .missed = tick->what == QN_TICK_LATE};
}

static void log_failure(struct qn_ticker *ticker, struct qn_ticking *ticking, const char *text)
{
    if (!ticking->was_logged) {
        QN_LOG(ticker->leader->log, QUERN_LOG_ERROR, "tick cannot be enqueued",
               QN_LOG_TEXT("entry", ticking->entry.name),
               QN_LOG_TEXT("queue", ticking->entry.task.queue), QN_LOG_TEXT("error", text));
        ticking->was_logged = true;
    }
}

/* A hook delays all ticks behind it, and the renewal of the lease. */
static void note_hook(struct qn_ticker *ticker, const struct qn_ticking *ticking, const char *hook,
                      int64_t began_at_boot_ms)
{
    int64_t took_ms = qn_clock_boot_ms(ticker->leader->clock) - began_at_boot_ms;
    if (took_ms > SLOW_HOOK_MS) {
        QN_LOG(ticker->leader->log, QUERN_LOG_WARN, "hook of the scheduler is slow",
               QN_LOG_TEXT("hook", hook), QN_LOG_TEXT("entry", ticking->entry.name),
               QN_LOG_TEXT("queue", ticking->entry.task.queue), QN_LOG_NUMBER("took_ms", took_ms));
    }
}

/* Lets the hook see and change the task. */
static quern_status ask_hook(struct qn_ticker *ticker, struct qn_ticking *ticking,
                             const struct qn_tick_terms *terms, struct qn_tick *tick,
                             quern_error *err)
{
    struct qn_tick_batch *batch = &ticker->batch;
    struct qn_task *task = &batch->tasks[batch->count];
    quern_task shown;
    quern_status status = qn_tick_task_show(terms->entry, task, &batch->arena, &shown, err);
    if (status != QUERN_OK) {
        return status;
    }
    const quern_tick public_tick = describe(ticking, tick, task);
    int64_t began_ms = qn_clock_boot_ms(ticker->leader->clock);
    bool is_wanted = ticker->hooks.before(&public_tick, &shown, ticker->hooks.user);
    note_hook(ticker, ticking, "before", began_ms);
    if (!is_wanted) {
        tick->what = QN_BUG(VETO_IGNORED) ? tick->what : QN_TICK_VETO;
        return QUERN_OK;
    }
    return qn_tick_task_replace(terms, &shown, &batch->arena, task, err);
}

static quern_status make_task(struct qn_ticker *ticker, struct qn_ticking *ticking,
                              struct qn_tick *tick, quern_error *err)
{
    struct qn_tick_batch *batch = &ticker->batch;
    const struct qn_tick_terms terms = {.entry = &ticking->entry,
                                        .tick_s = tick->tick_s,
                                        .now_ms = qn_leader_now_ms(ticker->leader)};
    struct qn_task *task = &batch->tasks[batch->count];
    quern_status status = qn_tick_task_make(&terms, &batch->arena, task, err);
    if (status == QUERN_OK && ticker->hooks.before != NULL) {
        status = ask_hook(ticker, ticking, &terms, tick, err);
    }
    tick->task = tick->what == QN_TICK_VETO ? NULL : task;
    return status;
}

static quern_status make_room(struct qn_ticker *ticker, const struct qn_ticking *ticking,
                              quern_error *err)
{
    const struct qn_tick_batch *batch = &ticker->batch;
    bool is_full = batch->count == QN_BATCH_MAX ||
                   batch->payload_size + ticking->entry.task.payload_size > QN_BATCH_BYTES_MAX;
    /* The next call of a hook may change what it has put into the task of the last one. */
    bool is_borrowed = batch->count > 0 && ticker->hooks.before != NULL;
    return is_full || is_borrowed ? qn_tick_send_flush(ticker, err) : QUERN_OK;
}

quern_status qn_tick_send_add(struct qn_ticker *ticker, struct qn_ticking *ticking,
                              const struct qn_tick_plan *plan, quern_error *err)
{
    struct qn_tick_batch *batch = &ticker->batch;
    quern_error error = {0};
    quern_status status = make_room(ticker, ticking, err);
    if (status != QUERN_OK || !ticker->leader->leads || ticking->is_over) {
        return status;
    }
    struct qn_tick *tick = &batch->ticks[batch->count];
    *tick = (struct qn_tick){.queue = ticking->entry.task.queue,
                             .name = ticking->entry.name,
                             .revision = ticking->entry.revision,
                             .known_s = plan->known_s,
                             .tick_s = plan->tick_s,
                             .skipped = plan->skipped,
                             .what = plan->what};
    if (plan->what != QN_TICK_SKIP) {
        status = make_task(ticker, ticking, tick, &error);
        if (status == QUERN_E_INVALID) { /* a hook has spoiled it: this entry only */
            log_failure(ticker, ticking, error.text);
            ticking->is_over = true;
            ticking->rests_until_ms = qn_clock_boot_ms(ticker->leader->clock) + REST_MS;
            return QUERN_OK;
        }
        if (status != QUERN_OK) {
            if (err != NULL) {
                *err = error;
            }
            return status;
        }
    }
    batch->owners[batch->count++] = ticking;
    batch->payload_size += tick->task != NULL ? tick->task->payload_size : 0;
    return QUERN_OK;
}

/* --- Results -------------------------------------------------------------------------- */

static void call_after(struct qn_ticker *ticker, size_t index)
{
    const struct qn_tick *tick = &ticker->batch.ticks[index];
    if (ticker->hooks.after == NULL || tick->what == QN_TICK_SKIP) {
        return;
    }
    quern_tick public_tick =
        describe(ticker->batch.owners[index], tick, &ticker->batch.tasks[index]);
    public_tick.vetoed = tick->what == QN_TICK_VETO;
    public_tick.is_duplicate = tick->result != QN_TICKED;
    int64_t began_ms = qn_clock_boot_ms(ticker->leader->clock);
    ticker->hooks.after(&public_tick, ticker->hooks.user);
    note_hook(ticker, ticker->batch.owners[index], "after", began_ms);
}

static void advance(struct qn_ticker *ticker, size_t index)
{
    const struct qn_tick *tick = &ticker->batch.ticks[index];
    struct qn_ticking *ticking = ticker->batch.owners[index];
    ticking->entry.last_s = tick->tick_s;
    ticking->entry.runs += tick->result == QN_TICKED && tick->task != NULL ? 1 : 0;
    ticking->was_logged = false;
    ticker->has_changed = true;
    qn_ticking_find_next(ticking, &ticker->batch.plan);
    call_after(ticker, index);
}

static void rest(const struct qn_ticker *ticker, struct qn_ticking *ticking, int64_t ms)
{
    ticking->rests_until_ms = qn_clock_boot_ms(ticker->leader->clock) + ms;
    ticking->is_over = true;
}

/* True: this scheduler does not lead. */
static bool judge(struct qn_ticker *ticker, size_t index)
{
    const struct qn_tick *tick = &ticker->batch.ticks[index];
    struct qn_ticking *ticking = ticker->batch.owners[index];
    if (ticking->is_over) {
        return false; /* it names a tick before it that was refused */
    }
    switch (tick->result) {
    case QN_TICKED:
    case QN_TICKED_DUPLICATE:
    case QN_TICKED_CONFLICT:
    case QN_TICKED_REPLACED:
        advance(ticker, index);
        return false;
    case QN_TICK_STALE:
        return true;
    case QN_TICK_PAST:
        if (QN_BUG(PAST_IS_FAILURE)) {
            rest(ticker, ticking, REST_MS);
            return false;
        }
        return true;
    case QN_TICK_GONE:
    case QN_TICK_CHANGED:
    case QN_TICK_PAUSED:
        ticker->epoch = 0; /* loads again */
        ticking->is_over = true;
        return false;
    case QN_TICK_EARLY:
        rest(ticker, ticking, EARLY_MS);
        return false;
    case QN_TICK_FULL:
        log_failure(ticker, ticking, "the queue has its max_pending tasks; it is tried again");
        rest(ticker, ticking, REST_MS);
        return false;
    case QN_TICK_FAILED:
        log_failure(ticker, ticking, "the broker has refused it, and it is tried again");
        rest(ticker, ticking, REST_MS);
        return false;
    }
    return false;
}

/* --- Sending -------------------------------------------------------------------------- */

void qn_tick_send_drop(struct qn_ticker *ticker)
{
    ticker->batch.count = 0;
    ticker->batch.payload_size = 0;
    qn_arena_reset(&ticker->batch.arena);
}

static quern_status send_batch(struct qn_ticker *ticker, quern_error *err)
{
    struct qn_tick_batch *batch = &ticker->batch;
    struct qn_leader *leader = ticker->leader;
    quern_status status = QUERN_E_UNKNOWN;
    ticker->stamp.sequence++;
    for (int i = 0; status == QUERN_E_UNKNOWN && i < ATTEMPTS; i++) {
        struct qn_ticks ticks = {.stamp = ticker->stamp,
                                 .epoch = leader->epoch,
                                 .ticks = batch->ticks,
                                 .count = batch->count};
        status = qn_schedule_tick(leader->broker, &ticks, err);
        if (status == QUERN_OK && ticks.now_ms != 0) {
            qn_leader_note_now(leader, ticks.now_ms);
        }
    }
    return status;
}

quern_status qn_tick_send_flush(struct qn_ticker *ticker, quern_error *err)
{
    const struct qn_tick_batch *batch = &ticker->batch;
    struct qn_leader *leader = ticker->leader;
    quern_status status = QUERN_OK;
    bool has_lost = false;
    if (batch->count == 0) {
        return QUERN_OK;
    }
    if (!qn_leader_may_send(leader)) { /* a hook took long, or the process stood still */
        status = qn_leader_look(leader, err);
        if (status != QUERN_OK || !leader->leads) {
            qn_tick_send_drop(ticker);
            return status;
        }
    }
    status = send_batch(ticker, err);
    for (size_t i = 0; status == QUERN_OK && i < batch->count; i++) {
        has_lost = judge(ticker, i) || has_lost;
    }
    qn_tick_send_drop(ticker);
    if (has_lost) {
        qn_leader_lose(leader);
        ticker->epoch = 0;
    }
    return status;
}
