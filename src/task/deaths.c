/* SPDX-License-Identifier: MIT */
/* deaths.c - the rules of deaths.h.
 *
 * They were simulated before they were implemented. A conviction needs a lone death, since with
 * several runs the guilty one is unknown, and a run of the same queue that ended well on the same
 * host since the task's first death, since where nothing ends well the program is broken and not
 * the task. */
#include "task/deaths.h"

#include "base/bug.h"

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A good end at a moment in the future happened before the clock was set back: it proves nothing
 * about the present. */
static bool is_poison(const struct qn_deaths *deaths, const struct qn_death *death)
{
    return death->is_lone && deaths->charges >= QN_POISON_CHARGES &&
           deaths->lone >= QN_POISON_LONE && death->ok_at_ms > deaths->first_at_ms &&
           death->ok_at_ms <= death->now_ms;
}

/* If the death was detected late, no later than when a heartbeat is missing. */
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
    /* A good end that happened before, but is dated in the future, was before this death. */
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
    bool endangers = (!death->is_child && !QN_BUG(PARENT_NOT_ISOLATED)) || QN_BUG(CHILD_ISOLATED);
    if (endangers && deaths->level < QN_ALONE_CHARGES) {
        deaths->level++;
    }
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
