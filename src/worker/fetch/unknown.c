/* SPDX-License-Identifier: MIT */
/* unknown.c - tasks whose type no handler here serves are left to workers that can run them.
 *
 * No broker knows types when it leases. So such a task is leased like any other, takes no slot, and
 * leaves with the next exchange. Nothing is counted, and the task keeps its counts and its error.
 *   - At first it goes back to the head of its queue, and this worker fetches nothing for HOLD_MS:
 *     an idle worker that can run it is woken by that and takes it meanwhile.
 *   - When it comes here again, all workers that can run it are busy, or there is none. Then it is
 *     put aside, into retry, where every worker, asynq's too, sees it come back: after 1 s, the
 *     fourth time after 2 s, and so on up to 30 s. So thousands of tasks without a handler cost
 *     little, and known tasks behind them are reached soon. A task that never failed gets a text
 *     that explains why it waits.
 *
 * A hash table remembers which tasks were here before. A task has one place in it, and is new again
 * when another task has taken that place. A table that is too small, or missing because memory is
 * out, costs only work: about BACK_PER_S tasks come back in a second at most. */
#include "worker/fetch/unknown.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/memory/alloc.h"
#include "base/text/hash.h"
#include "base/text/str.h"
#include "task/trace/trace_headers.h"
#include "worker/internal.h"
#include "worker/run/mux.h"

enum {
    SPREAD_MS_MAX = 30000,
    BACK_PER_S = 1000,
    SEEN_MAX = 16384, /* 128 KiB; a power of two */
    HOLD_MS = 5,
    GIVE_BACKS = 4, /* before the first of this many pauses it is given back once more */
    WARN_AFTER = 3, /* times that no worker took a task */
    WARN_AGAIN_MS = 60000,
    SERVED_TEXT_SIZE = 512
};
/* The low bits of an entry of the table: how often it was here; the rest is the hash. */
#define VISITS_MASK UINT64_C(31)

/* By how often it was put aside before. */
static const int64_t delays_ms[] = {1000, 1000, 1000, 2000, 4000, 8000, 16000, 30000};
#define DELAY_COUNT (sizeof delays_ms / sizeof delays_ms[0])

void qn_unknown_init(struct qn_unknown *unknown)
{
    qn_random_init(&unknown->random);
}

void qn_unknown_finish(struct qn_unknown *unknown)
{
    for (size_t i = 0; i < unknown->type_count; i++) {
        qn_free(unknown->types[i].type);
    }
    qn_free(unknown->seen);
}

void qn_unknown_log_served(struct quern_worker *worker)
{
    char types[SERVED_TEXT_SIZE];
    bool serves_all = qn_mux_find(worker->mux, "") != NULL; /* by the pattern "*" alone */
    const char *others = qn_mux_takes(worker->mux, "") ? "counted" : "left";
    qn_mux_describe(worker->mux, types, sizeof types);
    QN_LOG(&worker->log, QUERN_LOG_INFO, "worker serves",
           QN_LOG_TEXT("types", worker->only_aggregates ? "none, groups only" : types),
           QN_LOG_TEXT("others", serves_all ? NULL : others));
}

/* Of queue and id, which name a task. */
static uint64_t hash_of(const struct qn_task *task)
{
    uint64_t hash = qn_hash_part(QN_HASH_START, task->queue, strlen(task->queue));
    hash = qn_hash_part(hash, task->id, strlen(task->id));
    return hash ^ hash >> 32;
}

/* How often it was here before, as far as that is known. */
static uint32_t count_visit(struct qn_unknown *unknown, const struct qn_task *task)
{
    if (unknown->seen == NULL) {
        unknown->seen = qn_alloc_zero(SEEN_MAX, sizeof *unknown->seen);
    }
    if (unknown->seen == NULL) {
        return 2 * GIVE_BACKS; /* so that it is not given back again and again */
    }
    uint64_t hash = hash_of(task);
    uint64_t *entry = &unknown->seen[(hash >> 5) & (SEEN_MAX - 1)];
    uint64_t visits = 0;
    if (((*entry ^ hash) & ~VISITS_MASK) == 0) {
        visits = *entry & VISITS_MASK;
    }
    *entry = (hash & ~VISITS_MASK) | (visits < VISITS_MASK ? visits + 1 : visits);
    return (uint32_t)visits;
}

static bool is_given_back(uint32_t visits)
{
    return visits < 2 * GIVE_BACKS && visits % 2 == 0;
}

