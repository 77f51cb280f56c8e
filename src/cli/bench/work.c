/* SPDX-License-Identifier: MIT */
/* work.c - a worker of a bench, which stops when all workers together have had their tasks.
 */
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "cli/bench/bench.h"

struct work {
    quern_worker *worker;
    struct qn_bench_board *board;
    size_t wanted;
    int64_t done_ns;
};

struct qn_bench_board *qn_bench_board_new(void)
{
    struct qn_bench_board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? NULL : board;
}

void qn_bench_board_free(struct qn_bench_board *board)
{
    if (board != NULL) {
        (void)munmap(board, sizeof *board);
    }
}

static void on_run(const quern_run_report *report, void *user)
{
    struct work *work = user;
    if (report->outcome != QUERN_DONE || !report->applied) {
        return;
    }
    if (atomic_fetch_add(&work->board->done, 1) + 1 == work->wanted) {
        work->done_ns = qn_clock_mono_ns();
        quern_worker_stop(work->worker);
    }
}

/* The queues of the bench; names and the array are one block. */
static quern_queue *make_queues(const struct qn_bench *bench)
{
    size_t size = sizeof(quern_queue) + QN_BENCH_NAME_SIZE;
    quern_queue *queues = qn_alloc_zero(bench->queues, size);
    if (queues == NULL) {
        return NULL;
    }
    char(*names)[QN_BENCH_NAME_SIZE] = (void *)&queues[bench->queues];
    for (uint32_t i = 0; i < bench->queues; i++) {
        qn_bench_queue_name(i, names[i]);
        queues[i].name = names[i];
    }
    return queues;
}

quern_status qn_bench_work(const struct qn_bench *bench, const struct qn_bench_worker *worker,
                           int64_t *ret_done_ns, quern_error *err)
{
    struct work work = {.board = worker->board, .wanted = bench->task_count};
    quern_queue *queues = make_queues(bench);
    const quern_worker_options options = {
        .queues = queues,
        .queue_count = bench->queues,
        .concurrency = bench->concurrency,
        .on_run = on_run,
        .user = &work,
    };
    quern_mux *mux = NULL;
    quern_status status = queues == NULL ? qn_error_nomem(err) : quern_mux_new(&mux, err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, QN_BENCH_TYPE, worker->handler, worker->user, NULL, err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(bench->url, mux, &options, &work.worker, err);
    }
    if (status == QUERN_OK) {
        if (worker->on_ready != NULL) {
            worker->on_ready(worker->user);
        }
        status = quern_worker_run(work.worker, err);
    }
    if (status == QUERN_OK) {
        *ret_done_ns = work.done_ns;
    }
    quern_worker_free(work.worker);
    quern_mux_free(mux);
    qn_free(queues);
    return status;
}
