/* SPDX-License-Identifier: MIT */
/* quern/metrics.h - metrics for Prometheus and programs that read its formats, as texts.
 *
 * A program that has an HTTP server of its own answers GET /metrics with one of these texts; `quern
 * metrics` and `quern work --health-port` serve the same. docs/guide/metrics.md lists the names.
 *
 * Numbers of series are bounded: a family of a worker has at most 300 series with names of types of
 * their own; what comes later is counted with the type "other", and after 600 all labels are
 * "other". Those of an inspector have a series for each queue. Any thread may call any of these. */
#ifndef QUERN_METRICS_H
#define QUERN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"
#include "quern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct quern_inspector;
struct quern_worker;

typedef enum quern_metrics_format {
    QUERN_METRICS_TEXT = 0,       /* Prometheus text, version 0.0.4 */
    QUERN_METRICS_OPENMETRICS = 1 /* OpenMetrics 1.0, with times of creation */
} quern_metrics_format;

typedef struct quern_metrics_options {
    int32_t format;  /* a quern_metrics_format */
    bool process;    /* also process_* of this process, and quern_build_info */
    bool is_partial; /* more follows that the caller appends: without "# EOF" of OpenMetrics */
    uint8_t reserved[2];
} quern_metrics_options;

/* The format that fits an Accept header best (NULL: there is none): OpenMetrics if it is wanted at
 * least as much as text. */
QUERN_API quern_metrics_format quern_metrics_accept(const char *accept);
/* The Content-Type of a format, a static string. */
QUERN_API const char *quern_metrics_content_type(quern_metrics_format format);

/* These make a text, which ends with a NUL that ret_size (may be NULL) does not count; free it with
 * quern_metrics_free. options may be NULL. Errors: QUERN_E_INVALID, QUERN_E_NOMEM. */

/* The runs of a worker, its leases, its link to the broker and its state. Reads memory only, and
 * never waits for the broker; also before quern_worker_run and after it. */
QUERN_NODISCARD static inline quern_status quern_metrics_worker(
    struct quern_worker *worker, const quern_metrics_options *options, char **ret_text,
    size_t *ret_size, quern_error *err);
/* The queues of a broker, under the names that asynq's collector uses, and the workers. Asks the
 * broker, and fails with its errors, too. */
QUERN_NODISCARD static inline quern_status quern_metrics_inspector(
    struct quern_inspector *inspector, const quern_metrics_options *options, char **ret_text,
    size_t *ret_size, quern_error *err);
/* What options.process adds, alone. */
QUERN_NODISCARD static inline quern_status quern_metrics_process(
    const quern_metrics_options *options, char **ret_text, size_t *ret_size, quern_error *err);
/* NULL is allowed. */
QUERN_API void quern_metrics_free(char *text);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_metrics_worker_sized(
    struct quern_worker *worker, const quern_metrics_options *options, size_t options_size,
    char **ret_text, size_t *ret_size, quern_error *err);
static inline quern_status quern_metrics_worker(struct quern_worker *worker,
                                                const quern_metrics_options *options,
                                                char **ret_text, size_t *ret_size, quern_error *err)
{
    return quern_metrics_worker_sized(worker, options, sizeof(quern_metrics_options), ret_text,
                                      ret_size, err);
}

QUERN_NODISCARD QUERN_API quern_status quern_metrics_inspector_sized(
    struct quern_inspector *inspector, const quern_metrics_options *options, size_t options_size,
    char **ret_text, size_t *ret_size, quern_error *err);
static inline quern_status quern_metrics_inspector(struct quern_inspector *inspector,
                                                   const quern_metrics_options *options,
                                                   char **ret_text, size_t *ret_size,
                                                   quern_error *err)
{
    return quern_metrics_inspector_sized(inspector, options, sizeof(quern_metrics_options),
                                         ret_text, ret_size, err);
}

QUERN_NODISCARD QUERN_API quern_status
quern_metrics_process_sized(const quern_metrics_options *options, size_t options_size,
                            char **ret_text, size_t *ret_size, quern_error *err);
static inline quern_status quern_metrics_process(const quern_metrics_options *options,
                                                 char **ret_text, size_t *ret_size,
                                                 quern_error *err)
{
    return quern_metrics_process_sized(options, sizeof(quern_metrics_options), ret_text, ret_size,
                                       err);
}

#ifdef __cplusplus
}
#endif
#endif
