/* SPDX-License-Identifier: MIT */
/* clock.h - where all time comes from: the system's clocks, or one that tests turn.
 *
 * wall_ms is the time of the day (due times, deadlines); it may jump. boot_ms counts since the
 * kernel started, suspend included, and never jumps: leases and time-outs are measured with it. */
#ifndef QN_BASE_CLOCK_H
#define QN_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define QN_NS_PER_MS INT64_C(1000000)

struct quern_clock {
    _Atomic int64_t wall_ms; /* of a turned clock; the system's has is_system */
    _Atomic int64_t boot_ms;
    int is_system;
};

const struct quern_clock *qn_clock_system(void);
void qn_clock_init(struct quern_clock *clock, int64_t wall_ms, int64_t boot_ms);
int64_t qn_clock_wall_ms(const struct quern_clock *clock);
int64_t qn_clock_boot_ms(const struct quern_clock *clock);
/* Both clocks at one moment. If they were read separately, a thread that stood still between the
 * two reads, or a wall clock that was set then, would make their difference wrong. */
void qn_clock_both_ms(const struct quern_clock *clock, int64_t *ret_wall_ms, int64_t *ret_boot_ms);
/* How long until this moment of the wall clock, exact to the system's resolution; cut to a year. */
int64_t qn_clock_until_wall_ns(const struct quern_clock *clock, int64_t at_ms);
/* The moment that comes in this many us, in ms: rounded up, but for less than a quarter of one. So
 * a reply that arrives slightly late does not cost a whole millisecond. */
int64_t qn_clock_wall_in_us(const struct quern_clock *clock, int64_t us);
/* Real time for measuring durations, never turned: CLOCK_MONOTONIC in ns. */
int64_t qn_clock_mono_ns(void);
/* What a process has used of the CPU, in ms; -1: it is gone. */
int64_t qn_clock_cpu_ms(pid_t pid);

#endif
