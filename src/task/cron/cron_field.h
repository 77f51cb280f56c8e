/* SPDX-License-Identifier: MIT */
/* cron_field.h - one field of a cron expression: "*", "5", "1-5", "mon,wed", "10-40/15". */
#ifndef QN_TASK_CRON_CRON_FIELD_H
#define QN_TASK_CRON_CRON_FIELD_H

#include <stdint.h>

#include "quern/status.h"

/* Set if the field has a "*" or "?" that is not thinned out by a step. */
#define QN_CRON_STAR (UINT64_C(1) << 63)

enum qn_cron_place {
    QN_CRON_PLACE_SECOND = 0,
    QN_CRON_PLACE_MINUTE,
    QN_CRON_PLACE_HOUR,
    QN_CRON_PLACE_DAY,
    QN_CRON_PLACE_MONTH,
    QN_CRON_PLACE_WEEKDAY
};
#define QN_CRON_PLACES 6

/* "day of month". */
const char *qn_cron_field_name(enum qn_cron_place place);
/* The bits of the allowed values. Writes to the text. */
QUERN_NODISCARD quern_status qn_cron_field_parse(char *text, enum qn_cron_place place,
                                                 uint64_t *ret_bits, quern_error *err);

#endif
