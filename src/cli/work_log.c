/* SPDX-License-Identifier: MIT */
/* work_log.c - prints what the worker reports, with the time and the level.
 *
 * The worker calls one at a time, from its own threads. Stdout is flushed after each run, because
 * whoever reads it wants to see runs as they end; when the reader is gone the lines are lost and
 * the worker goes on, since tasks matter more than their log. */
#include "cli/work_log.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/duration.h"
#include "cli/output.h"

#define NS_PER_MS 1000000

static const char *const level_names[] = {
    [QUERN_LOG_DEBUG] = "debug",
    [QUERN_LOG_INFO] = "info",
    [QUERN_LOG_WARN] = "warn",
    [QUERN_LOG_ERROR] = "error",
};

static const char *const outcome_names[] = {
    [QUERN_DONE] = "done", [QUERN_RETRY] = "retry",   [QUERN_ARCHIVE] = "archive",
    [QUERN_DROP] = "drop", [QUERN_SNOOZE] = "snooze",
};

void qn_work_log_line(quern_log_level level, const char *line, void *user)
{
    const struct qn_work_log *log = user;
    if (level < log->level_min || (size_t)level >= QN_COUNT_OF(level_names)) {
        return;
    }
    char at[64];
    qn_moment_format(qn_clock_wall_ms(qn_clock_system()), at, sizeof at);
    char *safe = qn_text_safe(line, strlen(line));
    (void)fprintf(stderr, "%s %s %s\n", at, level_names[level], safe);
    qn_free(safe);
}

static const char *outcome_name(const quern_run_report *report)
{
    size_t index = (size_t)report->outcome;
    return index < QN_COUNT_OF(outcome_names) ? outcome_names[index] : "unknown";
}

static void print_json(struct qn_work_log *log, const quern_run_report *report)
{
    json_t *object =
        json_pack("{s:s,s:s,s:s,s:s,s:b,s:f}", "id", report->id, "queue", report->queue, "type",
                  report->type, "outcome", outcome_name(report), "applied", report->applied,
                  "run_ms", (double)report->run_ns / NS_PER_MS);
    qn_json_set_bytes(qn_cli_must(object), "error", report->error, strlen(report->error));
    (void)qn_json_print(object);
    if (fflush(stdout) != 0) {
        log->json = false;
        clearerr(stdout);
    }
}

void qn_work_log_run(const quern_run_report *report, void *user)
{
    struct qn_work_log *log = user;
    if (log->json) {
        print_json(log, report);
    }
    /* Runs that failed or were refused are in the worker's own log. */
    bool logged =
        report->outcome == QUERN_RETRY || report->outcome == QUERN_ARCHIVE || report->applied == 0;
    if (log->verbose && !logged) {
        char line[1024];
        (void)snprintf(line, sizeof line, "run ended outcome=%s queue=%s type=%s id=%s ms=%.3f",
                       outcome_name(report), report->queue, report->type, report->id,
                       (double)report->run_ns / NS_PER_MS);
        qn_work_log_line(QUERN_LOG_DEBUG, line, user);
    }
}
