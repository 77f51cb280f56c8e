/* SPDX-License-Identifier: MIT */
/* judge.c - reads the records of the soak test and checks that a planted fault explains each extra
 * start.
 *
 * A start after the first of its task is explained when it names a cause, has a greater fence than
 * all before, and the run before it failed on request, was in a process that was lost or stopped
 * too long, or had its lease ended by a jump of the server's clock. Or it names an expired lease,
 * and the pauses that kept its worker from extending it were too long together. Or it names the
 * death of a child, and its worker lost one; which one is not recorded, so the caller compares the
 * number of such starts with that of killed children.
 *
 * A start with an older fence than the one before it has one explanation: its worker was stopped
 * for less than its lease lasts, and meanwhile the clock of the server ended that lease, and
 * another worker ran the task. Nothing in its own process can tell it so; the fence is there for
 * what it then writes, and the broker refuses its outcome.
 *
 * Not every run is recorded: its process can be lost between the lease and the handler's first
 * record. If the run before was lost, too, that makes no difference. If it had failed, the start
 * after the unrecorded one names a dead worker as its cause, and not the retry. */
#include "soak.h"

#include <stdlib.h>

#define SLOW_MS 10000 /* after a death; later than this a task's whole history is printed */

struct run {
    uint64_t fence;
    int pid;
    int64_t at_ms;
    int64_t lost_at_ms; /* when its process died; 0: not */
    size_t starts;
    bool over; /* it ended or failed; then it does not wait for recovery */
    bool failed;
    int64_t over_at_ms;
};

void soak_note_ms(struct soak_times *times, int64_t ms)
{
    if (times->count == times->room) {
        times->room = times->room == 0 ? 256 : 2 * times->room;
        times->ms = realloc(times->ms, times->room * sizeof *times->ms);
        assert_non_null(times->ms);
    }
    times->ms[times->count++] = ms;
}

