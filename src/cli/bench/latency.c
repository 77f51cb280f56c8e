/* SPDX-License-Identifier: MIT */
/* latency.c - how soon a task starts: after its enqueue when the worker is idle, or after its
 * due time.
 *
 * The worker is a process of its own; its handler sends the moment it starts, and this process
 * compares. CLOCK_MONOTONIC is the same in all processes of a machine; due times are wall clock.
 * A latency sample begins only when every thread of the worker sleeps again, so that it is one of a
 * worker that has to be woken. Delayed tasks are stored beforehand, some ms apart, with due times
 * at no regular distance, so that the worker sleeps between them as well.
 *
 * With a rate, tasks are enqueued at their moments, regardless of those before; a sample
 * counts from the moment its task was to be enqueued, so that a client that falls behind shows.
 * Those that are late go out together. The handler writes the samples to memory that both processes
 * share; the same where it runs in a prefork child, which has no pipe to here. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"
#include "cli/bench/bench.h"

#define PAUSE_MS 4           /* lets the worker end its run before we look whether it sleeps */
#define SLEEP_CHECKS_MAX 100 /* then the sample is taken all the same */
#define DELAY_FIRST_MS 500   /* enough to store all delayed tasks before the first is due */
#define DELAY_STEP_MS 7
#define DELAY_SPREAD_MS 5
#define RATE_BATCH_MAX 64
#define PATIENCE_NS INT64_C(30000000000)

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- The worker's process ------------------------------------------------------------------ */

/* The payload of a task whose latency is taken. */
struct stamp {
    int64_t sent_ns; /* or due, of a delayed one */
    uint64_t index;
};

/* The data that a bench shares with its worker and that one's children. */
struct sheet {
    struct qn_bench_board board;
    atomic_size_t taken;
    int64_t samples[];
};

struct echo {
    int to_fd;
    clockid_t clock;
    struct sheet *sheet; /* NULL: each sample is sent */
};

static quern_outcome take_sample(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    const struct echo *echo = user;
    struct stamp stamp = {0};
    memcpy(&stamp, task->payload, sizeof stamp);
    int64_t late_ns = now_ns(echo->clock) - stamp.sent_ns;
    if (echo->sheet == NULL) {
        qn_bench_child_send(echo->to_fd, late_ns, QUERN_OK, NULL);
    } else {
        echo->sheet->samples[stamp.index] = late_ns;
        atomic_fetch_add(&echo->sheet->taken, 1);
    }
    return QUERN_DONE;
}

static void report_ready(void *user)
{
    const struct echo *echo = user;
    qn_bench_child_send(echo->to_fd, 0, QUERN_OK, NULL);
}

static void worker_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes)
{
    quern_error error = {0};
    int64_t done_ns = 0;
    struct qn_bench_board own = {0};
    struct echo echo = {.to_fd = pipes->to_fd,
                        .clock = bench->delayed ? CLOCK_REALTIME : CLOCK_MONOTONIC,
                        .sheet = pipes->shared};
    struct qn_bench_board *board = echo.sheet == NULL ? &own : &echo.sheet->board;
    const struct qn_bench_worker worker = {
        .board = board, .handler = take_sample, .on_ready = report_ready, .user = &echo};
    quern_status status = qn_bench_work(bench, &worker, &done_ns, &error);
    if (status != QUERN_OK) {
        qn_bench_child_send(pipes->to_fd, 0, status, &error);
    }
}

/* --- This process ---------------------------------------------------------------------------- */

/* Whether all threads of the process sleep, according to the kernel. */
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

static void wait_until_asleep(const struct qn_bench_child *worker)
{
    (void)poll(NULL, 0, PAUSE_MS);
    for (int i = 0; i < SLEEP_CHECKS_MAX && !all_threads_sleep(worker->pid); i++) {
        (void)poll(NULL, 0, 1);
    }
}

/* A worker and what it reports by: a sheet, or its pipe. */
struct source {
    struct qn_bench_child worker;
    struct sheet *sheet; /* NULL: the pipe */
};

static quern_status wait_taken(struct sheet *sheet, size_t count, quern_error *err)
{
    int64_t until_ns = now_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
    while (atomic_load(&sheet->taken) < count) {
        if (now_ns(CLOCK_MONOTONIC) > until_ns) {
            return qn_error_set(err, QUERN_E_TIMEOUT, "the worker does not keep up");
        }
        (void)poll(NULL, 0, 1);
    }
    return QUERN_OK;
}

/* The index-th sample, once all before it are taken. */
static quern_status receive(const struct source *source, size_t index, int64_t *ret_samples,
                            quern_error *err)
{
    if (source->sheet == NULL) {
        return qn_bench_child_receive(&source->worker, &ret_samples[index], err);
    }
    quern_status status = wait_taken(source->sheet, index + 1, err);
    ret_samples[index] = source->sheet->samples[index];
    return status;
}

static quern_status sample_idle(const struct qn_bench *bench, quern_client *client,
                                const struct source *source, int64_t *ret_samples, quern_error *err)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < bench->task_count; i++) {
        wait_until_asleep(&source->worker);
        const struct stamp stamp = {.sent_ns = now_ns(CLOCK_MONOTONIC), .index = i};
        const quern_task task = {.type = QN_BENCH_TYPE,
                                 .queue = QN_BENCH_QUEUE,
                                 .payload = &stamp,
                                 .payload_size = sizeof stamp};
        status = quern_client_enqueue(client, &task, NULL, err);
        if (status == QUERN_OK) {
            status = receive(source, i, ret_samples, err);
        }
    }
    return status;
}

