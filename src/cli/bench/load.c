/* SPDX-License-Identifier: MIT */
/* load.c - how many tasks a second: enqueue, drain, and both at once.
 *
 * The tasks are all alike and their handler does nothing, so the figures are those of quern and its
 * broker. The clock runs from the first call to the moment the broker has confirmed the last task;
 * opening and, for a drain, filling the queue are outside. Clients and workers are processes of
 * their own, so that the CPU time and memory of each can be measured. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/bench/bench.h"
#include "quern/inspector.h"

enum { FILL_BATCH = 1000 }; /* of values that are not measured */

/* --- The client's process ------------------------------------------------------------------ */

static void client_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes)
{
    quern_error error = {0};
    quern_client *client = NULL;
    const uint32_t *threads = pipes->shared;
    quern_status status = quern_client_open(bench->url, NULL, &client, &error);
    int64_t start_ns = qn_clock_mono_ns();
    if (status == QUERN_OK) {
        status = qn_bench_fill(bench, client, bench->task_count, *threads, &error);
    }
    qn_bench_child_send(pipes->to_fd, start_ns, status, &error);
    qn_bench_child_send(pipes->to_fd, qn_clock_mono_ns(), status, &error);
    quern_client_free(client);
}

/* Stores the tasks of the bench in another process, and waits for it. */
static quern_status fill_queues(const struct qn_bench *bench, uint32_t threads, int64_t *ret_ns,
                                quern_error *err)
{
    struct qn_bench_child client = {0};
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    if (bench->task_count == 0) {
        return QUERN_OK;
    }
    quern_status status = qn_bench_child_start(bench, client_main, &threads, &client, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&client, &start_ns, err);
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&client, &end_ns, err);
    }
    *ret_ns = end_ns - start_ns;
    qn_bench_child_finish(&client);
    return status;
}

/* --- The workers' processes ----------------------------------------------------------------- */

static quern_outcome do_nothing(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DONE;
}

static void report_ready(void *user)
{
    const int *to_fd = user;
    qn_bench_child_send(*to_fd, qn_clock_mono_ns(), QUERN_OK, NULL);
}

/* Reports when it is about to start, and the moment of the last task if it saw it. */
static void worker_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes)
{
    quern_error error = {0};
    int64_t done_ns = 0;
    int to_fd = pipes->to_fd;
    const struct qn_bench_worker worker = {
        .board = pipes->shared, .handler = do_nothing, .on_ready = report_ready, .user = &to_fd};
    quern_status status = qn_bench_work(bench, &worker, &done_ns, &error);
    qn_bench_child_send(to_fd, done_ns, status, &error);
    /* Its memory is read next, so it stays until it is killed. */
    struct pollfd end = {.fd = pipes->hold_fd};
    (void)poll(&end, 1, -1);
}

/* The processes of one measurement. */
struct crew {
    struct qn_bench_board *board;
    struct qn_bench_child *workers;
    struct qn_bench_child holder;
    int64_t cpu_ns; /* of the workers when they had started */
    int64_t broker_cpu_ns;
};

static int64_t crew_cpu_ns(const struct qn_bench *bench, const struct crew *crew)
{
    int64_t sum_ns = 0;
    for (uint32_t i = 0; i < bench->workers; i++) {
        int64_t ns = qn_bench_process_cpu_ns(crew->workers[i].pid);
        if (ns < 0) {
            return -1;
        }
        sum_ns += ns;
    }
    return sum_ns;
}

static void note_cpu(const char *name, const char *text, void *user)
{
    int64_t *cpu_ns = user;
    if (strcmp(name, "cpu_s") == 0) {
        *cpu_ns = (int64_t)(strtod(text, NULL) * 1e9);
    }
}

/* The CPU time of the broker's server so far; -1: it has none, or does not report it. */
static int64_t broker_cpu_ns(const struct qn_bench *bench)
{
    quern_inspector *inspector = NULL;
    int64_t cpu_ns = -1;
    if (quern_inspector_open(bench->url, NULL, &inspector, NULL) != QUERN_OK) {
        return -1;
    }
    if (quern_inspector_broker(inspector, note_cpu, &cpu_ns, NULL) != QUERN_OK) {
        cpu_ns = -1;
    }
    quern_inspector_free(inspector);
    return cpu_ns;
}

/* *ret_start_ns: when the first of them was ready. */
static quern_status crew_start(const struct qn_bench *bench, struct crew *crew,
                               int64_t *ret_start_ns, quern_error *err)
{
    crew->board = qn_bench_board_new();
    crew->workers = qn_alloc_zero(bench->workers, sizeof *crew->workers);
    if (crew->board == NULL || crew->workers == NULL) {
        return qn_error_nomem(err);
    }
    crew->broker_cpu_ns = broker_cpu_ns(bench);
    quern_status status = QUERN_OK;
    for (uint32_t i = 0; status == QUERN_OK && i < bench->workers; i++) {
        status = qn_bench_child_start(bench, worker_main, crew->board, &crew->workers[i], err);
    }
    for (uint32_t i = 0; status == QUERN_OK && i < bench->workers; i++) {
        int64_t ready_ns = 0;
        status = qn_bench_child_receive(&crew->workers[i], &ready_ns, err);
        *ret_start_ns = i == 0 || ready_ns < *ret_start_ns ? ready_ns : *ret_start_ns;
    }
    crew->cpu_ns = crew_cpu_ns(bench, crew);
    return status;
}

