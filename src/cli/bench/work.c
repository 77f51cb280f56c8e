/* SPDX-License-Identifier: MIT */
/* work.c - a worker of a bench, which stops when all workers together have had their tasks.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "cli/bench/bench.h"
#include "quern/zygote.h"

struct work {
    quern_worker *worker;
    const struct qn_bench_worker *bench;
    struct qn_bench_board *board;
    size_t wanted;
    int64_t done_ns;
    bool is_prefork;
};

struct qn_bench_board *qn_bench_board_new(void)
{
    struct qn_bench_board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return NULL;
    }
    board->child_cpu_ns = -1;
    board->child_rss = -1;
    board->zygote_rss = -1;
    return board;
}

void qn_bench_board_free(struct qn_bench_board *board)
{
    if (board != NULL) {
        (void)munmap(board, sizeof *board);
    }
}

/* pid: a process of the zygote, which guards one that runs handlers, or is that itself. */
static void measure_child(struct qn_bench_board *board, pid_t pid)
{
    pid_t below = 0;
    int64_t ns = qn_bench_process_cpu_ns(pid);
    board->child_cpu_ns += ns > 0 ? ns : 0;
    if (qn_bench_process_children(pid, &below, 1) > 0) {
        ns = qn_bench_process_cpu_ns(below);
        board->child_cpu_ns += ns > 0 ? ns : 0;
        pid = below;
    }
    int64_t rss = qn_bench_process_rss(pid);
    board->child_rss = rss > board->child_rss ? rss : board->child_rss;
}

/* The zygote is the only process that a worker starts, and has the children. */
static void measure_children(struct qn_bench_board *board)
{
    enum { CHILDREN_MAX = 64 };
    pid_t zygote = 0;
    pid_t children[CHILDREN_MAX];
    if (qn_bench_process_children(getpid(), &zygote, 1) == 0) {
        return;
    }
    board->zygote_rss = qn_bench_process_rss(zygote);
    board->child_cpu_ns = 0;
    size_t count = qn_bench_process_children(zygote, children, CHILDREN_MAX);
    for (size_t i = 0; i < count; i++) {
        measure_child(board, children[i]);
    }
}

static void on_run(const quern_run_report *report, void *user)
{
    struct work *work = user;
    if (report->applied && work->bench->on_report != NULL) {
        work->bench->on_report(report, work->bench->user);
    }
    if (report->outcome != QUERN_DONE || !report->applied) {
        return;
    }
    if (atomic_fetch_add(&work->board->done, 1) + 1 == work->wanted) {
        work->done_ns = qn_clock_mono_ns();
        if (work->is_prefork) {
            measure_children(work->board);
        }
        quern_worker_stop(work->worker);
    }
}

/* Warnings tell of each death, which is wanted. */
static void log_errors(quern_log_level level, const char *line, void *user)
{
    (void)user;
    if (level >= QUERN_LOG_ERROR) {
        (void)fprintf(stderr, "%s\n", line);
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

/* The zygote is forked before this process has threads. */
static quern_status prepare_pool(const struct qn_bench *bench, const struct qn_bench_worker *worker,
                                 quern_mux *mux, quern_zygote **ret_zygote, quern_error *err)
{
    if (bench->pool == QN_BENCH_EXEC) {
        return quern_mux_exec(mux, QN_BENCH_TYPE, "true", NULL, err);
    }
    quern_status status =
        quern_mux_handle(mux, QN_BENCH_TYPE, worker->handler, worker->user, NULL, err);
    if (status == QUERN_OK && bench->pool == QN_BENCH_PREFORK) {
        status = quern_zygote_start(mux, NULL, ret_zygote, err);
    }
    return status;
}

quern_status qn_bench_work(const struct qn_bench *bench, const struct qn_bench_worker *worker,
                           int64_t *ret_done_ns, quern_error *err)
{
    struct work work = {
        .bench = worker,
        .board = worker->board,
        .wanted = bench->task_count,
        .is_prefork = bench->pool == QN_BENCH_PREFORK,
    };
    quern_queue *queues = make_queues(bench);
    quern_zygote *zygote = NULL;
    quern_worker_options options = {
        .queues = queues,
        .queue_count = bench->queues,
        .concurrency = bench->concurrency,
        .on_log = bench->signal != 0 ? log_errors : NULL,
        .on_run = on_run,
        .pool = bench->pool == QN_BENCH_PREFORK ? QUERN_POOL_PREFORK : QUERN_POOL_THREADS,
        .user = &work,
    };
    quern_mux *mux = NULL;
    quern_status status = queues == NULL ? qn_error_nomem(err) : quern_mux_new(&mux, err);
    if (status == QUERN_OK) {
        status = prepare_pool(bench, worker, mux, &zygote, err);
        options.zygote = zygote;
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
    quern_zygote_free(zygote);
    quern_mux_free(mux);
    qn_free(queues);
    return status;
}
