/* SPDX-License-Identifier: MIT */
/* progress.h - a bar on stderr: how much is done, how fast, how long still. Only on a terminal. */
#ifndef QN_CLI_ENQUEUE_PROGRESS_H
#define QN_CLI_ENQUEUE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct qn_progress {
    bool shown; /* stderr is a terminal */
    int64_t started_ns;
    int64_t drawn_ns;
};

void qn_progress_start(struct qn_progress *progress);
/* done: tasks so far. part of whole: how far it is (bytes of a file, tasks of all); whole 0: not
 * known. Draws at most ten times a second. */
void qn_progress_show(struct qn_progress *progress, uint64_t done, uint64_t part, uint64_t whole);
/* Wipes the bar, so that the next message starts on an empty line. */
void qn_progress_stop(struct qn_progress *progress);

#endif
