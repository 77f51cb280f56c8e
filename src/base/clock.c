/* SPDX-License-Identifier: MIT */
/* clock.c - the system's clocks, and clocks that tests turn.
 *
 * A turned clock holds its two times as atomics, so any thread may turn it while others read. Its
 * lease clock starts at the time it was made with, so that a clock made for a later moment is later
 * in both. The system's clocks cannot fail on Linux, hence no errors here but out-of-memory. */
#include "base/clock.h"

#include <time.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/number.h"
#include "quern/testing.h"

#define BOTH_MS 10 /* between two readings of one moment at most */
#define BOTH_TRIES 10
#define UNTIL_MS_MAX (INT64_C(366) * 24 * 3600 * 1000)

static const struct quern_clock system_clock = {.is_system = 1};

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    int failed = clock_gettime(id, &now);
    QN_ASSERT(failed == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const struct quern_clock *qn_clock_system(void)
{
    return &system_clock;
}

void qn_clock_init(struct quern_clock *clock, int64_t wall_ms, int64_t boot_ms)
{
    atomic_init(&clock->wall_ms, wall_ms);
    atomic_init(&clock->boot_ms, boot_ms);
    clock->is_system = 0;
}

int64_t qn_clock_wall_ms(const struct quern_clock *clock)
{
    return clock->is_system ? read_ns(CLOCK_REALTIME) / 1000000 : atomic_load(&clock->wall_ms);
}

int64_t qn_clock_until_wall_ns(const struct quern_clock *clock, int64_t at_ms)
{
    int64_t left_ms = at_ms - qn_clock_wall_ms(clock);
    if (left_ms > UNTIL_MS_MAX) {
        return UNTIL_MS_MAX * QN_NS_PER_MS;
    }
    if (left_ms < -UNTIL_MS_MAX) {
        return -UNTIL_MS_MAX * QN_NS_PER_MS;
    }
    return clock->is_system ? at_ms * QN_NS_PER_MS - read_ns(CLOCK_REALTIME)
                            : left_ms * QN_NS_PER_MS;
}

int64_t qn_clock_wall_in_us(const struct quern_clock *clock, int64_t us)
{
    int64_t now_us =
        clock->is_system ? read_ns(CLOCK_REALTIME) / 1000 : atomic_load(&clock->wall_ms) * 1000;
    return (now_us + us + 749) / 1000;
}

int64_t qn_clock_boot_ms(const struct quern_clock *clock)
{
    return clock->is_system ? read_ns(CLOCK_BOOTTIME) / 1000000 : atomic_load(&clock->boot_ms);
}

void qn_clock_both_ms(const struct quern_clock *clock, int64_t *ret_wall_ms, int64_t *ret_boot_ms)
{
    int64_t before_ms = 0;
    int tries = 0;
    do {
        before_ms = qn_clock_boot_ms(clock);
        *ret_wall_ms = qn_clock_wall_ms(clock);
        *ret_boot_ms = qn_clock_boot_ms(clock);
        tries++;
    } while (*ret_boot_ms - before_ms > BOTH_MS && tries < BOTH_TRIES);
}

int64_t qn_clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t qn_clock_cpu_ms(pid_t pid)
{
    clockid_t id;
    struct timespec used;
    return clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &used) == 0
               ? (int64_t)used.tv_sec * 1000 + used.tv_nsec / QN_NS_PER_MS
               : -1;
}

quern_status quern_clock_new(int64_t at_ms, quern_clock **ret_clock, quern_error *err)
{
    if (ret_clock == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "ret_clock: must not be NULL");
    }
    if (at_ms < 0) {
        return qn_error_set(err, QUERN_E_INVALID, "at_ms: must not be negative");
    }
    quern_clock *clock = qn_alloc(sizeof *clock);
    if (clock == NULL) {
        return qn_error_nomem(err);
    }
    qn_clock_init(clock, at_ms, at_ms);
    *ret_clock = clock;
    return QUERN_OK;
}

void quern_clock_free(quern_clock *clock)
{
    qn_free(clock);
}

/* Steps of more than the longest duration are cut, so that times cannot overflow. */
static int64_t bounded_step(int64_t ms)
{
    if (ms > QN_DURATION_MS_MAX) {
        return QN_DURATION_MS_MAX;
    }
    return ms < -QN_DURATION_MS_MAX ? -QN_DURATION_MS_MAX : ms;
}

void quern_clock_advance(quern_clock *clock, int64_t ms)
{
    if (clock == NULL || ms <= 0) {
        return;
    }
    int64_t step = bounded_step(ms);
    (void)atomic_fetch_add(&clock->boot_ms, step);
    (void)atomic_fetch_add(&clock->wall_ms, step);
}

void quern_clock_jump(quern_clock *clock, int64_t ms)
{
    if (clock == NULL) {
        return;
    }
    (void)atomic_fetch_add(&clock->wall_ms, bounded_step(ms));
}