static int compare_ms(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

void soak_print_times(const char *what, struct soak_times *times)
{
    if (times->count == 0) {
        return;
    }
    qsort(times->ms, times->count, sizeof *times->ms, compare_ms);
    print_message("%s: p50 %lld ms, p99 %lld ms, max %lld ms of %zu\n", what,
                  (long long)times->ms[(times->count - 1) / 2],
                  (long long)times->ms[(times->count - 1) * 99 / 100],
                  (long long)times->ms[times->count - 1], times->count);
    free(times->ms);
    *times = (struct soak_times){0};
}

/* The event that explains that this run was followed by another at that moment. */
static const struct soak_event *find_event(const struct soak_journal *journal,
                                           const struct run *run, const struct fault_record *record)
{
    bool by_child = record->cause == QUERN_CAUSE_CHILD_DIED;
    for (size_t i = 0; i < journal->event_count; i++) {
        const struct soak_event *event = &journal->events[i];
        bool counts = event->kind != SOAK_HINDERED && (event->kind != SOAK_CHILD || by_child);
        bool meets = event->until_ms >= run->at_ms && event->from_ms <= record->at_ms;
        if (counts && meets && (event->pid == 0 || event->pid == run->pid)) {
            return event;
        }
    }
    return NULL;
}

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A worker that was stopped for two seconds, and a server that was then down for one. */
static bool was_hindered(const struct soak_journal *journal, const struct run *run,
                         const struct fault_record *record)
{
    int64_t sum_ms = 0;
    for (size_t i = 0; i < journal->event_count; i++) {
        const struct soak_event *event = &journal->events[i];
        bool ours = event->pid == 0 || event->pid == run->pid;
        int64_t from_ms = -min_ms(-event->from_ms, -run->at_ms);
        int64_t until_ms = min_ms(event->until_ms, record->at_ms);
        if (event->kind == SOAK_HINDERED && ours && until_ms > from_ms) {
            sum_ms += until_ms - from_ms;
        }
    }
    return record->cause == QUERN_CAUSE_LEASE_EXPIRED && sum_ms >= SOAK_CARELESS_MS;
}

/* Whether a process was lost or stopped, or a clock was set, after the run had failed and before
 * the task started again: that worker may have leased it meanwhile without recording it. */
static bool may_be_unwritten(const struct soak_journal *journal, const struct run *run,
                             const struct fault_record *record)
{
    bool by_loss = record->cause == QUERN_CAUSE_WORKER_DIED ||
                   record->cause == QUERN_CAUSE_LEASE_EXPIRED ||
                   record->cause == QUERN_CAUSE_CHILD_DIED;
    for (size_t i = 0; run->failed && by_loss && i < journal->event_count; i++) {
        const struct soak_event *event = &journal->events[i];
        if (event->until_ms >= run->over_at_ms && event->from_ms <= record->at_ms) {
            return true;
        }
    }
    return false;
}

/* Whether this start is that of an older lease, which its worker took for valid. */
static bool is_late(const struct soak_journal *journal, const struct run *run,
                    const struct fault_record *record)
{
    bool turned = false;
    bool stopped = false;
    for (size_t i = 0; i < journal->event_count; i++) {
        const struct soak_event *event = &journal->events[i];
        bool then = event->from_ms <= run->at_ms && event->until_ms >= run->at_ms;
        turned = turned || (then && event->kind == SOAK_TURNED);
        stopped = stopped || (then && event->kind == SOAK_HINDERED && event->pid == record->pid);
    }
    return record->fence < run->fence && turned && stopped;
}

static const char *find_fault(const struct soak_journal *journal, struct run *run,
                              const struct fault_record *record)
{
    if (record->fence <= run->fence) {
        return "its fence did not grow";
    }
    if (run->starts == 0) {
        return NULL;
    }
    if (record->cause == QUERN_CAUSE_NONE) {
        return "it says no cause";
    }
    if (run->failed && record->cause == QUERN_CAUSE_RETRY) {
        return NULL;
    }
    const struct soak_event *event = find_event(journal, run, record);
    if (event == NULL &&
        (may_be_unwritten(journal, run, record) || was_hindered(journal, run, record))) {
        return NULL;
    }
    if (event == NULL) {
        return "nothing was done to the worker of the run before it";
    }
    run->lost_at_ms = event->kind == SOAK_LOST && !run->over ? event->from_ms : 0;
    return NULL;
}

/* Everything known about a task, and the faults during its life: for debugging. */
static void show_history(const struct soak_journal *journal, uint64_t task, int64_t until_ms)
{
    static const char *const kinds[] = {"", "starts", "ends", "fails"};
    static const char *const events[] = {"was lost", "stood still", "clock was turned",
                                         "was hindered", "lost a child"};
    int64_t from_ms = INT64_MAX;
    for (size_t i = 0; i < journal->count && journal->records[i].at_ms <= until_ms; i++) {
        const struct fault_record *record = &journal->records[i];
        if (record->task != task) {
            continue;
        }
        from_ms = record->at_ms < from_ms ? record->at_ms : from_ms;
        print_error("  at %lld: %s in %d, fence %llu, cause %d, crashed %d\n",
                    (long long)record->at_ms, kinds[record->kind], record->pid,
                    (unsigned long long)record->fence, record->cause, record->crash_count);
    }
    for (size_t i = 0; i < journal->event_count; i++) {
        const struct soak_event *event = &journal->events[i];
        if (event->from_ms >= from_ms - SOAK_LEASE_MS && event->from_ms <= until_ms) {
            print_error("  at %lld: %d %s for %lld ms\n", (long long)event->from_ms, event->pid,
                        events[event->kind], (long long)(event->until_ms - event->from_ms));
        }
    }
}

static void judge_start(const struct soak_journal *journal, struct run *run,
                        const struct fault_record *record, struct soak_verdict *verdict)
{
    if (is_late(journal, run, record)) {
        verdict->extra++;
        return;
    }
    run->lost_at_ms = 0;
    const char *fault = find_fault(journal, run, record);
    if (fault != NULL) {
        print_error("task %llu, start %zu in %d at %lld, cause %d, after %d at %lld: %s\n",
                    (unsigned long long)record->task, run->starts + 1, record->pid,
                    (long long)record->at_ms, record->cause, run->pid, (long long)run->at_ms,
                    fault);
        show_history(journal, record->task, record->at_ms);
        verdict->unexplained++;
    }
    if (run->lost_at_ms != 0) {
        int charges = record->crash_count < 1 ? 1 : record->crash_count;
        charges = charges > SOAK_CHARGES ? SOAK_CHARGES : charges;
        soak_note_ms(&verdict->worker[charges - 1], record->at_ms - run->lost_at_ms);
        if (charges == 1 && record->at_ms - run->lost_at_ms >= SLOW_MS) {
            print_error("task %llu ran again late, in %d at %lld, %lld ms after %d was killed:\n",
                        (unsigned long long)record->task, record->pid, (long long)record->at_ms,
                        (long long)(record->at_ms - run->lost_at_ms), run->pid);
            show_history(journal, record->task, record->at_ms);
        }
    }
    verdict->extra += run->starts > 0 ? 1 : 0;
    verdict->child += record->cause == QUERN_CAUSE_CHILD_DIED ? 1 : 0;
    *run = (struct run){.fence = record->fence,
                        .pid = record->pid,
                        .at_ms = record->at_ms,
                        .starts = run->starts + 1};
}

void soak_judge(const struct soak_journal *journal, bool *ends, struct soak_verdict *ret_verdict)
{
    struct run *runs = calloc(journal->task_count + 1, sizeof *runs);
    assert_non_null(runs);
    for (size_t i = 0; i < journal->count; i++) {
        const struct fault_record *record = &journal->records[i];
        assert_true(record->task < journal->task_count);
        struct run *run = &runs[record->task];
        if (record->kind == FAULT_START) {
            judge_start(journal, run, record, ret_verdict);
            continue;
        }
        if (record->fence == run->fence) { /* else a run that was fenced off */
            run->over = true;
            run->failed = record->kind == SOAK_FAILED;
            run->over_at_ms = record->at_ms;
        }
        if (record->kind == FAULT_END && !ends[record->task]) {
            ends[record->task] = true;
            ret_verdict->ended++;
        }
    }
    free(runs);
}
