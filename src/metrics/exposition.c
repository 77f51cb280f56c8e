/* SPDX-License-Identifier: MIT */
/* exposition.c - writes families, samples and the end of a document; see exposition.h.
 *
 * OpenMetrics names a counter without its _total, except at the sample, and knows units and infos;
 * the older text has neither. Both escape backslash, line feed and quote in values of labels; in a
 * help text only OpenMetrics escapes quotes. */
#include "metrics/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/utf8.h"

#define NUMBER_SIZE 48
#define NS_PER_S UINT64_C(1000000000)
#define TOTAL "_total"

void qn_exposition_init(struct qn_exposition *exposition, struct qn_buf *out,
                        quern_metrics_format format)
{
    *exposition = (struct qn_exposition){.out = out, .format = format};
}

static void put(struct qn_exposition *exposition, const char *data, size_t size)
{
    if (exposition->status == QUERN_OK) {
        exposition->status = qn_buf_append(exposition->out, data, size);
    }
}

static void put_text(struct qn_exposition *exposition, const char *text)
{
    put(exposition, text, strlen(text));
}

/* A run of plain bytes is written at once. */
static void put_escaped(struct qn_exposition *exposition, const char *text, bool escapes_quotes)
{
    const char *special = escapes_quotes ? "\\\n\"" : "\\\n";
    while (*text != '\0') {
        size_t plain = strcspn(text, special);
        put(exposition, text, plain);
        text += plain;
        if (*text != '\0') {
            put_text(exposition, *text == '\n' ? "\\n" : *text == '"' ? "\\\"" : "\\\\");
            text++;
        }
    }
}

static void put_value(struct qn_exposition *exposition, const char *value)
{
    char clean[1024];
    size_t size = strlen(value);
    if (qn_utf8_valid(value, size)) {
        put_escaped(exposition, value, true);
        return;
    }
    (void)qn_utf8_sanitize(value, size, clean, sizeof clean);
    put_escaped(exposition, clean, true);
}

/* {name="value",...}; `more`: a label behind these, NULL: none. Nothing where there are none. */
static void put_labels(struct qn_exposition *exposition, struct qn_metric_labels labels,
                       const struct qn_metric_label *more)
{
    size_t count = labels.count + (more != NULL ? 1 : 0);
    for (size_t i = 0; i < count; i++) {
        const struct qn_metric_label *label = i < labels.count ? &labels.items[i] : more;
        put_text(exposition, i == 0 ? "{" : ",");
        put_text(exposition, label->name);
        put_text(exposition, "=\"");
        put_value(exposition, label->value);
        put_text(exposition, "\"");
    }
    put_text(exposition, count > 0 ? "} " : " ");
}

/* "12", "0.25"; a bound of a histogram is never without a point. */
static void print_number(int64_t value, bool is_time, bool is_bound, char text[NUMBER_SIZE])
{
    const char *sign = value < 0 ? "-" : "";
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (!is_time) {
        (void)snprintf(text, NUMBER_SIZE, "%s%" PRIu64 "%s", sign, size, is_bound ? ".0" : "");
        return;
    }
    int used = snprintf(text, NUMBER_SIZE, "%s%" PRIu64 ".%09" PRIu64, sign, size / NS_PER_S,
                        size % NS_PER_S);
    size_t last = (size_t)used - 1;
    while (text[last] == '0' && text[last - 1] != '.') {
        text[last--] = '\0';
    }
    if (!is_bound && text[last] == '0' && text[last - 1] == '.') {
        text[last - 1] = '\0';
    }
}

/* A line: name, suffix, labels, number. */
static void put_line(struct qn_exposition *exposition, const char *suffix,
                     struct qn_metric_labels labels, const char *number)
{
    put_text(exposition, exposition->metric->name);
    put_text(exposition, suffix);
    put_labels(exposition, labels, NULL);
    put_text(exposition, number);
    put_text(exposition, "\n");
}