/* How often it was put aside before. */
static uint32_t level_of(uint32_t visits)
{
    uint32_t level = visits < 2 * GIVE_BACKS ? visits / 2 : visits - GIVE_BACKS;
    return level < DELAY_COUNT ? level : DELAY_COUNT - 1;
}

static int64_t delay_ms(struct qn_unknown *unknown, uint32_t level, int64_t now_mono_ns)
{
    int64_t delay = delays_ms[level];
    delay += (int64_t)qn_random_below(&unknown->random, (uint64_t)delay / 4);
    const int64_t gap_ns = 1000 * QN_NS_PER_MS / BACK_PER_S;
    int64_t back_at_ns = unknown->back_at_mono_ns + gap_ns;
    back_at_ns = back_at_ns > now_mono_ns ? back_at_ns : now_mono_ns;
    int64_t spread_ms = (back_at_ns - now_mono_ns) / QN_NS_PER_MS;
    if (spread_ms < SPREAD_MS_MAX) {
        unknown->back_at_mono_ns = back_at_ns;
    }
    return delay + spread_ms;
}

static struct qn_unknown_type *find_type(struct qn_unknown *unknown, const char *type,
                                         bool *ret_is_new)
{
    *ret_is_new = false;
    for (size_t i = 0; i < unknown->type_count; i++) {
        if (strcmp(unknown->types[i].type, type) == 0) {
            return &unknown->types[i];
        }
    }
    char *copy = unknown->type_count < QN_UNKNOWN_TYPES_MAX ? qn_str_dup(type) : NULL;
    if (copy == NULL) {
        return NULL; /* more types than a person would read about */
    }
    *ret_is_new = true;
    unknown->types[unknown->type_count] = (struct qn_unknown_type){.type = copy};
    return &unknown->types[unknown->type_count++];
}

static void log_type(struct qn_unknown *unknown, struct quern_worker *worker,
                     const struct qn_task *task, uint32_t level, int64_t now_mono_ns)
{
    bool is_new;
    struct qn_unknown_type *type = find_type(unknown, task->type, &is_new);
    if (type == NULL) {
        return;
    }
    type->aside_count++;
    char text[QN_TRACE_ID_SIZE];
    const struct qn_trace_headers headers = {task->headers, task->header_count};
    const char *trace = qn_trace_headers_id(headers, text);
    if (is_new) {
        QN_LOG(&worker->log, QUERN_LOG_INFO, "no handler here, left to other workers",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace));
    }
    if (level >= WARN_AFTER && now_mono_ns >= type->log_at_mono_ns) {
        type->log_at_mono_ns = now_mono_ns + WARN_AGAIN_MS * QN_NS_PER_MS;
        QN_LOG(&worker->log, QUERN_LOG_WARN, "no worker takes tasks of this type",
               QN_LOG_TEXT("queue", task->queue), QN_LOG_TEXT("type", task->type),
               QN_LOG_TEXT("id", task->id), QN_LOG_TEXT("trace_id", trace),
               QN_LOG_NUMBER("put_aside", type->aside_count));
        type->aside_count = 0;
    }
}

/* The error text of a task that never failed: for others an earlier failure is more useful. */
static void set_reason(struct quern_worker *worker, struct quern_run *run)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    int size = snprintf(text, sizeof text,
                        "no handler for type \"%s\" in the worker on %s, process %" PRId64
                        ": waits for another worker",
                        run->leased->task.type, worker->host, worker->opener_pid);
    qn_run_set_error(run, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

bool qn_unknown_judge(struct qn_unknown *unknown, struct quern_worker *worker,
                      struct quern_run *run, int64_t now_mono_ns)
{
    const struct qn_leased *leased = run->leased;
    if (qn_mux_takes(worker->mux, leased->task.type)) {
        return false;
    }
    uint32_t visits = count_visit(unknown, &leased->task);
    run->verdict = (struct qn_verdict){
        .offered = true, .kind = QN_GIVE_BACK, .cause = leased->cause, .outcome = QUERN_SNOOZE};
    if (is_given_back(visits)) {
        unknown->hold_until_mono_ns = now_mono_ns + HOLD_MS * QN_NS_PER_MS;
        return true;
    }
    uint32_t level = level_of(visits);
    if (level == 0 && leased->retry_count + leased->crash_count == 0) {
        set_reason(worker, run);
    }
    run->verdict.kind = QN_BUG(UNKNOWN_COUNTED) ? QN_RETRY : QN_ASIDE;
    run->verdict.delay_ms = delay_ms(unknown, level, now_mono_ns);
    run->verdict.error = run->error;
    log_type(unknown, worker, &leased->task, level, now_mono_ns);
    return true;
}
