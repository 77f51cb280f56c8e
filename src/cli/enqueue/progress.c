/* SPDX-License-Identifier: MIT */
/* progress.c - draws one line on stderr again and again, over itself.
 *
 * Without a terminal it draws nothing, so that logs stay clean. The time left is extrapolated from
 * the share done so far; it is left out while the whole is not known or nothing is done. */
#include "cli/enqueue/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/plural.h"

#define BAR_WIDTH 24
#define DRAW_NS INT64_C(100000000)
#define NS_PER_S INT64_C(1000000000)

void qn_progress_start(struct qn_progress *progress)
{
    *progress =
        (struct qn_progress){.shown = isatty(STDERR_FILENO) == 1, .started_ns = qn_clock_mono_ns()};
}

static void draw_bar(uint64_t part, uint64_t whole)
{
    char bar[BAR_WIDTH + 1];
    double share = part >= whole ? 1.0 : (double)part / (double)whole;
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(stderr, "[%s] %3d%%  ", bar, (int)(share * 100));
}

void qn_progress_show(struct qn_progress *progress, uint64_t done, uint64_t part, uint64_t whole)
{
    int64_t now_ns = qn_clock_mono_ns();
    if (!progress->shown || now_ns - progress->drawn_ns < DRAW_NS) {
        return;
    }
    progress->drawn_ns = now_ns;
    double elapsed_s = (double)(now_ns - progress->started_ns) / (double)NS_PER_S;
    (void)fprintf(stderr, "\r");
    if (whole > 0) {
        draw_bar(part, whole);
    }
    (void)fprintf(stderr, "%" PRIu64 " %s", done, qn_plural(done, "task", "tasks"));
    if (elapsed_s > 0 && done > 0) {
        (void)fprintf(stderr, "  %.0f/s", (double)done / elapsed_s);
    }
    if (done > 0 && part > 0 && part <= whole) {
        int64_t left_s = (int64_t)(elapsed_s * (double)(whole - part) / (double)part);
        (void)fprintf(stderr, "  %" PRId64 ":%02" PRId64 " left", left_s / 60, left_s % 60);
    }
    (void)fprintf(stderr, "\x1b[K");
    (void)fflush(stderr);
}

void qn_progress_stop(struct qn_progress *progress)
{
    if (progress->shown && progress->drawn_ns != 0) {
        (void)fprintf(stderr, "\r\x1b[K");
        (void)fflush(stderr);
    }
    progress->shown = false;
}