static bool ends_in(const char *text, size_t size, const char *end)
{
    size_t end_size = strlen(end);
    return size > end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

/* The name of a family without its suffix, as OpenMetrics has it: its size. */
static size_t base_size(const struct qn_metric *metric)
{
    size_t size = strlen(metric->name);
    const char *suffix = metric->kind == QN_METRIC_COUNTER ? TOTAL
                         : metric->kind == QN_METRIC_INFO  ? "_info"
                                                           : "";
    return ends_in(metric->name, size, suffix) ? size - strlen(suffix) : size;
}

static const char *type_name(const struct qn_exposition *exposition)
{
    switch (exposition->metric->kind) {
    case QN_METRIC_COUNTER:
        return "counter";
    case QN_METRIC_GAUGE:
        return "gauge";
    case QN_METRIC_HISTOGRAM:
        return "histogram";
    case QN_METRIC_INFO:
        return exposition->format == QUERN_METRICS_OPENMETRICS ? "info" : "gauge";
    }
    return "";
}

static void put_head(struct qn_exposition *exposition, const char *word, size_t size)
{
    put_text(exposition, "# ");
    put_text(exposition, word);
    put_text(exposition, " ");
    put(exposition, exposition->metric->name, size);
    put_text(exposition, " ");
}

void qn_exposition_family(struct qn_exposition *exposition, const struct qn_metric *metric)
{
    static const char *const units[] = {"seconds", "bytes"};
    bool is_open = exposition->format == QUERN_METRICS_OPENMETRICS;
    exposition->metric = metric;
    size_t size = is_open ? base_size(metric) : strlen(metric->name);
    put_head(exposition, "HELP", size);
    put_escaped(exposition, metric->help, is_open);
    put_text(exposition, "\n");
    put_head(exposition, "TYPE", size);
    put_text(exposition, type_name(exposition));
    put_text(exposition, "\n");
    for (size_t i = 0; is_open && i < sizeof units / sizeof units[0]; i++) {
        char end[16];
        (void)snprintf(end, sizeof end, "_%s", units[i]);
        if (ends_in(metric->name, size, end)) {
            put_head(exposition, "UNIT", size);
            put_text(exposition, units[i]);
            put_text(exposition, "\n");
        }
    }
}

void qn_exposition_sample(struct qn_exposition *exposition, struct qn_metric_labels labels,
                          int64_t value)
{
    char number[NUMBER_SIZE];
    print_number(value, exposition->metric->is_time, false, number);
    put_line(exposition, "", labels, number);
}

void qn_exposition_histogram(struct qn_exposition *exposition, struct qn_metric_labels labels,
                             const struct qn_metric_buckets *buckets)
{
    char number[NUMBER_SIZE];
    char bound[NUMBER_SIZE];
    bool is_time = exposition->metric->is_time;
    uint64_t count = 0;
    for (size_t i = 0; i <= buckets->bound_count; i++) {
        count += buckets->counts[i];
        (void)memcpy(bound, "+Inf", sizeof "+Inf");
        if (i < buckets->bound_count) {
            print_number(buckets->bounds[i], is_time, true, bound);
        }
        const struct qn_metric_label up_to = {"le", bound};
        put_text(exposition, exposition->metric->name);
        put_text(exposition, "_bucket");
        put_labels(exposition, labels, &up_to);
        print_number((int64_t)count, false, false, number);
        put_text(exposition, number);
        put_text(exposition, "\n");
    }
    print_number(buckets->sum, is_time, false, number);
    put_line(exposition, "_sum", labels, number);
    print_number((int64_t)count, false, false, number);
    put_line(exposition, "_count", labels, number);
}

void qn_exposition_created(struct qn_exposition *exposition, struct qn_metric_labels labels,
                           int64_t at_ms)
{
    char number[NUMBER_SIZE];
    if (exposition->format != QUERN_METRICS_OPENMETRICS) {
        return;
    }
    print_number(at_ms * QN_NS_PER_MS, true, false, number);
    put(exposition, exposition->metric->name, base_size(exposition->metric));
    put_text(exposition, "_created");
    put_labels(exposition, labels, NULL);
    put_text(exposition, number);
    put_text(exposition, "\n");
}

void qn_exposition_end(struct qn_exposition *exposition)
{
    if (exposition->format == QUERN_METRICS_OPENMETRICS) {
        put_text(exposition, "# EOF\n");
    }
}
