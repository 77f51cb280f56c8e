/* SPDX-License-Identifier: MIT */
/* progress_lines.h - lines of a command that become its progress, or its orders. */
#ifndef QN_WORKER_EXEC_PROGRESS_LINES_H
#define QN_WORKER_EXEC_PROGRESS_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/exec/orders.h"
#include "worker/run/run.h"

/* Zeroed at first: 0 % and no note. */
struct qn_progress_lines {
    char line[QN_NOTE_SIZE_MAX + 16]; /* begun, without its end yet: a note and its percentage */
    size_t size;
    bool is_cut;  /* this line had more bytes */
    bool garbled; /* a line was cut, or bytes were replaced */
    struct qn_progress progress;
    struct qn_orders orders;
};

/* Takes these bytes in. True: at least one line ended, and `progress` is that of the last. A line
 * is "PERCENT", "PERCENT NOTE", or "NOTE", which keeps the percentage; PERCENT is a whole number
 * from 0 to 100, "%" may follow it. Blank lines are ignored. Orders (orders.h) are no progress. */
QUERN_NODISCARD bool qn_progress_lines_feed(struct qn_progress_lines *lines, const char *data,
                                            size_t size);
/* Nothing more comes: an order without a line end counts, too. */
void qn_progress_lines_end(struct qn_progress_lines *lines);

#endif
