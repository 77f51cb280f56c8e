/* SPDX-License-Identifier: MIT */
/* wire.h - runs as bytes, between a worker and a child that runs its handlers.
 *
 * Both ends are mostly one program; a program that was executed may have another version of the
 * library, which announce.h finds out. The child may trust its worker; the worker checks everything
 * that a child sends. */
#ifndef QN_WORKER_PREFORK_WIRE_H
#define QN_WORKER_PREFORK_WIRE_H

#include <stdbool.h>

#include "base/memory/view.h"
#include "base/text/buf.h"
#include "pool/prefork/prefork.h"
#include "worker/policy/failure.h"
#include "worker/run/run.h"

/* Changes whenever bytes here or in announce.c do. */
#define QN_WIRE_VERSION 2

/* Kinds of frames, besides those of the pool. */
enum {
    QN_WIRE_PROGRESS = QN_PREFORK_KIND_FIRST, /* from the child: how far it is */
    QN_WIRE_RESULT,                           /* from the child: store this, and answer */
    QN_WIRE_ANSWER                            /* to the child: how that went */
};

#define QN_WIRE_UNKNOWN (-1) /* of the deadline of a run: the child counts from its start */

/* Of a frame that holds the largest result, or the largest payload of a checkpoint. */
#define QN_WIRE_SIZE_MAX (QN_PAYLOAD_SIZE_LIMIT + ((size_t)2 << 20))

/* What a child must know of a run besides its task. */
struct qn_wire_run {
    int64_t deadline_at_ms; /* or QN_WIRE_UNKNOWN */
    enum qn_cancel_reason reason;
    struct qn_failure_defaults defaults;
    bool acked; /* early: nothing is stored of its end */
};

/* The task of a run, without its payload, which follows it: *ret_more. Of fixed size, and short,
 * where the task has no headers. defaults: the worker's own. False: out of memory. */
QUERN_NODISCARD bool qn_wire_put_task(struct qn_buf *out, const struct quern_run *run,
                                      const struct qn_failure_defaults *defaults,
                                      struct qn_bytes *ret_more);
/* In the child. The strings and the payload of *ret_leased are in `body`, which is followed by a
 * NUL; its headers are in `headers`, QN_HEADER_COUNT_MAX of them. False: it is not what
 * qn_wire_put_task makes. */
QUERN_NODISCARD bool qn_wire_get_task(struct qn_bytes body, struct qn_leased *ret_leased,
                                      quern_header *headers, struct qn_wire_run *ret_run);

/* The fields of a run that its handler's thread writes, once its handler has returned. False: out
 * of memory. */
QUERN_NODISCARD bool qn_wire_put_end(struct qn_buf *out, const struct quern_run *run);
/* The same into the worker's run. False: it breaks the rules, or memory is out; then only fields
 * that the next call replaces were written. */
QUERN_NODISCARD bool qn_wire_get_end(struct qn_bytes body, struct quern_run *run);

QUERN_NODISCARD bool qn_wire_put_progress(struct qn_buf *out, int32_t percent, const char *note);
QUERN_NODISCARD bool qn_wire_get_progress(struct qn_bytes body, struct qn_progress *ret_progress);

QUERN_NODISCARD bool qn_wire_put_answer(struct qn_buf *out, const quern_error *error);
/* A body that is not an answer becomes QUERN_E_CORRUPT. */
void qn_wire_get_answer(struct qn_bytes body, quern_error *ret_error);

#endif
