/* SPDX-License-Identifier: MIT */
/* brake.h - a queue whose runs all die on one host is slowed down there, so that a broken deploy
 * empties no queue into the archive. Pure, as deaths.h. */
#ifndef QN_TASK_BRAKE_H
#define QN_TASK_BRAKE_H

#include <stdbool.h>
#include <stdint.h>

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
/* How long until the next probe; 0: now. Only while the brake is on and no probe is running. */
int64_t qn_brake_wait_ms(const struct qn_brake *brake, int64_t now_ms);
/* Which task is to be the next probe: the newest uncharged one, the oldest, the charged one that
 * died longest ago; where there is none, the next of these. */
enum qn_probe qn_brake_choice(const struct qn_brake *brake);

#endif
