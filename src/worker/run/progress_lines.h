/* SPDX-License-Identifier: MIT */
/* progress_lines.h - lines of a command that become its progress, or are requests of it. */
#ifndef QN_WORKER_RUN_PROGRESS_LINES_H
#define QN_WORKER_RUN_PROGRESS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/run/run.h"

/* What a command requested about its task, in lines of their own; the last of each kind counts. */
struct qn_line_requests {
    bool has_retry_in;
    bool has_snooze;
    bool no_retry;
    int64_t retry_in_ms;
    int64_t snooze_ms;
    char error_class[QN_ERROR_CLASS_SIZE_MAX + 1]; /* "": none */
};

/* Zeroed at first: 0 % and no note. */
struct qn_progress_lines {
    char line[QN_NOTE_SIZE_MAX + 16]; /* begun, without its end yet: a note and its percentage */
    size_t size;
    bool is_cut;  /* this line had more bytes */
    bool garbled; /* a line was cut, or bytes were replaced */
    struct qn_progress progress;
    struct qn_line_requests requests;
};

/* Takes these bytes in. True: at least one line ended, and `progress` is that of the last. A line
 * is "PERCENT", "PERCENT NOTE", or "NOTE", which keeps the percentage; PERCENT is a whole number
 * from 0 to 100, "%" may follow it. Blank lines are ignored. "retry-in=DURATION",
 * "snooze=DURATION", "error-class=CLASS" and "no-retry=CLASS" are requests and no progress; one
 * whose value is no duration or no class is a note. */
QUERN_NODISCARD bool qn_progress_lines_feed(struct qn_progress_lines *lines, const char *data,
                                            size_t size);

#endif
