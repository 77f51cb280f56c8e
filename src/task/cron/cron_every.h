/* SPDX-License-Identifier: MIT */
/* cron_every.h - the interval of "@every": a duration of Go in whole seconds. */
#ifndef QN_TASK_CRON_CRON_EVERY_H
#define QN_TASK_CRON_CRON_EVERY_H

#include <stdint.h>

#include "quern/status.h"

/* As Go's time.ParseDuration: "1h30m", "1.5h", "-2s", "0", with the units ns, us, ms, s, m and h.
 * Fractions of a second are cut off; less than a second, also below 0, is one second. */
QUERN_NODISCARD quern_status qn_cron_every_parse(const char *text, int64_t *ret_every_s,
                                                 quern_error *err);

#endif
