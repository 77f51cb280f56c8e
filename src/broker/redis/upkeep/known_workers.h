/* SPDX-License-Identifier: MIT */
/* known_workers.h - recovery's knowledge about workers beyond their records. */
#ifndef QN_BROKER_REDIS_UPKEEP_KNOWN_WORKERS_H
#define QN_BROKER_REDIS_UPKEEP_KNOWN_WORKERS_H

#include "base/memory/view.h"
#include "redis/pipeline.h"

/* The workers of one queue about which we know more than their records contain; ids live in the
 * pipeline. */
struct qn_known_workers {
    const struct qn_reply **ids;
    char *letters; /* as recover.lua reads them: 'd' dead, 'l' alive, 'b' its host has rebooted */
    size_t count;
    size_t dead_count;
    uint64_t mark; /* distinguishes this set of dead ones from others */
};

/* One for each queue. A queue whose record of workers is damaged has none: its script reports that.
 */
QUERN_NODISCARD quern_status qn_known_workers_read(struct qn_pipeline *pipeline,
                                                   struct qn_names queues,
                                                   struct qn_known_workers *known,
                                                   quern_error *err);

#endif
