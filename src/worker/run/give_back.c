/* SPDX-License-Identifier: MIT */
/* give_back.c - takes runs that have not started out of the pool again.
 *
 * A run waits here only because it was prefetched. When that turns out wrong (no slot got free
 * within QN_TAKE_BACK_MS, its queue was paused, the worker drains or makes room for a task that
 * must be alone) it goes back to the head of its queue, where another worker can take it. A run
 * that a pool thread has just taken is left alone: execute.c checks the same reasons before it
 * starts. */
#include "worker/run/give_back.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/internal.h"
#include "worker/run/mux.h"
#include "worker/run/verdict.h"

static bool take_back(struct quern_worker *worker, struct quern_run *run)
{
    return run->in_child && !run->acks_first
               ? qn_prefork_take_back(worker->prefork, &run->child_item)
               : qn_pool_take_back(worker->pool, &run->item);
}

/* Takes this run out of the pool if it has not started, and finishes it with this reason. */
static void give_back(struct quern_worker *worker, struct quern_run *run,
                      enum qn_cancel_reason reason)
{
    bool in_pool = run->place != QN_PLACE_PARKED && run->place != QN_PLACE_READY;
    if (run->phase != QN_RUN_WAITING || (in_pool && !take_back(worker, run))) {
        return;
    }
    struct qn_verdict verdict;
    qn_verdict_interrupt(worker, run, reason, &verdict);
    qn_run_table_finish(&worker->run_table, run, &verdict);
    qn_signals_wake_pump(worker);
}

/* The error text of a task that never failed: for others an earlier failure is more useful. */
static void set_reason(struct quern_worker *worker, struct quern_run *run)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    int size = snprintf(text, sizeof text,
                        "%u of pattern \"%s\" run in the worker on %s, process %" PRId64
                        ": waits for one of them, or another worker",
                        run->entry->options.concurrency, run->entry->pattern, worker->host,
                        worker->opener_pid);
    qn_run_set_error(run, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

void qn_give_back_aside(struct quern_worker *worker, struct quern_run *run, int64_t now_mono_ns)
{
    const struct qn_leased *leased = run->leased;
    if (leased->retry_count + leased->crash_count == 0) {
        set_reason(worker, run);
    }
    const struct qn_verdict verdict = {
        .offered = true,
        .kind = QN_ASIDE,
        .cause = leased->cause,
        .outcome = QUERN_SNOOZE,
        .delay_ms = qn_run_table_aside_ms(&worker->run_table, run, now_mono_ns, &worker->random),
        .error = run->error,
    };
    run->unknown = true;
    qn_run_table_finish(&worker->run_table, run, &verdict);
    qn_signals_wake_pump(worker);
}

size_t qn_give_back_waiting(struct quern_worker *worker, int64_t now_mono_ns)
{
    size_t late_count = 0;
    struct qn_list *node = worker->run_table.waiting.next;
    while (node != &worker->run_table.waiting) {
        struct quern_run *run = QN_CONTAINER_OF(node, struct quern_run, phase_node);
        node = node->next; /* the run may leave the list */
        bool parked = run->place == QN_PLACE_PARKED;
        bool late = now_mono_ns - run->leased_at_mono_ns > QN_TAKE_BACK_MS * QN_NS_PER_MS;
        if (late || worker->state != QN_WORKER_RUNNING || worker->clearing ||
            worker->paused[run->leased->queue_index]) {
            bool aside =
                parked && run->type->entry != NULL && late && worker->state == QN_WORKER_RUNNING;
            if (aside) {
                qn_give_back_aside(worker, run, now_mono_ns);
                continue;
            }
            late_count += late ? 1 : 0;
            give_back(worker, run, qn_run_cancel_reason(run));
        }
    }
    return late_count;
}

void qn_give_back_cancelled(struct quern_worker *worker, struct quern_run *run,
                            enum qn_cancel_reason reason)
{
    qn_run_cancel(run, reason);
    give_back(worker, run, reason);
    qn_signals_wake_keeper(worker); /* from now on its grace is counted */
}
