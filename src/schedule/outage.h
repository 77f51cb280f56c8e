/* SPDX-License-Identifier: MIT */
/* outage.h - a scheduler whose broker does not answer: how long to wait, and the log lines.
 *
 * One line when it begins, one that says why there is no connection if it began with the loss of
 * one, one a minute, one when it ends. */
#ifndef QN_SCHEDULE_OUTAGE_H
#define QN_SCHEDULE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/pace.h"
#include "base/random.h"

/* Of one thread. */
struct qn_outage {
    struct qn_log *log;
    struct qn_pace pace; /* of the URL */
    struct qn_random random;
    uint32_t failures;   /* in a row; 0: the broker answers */
    bool is_unexplained; /* it began with a lost connection, and none was refused since */
    int64_t logged_at_boot_ms;
};

void qn_outage_init(struct qn_outage *outage, struct qn_log *log, struct qn_pace pace);
/* A call failed. Returns how long to wait before the next, in ms. */
int64_t qn_outage_fail(struct qn_outage *outage, const quern_error *error, int64_t boot_ms);
/* A call worked. */
void qn_outage_end(struct qn_outage *outage);

#endif
