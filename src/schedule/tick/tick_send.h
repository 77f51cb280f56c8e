/* SPDX-License-Identifier: MIT */
/* tick_send.h - sends planned ticks in batches, calls the hooks, and acts on the results. */
#ifndef QN_SCHEDULE_TICK_TICK_SEND_H
#define QN_SCHEDULE_TICK_TICK_SEND_H

#include "schedule/tick/ticker.h"

struct qn_tick_plan {
    int64_t known_s;
    int64_t tick_s;
    uint32_t skipped;
    enum qn_tick_what what;
};

/* Adds a tick to the batch, and sends a full one. Ticks of an entry in their order. */
QUERN_NODISCARD quern_status qn_tick_send_add(struct qn_ticker *ticker, struct qn_ticking *ticking,
                                              const struct qn_tick_plan *plan, quern_error *err);
/* Sends what is in the batch. Afterwards leader->leads may be false. */
QUERN_NODISCARD quern_status qn_tick_send_flush(struct qn_ticker *ticker, quern_error *err);
/* Empties the batch. */
void qn_tick_send_drop(struct qn_ticker *ticker);

#endif
