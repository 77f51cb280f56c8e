/* SPDX-License-Identifier: MIT */
/* upkeep.h - the timers of the keeper that call the broker. */
#ifndef QN_WORKER_KEEPER_UPKEEP_H
#define QN_WORKER_KEEPER_UPKEEP_H

#include "quern/status.h"

struct quern_worker;

QUERN_NODISCARD quern_status qn_upkeep_heartbeat(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_upkeep_recover(struct quern_worker *worker, quern_error *err);
/* Moves due tasks where the pump has not done so for a while. */
QUERN_NODISCARD quern_status qn_upkeep_forward(struct quern_worker *worker, quern_error *err);
QUERN_NODISCARD quern_status qn_upkeep_prune(struct quern_worker *worker, quern_error *err);
/* Cancels an aggregator whose timeout is over; always QUERN_OK. */
QUERN_NODISCARD quern_status qn_upkeep_check_groups(struct quern_worker *worker, quern_error *err);
/* Gives back the sets of workers that died, also where this worker aggregates nothing. */
QUERN_NODISCARD quern_status qn_upkeep_reclaim_sets(struct quern_worker *worker, quern_error *err);
/* Logs once per queue that its groups have no aggregator. */
QUERN_NODISCARD quern_status qn_upkeep_warn_groups(struct quern_worker *worker, quern_error *err);

#endif
