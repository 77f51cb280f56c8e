/* SPDX-License-Identifier: MIT */
/* deaths.c - the rules of deaths.h.
 *
 * They were simulated before they were written down. A conviction wants a lone death, since of
 * several runs nobody knows which one was it, and a run of the same queue that ended well on the
 * same host since the task's first death, since where nothing ends well the program is broken and
 * not the task. */
#include "task/deaths.h"

#include "base/bug.h"

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What ended well at a moment that is still to come did so before the clock was set back: that
 * proves nothing of today. */
static bool is_poison(const struct qn_deaths *deaths, const struct qn_death *death)
{
    return death->is_lone && deaths->charges >= QN_POISON_CHARGES &&
           deaths->lone >= QN_POISON_LONE && death->ok_at_ms > deaths->first_at_ms &&
           death->ok_at_ms <= death->now_ms;
}

/* Where nobody saw the death for long, no longer than until a heartbeat is missing. */
static int64_t lived_ms(const struct qn_death *death, int64_t started_at_ms)
{
    int64_t until_ms = death->now_ms;
    if (death->seen_at_ms > 0 && death->seen_at_ms < until_ms - QN_HEARTBEAT_MS &&
        !QN_BUG(LIFE_UNTIL_SEEN)) {
        until_ms = death->seen_at_ms + QN_HEARTBEAT_MS;
    }
    return longer(until_ms - started_at_ms, 0);
}

enum qn_death_verdict qn_deaths_charge(struct qn_deaths *deaths, const struct qn_death *death,
                                       int64_t *ret_delay_ms)
{
    int64_t started_at_ms =
        death->started_at_ms < death->now_ms ? death->started_at_ms : death->now_ms;
    /* What ended well before, and seems to be still to come, was before this death. */
    int64_t first_at_ms = death->ok_at_ms > death->now_ms ? death->ok_at_ms : started_at_ms;
    bool is_forgotten =
        deaths->charges > 0 && death->now_ms - deaths->first_at_ms > QN_CHARGE_WINDOW_MS;
    if (deaths->charges <= 0 || is_forgotten) {
        *deaths = (struct qn_deaths){.first_at_ms = first_at_ms};
    } else if (deaths->first_at_ms > death->now_ms) { /* the clock was set back */
        deaths->first_at_ms = started_at_ms;
    }
    deaths->charges++;
    deaths->lone += death->is_lone ? 1 : 0;
    deaths->life_ms = longer(deaths->life_ms, lived_ms(death, started_at_ms));
    deaths->died_at_ms = death->now_ms;
    *ret_delay_ms = 0;
    if (is_poison(deaths, death)) {
        return QN_DEATH_POISON;
    }
    if (death->is_spent) {
        return QN_DEATH_SPENT;
    }
    if (deaths->charges == 1) {
        return QN_DEATH_BACK;
    }
    *ret_delay_ms = QN_CHARGED_WAIT_MS;
    return QN_DEATH_RETRY;
}

bool qn_isolation_is_solo(const struct qn_isolation *isolation, int64_t charges)
{
    if (isolation->slots <= 1 || charges <= 0) {
        return false;
    }
    return charges >= QN_ALONE_CHARGES || isolation->slots >> charges <= 1;
}

/* A task charged c times is also one that was charged less often. */
static int64_t levels_of(int64_t charges)
{
    return charges < QN_ALONE_CHARGES - 1 ? charges : QN_ALONE_CHARGES - 1;
}

uint32_t qn_isolation_room(const struct qn_isolation *isolation, int64_t charges)
{
    uint32_t room = UINT32_MAX;
    if (isolation->slots <= 1) {
        return room;
    }
    for (int64_t c = 1; c <= levels_of(charges); c++) {
        uint32_t company = isolation->slots >> c;
        uint32_t held = isolation->held[c - 1];
        uint32_t left = company > held ? company - held : 0;
        room = left < room ? left : room;
    }
    return room;
}

void qn_isolation_add(struct qn_isolation *isolation, int64_t charges)
{
    for (int64_t c = 1; c <= levels_of(charges); c++) {
        isolation->held[c - 1]++;
    }
}

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
