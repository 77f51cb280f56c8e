/* SPDX-License-Identifier: MIT */
/* quern/trace.h - spans of tasks, for a collector of OpenTelemetry.
 *
 * A tracer is given to clients and workers (their option `tracer`). They make spans: `enqueue` of a
 * client; `wait`, from the moment when a task is due to its start, and `run` of a worker. A thread
 * of the tracer makes documents of them, as OTLP/HTTP has them in JSON, which your function sends:
 * the library does no HTTP of its own. `quern work --otlp URL` does all that with libcurl.
 *
 * Nothing here slows a task: spans wait in a queue of bounded size, and are dropped and counted
 * where that is full. Without a tracer nothing of this exists, and the trace of a task is passed on
 * as it is (see quern_run_traceparent). docs/guide/tracing.md lists names and attributes. */
#ifndef QUERN_TRACE_H
#define QUERN_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"
#include "quern/header.h"
#include "quern/log.h"
#include "quern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_tracer quern_tracer;

#define QUERN_SAMPLE_NONE (-1) /* quern_tracer_options.sample_ppm */

/* A request for /v1/traces of a collector, with "Content-Type: application/json". Valid during the
 * call. */
typedef struct quern_trace_document {
    const char *text; /* with a NUL behind it */
    size_t size;
    size_t span_count;
    quern_tracer *tracer; /* for quern_tracer_left_ms */
} quern_trace_document;

typedef struct quern_tracer_options {
    const char *service;          /* "service.name" of all spans; NULL: "quern" */
    const quern_header *resource; /* more of these; one of the same name wins */
    size_t resource_count;        /* at most 64 */
    /* Of a million traces that begin here, so many are recorded; 0: all; QUERN_SAMPLE_NONE. Where a
     * task has a trace, its flag "sampled" decides. */
    int32_t sample_ppm;
    uint32_t queue_max;       /* spans that may wait; 0: 4096; at most 1048576 */
    uint32_t batch_max;       /* spans of a document; 0: 512; at most 65536 */
    uint32_t reserved;        /* 0 */
    int64_t interval_ms;      /* a span waits for others no longer than that; 0: 1 s */
    int64_t send_timeout_ms;  /* of one document; 0: 10 s */
    int64_t close_timeout_ms; /* how long quern_tracer_free may send what waits; 0: 2 s */
    /* Sends a document. Called by the thread of the tracer, one at a time. It must return within
     * quern_tracer_left_ms, which shrinks when the tracer is freed meanwhile: look again after 100
     * ms or so. QUERN_E_CONNECT, QUERN_E_BUSY and QUERN_E_TIMEOUT: the document is tried again,
     * after a pause that grows from 1 s to 30 s, while others wait in the queue; any other error
     * drops it. NULL: there are no documents, only traces that begin here. */
    quern_status (*send)(const quern_trace_document *document, void *user, quern_error *err);
    /* As on_log of quern_worker_options: the first failure to send, spans dropped (once a minute),
     * and that sending works again. NULL: warnings go to stderr. */
    void (*on_log)(quern_log_level level, const char *line, void *user);
    void *user; /* of both */
} quern_tracer_options;

/* Starts the thread. options may be NULL. Errors: QUERN_E_INVALID (the text names the option),
 * QUERN_E_NOMEM (no memory, or no thread). */
QUERN_NODISCARD static inline quern_status quern_tracer_new(const quern_tracer_options *options,
                                                            quern_tracer **ret_tracer,
                                                            quern_error *err);

/* How long `send` may still take. Any thread. */
QUERN_API int64_t quern_tracer_left_ms(quern_tracer *tracer);

typedef struct quern_tracer_stats {
    uint64_t sent;    /* spans that a collector has got */
    uint64_t dropped; /* the queue was full, or memory, or they could not be sent */
    uint64_t queued;  /* now */
} quern_tracer_stats;
/* All zero when tracer is NULL. Any thread. */
static inline void quern_tracer_get_stats(quern_tracer *tracer, quern_tracer_stats *ret_stats);

/* Sends what waits, for close_timeout_ms at most, and ends the thread. Free clients and workers
 * that use it before. In the child of a fork it does nothing. NULL is allowed. */
QUERN_API void quern_tracer_free(quern_tracer *tracer);

/* --- How structs grow: see quern/quern.h ------------------------------------------- */

QUERN_NODISCARD QUERN_API quern_status quern_tracer_new_sized(const quern_tracer_options *options,
                                                              size_t options_size,
                                                              quern_tracer **ret_tracer,
                                                              quern_error *err);
static inline quern_status quern_tracer_new(const quern_tracer_options *options,
                                            quern_tracer **ret_tracer, quern_error *err)
{
    return quern_tracer_new_sized(options, sizeof(quern_tracer_options), ret_tracer, err);
}

QUERN_API void quern_tracer_get_stats_sized(quern_tracer *tracer, quern_tracer_stats *ret_stats,
                                            size_t stats_size);
static inline void quern_tracer_get_stats(quern_tracer *tracer, quern_tracer_stats *ret_stats)
{
    quern_tracer_get_stats_sized(tracer, ret_stats, sizeof(quern_tracer_stats));
}

#ifdef __cplusplus
}
#endif
#endif
