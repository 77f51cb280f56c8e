/* SPDX-License-Identifier: MIT */
/* deaths.h - the consequences of the death of a process for the tasks that ran in it.
 *
 * A death is one event: a worker, a child or a command ended while runs were started in it. Each of
 * them is charged; the death is lone when there was only one. A charged task runs together with
 * fewer and fewer others (isolation.h), is archived as poison when lone deaths convict it
 * (conviction), and a queue whose runs all die on one host is slowed down there (brake.h), so that
 * a broken deploy empties no queue into the archive.
 *
 * Pure: no I/O, no clock. src/broker/redis/lua/lib_deaths.lua implements the same rules in Lua:
 * change both together. The contract suite compares them. */
#ifndef QN_TASK_DEATHS_H
#define QN_TASK_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "task/limits.h"

/* What a task remembers of its deaths; all moments are on the wall clock of the broker. */
struct qn_deaths {
    int64_t charges;
    int64_t lone;        /* charges of deaths that it died alone */
    int64_t level;       /* how much company it may have (isolation.h); QN_ALONE_CHARGES at most */
    int64_t life_ms;     /* how long its run had lived at a death, at most */
    int64_t first_at_ms; /* when its first charged run started */
    int64_t died_at_ms;  /* of the latest death */
};

/* One death, as one of its runs sees it. */
struct qn_death {
    int64_t now_ms;
    int64_t started_at_ms; /* the run */
    int64_t seen_at_ms;    /* the last sign of life of its process; 0: it has died just now */
    int64_t ok_at_ms;      /* when a run of the queue last ended well on the same host; 0: never */
    bool is_lone;
    bool is_child; /* a child or a command died, and no worker */
    bool is_spent; /* the task has no attempts left */
};

enum qn_death_verdict {
    QN_DEATH_BACK,   /* to the head of pending */
    QN_DEATH_RETRY,  /* to retry, after *ret_delay_ms */
    QN_DEATH_SPENT,  /* archived: it has no attempts left */
    QN_DEATH_POISON, /* archived as poison */
};

/* Charges the task, and returns what happens to it. Charges older than the window are forgotten
 * first. */
enum qn_death_verdict qn_deaths_charge(struct qn_deaths *deaths, const struct qn_death *death,
                                       int64_t *ret_delay_ms);

#endif
