/* SPDX-License-Identifier: MIT */
/* exposition.h - writes metrics in the formats of Prometheus: text 0.0.4 and OpenMetrics 1.0.
 *
 * The caller names a family, then writes all its samples. Numbers are whole, or nanoseconds that
 * are shown as seconds, so that no locale and no rounding has a part in them; a bound of a
 * histogram looks the same in both formats, because it is part of the name of a series. */
#ifndef QN_METRICS_EXPOSITION_H
#define QN_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "quern/metrics.h"

#define QN_EXPOSITION_SIZE_MAX ((size_t)64 << 20)

enum qn_metric_kind { QN_METRIC_COUNTER, QN_METRIC_GAUGE, QN_METRIC_HISTOGRAM, QN_METRIC_INFO };

struct qn_metric {
    const char *name; /* as samples have it: that of a counter ends in _total */
    const char *help; /* valid UTF-8, as is name */
    enum qn_metric_kind kind;
    bool is_time; /* its numbers are nanoseconds, shown as seconds */
};

struct qn_metric_label {
    const char *name;
    const char *value; /* any bytes: what is no UTF-8 becomes U+FFFD */
};

struct qn_metric_labels {
    const struct qn_metric_label *items;
    size_t count;
};

/* What a histogram has counted. */
struct qn_metric_buckets {
    const int64_t *bounds; /* ascending; the last bucket has none */
    const uint64_t *counts;
    size_t bound_count;
    int64_t sum;
};

struct qn_exposition {
    struct qn_buf *out;
    quern_metrics_format format;
    const struct qn_metric *metric;
    quern_status status; /* of the first failure; then nothing more is written */
};

void qn_exposition_init(struct qn_exposition *exposition, struct qn_buf *out,
                        quern_metrics_format format);
/* The head of a family; `metric` is borrowed until the next one. */
void qn_exposition_family(struct qn_exposition *exposition, const struct qn_metric *metric);
/* A sample of a counter, a gauge or an info. */
void qn_exposition_sample(struct qn_exposition *exposition, struct qn_metric_labels labels,
                          int64_t value);
/* Those of a histogram. */
void qn_exposition_histogram(struct qn_exposition *exposition, struct qn_metric_labels labels,
                             const struct qn_metric_buckets *buckets);
/* When the counter or histogram with these labels began, behind its samples; only OpenMetrics has
 * that. */
void qn_exposition_created(struct qn_exposition *exposition, struct qn_metric_labels labels,
                           int64_t at_ms);
/* The end of the document. */
void qn_exposition_end(struct qn_exposition *exposition);

#endif
