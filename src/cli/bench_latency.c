/* SPDX-License-Identifier: MIT */
/* bench_latency.c - how soon a task starts: after its enqueue when the worker is idle, or after its
 * due time.
 *
 * The worker is a process of its own; its handler sends the moment it starts, and this process
 * compares. CLOCK_MONOTONIC is the same in all processes of a machine; due times are wall clock.
 * A latency sample begins only when every thread of the worker sleeps again, so that it is one of a
 * worker that has to be woken. Delayed tasks are stored beforehand, some ms apart, with due times
 * at no regular distance, so that the worker sleeps between them as well. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "cli/bench.h"

#define PAUSE_MS 4           /* lets the worker end its run before we look whether it sleeps */
#define SLEEP_CHECKS_MAX 100 /* then the sample is taken all the same */
#define DELAY_FIRST_MS 500   /* enough to store all delayed tasks before the first is due */
#define DELAY_STEP_MS 7
#define DELAY_SPREAD_MS 5

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- The worker's process ------------------------------------------------------------------ */

static quern_outcome send_start(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    const int *to_fd = user;
    int64_t late_ns = 0;
    if (task->payload_size == sizeof late_ns) {
        int64_t sent_ns = 0;
        memcpy(&sent_ns, task->payload, sizeof sent_ns);
        late_ns = now_ns(CLOCK_MONOTONIC) - sent_ns;
    } else {
        late_ns = now_ns(CLOCK_REALTIME) - task->process_at_ms * 1000000;
    }
    qn_bench_child_send(*to_fd, late_ns, QUERN_OK, NULL);
    return QUERN_DONE;
}

static void say_ready(void *user)
{
    const int *to_fd = user;
    qn_bench_child_send(*to_fd, 0, QUERN_OK, NULL);
}

static void worker_main(const struct qn_bench *bench, int to_fd)
{
    quern_error error = {0};
    int64_t done_ns = 0;
    quern_status status = qn_bench_work(bench, send_start, say_ready, &to_fd, &done_ns, &error);
    if (status != QUERN_OK) {
        qn_bench_child_send(to_fd, 0, status, &error);
    }
}

/* --- This process ---------------------------------------------------------------------------- */

/* Whether the kernel says of each thread of the process that it sleeps. */
static bool all_threads_sleep(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    bool asleep = threads != NULL;
    struct dirent *entry = NULL;
    while (asleep && (entry = readdir(threads)) != NULL) {
        char stat_path[sizeof path + sizeof entry->d_name + 8];
        char line[256] = "";
        (void)snprintf(stat_path, sizeof stat_path, "%s/%s/stat", path, entry->d_name);
        FILE *stat = entry->d_name[0] == '.' ? NULL : fopen(stat_path, "re");
        if (stat == NULL) {
            continue;
        }
        const char *name_end = fgets(line, sizeof line, stat) == NULL ? NULL : strrchr(line, ')');
        asleep = name_end != NULL && strncmp(name_end, ") S", 3) == 0;
        (void)fclose(stat);
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return asleep;
}

static void let_it_sleep(const struct qn_bench_child *worker)
{
    (void)poll(NULL, 0, PAUSE_MS);
    for (int i = 0; i < SLEEP_CHECKS_MAX && !all_threads_sleep(worker->pid); i++) {
        (void)poll(NULL, 0, 1);
    }
}

static quern_status sample_idle(const struct qn_bench *bench, quern_client *client,
                                const struct qn_bench_child *worker, int64_t *ret_samples,
                                quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < bench->task_count; i++) {
        let_it_sleep(worker);
        int64_t sent_ns = now_ns(CLOCK_MONOTONIC);
        const quern_task task = {.type = QN_BENCH_TYPE,
                                 .queue = QN_BENCH_QUEUE,
                                 .payload = &sent_ns,
                                 .payload_size = sizeof sent_ns};
        status = quern_client_enqueue(client, &task, NULL, err);
        if (status == QUERN_OK) {
            status = qn_bench_child_receive(worker, &ret_samples[i], err);
        }
    }
    return status;
}

static quern_status sample_delayed(const struct qn_bench *bench, quern_client *client,
                                   const struct qn_bench_child *worker, int64_t *ret_samples,
                                   quern_error *err)
{
    quern_task *tasks = qn_alloc_zero(bench->task_count, sizeof *tasks);
    if (tasks == NULL) {
        return qn_error_nomem(err);
    }
    struct qn_random random;
    qn_random_init(&random);
    int64_t first_at_ms = now_ns(CLOCK_REALTIME) / 1000000 + DELAY_FIRST_MS;
    for (size_t i = 0; i < bench->task_count; i++) {
        int64_t spread_ms = (int64_t)qn_random_below(&random, DELAY_SPREAD_MS);
        tasks[i] = (quern_task){
            .type = QN_BENCH_TYPE,
            .queue = QN_BENCH_QUEUE,
            .process_at_ms = first_at_ms + (int64_t)i * DELAY_STEP_MS + spread_ms,
        };
    }
    quern_status status = quern_client_enqueue_batch(client, tasks, bench->task_count, NULL, err);
    for (size_t i = 0; status == QUERN_OK && i < bench->task_count; i++) {
        status = qn_bench_child_receive(worker, &ret_samples[i], err);
    }
    qn_free(tasks);
    return status;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

quern_status qn_bench_latency(const struct qn_bench *bench, int64_t *ret_samples, quern_error *err)
{
    struct qn_bench_child worker = {0};
    quern_client *client = NULL;
    int64_t ready = 0;
    quern_status status = qn_bench_child_start(bench, worker_main, &worker, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&worker, &ready, err);
    }
    if (status == QUERN_OK) {
        status = quern_client_open(bench->url, NULL, &client, err);
    }
    if (status == QUERN_OK) {
        status = bench->delayed ? sample_delayed(bench, client, &worker, ret_samples, err)
                                : sample_idle(bench, client, &worker, ret_samples, err);
    }
    if (status == QUERN_OK) {
        qsort(ret_samples, bench->task_count, sizeof *ret_samples, compare);
    }
    quern_client_free(client);
    qn_bench_child_finish(&worker);
    return status;
}
