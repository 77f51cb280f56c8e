/* SPDX-License-Identifier: MIT */
/* cron.h - cron expressions as robfig/cron v3 and therefore asynq's scheduler understand them: the
 * expression as sets of allowed values, and the next moment that fits. No clock, no I/O; nothing is
 * allocated.
 *
 * The text is five fields (minute, hour, day of month, month, day of week), or six with a second in
 * front; or @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly; or "@every 1h30m".
 * "CRON_TZ=Europe/Berlin " or "TZ=..." in front names its time zone. docs/internals/cron.md
 * describes the corners: days, daylight saving, differences from Go. */
#ifndef QN_TASK_CRON_CRON_H
#define QN_TASK_CRON_CRON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time/zones.h"
#include "quern/status.h"

enum {
    QN_CRON_SECONDS = 1 /* six fields, the first one is the second */
};

/* Filled by qn_cron_parse; read by qn_cron_next. A plain value: it may be copied. */
struct qn_cron {
    uint64_t seconds; /* bit n: n is allowed */
    uint64_t minutes;
    uint64_t hours;
    uint64_t days; /* of the month; with QN_CRON_STAR */
    uint64_t months;
    uint64_t weekdays;                    /* bit 0: Sunday; with QN_CRON_STAR */
    int64_t every_s;                      /* "@every": the interval; 0: not such a one */
    char zone[QN_ZONE_NAME_SIZE_MAX + 1]; /* "": the expression names none */
};

/* QUERN_E_INVALID: the error names the field, its fault and what is allowed. That the zone exists
 * is not checked, only that it can be a name: qn_zones_get finds it. */
QUERN_NODISCARD quern_status qn_cron_parse(const char *text, unsigned flags,
                                           struct qn_cron *ret_cron, quern_error *err);
/* The first moment after `after_ms`, a whole second; `zone` is that of the expression or, where it
 * names none, the scheduler's. False: there is none within five years (as of February 30), or
 * before 1684 or after 2255, where moments of quern end. */
bool qn_cron_next(const struct qn_cron *cron, const struct qn_zone *zone, int64_t after_ms,
                  int64_t *ret_next_ms);

#endif
