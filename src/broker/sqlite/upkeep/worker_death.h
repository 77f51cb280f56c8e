/* SPDX-License-Identifier: MIT */
/* worker_death.h - the death of a worker: one event, however many calls its leases take. */
#ifndef QN_BROKER_SQLITE_UPKEEP_WORKER_DEATH_H
#define QN_BROKER_SQLITE_UPKEEP_WORKER_DEATH_H

#include "broker/sqlite/queue/queue_counters.h"

struct qn_worker_death {
    int64_t no;       /* of its record */
    const char *host; /* from its heartbeat */
    bool noted;       /* by this call; then: */
    bool is_lone;     /* it had started one run only */
};

/* Notes it, the first time for good: how many runs it had started, and the deaths that the brakes
 * of its queues count. Before any of its leases is ended. */
QUERN_NODISCARD quern_status qn_worker_death_note(struct qn_queue_counters *counters,
                                                  struct qn_worker_death *death, quern_error *err);

#endif
