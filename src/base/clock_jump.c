/* SPDX-License-Identifier: MIT */
/* clock_jump.c - see clock_jump.h. */
#include "base/clock_jump.h"

void qn_clock_jump_note(struct qn_clock_jump *jump, int64_t boot_ms, int64_t shown_ms,
                        int64_t jump_ms)
{
    int64_t offset_ms = shown_ms - boot_ms;
    int64_t change_ms = offset_ms - jump->offset_ms;
    bool jumps = jump->seen && (change_ms > jump_ms || change_ms < -jump_ms);
    if (jumps) {
        jump->jumped = true;
        jump->jumped_at_boot_ms = boot_ms;
    }
    if (jumps || !jump->seen) {
        jump->offset_ms = offset_ms;
        jump->seen = true;
    }
}

void qn_clock_jump_note_ahead(struct qn_clock_jump *jump, int64_t boot_ms, int64_t shown_ms,
                              int64_t jump_ms)
{
    int64_t offset_ms = shown_ms - boot_ms;
    if (jump->seen && offset_ms > jump->offset_ms + jump_ms) {
        jump->jumped = true;
        jump->jumped_at_boot_ms = boot_ms;
    }
    jump->offset_ms = offset_ms;
    jump->seen = true;
}

bool qn_clock_jump_is_recent(const struct qn_clock_jump *jump, int64_t boot_ms, int64_t within_ms)
{
    return jump->jumped && boot_ms - jump->jumped_at_boot_ms < within_ms;
}
