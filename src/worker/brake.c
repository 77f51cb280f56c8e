/* SPDX-License-Identifier: MIT */
/* brake.c - the state machine of brake.h. */
#include "worker/brake.h"

#include "base/limits.h"

#define NS_PER_MS INT64_C(1000000)

static void wait_for_probe(struct qn_brake *brake, int64_t delay_ms, int64_t now_mono_ns)
{
    brake->state = QN_BRAKE_WAITING;
    brake->delay_ms = delay_ms < QN_BRAKE_MS_MAX ? delay_ms : QN_BRAKE_MS_MAX;
    brake->until_mono_ns = now_mono_ns + brake->delay_ms * NS_PER_MS;
    brake->probe_leased = false;
}

bool qn_brake_note(struct qn_brake *brake, uint32_t streak, size_t leased, size_t held,
                   int64_t now_mono_ns)
{
    if (streak < QN_BRAKE_CRASHES) {
        bool released = brake->state != QN_BRAKE_OFF;
        *brake = (struct qn_brake){0};
        return released;
    }
    switch (brake->state) {
    case QN_BRAKE_OFF:
        wait_for_probe(brake, QN_BRAKE_MS_MIN, now_mono_ns);
        return true;
    case QN_BRAKE_WAITING:
        return false;
    case QN_BRAKE_PROBING:
        if (leased > 0) {
            brake->probe_leased = true;
        } else if (brake->probe_leased && held == 0) {
            wait_for_probe(brake, brake->delay_ms * 2, now_mono_ns);
            return true;
        }
        return false;
    }
    return false;
}

uint32_t qn_brake_room(struct qn_brake *brake, uint32_t room, size_t held, int64_t now_mono_ns)
{
    if (brake->state == QN_BRAKE_OFF) {
        return room;
    }
    if (brake->state == QN_BRAKE_WAITING) {
        if (now_mono_ns < brake->until_mono_ns) {
            return 0;
        }
        brake->state = QN_BRAKE_PROBING;
    }
    return room > 0 && held == 0 && !brake->probe_leased ? 1 : 0;
}
