/* SPDX-License-Identifier: MIT */
/* steer.h - commands that come by way of the broker (quern/command.h). */
#ifndef QN_WORKER_RUN_STEER_STEER_H
#define QN_WORKER_RUN_STEER_STEER_H

#include "broker/command/command.h"

struct quern_worker;

#define QN_STEER_PAST 8 /* commands of several senders that may still be repeated */

struct qn_steer { /* guarded by the worker's mutex */
    struct qn_command_answer past[QN_STEER_PAST];
    size_t count;  /* of all, for the next place */
    size_t latest; /* the answer that the record has */
};

/* Carries it out if it is for this worker, and has the answer written at once; one that came before
 * is only answered again. */
void qn_steer_take(struct quern_worker *worker, const char *text);
/* Appends the answer to the latest one to the state of a heartbeat. */
void qn_steer_write(struct quern_worker *worker, char *out, size_t size);

#endif
