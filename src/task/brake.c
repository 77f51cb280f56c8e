/* SPDX-License-Identifier: MIT */
/* brake.c - when a queue whose runs die on one host is tried again there. */
#include "task/brake.h"

#include "task/limits.h"

bool qn_brake_is_on(const struct qn_brake *brake)
{
    return brake->streak >= QN_BRAKE_DEATHS;
}

static int64_t delay_ms(int64_t probes)
{
    int64_t doublings = probes - QN_BRAKE_EVEN_PROBES;
    if (doublings <= 0) {
        return QN_BRAKE_MS_MIN;
    }
    int64_t delay = doublings < 16 ? QN_BRAKE_MS_MIN << doublings : QN_BRAKE_MS_MAX;
    return delay < QN_BRAKE_MS_MAX ? delay : QN_BRAKE_MS_MAX;
}

void qn_brake_death(struct qn_brake *brake, bool is_probe, int64_t now_ms)
{
    brake->streak++;
    if (is_probe) {
        brake->probes++;
        brake->probe_token = 0;
    }
    if (qn_brake_is_on(brake)) {
        brake->probe_at_ms = now_ms + delay_ms(brake->probes);
    }
}

bool qn_brake_release(struct qn_brake *brake, int64_t now_ms)
{
    bool had_deaths = brake->streak > 0;
    bool is_old = now_ms - brake->ok_at_ms >= QN_OK_NOTE_MS || now_ms < brake->ok_at_ms;
    if (!had_deaths && !is_old) {
        return false;
    }
    *brake = (struct qn_brake){.ok_at_ms = now_ms};
    return true;
}

int64_t qn_brake_wait_ms(const struct qn_brake *brake, int64_t now_ms)
{
    int64_t wait_ms = brake->probe_at_ms - now_ms;
    /* Longer than the longest delay it is only where the clock was turned back. */
    return wait_ms > 0 && wait_ms <= QN_BRAKE_MS_MAX ? wait_ms : 0;
}

enum qn_probe qn_brake_choice(const struct qn_brake *brake)
{
    switch (brake->probes % 3) {
    case 0:
        return QN_PROBE_NEWEST;
    case 1:
        return QN_PROBE_OLDEST;
    default:
        return QN_PROBE_CHARGED;
    }
}
