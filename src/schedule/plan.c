/* SPDX-License-Identifier: MIT */
/* plan.c - ticks between the last one and now, and the choice between them.
 *
 * The search for ticks only goes forward. After a long downtime the newest ticks are wanted, so it
 * starts within a window that ends now: a minute at first, then larger ones until there are enough
 * ticks in it. A window with far too many is halved: an entry for each second needs no walk through
 * a year, whatever its expression.
 *
 * Ticks are those that a scheduler without downtime meets: each the next one after the one before.
 * Where the clocks of a zone change by half an hour, a search that starts in that night meets
 * others: it moves by whole hours from its start. A window that would begin behind such a change
 * begins a few days earlier, and the ticks before it are passed over. */
#include "schedule/plan.h"

#include "base/bug.h"
#include "base/text/hash.h"
#include "base/text/number.h"

/* A search gives up after five years: it continues where it cannot have missed a tick. */
#define SEARCH_S (INT64_C(4) * 365 * QN_CIVIL_DAY_S)
/* Longer than a local day: two walks that both pass a whole day without a change agree after it. */
#define CALM_S (26 * INT64_C(3600))
#define CALM_TRIES 64 /* a zone that is made up may change each hour */
#define WINDOW_S 60
#define WINDOW_GROWTH 30

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- Ticks, one after the other ------------------------------------------------------- */

struct walk {
    const struct qn_plan_terms *terms;
    int64_t at_s;
    int64_t from_s; /* ticks up to here are passed over */
    int64_t until_s;
};

static bool next_of_interval(const struct qn_plan_terms *terms, int64_t after_s, int64_t *ret_s)
{
    int64_t every_s = terms->cron->every_s;
    int64_t since_s = larger(after_s, terms->created_s) - terms->created_s;
    int64_t count = since_s / every_s + 1;
    if (count > (QN_MOMENT_MS_MAX / 1000 - terms->created_s) / every_s) {
        return false;
    }
    *ret_s = terms->created_s + count * every_s;
    return true;
}

static bool next_tick(const struct qn_plan_terms *terms, int64_t after_s, int64_t *ret_s)
{
    int64_t next_ms;
    if (terms->cron->every_s != 0) {
        return next_of_interval(terms, after_s, ret_s);
    }
    if (!qn_cron_next(terms->cron, terms->zone, after_s * 1000, &next_ms)) {
        return false;
    }
    *ret_s = next_ms / 1000;
    return true;
}

/* Whether the clocks of the zone did not change in the day before this moment. */
static bool is_calm(const struct qn_plan_terms *terms, int64_t at_s)
{
    if (QN_BUG(NIGHT_NOT_CALM)) {
        return true;
    }
    int32_t offset_s = qn_zone_offset(terms->zone, at_s);
    for (int64_t before_s = QN_CIVIL_HOUR_S; before_s <= CALM_S; before_s += QN_CIVIL_HOUR_S) {
        if (qn_zone_offset(terms->zone, at_s - before_s) != offset_s) {
            return false;
        }
    }
    return true;
}

static struct walk walk_from(const struct qn_plan_terms *terms, int64_t from_s, int64_t until_s)
{
    struct walk walk = {.terms = terms, .at_s = larger(from_s, terms->last_s), .until_s = until_s};
    walk.from_s = walk.at_s;
    if (terms->cron->every_s != 0) {
        return walk;
    }
    for (int i = 0; i < CALM_TRIES && walk.at_s > terms->last_s && !is_calm(terms, walk.at_s);
         i++) {
        walk.at_s = larger(walk.at_s - 2 * CALM_S, terms->last_s);
    }
    return walk;
}

static bool walk_next(struct walk *walk, int64_t *ret_s)
{
    while (walk->at_s < walk->until_s) {
        int64_t tick_s;
        if (!next_tick(walk->terms, walk->at_s, &tick_s)) {
            walk->at_s += SEARCH_S;
        } else if (tick_s > walk->until_s) {
            return false;
        } else {
            walk->at_s = tick_s;
            if (tick_s > walk->from_s) {
                *ret_s = tick_s;
                return true;
            }
        }
    }
    return false;
}

/* --- The newest ticks ----------------------------------------------------------------- */

static void reverse(int64_t *ticks, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        int64_t tick_s = ticks[i];
        ticks[i] = ticks[count - 1 - i];
        ticks[count - 1 - i] = tick_s;
    }
}

/* The newest `wanted` ticks of the walk, or all, in order. Returns how many there are in it; it
 * ends early behind `count_max`, and the ticks are then without meaning. */
static size_t take_newest(struct walk walk, size_t wanted, size_t count_max, int64_t *ticks)
{
    size_t count = 0;
    int64_t tick_s;
    while (count <= count_max && walk_next(&walk, &tick_s)) {
        ticks[count % wanted] = tick_s;
        count++;
    }
    if (count > wanted) {
        size_t oldest = count % wanted;
        reverse(ticks, oldest);
        reverse(ticks + oldest, wanted - oldest);
        reverse(ticks, wanted);
    }
    return count;
}

