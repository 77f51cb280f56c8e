/* SPDX-License-Identifier: MIT */
/* limit.h - the rules of limits: how many tasks may run at a time, and how many may start in a
 * period.
 *
 * A limit belongs to a queue, to a type or a key in it, or to each of its types or keys that has
 * none of its own. A limit of a rate is a sliding window, or with a burst a token bucket. Its use
 * is counted in integers below 2^53, so that a script of Lua counts the same. Pure: the caller
 * stores the use, and passes the wall clock.
 *
 * A sliding window is cut into at most QN_LIMIT_SLOTS slots. A start counts until the slot it
 * fell into has left the window as a whole. So no window of this length, wherever it begins, has
 * more starts than the limit allows, and one that is used up gives at least 97 % of it.
 *
 * A clock that is turned back lets nothing start early: what was used stays used from then on. One
 * that is turned forward lets at most one full window or bucket start. */
#ifndef QN_TASK_LIMIT_H
#define QN_TASK_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

#define QN_LIMIT_COUNT_MAX INT64_C(1000000)
#define QN_LIMIT_PERIOD_MS_MAX (31 * 24 * 3600 * INT64_C(1000))
#define QN_LIMIT_EACH "*"        /* the name of each type or key that has no limit of its own */
#define QN_LIMIT_SLOTS 64        /* of a window; one more is kept, for the part that has left it */
#define QN_LIMIT_TEXT_SIZE 96    /* of a formatted limit */
#define QN_LIMIT_LANES_MAX 512   /* keys and types of a queue that one lease looks at */
#define QN_LIMIT_LOOK_MS 20      /* where there were more of them: until the next look */
#define QN_LIMIT_SORT_MAX 512    /* SQLite: tasks that get their lanes in one step */
#define QN_LIMIT_TOKEN_MS 100    /* Redis: to the next look where Go may hold all tokens */
#define QN_LIMIT_ASIDE_S 600     /* Redis: until Go may get a task that waits for a limit */
#define QN_LIMIT_IDLE_MS 5000    /* Redis: a lease that found nothing that may run counts so long */
#define QN_LIMIT_LANE_SEP '\x1f' /* between key and type in the name of a lane; in no name */

struct qn_limit {
    int64_t count;     /* that run at a time (0: none may), or that start in a period */
    int64_t period_ms; /* 0: a limit of tasks that run; else of starts */
    int64_t burst;     /* of starts: a bucket of this size; 0: a sliding window */
};

/* What is used of a limit of starts. Zeroed: nothing. */
struct qn_limit_use {
    int64_t period_ms; /* of the limit it was counted for */
    int64_t at_ms;     /* bucket: when the debt was true; window: start of slots[0] */
    bool bucket;
    int64_t debt;        /* bucket: one start is period_ms, each ms pays `count` back */
    int64_t clear_at_ms; /* bucket: since when there has been a debt */
    uint32_t slots[QN_LIMIT_SLOTS + 1]; /* window: starts by slot, the present one first */
};

/* "10", "100/s", "100/1m", "100/1m burst 20". Fills in count, period_ms and burst. */
QUERN_NODISCARD quern_status qn_limit_parse(const char *text, struct qn_limit *ret_limit,
                                            quern_error *err);
void qn_limit_format(const struct qn_limit *limit, char out[QN_LIMIT_TEXT_SIZE]);
/* The rules for its numbers. */
QUERN_NODISCARD quern_status qn_limit_check(const struct qn_limit *limit, quern_error *err);

/* Those of starts. Each brings the use to now first, and clears one that was counted for another
 * kind or period. */

/* How many may start now. */
int64_t qn_limit_room(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms);
/* How long until the next one may start; 0: now. */
int64_t qn_limit_wait_ms(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms);
/* One starts. */
void qn_limit_take(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms);
/* One that was taken `age_ms` ago did not start after all. Only what surely still counts is
 * returned. */
void qn_limit_give_back(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms,
                        int64_t age_ms);
/* How many starts count now. */
int64_t qn_limit_used(const struct qn_limit *limit, struct qn_limit_use *use, int64_t now_ms);
/* From when on the use is nothing, so that its record may be dropped. */
int64_t qn_limit_clear_at_ms(const struct qn_limit *limit, struct qn_limit_use *use,
                             int64_t now_ms);

#endif
