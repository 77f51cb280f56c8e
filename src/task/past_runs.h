/* SPDX-License-Identifier: MIT */
/* past_runs.h - the last runs of a task as the text in which brokers keep them, newest first.
 *
 * A task that is done at its first run costs nothing: that run is not noted. One entry, with SEP
 * for byte 31:
 *
 *     at_ms end cause took_ms ago_ms cpu_ms memory_kib exit signal SEP worker SEP error RS
 *
 * at_ms: the broker's clock when the end was written, ago_ms: how long before that it was. "-" is a
 * number that is not known, a cause or a signal that there was not, or no time; such ones at the
 * end of the numbers are left out, since entries are part of every failure's cost. RS is byte 30.
 * lua/ends/lib_runs.lua writes the same for the runs that a script ends: change both together. */
#ifndef QN_TASK_PAST_RUNS_H
#define QN_TASK_PAST_RUNS_H

#include "base/memory/view.h"
#include "quern/task.h"
#include "task/limits.h"

#define QN_PAST_RUNS_MAX 10            /* that are kept */
#define QN_PAST_RUN_ERROR_SIZE_MAX 200 /* bytes: the whole text of the last one is with the task */
#define QN_PAST_RUN_WORKER_SIZE_MAX 360
/* The numbers of an entry: nine, and the signs between them. */
#define QN_PAST_RUN_SIZE_MAX (200 + QN_PAST_RUN_WORKER_SIZE_MAX + QN_PAST_RUN_ERROR_SIZE_MAX)
#define QN_PAST_RUNS_SIZE_MAX (QN_PAST_RUNS_MAX * QN_PAST_RUN_SIZE_MAX)

/* What is known of the process of a run. */
struct qn_run_facts {
    bool known;
    int64_t cpu_ms;     /* -1: not known, as the next two */
    int64_t memory_kib; /* resident, the most there was */
    int32_t exit_code;
    int32_t signal; /* 0: none */
};

struct qn_past_run {
    quern_run_end end;
    quern_cause cause;
    int64_t took_ms; /* -1: not known */
    int64_t ago_ms;
    struct qn_run_facts facts;
    struct qn_bytes worker; /* as of qn_past_run_worker */
    const char *error;      /* NULL: none */
};

/* Room for one entry. */
typedef char qn_past_run_text[QN_PAST_RUN_SIZE_MAX];
/* Writes it without at_ms; returns its length. */
size_t qn_past_run_write(const struct qn_past_run *run, qn_past_run_text out);

/* "host:pid:id", as entries have it; cut at its end. host NULL: not known. Returns its length. */
size_t qn_past_run_worker(const char *host, int64_t pid, const char *worker_id,
                          char out[QN_PAST_RUN_WORKER_SIZE_MAX]);

/* Room for all of them, and a NUL. */
typedef char qn_past_runs_text[QN_PAST_RUNS_SIZE_MAX + 1];
/* Puts an entry that ended now (empty: none) before those there were; the oldest beyond the limit
 * are dropped. */
void qn_past_runs_add(int64_t now_ms, struct qn_bytes entry, struct qn_bytes before,
                      qn_past_runs_text out);
/* The same of a task that has none before. */
void qn_past_runs_first(int64_t now_ms, struct qn_bytes entry, qn_past_run_text out);
/* Without the newest one. */
struct qn_bytes qn_past_runs_older(struct qn_bytes runs);

/* How many can be read, and how many bytes their texts take in all. */
size_t qn_past_runs_count(struct qn_bytes runs, size_t *ret_text_size);
/* Reads `count` of them; their texts go to `texts`. */
void qn_past_runs_read(struct qn_bytes runs, size_t count, quern_past_run *ret_runs, char *texts);

#endif
