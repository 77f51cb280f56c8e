/* SPDX-License-Identifier: MIT */
/* bench_load.c - how many tasks a second: enqueue, drain, and both at once in two processes.
 *
 * The tasks are all alike and their handler does nothing, so what is measured is quern and its
 * broker. The clock runs from the first call to the moment the broker has confirmed the last task;
 * opening and, for a drain, filling the queue are outside. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/bench.h"

/* --- Enqueue ---------------------------------------------------------------------------- */

/* One thread that enqueues. */
struct filler {
    const struct qn_bench *bench;
    quern_client *client;
    size_t task_count;
    pthread_t thread;
    quern_status status;
    quern_error error;
};

static quern_status fill_batches(const struct filler *filler, const quern_task *task,
                                 quern_error *err)
{
    size_t batch = filler->bench->batch;
    quern_task *tasks = qn_alloc_zero(batch, sizeof *tasks);
    if (tasks == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < batch; i++) {
        tasks[i] = *task;
    }
    quern_status status = QUERN_OK;
    for (size_t left = filler->task_count; status == QUERN_OK && left > 0;) {
        size_t count = left < batch ? left : batch;
        status = quern_client_enqueue_batch(filler->client, tasks, count, NULL, err);
        left -= count;
    }
    qn_free(tasks);
    return status;
}

static void *fill(void *argument)
{
    struct filler *filler = argument;
    quern_task task = {.type = QN_BENCH_TYPE, .queue = QN_BENCH_QUEUE};
    char *payload = qn_alloc(filler->bench->payload_size + 1);
    if (payload == NULL) {
        filler->status = qn_error_nomem(&filler->error);
        return NULL;
    }
    memset(payload, 'x', filler->bench->payload_size + 1);
    task.payload = payload;
    task.payload_size = filler->bench->payload_size;
    if (filler->bench->batch > 1) {
        filler->status = fill_batches(filler, &task, &filler->error);
    }
    for (size_t i = 0; filler->bench->batch == 1 && i < filler->task_count; i++) {
        filler->status = quern_client_enqueue(filler->client, &task, NULL, &filler->error);
        if (filler->status != QUERN_OK) {
            break;
        }
    }
    qn_free(payload);
    return NULL;
}

