/* SPDX-License-Identifier: MIT */
/* census.h - which live workers serve a queue and a type, and what they do. */
#ifndef QN_INSPECT_EXPLAIN_CENSUS_H
#define QN_INSPECT_EXPLAIN_CENSUS_H

#include "quern/inspector.h"

bool qn_census_serves(const quern_worker_info *worker, const char *queue);
/* "unknown" for one of a newer library. */
const char *qn_census_status_name(quern_worker_status status);
/* The live worker of this id; NULL: there is none. */
const quern_worker_info *qn_census_worker(const quern_worker_list *workers, const char *id);
/* The live worker that says that it runs this task. */
const quern_worker_info *qn_census_runner(const quern_worker_list *workers, const char *queue,
                                          const char *id);
/* Those of a queue. */
size_t qn_census_count_workers(const quern_worker_list *workers, const char *queue);

/* The live workers of a queue, and those of them that take a type. Types that cannot be known (of a
 * Go server) count as taken. */
struct qn_census {
    size_t all;
    size_t takers;
    size_t able;                /* takers that fetch tasks */
    uint64_t slots;             /* of these */
    uint64_t free_slots;        /* the same */
    uint64_t hung;              /* handlers of these that ignore their cancellation */
    uint64_t runs;              /* that these have started */
    int64_t run_ages_ms;        /* how long these have run, together */
    quern_worker_status status; /* of a taker that does not fetch */
    int64_t pid;                /* of that one */
    const char *host;
};
/* type NULL: any. */
struct qn_census qn_census_take(const quern_worker_list *workers, const char *queue,
                                const char *type, int64_t now_ms);

#endif
