/* SPDX-License-Identifier: MIT */
/* ticker.c - the loop of the leading scheduler.
 *
 * A step: look who leads; load the entries if they have changed; plan what is due; send it in
 * batches. The broker decides about each tick, so the plan of a scheduler that believes to lead and
 * does not does no harm: a tick that is stale or past is refused, and ends its leadership. That is
 * no failure of the tick: another scheduler has sent it.
 *
 * All entries are looked at in each step: of 10 000 that was measured to take 0.1 to 0.4 ms, by how
 * much of them the caches still have, and there is one step a second and one for each tick. */
#include "schedule/tick/ticker.h"

#include "base/memory/alloc.h"
#include "base/random.h"
#include "base/text/number.h"
#include "schedule/tick/tick_send.h"
#include "schedule/tick/ticking_list.h"

enum {
    LOAD_MS = 30000,      /* even if no change was seen */
    RECORD_MS = 10000,    /* if something has changed */
    RECORD_OLD_MS = 20000 /* if nothing has */
};
#define RECORD_TTL_S 30

void qn_ticker_init(struct qn_ticker *ticker, struct qn_leader *leader, struct qn_zones *zones,
                    const struct qn_ticker_hooks *hooks)
{
    struct qn_random random;
    *ticker = (struct qn_ticker){.leader = leader, .zones = zones, .hooks = *hooks};
    qn_random_init(&random);
    ticker->stamp.session = qn_random_next(&random);
}

void qn_ticker_finish(struct qn_ticker *ticker)
{
    qn_ticking_list_finish(&ticker->list);
    qn_arena_finish(&ticker->batch.arena);
}

void qn_ticker_reload(struct qn_ticker *ticker, struct qn_zones *zones)
{
    ticker->epoch = 0;
    if (zones != NULL) {
        for (size_t i = 0; i < ticker->list.count; i++) {
            ticker->list.items[i].is_sound = false; /* it borrows a zone of the old ones */
        }
        ticker->zones = zones;
    }
}

/* --- Loading -------------------------------------------------------------------------- */

static bool must_load(const struct qn_ticker *ticker)
{
    int64_t age_ms = qn_clock_boot_ms(ticker->leader->clock) - ticker->loaded_at_boot_ms;
    return ticker->epoch != ticker->leader->epoch || ticker->version != ticker->leader->version ||
           age_ms >= LOAD_MS;
}

static quern_status load(struct qn_ticker *ticker, quern_error *err)
{
    uint64_t version = ticker->leader->version; /* from before: a change meanwhile loads again */
    quern_status status = qn_ticking_list_load(ticker, err);
    if (status == QUERN_OK) {
        ticker->has_changed = ticker->has_changed || ticker->version != version;
        ticker->epoch = ticker->leader->epoch;
        ticker->version = version;
        ticker->loaded_at_boot_ms = qn_clock_boot_ms(ticker->leader->clock);
    }
    return status;
}

static size_t count_ahead(const struct qn_ticker *ticker, int64_t now_ms)
{
    size_t count = 0;
    for (size_t i = 0; i < ticker->list.count; i++) {
        count += ticker->list.items[i].entry.last_s > now_ms / 1000 ? 1 : 0;
    }
    return count;
}

/* A clock that was wrong has left them behind, and may have been set back before this lead. */
static void begin_to_lead(struct qn_ticker *ticker)
{
    size_t ahead = count_ahead(ticker, qn_leader_now_ms(ticker->leader) + QN_ENTRY_LATE_MS);
    if (ahead > 0) {
        QN_LOG(ticker->leader->log, QUERN_LOG_WARN, "last ticks lie ahead of the broker's clock",
               QN_LOG_NUMBER("entries", ahead));
    }
    ticker->led_epoch = ticker->leader->epoch;
}

/* --- Planning ------------------------------------------------------------------------- */

static bool is_due(const struct qn_ticker *ticker, const struct qn_ticking *ticking, int64_t now_ms)
{
    return ticking->is_sound && ticking->has_next && !ticking->is_over &&
           ticking->next_s <= now_ms / 1000 &&
           ticking->rests_until_ms <= qn_clock_boot_ms(ticker->leader->clock);
}

/* The whole plan of an entry, as far as the broker takes it. */
static quern_status send_entry(struct qn_ticker *ticker, struct qn_ticking *ticking, int64_t now_ms,
                               quern_error *err)
{
    struct qn_plan *plan = &ticker->plan;
    const struct qn_plan_terms terms = qn_entry_plan_terms(&ticking->entry, &ticking->clock);
    int64_t known_s = ticking->entry.last_s;
    quern_status status = QUERN_OK;
    qn_plan_make(&terms, now_ms, plan);
    if (plan->skipped > 0) {
        QN_LOG(ticker->leader->log, QUERN_LOG_WARN, "missed ticks are skipped",
               QN_LOG_TEXT("entry", ticking->entry.name),
               QN_LOG_TEXT("queue", ticking->entry.task.queue),
               QN_LOG_NUMBER("count", plan->skipped),
               QN_LOG_TEXT("more", plan->skipped_more ? "yes" : NULL));
    }
    if (plan->count == 0 && plan->skipped > 0) {
        const struct qn_tick_plan skip = {.known_s = known_s,
                                          .tick_s = plan->last_s,
                                          .skipped = (uint32_t)plan->skipped - 1,
                                          .what = QN_TICK_SKIP};
        return qn_tick_send_add(ticker, ticking, &skip, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < plan->count && !ticking->is_over; i++) {
        const struct qn_tick_plan one = {.known_s = known_s,
                                         .tick_s = plan->ticks[i],
                                         .skipped = i == 0 ? (uint32_t)plan->skipped : 0,
                                         .what = i < plan->missed ? QN_TICK_LATE : QN_TICK_ENQUEUE};
        known_s = one.tick_s;
        status = qn_tick_send_add(ticker, ticking, &one, err);
    }
    return status;
}

static quern_status send_due(struct qn_ticker *ticker, quern_error *err)
{
    struct qn_ticking_list *list = &ticker->list;
    int64_t now_ms = qn_leader_now_ms(ticker->leader);
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].is_over = false;
    }
    for (size_t i = 0; status == QUERN_OK && ticker->leader->leads && i < list->count; i++) {
        if (is_due(ticker, &list->items[i], now_ms)) {
            status = send_entry(ticker, &list->items[i], now_ms, err);
        }
    }
    if (status == QUERN_OK && ticker->leader->leads) {
        status = qn_tick_send_flush(ticker, err);
    }
    qn_tick_send_drop(ticker); /* what is left after a failure is planned again */
    return status;
}

