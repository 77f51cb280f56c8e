/* SPDX-License-Identifier: MIT */
/* deaths.h - what the death of a process means for the tasks that ran in it.
 *
 * A death is one event: a worker, a child or a command ended while runs were started in it. Each of
 * them is charged; the death is lone when there was only one. A charged task comes back in ever
 * less company (isolation), is archived as poison when lone deaths convict it (conviction), and a
 * queue whose runs all die on one host is slowed down there (brake), so that a broken deploy
 * empties no queue into the archive.
 *
 * Pure: no I/O, no clock. src/broker/redis/lua/lib_deaths.lua says the same in Lua; whoever changes
 * a rule changes both, and the contract suite compares them. */
#ifndef QN_TASK_DEATHS_H
#define QN_TASK_DEATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "task/limits.h"

/* --- One task ------------------------------------------------------------------------ */

/* What a task remembers of its deaths; all moments are on the wall clock of the broker. */
struct qn_deaths {
    int64_t charges;
    int64_t lone;        /* charges of deaths that it died alone */
    int64_t life_ms;     /* how long its run had lived at a death, at most */
    int64_t first_at_ms; /* when its first charged run started */
    int64_t died_at_ms;  /* of the latest death */
};

/* One death, as one of its runs sees it. */
struct qn_death {
    int64_t now_ms;
    int64_t started_at_ms; /* the run */
    int64_t seen_at_ms;    /* its process last told that it lives; 0: it has died just now */
    int64_t ok_at_ms;      /* when a run of the queue last ended well on the same host; 0: never */
    bool is_lone;
    bool is_spent; /* the task has no attempts left */
};

enum qn_death_verdict {
    QN_DEATH_BACK,   /* to the head of pending */
    QN_DEATH_RETRY,  /* to retry, after *ret_delay_ms */
    QN_DEATH_SPENT,  /* archived: it has no attempts left */
    QN_DEATH_POISON, /* archived as poison */
};

/* Charges the task, and says what becomes of it. Charges beyond the window are forgotten first. */
enum qn_death_verdict qn_deaths_charge(struct qn_deaths *deaths, const struct qn_death *death,
                                       int64_t *ret_delay_ms);

/* --- Isolation ----------------------------------------------------------------------- */

/* Of a worker whose handlers share its process. Zero: each run has a process of its own, or there
 * is one slot only; then nothing is kept apart. */
struct qn_isolation {
    uint32_t slots;
    uint32_t held[QN_ALONE_CHARGES - 1]; /* [c - 1]: its runs of tasks charged c times or more */
};

/* Whether a task that was charged so often must run alone, by the queue's solo lock. */
bool qn_isolation_is_solo(const struct qn_isolation *isolation, int64_t charges);
/* How many more runs of tasks charged so often the worker may hold; solo ones not asked here. */
uint32_t qn_isolation_room(const struct qn_isolation *isolation, int64_t charges);
/* Counts one more run of such a task. */
void qn_isolation_add(struct qn_isolation *isolation, int64_t charges);

/* --- Brake --------------------------------------------------------------------------- */

/* Of a queue on one host. */
struct qn_brake {
    int64_t ok_at_ms;     /* when a run of the queue last ended well there; 0: never */
    int64_t streak;       /* deaths in a row there */
    int64_t probes;       /* that died */
    int64_t probe_at_ms;  /* the next one is due; 0: the brake is off */
    uint64_t probe_token; /* of the run that is the probe now; 0: none */
};

enum qn_probe { QN_PROBE_NEWEST, QN_PROBE_OLDEST, QN_PROBE_CHARGED };

bool qn_brake_is_on(const struct qn_brake *brake);
/* A death there: of one worker, however many runs it had, or of one child or command. */
void qn_brake_death(struct qn_brake *brake, bool is_probe, int64_t now_ms);
/* A run ended there otherwise than by a death. True: the record has to be written. */
bool qn_brake_release(struct qn_brake *brake, int64_t now_ms);
/* How long until the next probe; 0: now. Only while the brake is on and no probe is under way. */
int64_t qn_brake_wait_ms(const struct qn_brake *brake, int64_t now_ms);
/* Which task is to be the next probe: the newest uncharged one, the oldest, the charged one that
 * died longest ago; where there is none, the next of these. */
enum qn_probe qn_brake_choice(const struct qn_brake *brake);

#endif
