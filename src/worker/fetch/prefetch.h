/* SPDX-License-Identifier: MIT */
/* prefetch.h - how many runs to fetch ahead of free slots: measured, per type of task.
 *
 * Only types whose runs are short are prefetched: then a batch hides the round trip to the broker.
 * Those that are over at once are fetched further ahead, so that batches are full while two
 * exchanges are in flight, also where there are few slots. A slow one would wait here while another
 * worker could run it. Guarded by plan_mutex. */
#ifndef QN_WORKER_FETCH_PREFETCH_H
#define QN_WORKER_FETCH_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

enum { QN_PREFETCH_TYPES_MAX = 256 }; /* a power of two; types beyond it are not prefetched */

struct qn_type_pace {
    char *type; /* NULL: free */
    uint64_t runs;
    int64_t mean_ns; /* of all runs at first, then gliding */
};

struct qn_prefetch {
    struct qn_type_pace paces[QN_PREFETCH_TYPES_MAX];
    size_t type_count;
    uint32_t ahead_max; /* min(slots, QN_PREFETCH_MAX) */
};

void qn_prefetch_set_slots(struct qn_prefetch *prefetch, uint32_t slots);
void qn_prefetch_finish(struct qn_prefetch *prefetch);
/* Takes the length of one run into account. */
void qn_prefetch_measure(struct qn_prefetch *prefetch, const char *type, int64_t run_ns);
/* Whether its runs were short, as far as measured: one may wait for another. */
bool qn_prefetch_is_short(const struct qn_prefetch *prefetch, const char *type);
/* How many runs of this type may wait beyond the free slots; prefetch_max is the handler's option.
 */
uint32_t qn_prefetch_ahead(const struct qn_prefetch *prefetch, const char *type,
                           int32_t prefetch_max);

#endif
