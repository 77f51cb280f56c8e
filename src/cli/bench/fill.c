/* SPDX-License-Identifier: MIT */
/* fill.c - stores the tasks of a bench, all alike, by one thread or several that share a
 * client, in one queue or several in turn. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "cli/bench/bench.h"

/* One thread that enqueues. */
struct filler {
    const struct qn_bench *bench;
    quern_client *client;
    const quern_task *tasks; /* `batch` of them, cycling through the queues */
    size_t task_count;
    pthread_t thread;
    quern_status status;
    quern_error error;
};

void qn_bench_queue_name(uint32_t index, char out[QN_BENCH_NAME_SIZE])
{
    if (index == 0) {
        (void)snprintf(out, QN_BENCH_NAME_SIZE, "%s", QN_BENCH_QUEUE);
    } else {
        (void)snprintf(out, QN_BENCH_NAME_SIZE, "%s-%u", QN_BENCH_QUEUE, (unsigned)index);
    }
}

static void *run_filler(void *argument)
{
    struct filler *filler = argument;
    size_t batch = filler->bench->batch;
    size_t done = 0;
    while (filler->status == QUERN_OK && done < filler->task_count) {
        size_t left = filler->task_count - done;
        size_t count = left < batch ? left : batch;
        if (batch == 1) {
            filler->status = quern_client_enqueue(
                filler->client, &filler->tasks[done % filler->bench->queues], NULL, &filler->error);
        } else {
            filler->status = quern_client_enqueue_batch(filler->client, filler->tasks, count, NULL,
                                                        &filler->error);
        }
        done += count;
    }
    return NULL;
}

/* all: one that would do everything; each of the threads does its part of that. */
static quern_status run_fillers(const struct filler *all, uint32_t thread_count, quern_error *err)
{
    struct filler *fillers = qn_alloc_zero(thread_count, sizeof *fillers);
    if (fillers == NULL) {
        return qn_error_nomem(err);
    }
    size_t left = all->task_count;
    uint32_t started = 0;
    quern_status status = QUERN_OK;
    for (; started < thread_count; started++) {
        struct filler *filler = &fillers[started];
        *filler = *all;
        filler->task_count = left / (thread_count - started);
        left -= filler->task_count;
        if (pthread_create(&filler->thread, NULL, run_filler, filler) != 0) {
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

quern_status qn_bench_fill(const struct qn_bench *bench, quern_client *client, size_t count,
                           uint32_t thread_count, quern_error *err)
{
    size_t size = bench->batch > bench->queues ? bench->batch : bench->queues;
    quern_task *tasks = qn_alloc_zero(size, sizeof *tasks);
    char(*names)[QN_BENCH_NAME_SIZE] = qn_alloc_zero(bench->queues, sizeof *names);
    char *payload = qn_alloc(bench->payload_size + 1);
    quern_status status = QUERN_OK;
    if (tasks == NULL || names == NULL || payload == NULL) {
        status = qn_error_nomem(err);
    } else {
        memset(payload, 'x', bench->payload_size + 1);
        for (uint32_t i = 0; i < bench->queues; i++) {
            qn_bench_queue_name(i, names[i]);
        }
        for (size_t i = 0, queue = 0; i < size; i++) {
            tasks[i] = (quern_task){.type = QN_BENCH_TYPE,
                                    .queue = names[queue],
                                    .payload = payload,
                                    .payload_size = bench->payload_size};
            queue = queue + 1 == bench->queues ? 0 : queue + 1;
        }
        const struct filler all = {
            .bench = bench, .client = client, .tasks = tasks, .task_count = count};
        status = run_fillers(&all, thread_count, err);
    }
    qn_free(payload);
    qn_free(names);
    qn_free(tasks);
    return status;
}
