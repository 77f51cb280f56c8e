/* SPDX-License-Identifier: MIT */
/* delay_clock.h - delays are kept on the clock since boot, and dated by the wall clock. */
#ifndef QN_BROKER_SQLITE_RUN_DELAY_CLOCK_H
#define QN_BROKER_SQLITE_RUN_DELAY_CLOCK_H

#include "broker/sqlite/sqlite.h"

/* A delay that ends later than this on the boot clock has not ended, regardless of its date. If its
 * date is wrong, it is corrected soon. */
#define QN_DELAY_CLOCK_TOLERANCE_MS 250

/* How far the wall clock, which is read, is ahead of the boot clock; 0: delays are not kept on that
 * (upkeep/redate.c). */
int64_t qn_delay_clock_shift_ms(struct qn_sqlite *self, int64_t *ret_wall_ms);
/* The same for two moments that were read together (qn_clock_both_ms). */
int64_t qn_delay_clock_shift_of(struct qn_sqlite *self, int64_t wall_ms, int64_t boot_ms);

#endif