/* Stores all tasks by as many threads as the bench says. */
static quern_status fill_all(const struct qn_bench *bench, quern_client *client,
                             uint32_t thread_count, quern_error *err)
{
    struct filler *fillers = qn_alloc_zero(thread_count, sizeof *fillers);
    if (fillers == NULL) {
        return qn_error_nomem(err);
    }
    size_t left = bench->task_count;
    uint32_t started = 0;
    quern_status status = QUERN_OK;
    for (; started < thread_count; started++) {
        struct filler *filler = &fillers[started];
        filler->bench = bench;
        filler->client = client;
        filler->task_count = left / (thread_count - started);
        left -= filler->task_count;
        if (pthread_create(&filler->thread, NULL, fill, filler) != 0) {
            status = qn_error_set(err, QUERN_E_FULL, "no thread");
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(fillers[i].thread, NULL);
        if (status == QUERN_OK && fillers[i].status != QUERN_OK) {
            status = qn_error_set(err, fillers[i].status, "%s", fillers[i].error.text);
        }
    }
    qn_free(fillers);
    return status;
}

quern_status qn_bench_enqueue(const struct qn_bench *bench, int64_t *ret_ns, quern_error *err)
{
    quern_client *client = NULL;
    quern_status status = quern_client_open(bench->url, NULL, &client, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t start_ns = qn_clock_mono_ns();
    status = fill_all(bench, client, bench->concurrency == 0 ? 1 : bench->concurrency, err);
    if (status == QUERN_OK) {
        *ret_ns = qn_clock_mono_ns() - start_ns;
    }
    quern_client_free(client);
    return status;
}

/* --- Work -------------------------------------------------------------------------------- */

struct work {
    quern_worker *worker;
    size_t wanted;
    size_t done; /* callbacks come one at a time */
    int64_t done_ns;
};

static void on_run(const quern_run_report *report, void *user)
{
    struct work *work = user;
    if (report->outcome != QUERN_DONE || report->applied == 0) {
        return;
    }
    work->done++;
    if (work->done == work->wanted) {
        work->done_ns = qn_clock_mono_ns();
        quern_worker_stop(work->worker);
    }
}

quern_status qn_bench_work(const struct qn_bench *bench, quern_handler handler,
                           void (*ready)(void *user), void *user, int64_t *ret_done_ns,
                           quern_error *err)
{
    const quern_queue queue = {.name = QN_BENCH_QUEUE};
    struct work work = {.wanted = bench->task_count};
    const quern_worker_options options = {
        .queues = &queue,
        .queue_count = 1,
        .concurrency = bench->concurrency,
        .on_run = on_run,
        .user = &work,
    };
    quern_mux *mux = NULL;
    quern_status status = quern_mux_new(&mux, err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, QN_BENCH_TYPE, handler, user, NULL, err);
    }
    if (status == QUERN_OK) {
        status = quern_worker_new(bench->url, mux, &options, &work.worker, err);
    }
    if (status == QUERN_OK) {
        if (ready != NULL) {
            ready(user);
        }
        status = quern_worker_run(work.worker, err);
    }
    if (status == QUERN_OK && work.done < work.wanted) {
        status = qn_error_set(err, QUERN_E_CLOSED, "the worker stopped after %zu of %zu tasks",
                              work.done, work.wanted);
    }
    if (status == QUERN_OK) {
        *ret_done_ns = work.done_ns;
    }
    quern_worker_free(work.worker);
    quern_mux_free(mux);
    return status;
}

static quern_outcome do_nothing(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

quern_status qn_bench_drain(const struct qn_bench *bench, int64_t *ret_ns, quern_error *err)
{
    struct qn_bench full = *bench;
    full.concurrency = 1;
    full.batch = bench->batch > 1 ? bench->batch : 1000;
    int64_t filled_ns = 0;
    quern_status status = qn_bench_enqueue(&full, &filled_ns, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t start_ns = qn_clock_mono_ns();
    int64_t done_ns = 0;
    status = qn_bench_work(bench, do_nothing, NULL, NULL, &done_ns, err);
    if (status == QUERN_OK) {
        *ret_ns = done_ns - start_ns;
    }
    return status;
}

/* --- End to end --------------------------------------------------------------------------- */

static void say_ready(void *user)
{
    const int *to_fd = user;
    qn_bench_child_send(*to_fd, 0, QUERN_OK, NULL);
}

static void worker_main(const struct qn_bench *bench, int to_fd)
{
    quern_error error = {0};
    int64_t done_ns = 0;
    quern_status status = qn_bench_work(bench, do_nothing, say_ready, &to_fd, &done_ns, &error);
    qn_bench_child_send(to_fd, done_ns, status, &error);
}

static void client_main(const struct qn_bench *bench, int to_fd)
{
    quern_error error = {0};
    quern_client *client = NULL;
    quern_status status = quern_client_open(bench->url, NULL, &client, &error);
    int64_t start_ns = qn_clock_mono_ns();
    if (status == QUERN_OK) {
        status = fill_all(bench, client, 1, &error);
    }
    qn_bench_child_send(to_fd, start_ns, status, &error);
    quern_client_free(client);
}

quern_status qn_bench_e2e(const struct qn_bench *bench, int64_t *ret_ns, quern_error *err)
{
    struct qn_bench_child worker = {0};
    struct qn_bench_child client = {0};
    int64_t start_ns = 0;
    int64_t done_ns = 0;
    quern_status status = qn_bench_child_start(bench, worker_main, &worker, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&worker, &done_ns, err); /* it is ready */
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_start(bench, client_main, &client, err);
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&client, &start_ns, err);
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&worker, &done_ns, err);
    }
    if (status == QUERN_OK) {
        *ret_ns = done_ns - start_ns;
    }
    qn_bench_child_finish(&client);
    qn_bench_child_finish(&worker);
    return status;
}