static quern_status sample_delayed(const struct qn_bench *bench, quern_client *client,
                                   const struct source *source, int64_t *ret_samples,
                                   quern_error *err)
{
    quern_task *tasks = qn_alloc_zero(bench->task_count, sizeof *tasks);
    struct stamp *stamps = qn_alloc_zero(bench->task_count, sizeof *stamps);
    if (tasks == NULL || stamps == NULL) {
        qn_free(tasks);
        qn_free(stamps);
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
            .payload = &stamps[i],
            .payload_size = sizeof stamps[i],
        };
        stamps[i] = (struct stamp){.sent_ns = tasks[i].process_at_ms * 1000000, .index = i};
    }
    quern_status status = quern_client_enqueue_batch(client, tasks, bench->task_count, NULL, err);
    if (status == QUERN_OK && source->sheet != NULL) {
        status = wait_taken(source->sheet, bench->task_count, err);
    }
    for (size_t i = 0; status == QUERN_OK && i < bench->task_count; i++) {
        status = receive(source, i, ret_samples, err);
    }
    qn_free(stamps);
    qn_free(tasks);
    return status;
}

/* Sleeps until that moment of CLOCK_MONOTONIC. */
static void sleep_until(int64_t moment_ns)
{
    const struct timespec moment = {.tv_sec = moment_ns / 1000000000,
                                    .tv_nsec = moment_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) {
        continue;
    }
}

/* Enqueues the due ones of the tasks that are to come `step_ns` apart. */
static quern_status send_at_rate(const struct qn_bench *bench, quern_client *client,
                                 quern_error *err)
{
    struct stamp stamps[RATE_BATCH_MAX];
    quern_task tasks[RATE_BATCH_MAX];
    int64_t step_ns = (int64_t)(1000000000 / bench->rate);
    int64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    quern_status status = QUERN_OK;
    for (size_t sent = 0; status == QUERN_OK && sent < bench->task_count;) {
        sleep_until(begin_ns + (int64_t)sent * step_ns);
        size_t due = (size_t)((now_ns(CLOCK_MONOTONIC) - begin_ns) / step_ns) + 1;
        due = due < bench->task_count ? due : bench->task_count;
        size_t count = due - sent < RATE_BATCH_MAX ? due - sent : RATE_BATCH_MAX;
        for (size_t i = 0; i < count; i++) {
            stamps[i] = (struct stamp){.sent_ns = begin_ns + (int64_t)(sent + i) * step_ns,
                                       .index = sent + i};
            tasks[i] = (quern_task){.type = QN_BENCH_TYPE,
                                    .queue = QN_BENCH_QUEUE,
                                    .payload = &stamps[i],
                                    .payload_size = sizeof stamps[i]};
        }
        status = count == 1 ? quern_client_enqueue(client, &tasks[0], NULL, err)
                            : quern_client_enqueue_batch(client, tasks, count, NULL, err);
        sent += count;
    }
    return status;
}

static quern_status sample_rated(const struct qn_bench *bench, quern_client *client,
                                 struct sheet *sheet, int64_t *ret_samples, quern_error *err)
{
    quern_status status = send_at_rate(bench, client, err);
    if (status == QUERN_OK) {
        status = wait_taken(sheet, bench->task_count, err);
    }
    QN_ASSERT(sheet->samples != NULL);
    memcpy(ret_samples, sheet->samples, bench->task_count * sizeof *ret_samples);
    return status;
}

int qn_bench_compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static quern_status sample(const struct qn_bench *bench, struct sheet *sheet, int64_t *ret_samples,
                           quern_error *err)
{
    struct source source = {.sheet = sheet};
    quern_client *client = NULL;
    int64_t ready = 0;
    quern_status status = qn_bench_child_start(bench, worker_main, sheet, &source.worker, err);
    if (status == QUERN_OK) {
        status = qn_bench_child_receive(&source.worker, &ready, err);
    }
    if (status == QUERN_OK) {
        status = quern_client_open(bench->url, NULL, &client, err);
    }
    if (status == QUERN_OK && bench->rate > 0) {
        status = sample_rated(bench, client, sheet, ret_samples, err);
    } else if (status == QUERN_OK) {
        status = bench->delayed ? sample_delayed(bench, client, &source, ret_samples, err)
                                : sample_idle(bench, client, &source, ret_samples, err);
    }
    if (status == QUERN_OK) {
        qsort(ret_samples, bench->task_count, sizeof *ret_samples, qn_bench_compare);
    }
    quern_client_free(client);
    if (status == QUERN_OK) {
        qn_bench_child_release(
            &source.worker); /* it has yet to write the outcome of the last run */
    } else {
        qn_bench_child_finish(&source.worker);
    }
    return status;
}

quern_status qn_bench_latency(const struct qn_bench *bench, int64_t *ret_samples, quern_error *err)
{
    struct sheet *sheet = NULL;
    size_t size = sizeof *sheet + bench->task_count * sizeof sheet->samples[0];
    if (bench->rate > 0 || bench->pool == QN_BENCH_PREFORK) {
        sheet = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (sheet == MAP_FAILED) {
            return qn_error_nomem(err);
        }
    }
    quern_status status = sample(bench, sheet, ret_samples, err);
    if (sheet != NULL) {
        (void)munmap(sheet, size);
    }
    return status;
}