/* The newest `wanted` ticks up to `now_s`; fewer only if there are no more behind the last one. */
static size_t find_newest(const struct qn_plan_terms *terms, int64_t now_s, size_t wanted,
                          int64_t *ticks)
{
    int64_t window_s = WINDOW_S;
    int64_t short_s = 0; /* a window of this length has too few */
    int64_t long_s = 0;  /* this one too many; 0: none is known */
    for (;;) {
        struct walk walk = walk_from(terms, now_s - window_s, now_s);
        size_t count_max = window_s - short_s > 1 ? 4 * wanted + 64 : SIZE_MAX - 1;
        size_t count = take_newest(walk, wanted, count_max, ticks);
        bool too_many = count > count_max;
        if (!too_many && (count >= wanted || walk.from_s == terms->last_s)) {
            return count < wanted ? count : wanted;
        }
        if (too_many) {
            long_s = window_s;
        } else {
            short_s = window_s;
        }
        window_s = long_s == 0 ? window_s * WINDOW_GROWTH : short_s + (long_s - short_s + 1) / 2;
    }
}

/* --- The plan ------------------------------------------------------------------------- */

static void take_on_time(const struct qn_plan_terms *terms, int64_t now_ms, struct qn_plan *plan)
{
    int64_t late_ms = qn_duration_ms_of(terms->late_ms);
    int64_t before_s = qn_civil_floor_div(now_ms - late_ms - 1, 1000);
    struct walk walk = walk_from(terms, before_s, qn_civil_floor_div(now_ms, 1000));
    int64_t tick_s;
    while (walk_next(&walk, &tick_s)) {
        if (plan->count == QN_PLAN_TICKS_MAX) {
            plan->more = true;
            return;
        }
        plan->ticks[plan->count++] = tick_s;
    }
}

/* Fills up with missed ticks. With none to send, the newest due one is where last_s goes. */
static void take_missed(const struct qn_plan_terms *terms, int64_t now_s, struct qn_plan *plan)
{
    int64_t wanted = terms->catch_up + (QN_BUG(MISFIRE_TOO_MANY) ? 1 : 0);
    int64_t catch_up = smaller(wanted, QN_PLAN_TICKS_MAX);
    if (plan->count > 0 && (int64_t)plan->count >= catch_up) {
        return;
    }
    size_t on_time = plan->count;
    size_t count = find_newest(terms, now_s, catch_up < 1 ? 1 : (size_t)catch_up, plan->ticks);
    if (count > 0) {
        plan->last_s = plan->ticks[count - 1];
    }
    plan->count = catch_up < 1 ? 0 : count;
    plan->missed = plan->count - on_time;
}

static void count_skipped(const struct qn_plan_terms *terms, struct qn_plan *plan)
{
    int64_t until_s = plan->count > 0 ? plan->ticks[0] - 1 : plan->last_s;
    struct walk walk = walk_from(terms, terms->last_s, until_s);
    int64_t tick_s;
    while (walk_next(&walk, &tick_s)) {
        if (plan->skipped == QN_PLAN_SKIPPED_MAX) {
            plan->skipped_more = true;
            return;
        }
        plan->skipped++;
    }
}

static void make(const struct qn_plan_terms *terms, int64_t now_ms, struct qn_plan *plan)
{
    int64_t now_s = qn_civil_floor_div(now_ms, 1000);
    take_on_time(terms, now_ms, plan);
    take_missed(terms, now_s, plan);
    if (plan->count > 0) {
        plan->last_s = plan->ticks[plan->count - 1];
    }
    count_skipped(terms, plan);
    plan->has_next = next_tick(terms, plan->last_s, &plan->next_s) ||
                     next_tick(terms, larger(now_s, plan->last_s), &plan->next_s);
}

void qn_plan_make(const struct qn_plan_terms *terms, int64_t now_ms, struct qn_plan *ret_plan)
{
    struct qn_plan_terms sane = *terms;
    sane.created_s = qn_number_clamp(terms->created_s, 0, QN_MOMENT_MS_MAX / 1000);
    sane.last_s = qn_number_clamp(terms->last_s, 0, QN_MOMENT_MS_MAX / 1000);
    ret_plan->count = 0;
    ret_plan->missed = 0;
    ret_plan->skipped = 0;
    ret_plan->skipped_more = false;
    ret_plan->more = false;
    ret_plan->last_s = sane.last_s;
    ret_plan->has_next = false;
    if (!terms->paused || QN_BUG(PAUSE_IGNORED)) {
        make(&sane, qn_moment_ms_of(now_ms), ret_plan);
    }
}

int64_t qn_plan_jitter_ms(const char *name, int64_t tick_s, int64_t jitter_ms)
{
    unsigned char tick[8];
    uint64_t hash = QN_HASH_START;
    if (jitter_ms <= 0) {
        return 0;
    }
    for (size_t i = 0; i < sizeof tick; i++) {
        tick[i] = (unsigned char)((uint64_t)tick_s >> (8 * i));
    }
    for (const char *at = name; *at != '\0'; at++) {
        hash = qn_hash_bytes(hash, at, 1);
    }
    hash = qn_hash_bytes(hash, tick, sizeof tick);
    return (int64_t)(hash % (uint64_t)jitter_ms);
}
