/* SPDX-License-Identifier: MIT */
/* run_table.c - moves runs between the lists of the worker and keeps the counts right.
 *
 * No I/O, no locks of its own: everything happens under the worker's mutex, so that all threads see
 * a run in exactly one phase. The assertions are the drawing in run_table.h. */
#include "worker/run/run_table.h"

#include "base/assert.h"

void qn_run_table_init(struct qn_run_table *table)
{
    qn_list_init(&table->held);
    qn_list_init(&table->waiting);
    qn_list_init(&table->starting);
    qn_list_init(&table->finished);
}

static void count_charged(struct qn_run_table *table, const struct quern_run *run, int more)
{
    for (int64_t c = 1; c < QN_ALONE_CHARGES && c <= run->leased->level; c++) {
        table->charged[c - 1] += (uint32_t)more;
    }
}

void qn_run_table_add(struct qn_run_table *table, struct quern_run *take_run)
{
    QN_ASSERT(take_run->phase == QN_RUN_WAITING);
    qn_list_append(&table->held, &take_run->node);
    qn_list_append(&table->waiting, &take_run->phase_node);
    table->held_count++;
    table->waiting_count++;
    count_charged(table, take_run, 1);
}

void qn_run_table_start(struct qn_run_table *table, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_WAITING);
    qn_list_remove(&run->phase_node);
    table->waiting_count--;
    table->running_count++;
    run->phase = QN_RUN_RUNNING;
    run->references++;
    if (!run->leased->started) {
        qn_list_append(&table->starting, &run->phase_node);
    }
}

static void set_verdict(struct qn_run_table *table, struct quern_run *run,
                        const struct qn_verdict *verdict)
{
    qn_list_remove(&run->phase_node);
    qn_list_append(&table->finished, &run->phase_node);
    table->finished_count++;
    run->verdict = *verdict;
}

void qn_run_table_finish(struct qn_run_table *table, struct quern_run *run,
                         const struct qn_verdict *verdict)
{
    if (run->phase == QN_RUN_WAITING) {
        table->waiting_count--;
    } else {
        QN_ASSERT(run->phase == QN_RUN_RUNNING);
        table->running_count--;
    }
    run->phase = QN_RUN_FINISHED;
    set_verdict(table, run, verdict);
}

void qn_run_table_fence(struct qn_run_table *table, struct quern_run *run,
                        const struct qn_verdict *verdict)
{
    QN_ASSERT(run->phase == QN_RUN_RUNNING);
    table->running_count--;
    run->phase = QN_RUN_FENCED;
    atomic_store(&run->abandoned, true);
    set_verdict(table, run, verdict);
}

struct quern_run *qn_run_table_take_finished(struct qn_run_table *table)
{
    struct qn_list *node = qn_list_shift(&table->finished);
    if (node == NULL) {
        return NULL;
    }
    table->finished_count--;
    return QN_CONTAINER_OF(node, struct quern_run, phase_node);
}

void qn_run_table_drop(struct qn_run_table *table, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_FINISHED || run->phase == QN_RUN_FENCED);
    QN_ASSERT(table->held_count > 0);
    qn_list_remove(&run->node);
    table->held_count--;
    count_charged(table, run, -1);
    qn_run_release(run);
}
