/* SPDX-License-Identifier: MIT */
/* delay_clock.c - how far the wall clock is ahead of the clock since boot, on which delays are
 * kept.
 *
 * Enqueueing and ending a run read it, and so detect first that the wall clock was set: then the
 * delays that are stored already are checked at once (upkeep/redate.c). */
#include "broker/sqlite/run/delay_clock.h"

#include "base/bug.h"

int64_t qn_delay_clock_shift_ms(struct qn_sqlite *self, int64_t *ret_wall_ms)
{
    int64_t boot_ms = 0;
    qn_clock_both_ms(self->base.clock, ret_wall_ms, &boot_ms);
    return qn_delay_clock_shift_of(self, *ret_wall_ms, boot_ms);
}

int64_t qn_delay_clock_shift_of(struct qn_sqlite *self, int64_t wall_ms, int64_t boot_ms)
{
    if (self->unsafe_fs || QN_BUG(DELAY_ON_WALL)) {
        return 0;
    }
    int64_t shift_ms = wall_ms - boot_ms;
    int64_t off_ms = shift_ms - atomic_load(&self->dated_shift_ms);
    if (off_ms > QN_DELAY_CLOCK_TOLERANCE_MS / 2 || off_ms < -QN_DELAY_CLOCK_TOLERANCE_MS / 2) {
        atomic_store(&self->redate_at_mono_ns, 0); /* dates written now may be wrong soon */
    }
    return shift_ms;
}
