/* SPDX-License-Identifier: MIT */
/* clock_jump.h - detects that a clock with the time of day was set.
 *
 * The watched clock is compared with our clock since boot, which cannot be set: the difference of
 * the two, the offset, stays the same until one of them is set. */
#ifndef QN_BASE_CLOCK_JUMP_H
#define QN_BASE_CLOCK_JUMP_H

#include <stdbool.h>
#include <stdint.h>

struct qn_clock_jump {
    bool seen; /* there is an offset */
    bool jumped;
    int64_t offset_ms;
    int64_t jumped_at_boot_ms; /* the last time */
};

/* The clock shows shown_ms at boot_ms. It has jumped when its offset is another one by more than
 * jump_ms, in either direction. The offset is kept from the first look or the last jump on, so a
 * slow drift becomes a jump in the end. */
void qn_clock_jump_note(struct qn_clock_jump *jump, int64_t boot_ms, int64_t shown_ms,
                        int64_t jump_ms);
/* The same, but only a jump ahead counts, and the offset follows the clock at each look. */
void qn_clock_jump_note_ahead(struct qn_clock_jump *jump, int64_t boot_ms, int64_t shown_ms,
                              int64_t jump_ms);
/* It has jumped less than this long ago. */
bool qn_clock_jump_is_recent(const struct qn_clock_jump *jump, int64_t boot_ms, int64_t within_ms);

#endif