/* --- The record ----------------------------------------------------------------------- */

/* What programs of others list. A failure is tried again with the next one. */
static void write_record(struct qn_ticker *ticker)
{
    const struct qn_ticking_list *list = &ticker->list;
    int64_t boot_ms = qn_clock_boot_ms(ticker->leader->clock);
    int64_t age_ms = boot_ms - ticker->recorded_at_boot_ms;
    struct qn_record_row *rows = NULL;
    quern_error error = {0};
    if (age_ms < RECORD_MS || (!ticker->has_changed && age_ms < RECORD_OLD_MS)) {
        return;
    }
    ticker->recorded_at_boot_ms = boot_ms;
    struct qn_record record = {.id = ticker->leader->id, .ttl_s = RECORD_TTL_S};
    rows = qn_alloc_zero(list->count + 1, sizeof *rows);
    for (size_t i = 0; rows != NULL && i < list->count; i++) {
        const struct qn_ticking *one = &list->items[i];
        if (one->is_sound) {
            rows[record.count++] = (struct qn_record_row){
                .entry = &one->entry,
                .next_s = one->has_next ? one->next_s : 0,
                .prev_s = one->entry.runs > 0 ? one->entry.last_s : 0,
            };
        }
    }
    record.rows = rows;
    if (rows != NULL && qn_schedule_record(ticker->leader->broker, &record, &error) != QUERN_OK) {
        QN_LOG(ticker->leader->log, QUERN_LOG_WARN, "record for other programs was not written",
               QN_LOG_TEXT("error", error.text));
    }
    ticker->has_changed = false;
    qn_free(rows);
}

/* --- The step ------------------------------------------------------------------------- */

static void log_jump(struct qn_ticker *ticker)
{
    size_t waiting = count_ahead(ticker, qn_leader_now_ms(ticker->leader));
    QN_LOG(ticker->leader->log, QUERN_LOG_WARN, "clock of the broker was set",
           QN_LOG_NUMBER("entries_ahead_of_it", waiting));
    ticker->leader->has_jumped = false;
}

static int64_t sleep_ms(const struct qn_ticker *ticker)
{
    const struct qn_leader *leader = ticker->leader;
    int64_t boot_ms = qn_clock_boot_ms(leader->clock);
    int64_t now_ms = qn_leader_now_ms(leader);
    int64_t sleep = leader->looked_at_boot_ms + QN_LEADER_LOOK_MS - boot_ms;
    for (size_t i = 0; leader->leads && i < ticker->list.count; i++) {
        const struct qn_ticking *one = &ticker->list.items[i];
        if (one->is_sound && one->has_next) {
            int64_t wait_ms = one->next_s * 1000 - now_ms;
            int64_t rest_ms = one->rests_until_ms - boot_ms;
            wait_ms = rest_ms > wait_ms ? rest_ms : wait_ms;
            sleep = wait_ms < sleep ? wait_ms : sleep;
        }
    }
    return qn_number_clamp(sleep, 0, QN_TICKER_STEP_MS);
}

static bool must_look(const struct qn_leader *leader)
{
    int64_t age_ms = qn_clock_boot_ms(leader->clock) - leader->looked_at_boot_ms;
    return age_ms >= QN_LEADER_LOOK_MS || (leader->leads && !qn_leader_may_send(leader));
}

quern_status qn_ticker_step(struct qn_ticker *ticker, int64_t *ret_sleep_ms, quern_error *err)
{
    struct qn_leader *leader = ticker->leader;
    quern_status status = QUERN_OK;
    *ret_sleep_ms = QN_TICKER_STEP_MS;
    if (must_look(leader)) {
        status = qn_leader_look(leader, err);
    }
    if (status == QUERN_OK && leader->leads && must_load(ticker)) {
        status = load(ticker, err);
    }
    if (status == QUERN_OK && leader->has_jumped) {
        log_jump(ticker);
    }
    if (status == QUERN_OK && leader->leads && ticker->led_epoch != leader->epoch) {
        begin_to_lead(ticker);
    }
    if (status == QUERN_OK && leader->leads) {
        status = send_due(ticker, err);
    }
    if (status == QUERN_OK && leader->leads) {
        write_record(ticker);
    }
    if (status != QUERN_OK) {
        ticker->epoch = 0; /* what the broker has now is read again */
        return status;
    }
    *ret_sleep_ms = sleep_ms(ticker);
    return QUERN_OK;
}
