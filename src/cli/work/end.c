/* SPDX-License-Identifier: MIT */
/* end.c - how a worker with --drain or --until-idle has done.
 *
 * A task has failed when this worker archived it (its attempts are used up, its handler gave it up,
 * an operator cancelled it so, its deadline was over before a run, its worker died once too often),
 * or when a run of it failed here and the task is still not done: it waits for its retry. A task
 * that failed first and succeeded later has not failed, whichever worker ran it. So failed runs are
 * noted, and at the end the broker is asked where their tasks are: for up to NOTED_MAX of them.
 * Each failed run of others counts as failed, but never more than what is left. Where the broker
 * does not answer any more, all of them do. */
#include "cli/work/end.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/buf.h"
#include "base/text/duration.h"
#include "base/text/hash.h"
#include "base/text/moment.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/work/queues.h"

enum { SLOT_COUNT = 2048 /* a power of two */, NOTED_MAX = 1000 };
#define LEFT_SIZE_MAX 512

struct noted_task {
    char *queue; /* both owned; NULL: a free slot */
    char *id;
};

struct qn_work_failed {
    struct noted_task slots[SLOT_COUNT];
    size_t count;
    uint64_t unnoted; /* failed runs of tasks for which there was no slot */
};

/* --- Noting ---------------------------------------------------------------------------- */

static struct noted_task *find_slot(struct qn_work_failed *failed, const char *queue,
                                    const char *id)
{
    uint64_t hash = qn_hash_part(QN_HASH_START, queue, strlen(queue));
    hash = qn_hash_part(hash, id, strlen(id));
    for (size_t i = (hash ^ hash >> 32) % SLOT_COUNT;; i = (i + 1) % SLOT_COUNT) {
        struct noted_task *slot = &failed->slots[i];
        if (slot->id == NULL || (strcmp(slot->queue, queue) == 0 && strcmp(slot->id, id) == 0)) {
            return slot;
        }
    }
}

void qn_work_end_note_run(struct qn_work *work, const quern_run_report *report)
{
    bool ends_itself = work->drain || work->until_idle;
    if (!ends_itself || !report->applied || report->outcome != QUERN_RETRY) {
        return;
    }
    if (work->failed == NULL) {
        work->failed = qn_memory_must(qn_alloc_zero(1, sizeof *work->failed));
    }
    struct noted_task *slot = find_slot(work->failed, report->queue, report->id);
    if (slot->id != NULL) {
        return;
    }
    if (work->failed->count == NOTED_MAX) {
        work->failed->unnoted++;
        return;
    }
    slot->queue = qn_memory_must(qn_str_dup(report->queue));
    slot->id = qn_memory_must(qn_str_dup(report->id));
    work->failed->count++;
}

void qn_work_end_finish(struct qn_work *work)
{
    for (size_t i = 0; work->failed != NULL && i < SLOT_COUNT; i++) {
        qn_free(work->failed->slots[i].queue);
        qn_free(work->failed->slots[i].id);
    }
    qn_free(work->failed);
}

/* --- What is left ---------------------------------------------------------------------- */

struct left {
    uint64_t pending, active, scheduled, retry, aggregating;
    int64_t next_due_at_ms; /* INT64_MAX: nothing is delayed */
    bool known;             /* the broker answered */
};

/* The one that is due first leads the list. */
static void note_next_due(quern_inspector *inspector, const char *queue, quern_task_state state,
                          struct left *left)
{
    const quern_task_filter filter = {.queue = queue, .state = (int32_t)state, .limit = 1};
    quern_task_list *list = NULL;
    if (quern_inspector_tasks(inspector, &filter, &list, NULL) != QUERN_OK) {
        return;
    }
    const quern_task_info *first = quern_task_list_at(list, 0);
    if (first != NULL && quern_task_info_due_at_ms(first) < left->next_due_at_ms) {
        left->next_due_at_ms = quern_task_info_due_at_ms(first);
    }
    quern_task_list_free(list);
}

static struct left read_left(const struct qn_work *work, quern_inspector *inspector)
{
    struct left left = {.next_due_at_ms = INT64_MAX};
    quern_queue_list *list = NULL;
    if (inspector == NULL || qn_work_queues_list(work, inspector, &list, NULL) != QUERN_OK) {
        return left;
    }
    left.known = true;
    for (size_t i = 0; i < quern_queue_list_size(list); i++) {
        const quern_queue_info *queue = quern_queue_list_at(list, i);
        left.pending += queue->counts[QUERN_TASK_PENDING];
        left.active += queue->counts[QUERN_TASK_ACTIVE];
        left.scheduled += queue->counts[QUERN_TASK_SCHEDULED];
        left.retry += queue->counts[QUERN_TASK_RETRY];
        left.aggregating += queue->counts[QUERN_TASK_AGGREGATING];
        if (queue->counts[QUERN_TASK_SCHEDULED] > 0) {
            note_next_due(inspector, queue->name, QUERN_TASK_SCHEDULED, &left);
        }
        if (queue->counts[QUERN_TASK_RETRY] > 0) {
            note_next_due(inspector, queue->name, QUERN_TASK_RETRY, &left);
        }
    }
    quern_queue_list_free(list);
    return left;
}

