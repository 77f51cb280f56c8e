/* SPDX-License-Identifier: MIT */
/* measure.h - the counters and histograms of a worker, for its metrics.
 *
 * Runs are counted when their outcome was taken in, by one thread at a time; any thread may read
 * meanwhile. What the worker knows anyway (its stats, its health) is not counted here again. */
#ifndef QN_WORKER_MEASURE_MEASURE_H
#define QN_WORKER_MEASURE_MEASURE_H

#include <stdint.h>

#include "metrics/family.h"
#include "quern/status.h"

struct qn_measures {
    struct qn_family wait;     /* queue, type */
    struct qn_family run;      /* queue, type, outcome */
    struct qn_family outcomes; /* queue, outcome */
    struct qn_family retries;  /* queue, type */
    struct qn_family crashes;  /* signal */
    struct qn_family roundtrip;
    struct qn_family sent;  /* outcomes in an exchange */
    struct qn_family taken; /* runs leased by an exchange */
};

/* A run that ended. */
struct qn_measured_run {
    const char *queue;
    const char *type;
    const char *outcome;
    bool began;      /* else wait_ns and run_ns are not known */
    bool is_retried; /* it uses up an attempt and runs again */
    int signal;      /* its process died of this; 0: it did not */
    int64_t wait_ns; /* from when it was due to its start */
    int64_t run_ns;
};

QUERN_NODISCARD quern_status qn_measure_init(struct qn_measures *measures, quern_error *err);
/* Also where all is zero. */
void qn_measure_finish(struct qn_measures *measures);
void qn_measure_run(struct qn_measures *measures, const struct qn_measured_run *run);
/* An exchange was answered after this time. */
void qn_measure_exchange(struct qn_measures *measures, int64_t time_ns, size_t outcome_count,
                         size_t run_count);
void qn_measure_render(struct qn_measures *measures, struct qn_exposition *exposition);
/* How many counts found no memory. */
uint64_t qn_measure_lost(struct qn_measures *measures);

#endif
