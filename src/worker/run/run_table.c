/* SPDX-License-Identifier: MIT */
/* run_table.c - moves runs between the lists of the worker and keeps the counts right.
 *
 * No I/O, no locks of its own: everything happens under the worker's mutex, so that a run is in
 * exactly one phase for whoever looks. The assertions are the drawing in run_table.h. */
#include "worker/run/run_table.h"

#include "base/assert.h"

void qn_books_init(struct qn_books *books)
{
    qn_list_init(&books->held);
    qn_list_init(&books->waiting);
    qn_list_init(&books->starting);
    qn_list_init(&books->finished);
}

static void count_charged(struct qn_books *books, const struct quern_run *run, int more)
{
    for (int64_t c = 1; c < QN_ALONE_CHARGES && c <= run->leased->crash_count; c++) {
        books->charged[c - 1] += (uint32_t)more;
    }
}

void qn_books_add(struct qn_books *books, struct quern_run *take_run)
{
    QN_ASSERT(take_run->phase == QN_RUN_WAITING);
    qn_list_append(&books->held, &take_run->node);
    qn_list_append(&books->waiting, &take_run->phase_node);
    books->held_count++;
    books->waiting_count++;
    count_charged(books, take_run, 1);
}

void qn_books_start(struct qn_books *books, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_WAITING);
    qn_list_remove(&run->phase_node);
    books->waiting_count--;
    books->running_count++;
    run->phase = QN_RUN_RUNNING;
    run->references++;
    if (!run->leased->started) {
        qn_list_append(&books->starting, &run->phase_node);
    }
}

static void end(struct qn_books *books, struct quern_run *run, const struct qn_verdict *verdict)
{
    qn_list_remove(&run->phase_node);
    qn_list_append(&books->finished, &run->phase_node);
    books->finished_count++;
    run->verdict = *verdict;
}

void qn_books_finish(struct qn_books *books, struct quern_run *run,
                     const struct qn_verdict *verdict)
{
    if (run->phase == QN_RUN_WAITING) {
        books->waiting_count--;
    } else {
        QN_ASSERT(run->phase == QN_RUN_RUNNING);
        books->running_count--;
    }
    run->phase = QN_RUN_FINISHED;
    end(books, run, verdict);
}

void qn_books_fence(struct qn_books *books, struct quern_run *run, const struct qn_verdict *verdict)
{
    QN_ASSERT(run->phase == QN_RUN_RUNNING);
    books->running_count--;
    run->phase = QN_RUN_FENCED;
    atomic_store(&run->abandoned, true);
    end(books, run, verdict);
}

struct quern_run *qn_books_take_finished(struct qn_books *books)
{
    struct qn_list *node = qn_list_shift(&books->finished);
    if (node == NULL) {
        return NULL;
    }
    books->finished_count--;
    return QN_CONTAINER_OF(node, struct quern_run, phase_node);
}

void qn_books_drop(struct qn_books *books, struct quern_run *run)
{
    QN_ASSERT(run->phase == QN_RUN_FINISHED || run->phase == QN_RUN_FENCED);
    QN_ASSERT(books->held_count > 0);
    qn_list_remove(&run->node);
    books->held_count--;
    count_charged(books, run, -1);
    qn_run_release(run);
}

void qn_run_release(struct quern_run *run)
{
    QN_ASSERT(run->references > 0);
    run->references--;
    if (run->references == 0) {
        qn_run_free(run);
    }
}
