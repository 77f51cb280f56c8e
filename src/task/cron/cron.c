/* SPDX-License-Identifier: MIT */
/* cron.c - the next moment of a cron expression, found as robfig/cron v3 finds it.
 *
 * The search begins a second after the given moment and moves forward: to a month that fits, in it
 * to a day, then to an hour, a minute and a second. The first step that is needed sets the smaller
 * parts to their smallest value. Where a part wraps around, the search starts again from the month,
 * since the larger parts have changed. Months and days are steps of the calendar; hours, minutes
 * and seconds are steps of real time, so an hour that clocks skip is not met, and one that they
 * show twice is met twice.
 *
 * The order of the steps decides what happens in the nights of a change, and expressions shared
 * with Go must fire at the same moments: tests/interop/cron holds every step to the Go library. */
#include "task/cron/cron.h"

#include "base/bug.h"
#include "base/text/number.h"
#include "task/cron/cron_field.h"

/* Years to search: the 29th of February on a given weekday may be 40 years away, and is not found,
 * as in Go. */
enum { YEARS_MAX = 5 };
/* A search takes some 2 000 steps at most; with a zone whose file is made up, it must end, too. */
enum { STEPS_MAX = 20000 };

struct search {
    const struct qn_cron *cron;
    const struct qn_zone *zone;
    int64_t at_s;
    struct qn_civil local; /* at_s in the zone */
    bool moved;            /* smaller parts are at their smallest value */
    int steps;
};

static bool has(uint64_t bits, int value)
{
    return (bits >> value & 1) != 0;
}

static void go_to(struct search *search, int64_t at_s)
{
    search->at_s = at_s;
    qn_zone_to_civil(search->zone, at_s, &search->local);
}

static void go_to_local(struct search *search, struct qn_civil local)
{
    go_to(search, qn_zone_from_civil(search->zone, &local));
}

/* Whether a step is needed, and there is one left. */
static bool must_step(struct search *search, bool fits)
{
    if (fits) {
        return false;
    }
    search->steps++;
    return search->steps <= STEPS_MAX;
}

/* The functions below move to the next value that fits. False: it wrapped around, or steps ran out;
 * the search goes on from the month. */
static bool find_month(struct search *search)
{
    while (must_step(search, has(search->cron->months, search->local.month))) {
        if (!search->moved) {
            search->moved = true;
            go_to_local(search, (struct qn_civil){.year = search->local.year,
                                                  .month = search->local.month,
                                                  .day = 1});
        }
        struct qn_civil next = search->local;
        next.month++;
        go_to_local(search, next);
        if (search->local.month == 1) {
            return false;
        }
    }
    return true;
}

/* Where one of the two fields is a star, both must fit, else one of them. */
static bool day_fits(const struct search *search)
{
    const struct qn_cron *cron = search->cron;
    bool day = has(cron->days, search->local.day);
    bool weekday = has(cron->weekdays, search->local.weekday);
    bool star = ((cron->days | cron->weekdays) & QN_CRON_STAR) != 0;
    return star && !QN_BUG(STAR_IGNORED) ? day && weekday : day || weekday;
}

static bool find_day(struct search *search)
{
    while (must_step(search, day_fits(search))) {
        if (!search->moved) {
            search->moved = true;
            go_to_local(search, (struct qn_civil){.year = search->local.year,
                                                  .month = search->local.month,
                                                  .day = search->local.day});
        }
        int64_t before_s = search->at_s;
        struct qn_civil next = search->local;
        next.day++;
        go_to_local(search, next);
        if (search->at_s <= before_s && !QN_BUG(SKIPPED_DAY_STAYS)) {
            go_to(search, before_s + QN_CIVIL_DAY_S); /* a whole day is skipped; Go hangs here */
        }
        /* A midnight that clocks skip: an hour before it or behind it. */
        int hour = search->local.hour;
        if (hour != 0) {
            int64_t to_midnight = hour > 12 ? 24 - hour : -hour;
            go_to(search, search->at_s + to_midnight * QN_CIVIL_HOUR_S);
        }
        if (search->local.day == 1) {
            return false;
        }
    }
    return true;
}

static bool find_hour(struct search *search)
{
    while (must_step(search, has(search->cron->hours, search->local.hour))) {
        if (!search->moved) {
            search->moved = true;
            struct qn_civil whole = search->local;
            whole.minute = 0;
            whole.second = 0;
            go_to_local(search, whole);
        }
        go_to(search, search->at_s + QN_CIVIL_HOUR_S);
        if (search->local.hour == 0) {
            return false;
        }
    }
    return true;
}

/* From a value of 60 that does not fit: to the next one that does, or to the wrap. */
static int steps_to(uint64_t bits, int value)
{
    int steps = 1;
    while (value + steps < 60 && !has(bits, value + steps)) {
        steps++;
    }
    return steps;
}

static bool find_minute(struct search *search)
{
    while (must_step(search, has(search->cron->minutes, search->local.minute))) {
        if (!search->moved) {
            search->moved = true;
            go_to(search, QN_CIVIL_MINUTE_S * qn_civil_floor_div(search->at_s, QN_CIVIL_MINUTE_S));
        }
        /* Several steps at once, unless the clocks change by parts of an hour on the way. */
        int64_t before_s = search->at_s;
        int steps = steps_to(search->cron->minutes, search->local.minute);
        int wanted = (search->local.minute + steps) % 60;
        go_to(search, before_s + steps * (int64_t)QN_CIVIL_MINUTE_S);
        if (search->local.minute != wanted) {
            go_to(search, before_s + QN_CIVIL_MINUTE_S);
        }
        if (search->local.minute == 0) {
            return false;
        }
    }
    return true;
}

static bool find_second(struct search *search)
{
    while (must_step(search, has(search->cron->seconds, search->local.second))) {
        search->moved = true;
        /* As above: some offsets of long ago have seconds. */
        int64_t before_s = search->at_s;
        int steps = steps_to(search->cron->seconds, search->local.second);
        int wanted = (search->local.second + steps) % 60;
        go_to(search, before_s + steps);
        if (search->local.second != wanted) {
            go_to(search, before_s + 1);
        }
        if (search->local.second == 0) {
            return false;
        }
    }
    return true;
}

static bool find(struct search *search)
{
    int64_t year_max = search->local.year + YEARS_MAX;
    while (search->steps <= STEPS_MAX && search->local.year <= year_max) {
        if (find_month(search) && find_day(search) && find_hour(search) && find_minute(search) &&
            find_second(search)) {
            return search->steps <= STEPS_MAX;
        }
    }
    return false;
}

bool qn_cron_next(const struct qn_cron *cron, const struct qn_zone *zone, int64_t after_ms,
                  int64_t *ret_next_ms)
{
    if (after_ms < -QN_MOMENT_MS_MAX || after_ms > QN_MOMENT_MS_MAX) {
        return false;
    }
    int64_t after_s = qn_civil_floor_div(after_ms, 1000);
    struct search search = {.cron = cron, .zone = zone};
    if (cron->every_s != 0) {
        search.at_s = after_s + cron->every_s;
    } else if (cron->seconds == 0 || cron->minutes == 0 || cron->hours == 0 || cron->months == 0) {
        return false; /* a field that allows nothing, such as "," */
    } else {
        go_to(&search, after_s + 1);
        if (!find(&search)) {
            return false;
        }
    }
    if (search.at_s > QN_MOMENT_MS_MAX / 1000) {
        return false;
    }
    *ret_next_ms = search.at_s * 1000;
    return true;
}
