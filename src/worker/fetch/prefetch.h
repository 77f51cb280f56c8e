/* SPDX-License-Identifier: MIT */
/* prefetch.h - how many runs to fetch ahead of free slots: measured, per type of task.
 *
 * Only types whose runs are short are fetched ahead: then a batch hides the round trip to the
 * broker. Those that are over in no time are fetched further ahead, so that batches are full while
 * two exchanges are under way. A slow one would wait here while another worker could run it. One
 * thread at a time (the turn of the pump). */
#ifndef QN_WORKER_FETCH_PREFETCH_H
#define QN_WORKER_FETCH_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

#include "quern/status.h"

enum { QN_FETCH_TYPES_MAX = 256 }; /* a power of two; types beyond it are not fetched ahead */

struct qn_type_pace {
    char *type; /* NULL: free */
    uint64_t runs;
    int64_t mean_ns; /* of all runs at first, then gliding */
};

struct qn_fetch {
    struct qn_type_pace paces[QN_FETCH_TYPES_MAX];
    size_t type_count;
    uint32_t ahead_max; /* min(concurrency, QN_PREFETCH_MAX) */
};

void qn_fetch_init(struct qn_fetch *fetch, uint32_t concurrency);
void qn_fetch_finish(struct qn_fetch *fetch);
/* Takes the length of one run into account. */
void qn_fetch_measure(struct qn_fetch *fetch, const char *type, int64_t run_ns);
/* How many runs of this type may wait beyond the free slots; prefetch_max is the handler's option.
 */
uint32_t qn_fetch_ahead(const struct qn_fetch *fetch, const char *type, int32_t prefetch_max);

#endif