static void add_part(struct qn_buf *out, uint64_t count, const char *state)
{
    if (count > 0 && qn_buf_printf(out, "%s%" PRIu64 " %s", out->size > 0 ? ", " : "", count,
                                   state) != QUERN_OK) {
        qn_memory_exhausted();
    }
}

static void report_left(const struct qn_work *work, const struct left *left)
{
    struct qn_buf parts;
    char at[64] = "";
    char in[32] = "";
    qn_buf_init(&parts, LEFT_SIZE_MAX);
    add_part(&parts, left->pending, "pending");
    add_part(&parts, left->active, "active");
    add_part(&parts, left->scheduled, "scheduled");
    add_part(&parts, left->retry, "retry");
    add_part(&parts, work->aggregates ? left->aggregating : 0, "aggregating");
    if (left->next_due_at_ms != INT64_MAX) {
        int64_t in_ms = left->next_due_at_ms - qn_clock_wall_ms(qn_clock_system());
        qn_moment_format(left->next_due_at_ms, at, sizeof at);
        qn_duration_format(in_ms > 0 ? in_ms / 1000 * 1000 : 0, in, sizeof in);
    }
    if (parts.size > 0) {
        qn_cli_message(work->cli, "left: %s%s%s%s%s%s", qn_buf_text(&parts),
                       at[0] != '\0' ? "; the next is due in " : "", in, at[0] != '\0' ? " (" : "",
                       at, at[0] != '\0' ? ")" : "");
    }
    qn_buf_finish(&parts);
}

/* --- Judging --------------------------------------------------------------------------- */

/* Whether a task that failed here still has to be done, and no run of it is in progress. NULL: the
 * broker cannot be asked. */
static bool is_waiting(quern_inspector *inspector, const struct noted_task *task)
{
    quern_task_info *info = NULL;
    if (inspector == NULL) {
        return true;
    }
    quern_status status = quern_inspector_task(inspector, task->queue, task->id, &info, NULL);
    if (status != QUERN_OK) {
        return status != QUERN_E_NOT_FOUND;
    }
    bool has_failed = quern_task_info_retry_count(info) + quern_task_info_crash_count(info) > 0;
    quern_task_state state = quern_task_info_state(info);
    quern_task_info_free(info);
    return has_failed && (state == QUERN_TASK_RETRY || state == QUERN_TASK_PENDING);
}

/* left_count: how many tasks wait for a run or a retry; no more can be among those not noted. */
static uint64_t count_waiting(const struct qn_work_failed *failed, quern_inspector *inspector,
                              uint64_t left_count)
{
    uint64_t count = 0;
    for (size_t i = 0; failed != NULL && i < SLOT_COUNT; i++) {
        count += failed->slots[i].id != NULL && is_waiting(inspector, &failed->slots[i]) ? 1 : 0;
    }
    uint64_t unnoted = failed != NULL ? failed->unnoted : 0;
    return count + (inspector != NULL && unnoted > left_count ? left_count : unnoted);
}

static void report_failed(const struct qn_work *work, uint64_t archived, uint64_t waiting)
{
    if (waiting == 0) {
        qn_cli_warn(work->cli, "%" PRIu64 " %s failed, archived", archived,
                    qn_plural(archived, "task", "tasks"));
    } else if (archived == 0) {
        qn_cli_warn(work->cli, "%" PRIu64 " %s failed, to be retried", waiting,
                    qn_plural(waiting, "task", "tasks"));
    } else {
        qn_cli_warn(work->cli,
                    "%" PRIu64 " tasks failed: %" PRIu64 " archived, %" PRIu64 " to be retried",
                    archived + waiting, archived, waiting);
    }
}

/* --- The end --------------------------------------------------------------------------- */

void qn_work_end_report(const struct qn_work *work, const quern_worker_stats *stats)
{
    if (work->log.level_min <= QUERN_LOG_INFO) {
        qn_cli_message(work->cli,
                       "done %" PRIu64 ", retried %" PRIu64 ", archived %" PRIu64
                       ", given back %" PRIu64 ", crashed %" PRIu64,
                       stats->done, stats->retried, stats->archived, stats->given_back,
                       stats->crashed);
    }
}

int qn_work_end_judge(struct qn_work *work, const quern_worker_stats *stats)
{
    if (!work->drain && !work->until_idle) {
        return QN_EXIT_OK;
    }
    const char *url = NULL;
    quern_inspector *inspector = NULL;
    if (qn_cli_broker_url(work->cli, false, &url) != QN_EXIT_OK ||
        quern_inspector_open(url, NULL, &inspector, NULL) != QUERN_OK) {
        inspector = NULL; /* it was there until now */
    }
    const struct left left = read_left(work, inspector);
    if (!left.known) {
        quern_inspector_free(inspector); /* it would keep each question waiting, too */
        inspector = NULL;
    }
    uint64_t waiting = count_waiting(work->failed, inspector, left.pending + left.retry);
    bool failed = stats->archived + waiting > 0;
    if (failed) {
        report_failed(work, stats->archived, waiting);
    }
    if (work->log.level_min <= QUERN_LOG_INFO) {
        report_left(work, &left);
    }
    quern_inspector_free(inspector);
    return failed ? QN_EXIT_TASKS_FAILED : QN_EXIT_OK;
}
