/* SPDX-License-Identifier: MIT */
/* civil.c - the Gregorian calendar in whole numbers.
 *
 * A year is counted from March 1, so that the leap day is its last one, and 400 years, an era, have
 * the same number of days. Nothing here can fail. */
#include "base/time/civil.h"

#include <stdbool.h>

enum {
    ERA_YEARS = 400,
    ERA_DAYS = 146097,
    EPOCH_DAYS = 719468 /* from March 1 of the year 0 to 1970-01-01 */
};

int64_t qn_civil_floor_div(int64_t number, int64_t divisor)
{
    int64_t quotient = number / divisor;
    return number % divisor < 0 ? quotient - 1 : quotient;
}

int qn_civil_days_of_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

int qn_civil_weekday(int64_t day)
{
    int64_t from_sunday = day + 4; /* 1970-01-01 was a Thursday */
    return (int)(from_sunday - 7 * qn_civil_floor_div(from_sunday, 7));
}

void qn_civil_from_seconds(int64_t seconds, struct qn_civil *ret_civil)
{
    int64_t day = qn_civil_floor_div(seconds, QN_CIVIL_DAY_S);
    int of_day = (int)(seconds - day * QN_CIVIL_DAY_S);
    int64_t since = day + EPOCH_DAYS;
    int64_t era = qn_civil_floor_div(since, ERA_DAYS);
    int of_era = (int)(since - era * ERA_DAYS);
    /* Without the leap days before it, a year of the era has 365 days. */
    int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * year + year / 4 - year / 100);
    int month = (5 * of_year + 2) / 153; /* 0: March; five months have 153 days */
    ret_civil->month = month < 10 ? month + 3 : month - 9;
    ret_civil->day = of_year - (153 * month + 2) / 5 + 1;
    ret_civil->year = era * ERA_YEARS + year + (ret_civil->month <= 2 ? 1 : 0);
    ret_civil->hour = of_day / QN_CIVIL_HOUR_S;
    ret_civil->minute = of_day / 60 % 60;
    ret_civil->second = of_day % 60;
    ret_civil->weekday = qn_civil_weekday(day);
}

/* The days from 1970-01-01 to the first of this month; any month. */
static int64_t days_to_month(int64_t year, int64_t month)
{
    int64_t from_march = year * 12 + month - 3;
    int64_t march_year = qn_civil_floor_div(from_march, 12);
    int of_year = (int)(from_march - march_year * 12);
    int64_t era = qn_civil_floor_div(march_year, ERA_YEARS);
    int of_era = (int)(march_year - era * ERA_YEARS);
    int days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * of_year + 2) / 5;
    return era * ERA_DAYS + days - EPOCH_DAYS;
}

int64_t qn_civil_to_seconds(const struct qn_civil *civil)
{
    int64_t days = days_to_month(civil->year, civil->month) + civil->day - 1;
    int64_t of_day = (int64_t)civil->hour * QN_CIVIL_HOUR_S +
                     (int64_t)civil->minute * QN_CIVIL_MINUTE_S + civil->second;
    return days * QN_CIVIL_DAY_S + of_day;
}