/* Waits for the last task and takes the figures. */
static quern_status crew_measure(const struct qn_bench *bench, struct crew *crew, int64_t start_ns,
                                 struct qn_bench_load *ret_load, quern_error *err)
{
    int64_t done_ns = 0;
    quern_status status = qn_bench_child_receive_any(crew->workers, bench->workers, &done_ns, err);
    if (status != QUERN_OK) {
        return status;
    }
    int64_t cpu_ns = crew_cpu_ns(bench, crew);
    int64_t served_ns = broker_cpu_ns(bench);
    *ret_load = (struct qn_bench_load){
        .ns = done_ns - start_ns,
        .worker_cpu_ns = cpu_ns < 0 || crew->cpu_ns < 0 ? -1 : cpu_ns - crew->cpu_ns,
        .broker_cpu_ns = served_ns < 0 ? -1 : served_ns - crew->broker_cpu_ns,
        .worker_rss = qn_bench_process_rss(crew->workers[0].pid),
        .child_cpu_ns = crew->board->child_cpu_ns,
        .child_rss = crew->board->child_rss,
        .zygote_rss = crew->board->zygote_rss};
    return QUERN_OK;
}

static void crew_finish(const struct qn_bench *bench, struct crew *crew)
{
    for (uint32_t i = 0; crew->workers != NULL && i < bench->workers; i++) {
        qn_bench_child_finish(&crew->workers[i]);
    }
    qn_bench_child_release(&crew->holder);
    qn_free(crew->workers);
    qn_bench_board_free(crew->board);
}

/* The tasks that are held active by a process of their own. */
static quern_status hold(const struct qn_bench *bench, struct crew *crew, quern_error *err)
{
    if (bench->active == 0) {
        return QUERN_OK;
    }
    struct qn_bench held = *bench;
    int64_t ns = 0;
    held.queues = 1; /* the first one's tasks are held */
    held.task_count = bench->active;
    held.batch = FILL_BATCH;
    quern_status status = fill_queues(&held, 1, &ns, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_start(bench, qn_bench_hold_main, NULL, &crew->holder, err);
    }
    return status == QUERN_OK ? qn_bench_child_receive(&crew->holder, &ns, err) : status;
}

/* Whether the tasks that a drain is to take are there: it would wait for them for ever. */
static quern_status check_pending(const struct qn_bench *bench, quern_error *err)
{
    quern_inspector *inspector = NULL;
    quern_queue_list *list = NULL;
    uint64_t pending = 0;
    quern_status status = quern_inspector_open(bench->url, NULL, &inspector, err);
    if (status == QUERN_OK) {
        status = quern_inspector_queues(inspector, &list, err);
    }
    for (uint32_t i = 0; status == QUERN_OK && i < bench->queues; i++) {
        char name[QN_BENCH_NAME_SIZE];
        qn_bench_queue_name(i, name);
        for (size_t at = 0; at < quern_queue_list_size(list); at++) {
            const quern_queue_info *queue = quern_queue_list_at(list, at);
            if (strcmp(queue->name, name) == 0) {
                pending += queue->counts[QUERN_TASK_PENDING];
            }
        }
    }
    if (status == QUERN_OK && pending < bench->task_count) {
        status = qn_error_set(err, QUERN_E_STATE, "only %" PRIu64 " %s pending", pending,
                              qn_plural(pending, "task is", "tasks are"));
    }
    quern_queue_list_free(list);
    quern_inspector_free(inspector);
    return status;
}

/* --- The three figures ------------------------------------------------------------------------ */

quern_status qn_bench_enqueue(const struct qn_bench *bench, struct qn_bench_load *ret_load,
                              quern_error *err)
{
    uint32_t threads = bench->concurrency == 0 ? 1 : bench->concurrency;
    int64_t ns = 0;
    int64_t before_ns = broker_cpu_ns(bench);
    quern_status status = fill_queues(bench, threads, &ns, err);
    if (status == QUERN_OK) {
        int64_t after_ns = broker_cpu_ns(bench);
        *ret_load =
            (struct qn_bench_load){.ns = ns,
                                   .worker_cpu_ns = -1,
                                   .broker_cpu_ns = after_ns < 0 ? -1 : after_ns - before_ns,
                                   .worker_rss = -1,
                                   .child_cpu_ns = -1,
                                   .child_rss = -1,
                                   .zygote_rss = -1};
    }
    return status;
}

quern_status qn_bench_drain(const struct qn_bench *bench, struct qn_bench_load *ret_load,
                            quern_error *err)
{
    struct crew crew = {0};
    struct qn_bench drained = *bench;
    int64_t ns = 0;
    int64_t start_ns = 0;
    drained.batch = FILL_BATCH;
    quern_status status = hold(bench, &crew, err);
    if (status == QUERN_OK) {
        status = bench->standing ? check_pending(bench, err) : fill_queues(&drained, 1, &ns, err);
    }
    if (status == QUERN_OK) {
        status = crew_start(bench, &crew, &start_ns, err);
    }
    if (status == QUERN_OK) {
        status = crew_measure(bench, &crew, start_ns, ret_load, err);
    }
    crew_finish(bench, &crew);
    return status;
}

quern_status qn_bench_e2e(const struct qn_bench *bench, struct qn_bench_load *ret_load,
                          quern_error *err)
{
    struct crew crew = {0};
    struct qn_bench_child client = {0};
    uint32_t threads = 1;
    int64_t start_ns = 0;
    quern_status status = hold(bench, &crew, err);
    if (status == QUERN_OK) {
        status = crew_start(bench, &crew, &start_ns, err);
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_start(bench, client_main, &threads, &client, err);
    }
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&client, &start_ns, err);
    }
    if (status == QUERN_OK) {
        status = crew_measure(bench, &crew, start_ns, ret_load, err);
    }
    qn_bench_child_finish(&client);
    crew_finish(bench, &crew);
    return status;
}
