/* SPDX-License-Identifier: MIT */
/* zone_rule.c - POSIX rules of time zones with the extensions of RFC 8536: hours from -167 to 167,
 * and summer time all year.
 *
 * An offset is that of the last change before the moment, among the changes of the year and of its
 * neighbours: so it does not matter in which half of the year summer is, nor whether a change is
 * in another year by UTC. Nothing is allocated. */
#include "base/time/zone_rule.h"

#include <string.h>

#include "base/text/number.h"
#include "base/time/civil.h"

enum { HOUR_MAX = 167, DEFAULT_TIME_S = 2 * QN_CIVIL_HOUR_S, NAME_SIZE_MIN = 3 };

static bool read_number(struct qn_cursor *cursor, int min, int max, int *ret_value)
{
    uint64_t value;
    if (!qn_number_take(cursor, &value) || value > (uint64_t)max) {
        return false;
    }
    *ret_value = (int)value;
    return *ret_value >= min;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "CEST" or "<+03>". */
static bool skip_name(struct qn_cursor *cursor)
{
    const char *first = cursor->at;
    if (qn_number_take_char(cursor, '<')) {
        size_t left = (size_t)(cursor->end - cursor->at);
        const char *close = left == 0 ? NULL : memchr(cursor->at, '>', left);
        if (close == NULL) {
            return false;
        }
        cursor->at = close + 1;
        return true;
    }
    while (cursor->at < cursor->end && is_letter(*cursor->at)) {
        cursor->at++;
    }
    return cursor->at - first >= NAME_SIZE_MIN;
}

/* "[+-]hh[:mm[:ss]]". */
static bool read_time(struct qn_cursor *cursor, int32_t *ret_s)
{
    int sign = 1;
    int hours = 0;
    int minutes = 0;
    int seconds = 0;
    if (qn_number_take_char(cursor, '-')) {
        sign = -1;
    } else {
        (void)qn_number_take_char(cursor, '+'); /* means nothing */
    }
    if (!read_number(cursor, 0, HOUR_MAX, &hours)) {
        return false;
    }
    if (qn_number_take_char(cursor, ':')) {
        if (!read_number(cursor, 0, 59, &minutes)) {
            return false;
        }
        if (qn_number_take_char(cursor, ':') && !read_number(cursor, 0, 59, &seconds)) {
            return false;
        }
    }
    *ret_s = sign * (hours * QN_CIVIL_HOUR_S + minutes * QN_CIVIL_MINUTE_S + seconds);
    return true;
}

/* The time behind a name, as seconds east of UTC: POSIX counts west. */
static bool read_offset(struct qn_cursor *cursor, int32_t *ret_s)
{
    int32_t west_s;
    if (!read_time(cursor, &west_s)) {
        return false;
    }
    *ret_s = -west_s;
    return *ret_s > -26 * QN_CIVIL_HOUR_S && *ret_s < 26 * QN_CIVIL_HOUR_S;
}

/* "M3.5.0/2", "J60" or "59/-1". */
static bool read_change(struct qn_cursor *cursor, struct qn_zone_change *ret_change)
{
    struct qn_zone_change change = {.time_s = DEFAULT_TIME_S};
    bool valid;
    if (qn_number_take_char(cursor, 'M')) {
        change.kind = QN_ZONE_DAY_OF_MONTH;
        valid = read_number(cursor, 1, 12, &change.month) && qn_number_take_char(cursor, '.') &&
                read_number(cursor, 1, 5, &change.week) && qn_number_take_char(cursor, '.') &&
                read_number(cursor, 0, 6, &change.day);
    } else if (qn_number_take_char(cursor, 'J')) {
        change.kind = QN_ZONE_DAY_JULIAN;
        valid = read_number(cursor, 1, 365, &change.day);
    } else {
        change.kind = QN_ZONE_DAY_OF_YEAR;
        valid = read_number(cursor, 0, 365, &change.day);
    }
    if (valid && qn_number_take_char(cursor, '/')) {
        valid = read_time(cursor, &change.time_s);
    }
    *ret_change = change;
    return valid;
}

static bool read_changes(struct qn_cursor *cursor, struct qn_zone_rule *rule)
{
    if (cursor->at == cursor->end) {
        rule->summer_begins = (struct qn_zone_change){
            .kind = QN_ZONE_DAY_OF_MONTH, .month = 3, .week = 2, .time_s = DEFAULT_TIME_S};
        rule->summer_ends = (struct qn_zone_change){
            .kind = QN_ZONE_DAY_OF_MONTH, .month = 11, .week = 1, .time_s = DEFAULT_TIME_S};
        return true;
    }
    return qn_number_take_char(cursor, ',') && read_change(cursor, &rule->summer_begins) &&
           qn_number_take_char(cursor, ',') && read_change(cursor, &rule->summer_ends) &&
           cursor->at == cursor->end;
}

bool qn_zone_rule_parse(struct qn_bytes text, struct qn_zone_rule *ret_rule)
{
    struct qn_zone_rule rule = {0};
    struct qn_cursor cursor = {.at = text.data, .end = (const char *)text.data + text.size};
    if (!skip_name(&cursor) || !read_offset(&cursor, &rule.standard_s)) {
        return false;
    }
    if (cursor.at < cursor.end) {
        rule.changes = true;
        rule.summer_s = rule.standard_s + QN_CIVIL_HOUR_S;
        if (!skip_name(&cursor)) {
            return false;
        }
        if (cursor.at < cursor.end && *cursor.at != ',' && !read_offset(&cursor, &rule.summer_s)) {
            return false;
        }
        if (!read_changes(&cursor, &rule)) {
            return false;
        }
    }
    *ret_rule = rule;
    return true;
}

/* The day of the change in its year, counted from 1970-01-01. */
static int64_t day_of_change(const struct qn_zone_change *change, int64_t year)
{
    struct qn_civil first = {.year = year, .month = 1, .day = 1};
    if (change->kind == QN_ZONE_DAY_OF_MONTH) {
        first.month = change->month;
    }
    int64_t day = qn_civil_to_seconds(&first) / QN_CIVIL_DAY_S;
    if (change->kind == QN_ZONE_DAY_OF_YEAR) {
        return day + change->day;
    }
    if (change->kind == QN_ZONE_DAY_JULIAN) {
        bool after_leap_day = change->day >= 60 && qn_civil_days_of_month(year, 2) == 29;
        return day + change->day - 1 + (after_leap_day ? 1 : 0);
    }
    int of_month = (change->day - qn_civil_weekday(day) + 7) % 7 + 7 * (change->week - 1);
    while (of_month >= qn_civil_days_of_month(year, change->month)) {
        of_month -= 7;
    }
    return day + of_month;
}

int32_t qn_zone_rule_offset(const struct qn_zone_rule *rule, int64_t at_s)
{
    if (!rule->changes) {
        return rule->standard_s;
    }
    struct qn_civil civil;
    qn_civil_from_seconds(at_s, &civil);
    int64_t last_s = INT64_MIN;
    int32_t offset_s = rule->standard_s;
    for (int64_t year = civil.year - 1; year <= civil.year + 1; year++) {
        int64_t ends_s = day_of_change(&rule->summer_ends, year) * QN_CIVIL_DAY_S +
                         rule->summer_ends.time_s - rule->summer_s;
        if (ends_s <= at_s && ends_s > last_s) {
            last_s = ends_s;
            offset_s = rule->standard_s;
        }
        int64_t begins_s = day_of_change(&rule->summer_begins, year) * QN_CIVIL_DAY_S +
                           rule->summer_begins.time_s - rule->standard_s;
        /* Where summer ends at the moment when the next one begins, it never ends. */
        if (begins_s <= at_s && begins_s >= last_s) {
            last_s = begins_s;
            offset_s = rule->summer_s;
        }
    }
    return offset_s;
}
