/* SPDX-License-Identifier: MIT */
/* deaths.c - how soon the task of a prefork child that died is pending again.
 *
 * A task at a time: its first run notes the moment and kills its own process, the second one notes
 * when it began. The worker notes when the broker has confirmed the end of the first run. So each
 * death is followed by a good run, and the queue is never braked. With a signal that the child
 * handles, such as SEGV, the time contains its backtrace. */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/bench/bench.h"

#define PATIENCE_NS INT64_C(30000000000)

/* What all processes share. */
struct sheet {
    struct qn_bench_board board;
    int signal;
    int64_t died_ns;
    int64_t pending_ns;
    int64_t again_ns;
    atomic_size_t reports; /* two for each task */
};

struct seat {
    int to_fd;
    struct sheet *sheet;
};

static quern_outcome die_once(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    const struct seat *seat = user;
    if (quern_run_crash_count(run) > 0) {
        seat->sheet->again_ns = qn_clock_mono_ns();
        return QUERN_DONE;
    }
    seat->sheet->died_ns = qn_clock_mono_ns();
    (void)kill(getpid(), seat->sheet->signal);
    return QUERN_RETRY; /* the signal was ignored: no second report comes, the bench fails */
}

static void report_ready(void *user)
{
    const struct seat *seat = user;
    qn_bench_child_send(seat->to_fd, 0, QUERN_OK, NULL);
}

static void note_report(const quern_run_report *report, void *user)
{
    const struct seat *seat = user;
    if (report->outcome != QUERN_DONE) {
        seat->sheet->pending_ns = qn_clock_mono_ns();
    }
    atomic_fetch_add(&seat->sheet->reports, 1);
}

static void worker_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes)
{
    quern_error error = {0};
    int64_t done_ns = 0;
    struct seat seat = {.to_fd = pipes->to_fd, .sheet = pipes->shared};
    const struct qn_bench_worker worker = {.board = &seat.sheet->board,
                                           .handler = die_once,
                                           .on_ready = report_ready,
                                           .on_report = note_report,
                                           .user = &seat};
    quern_status status = qn_bench_work(bench, &worker, &done_ns, &error);
    if (status != QUERN_OK) {
        qn_bench_child_send(pipes->to_fd, 0, status, &error);
    }
}

static quern_status take_one(quern_client *client, struct sheet *sheet, size_t index,
                             quern_error *err)
{
    const quern_task task = {.type = QN_BENCH_TYPE, .queue = QN_BENCH_QUEUE};
    quern_status status = quern_client_enqueue(client, &task, NULL, err);
    int64_t until_ns = qn_clock_mono_ns() + PATIENCE_NS;
    while (status == QUERN_OK && atomic_load(&sheet->reports) < 2 * (index + 1)) {
        if (qn_clock_mono_ns() > until_ns) {
            status = qn_error_set(err, QUERN_E_TIMEOUT, "a task does not come back");
        }
        (void)poll(NULL, 0, 1);
    }
    return status;
}

static quern_status take_all(const struct qn_bench *bench, struct sheet *sheet,
                             int64_t *ret_pending, int64_t *ret_again, quern_error *err)
{
    struct qn_bench_child worker = {0};
    quern_client *client = NULL;
    int64_t ready = 0;
    quern_status status = qn_bench_child_start(bench, worker_main, sheet, &worker, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&worker, &ready, err);
    }
    if (status == QUERN_OK) {
        status = quern_client_open(bench->url, NULL, &client, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < bench->task_count; i++) {
        status = take_one(client, sheet, i, err);
        ret_pending[i] = sheet->pending_ns - sheet->died_ns;
        ret_again[i] = sheet->again_ns - sheet->died_ns;
    }
    quern_client_free(client);
    qn_bench_child_finish(&worker);
    return status;
}

quern_status qn_bench_deaths(const struct qn_bench *bench, int64_t *ret_pending, int64_t *ret_again,
                             quern_error *err)
{
    struct sheet *sheet =
        mmap(NULL, sizeof *sheet, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sheet == MAP_FAILED) {
        return qn_error_nomem(err);
    }
    sheet->signal = bench->signal;
    quern_status status = take_all(bench, sheet, ret_pending, ret_again, err);
    (void)munmap(sheet, sizeof *sheet);
    return status;
}
