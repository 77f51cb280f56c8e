/* SPDX-License-Identifier: MIT */
/* plan.h - which ticks of an entry are due, and which of them are sent: the misfire policy. Pure:
 * no clock, no I/O; nothing is allocated.
 *
 * A tick is a moment of the entry's cron expression, in whole seconds. Due are the ticks behind the
 * last one, up to now. A due tick is on time until `late_ms` have passed, then it is missed. */
#ifndef QN_SCHEDULE_PLAN_H
#define QN_SCHEDULE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time/zone.h"
#include "broker/schedule/schedule.h"
#include "task/cron/cron.h"

#define QN_PLAN_TICKS_MAX QN_MISFIRE_MAX /* of one plan: each is a task */
#define QN_PLAN_SKIPPED_MAX 10000        /* so far skipped ticks are counted */

struct qn_plan_terms {
    const struct qn_cron *cron;
    const struct qn_zone *zone; /* of the expression, else of the scheduler */
    int64_t created_s;          /* "@every" counts from here */
    int64_t late_ms;
    int64_t catch_up; /* policy: 0 skip, 1 once, else all, up to so many */
    bool paused;
    int64_t last_s; /* the last tick that was sent or skipped */
};

struct qn_plan {
    int64_t ticks[QN_PLAN_TICKS_MAX]; /* to be sent, oldest first */
    size_t count;
    size_t missed;     /* so many of them, the first ones, are not on time */
    size_t skipped;    /* ticks before the first of them, or all if there is none */
    bool skipped_more; /* there are more than QN_PLAN_SKIPPED_MAX, which `skipped` is */
    bool more;         /* not all that is due had room: plan again, from last_s */
    int64_t last_s;    /* the last tick when this plan is done; as before: nothing is due */
    bool has_next;
    int64_t next_s; /* the tick behind last_s */
};

/* Sends all ticks that are on time. If these are fewer than `catch_up`, missed ones are sent too:
 * the newest, so that it is `catch_up` of them all, or all that are due. The rest is skipped. A
 * paused entry has no due tick and no next one. */
void qn_plan_make(const struct qn_plan_terms *terms, int64_t now_ms, struct qn_plan *ret_plan);
/* How long the task of a tick is delayed: at least 0 and less than `jitter_ms`; 0 for 0. The same
 * wherever it is calculated. */
int64_t qn_plan_jitter_ms(const char *name, int64_t tick_s, int64_t jitter_ms);

#endif
