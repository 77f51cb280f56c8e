/* SPDX-License-Identifier: MIT */
/* zone_rule.h - the rule of a time zone for all years to come, as POSIX writes it in TZ and a TZif
 * file in its last line: "CET-1CEST,M3.5.0,M10.5.0/3". */
#ifndef QN_BASE_TIME_ZONE_RULE_H
#define QN_BASE_TIME_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/view.h"

enum qn_zone_day_kind {
    QN_ZONE_DAY_JULIAN = 1, /* Jn: 1-365, February 29 is never counted */
    QN_ZONE_DAY_OF_YEAR,    /* n: 0-365 */
    QN_ZONE_DAY_OF_MONTH    /* Mm.w.d: the w-th weekday d of month m, 5: the last one */
};

/* When, each year, the time changes. */
struct qn_zone_change {
    enum qn_zone_day_kind kind;
    int day;
    int week;
    int month;
    int32_t time_s; /* since that midnight: up to a week before or after it */
};

struct qn_zone_rule {
    int32_t standard_s; /* seconds east of UTC */
    int32_t summer_s;
    bool changes; /* false: standard time all year */
    struct qn_zone_change summer_begins;
    struct qn_zone_change summer_ends;
};

/* False: it is not such a rule. Names are skipped; the changes may be missing as in "EST5EDT", then
 * they are those of the United States. */
bool qn_zone_rule_parse(struct qn_bytes text, struct qn_zone_rule *ret_rule);
/* Seconds east of UTC at this moment. */
int32_t qn_zone_rule_offset(const struct qn_zone_rule *rule, int64_t at_s);

#endif
