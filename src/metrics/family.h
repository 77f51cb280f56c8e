/* SPDX-License-Identifier: MIT */
/* family.h - counters and histograms with labels, which threads count in while others read.
 *
 * A series comes into being when it is first counted, and stays. Counting takes no lock: series
 * are found in a table of atomic pointers, and their numbers are atomic. Foreign words get into
 * labels, so the number of series is bounded: beyond QN_SERIES_MAX a new one has "other" as its
 * label that is open (of a family that has one), beyond twice that as all its labels. */
#ifndef QN_METRICS_FAMILY_H
#define QN_METRICS_FAMILY_H

#include <stdatomic.h>
#include <stdint.h>

#include "metrics/exposition.h"

#define QN_METRIC_LABELS_MAX 3
#define QN_METRIC_BOUNDS_MAX 24
#define QN_SERIES_MAX 300 /* a histogram has about 20 lines for each: 6000 lines a scrape */
#define QN_SERIES_OTHER "other"

struct qn_family_facts { /* constant */
    struct qn_metric metric;
    const char *labels[QN_METRIC_LABELS_MAX];
    size_t label_count;
    size_t open_label;     /* the one with foreign words; label_count: none */
    const int64_t *bounds; /* of a histogram, ascending */
    size_t bound_count;
};

struct qn_series;

struct qn_family {
    const struct qn_family_facts *facts;
    _Atomic(struct qn_series *) *slots; /* a table, never more than half full; owned */
    size_t slot_mask;
    _Atomic size_t count;
    _Atomic(struct qn_series *) latest; /* most tasks are like the one before */
    _Atomic uint64_t lost;              /* counts for which there was no memory */
};

/* `facts` is borrowed. QUERN_E_NOMEM. */
QUERN_NODISCARD quern_status qn_family_init(struct qn_family *family,
                                            const struct qn_family_facts *facts, quern_error *err);
/* Also where init failed or was never called, and all is zero. */
void qn_family_finish(struct qn_family *family);
/* Adds to the counter with these values, one for each label. Any thread, without a lock. */
void qn_family_add(struct qn_family *family, const char *const *values, uint64_t count);
/* Adds a number to the histogram; one below 0 counts as 0. The same. */
void qn_family_observe(struct qn_family *family, const char *const *values, int64_t number);
/* Writes all series there are; a counter without labels also when it is 0. The same. */
void qn_family_render(struct qn_family *family, struct qn_exposition *exposition);
/* How many counts found no memory. */
uint64_t qn_family_lost(const struct qn_family *family);

#endif
