/* SPDX-License-Identifier: MIT */
/* civil.h - the Gregorian calendar, without time zones: seconds since 1970 as date and time of the
 * day, and back. No clock. */
#ifndef QN_BASE_TIME_CIVIL_H
#define QN_BASE_TIME_CIVIL_H

#include <stdint.h>

#define QN_CIVIL_MINUTE_S 60
#define QN_CIVIL_HOUR_S 3600
#define QN_CIVIL_DAY_S 86400

struct qn_civil {
    int64_t year;
    int month; /* 1-12 */
    int day;   /* 1-31 */
    int hour;
    int minute;
    int second;
    int weekday; /* 0: Sunday */
};

/* For seconds of a billion years around 1970. */
void qn_civil_from_seconds(int64_t seconds, struct qn_civil *ret_civil);
/* Ignores the day of the week. What exceeds its range counts on: month 13 is January of the next
 * year, day 31 of April is May 1, hour -1 is 23:00 of the day before. */
int64_t qn_civil_to_seconds(const struct qn_civil *civil);
int qn_civil_days_of_month(int64_t year, int month);
/* Of a day counted from 1970-01-01; 0: Sunday. */
int qn_civil_weekday(int64_t day);
/* Rounded down, also below 0. The divisor is above 0. */
int64_t qn_civil_floor_div(int64_t number, int64_t divisor);

#endif
