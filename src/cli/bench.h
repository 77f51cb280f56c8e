/* SPDX-License-Identifier: MIT */
/* bench.h - what `quern bench` measures: one function a figure, and the processes it needs. */
#ifndef QN_CLI_BENCH_H
#define QN_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "quern/client.h"
#include "quern/mux.h"
#include "quern/worker.h"

#define QN_BENCH_QUEUE "quern-bench"
#define QN_BENCH_TYPE "bench"

struct qn_bench {
    const char *url;
    size_t task_count;
    size_t batch; /* tasks of one call; 1: one at a time */
    size_t payload_size;
    uint32_t concurrency; /* enqueueing threads, or runs at a time; 0: the default */
    bool delayed;         /* latency: of delayed tasks, against their due time */
};

/* --- Load (bench_load.c): how long task_count tasks take, in ns ------------------------- */

QUERN_NODISCARD quern_status qn_bench_enqueue(const struct qn_bench *bench, int64_t *ret_ns,
                                              quern_error *err);
QUERN_NODISCARD quern_status qn_bench_drain(const struct qn_bench *bench, int64_t *ret_ns,
                                            quern_error *err);
/* A client process and a worker process. No thread and no broker may exist in this one. */
QUERN_NODISCARD quern_status qn_bench_e2e(const struct qn_bench *bench, int64_t *ret_ns,
                                          quern_error *err);
/* A worker that calls `handler` for the bench's tasks and stops by itself after task_count runs
 * that the broker has confirmed; *ret_done_ns is the moment of the last. ready(user), which may be
 * NULL, is called before it starts. */
QUERN_NODISCARD quern_status qn_bench_work(const struct qn_bench *bench, quern_handler handler,
                                           void (*ready)(void *user), void *user,
                                           int64_t *ret_done_ns, quern_error *err);

/* --- Latency (bench_latency.c) ------------------------------------------------------------ */

/* Fills task_count samples, in ns, sorted: from enqueue here to the start of the handler in another
 * process that was idle; or, with `delayed`, from the due time (negative: too early). No thread and
 * no broker may exist in this process. */
QUERN_NODISCARD quern_status qn_bench_latency(const struct qn_bench *bench, int64_t *ret_samples,
                                              quern_error *err);

/* --- Child processes (bench_child.c) ------------------------------------------------------ */

struct qn_bench_child {
    pid_t pid;
    int from_fd;
};

/* Forks a process that calls main(bench, to_fd) and ends. It dies with this thread. */
QUERN_NODISCARD quern_status qn_bench_child_start(
    const struct qn_bench *bench, void (*main)(const struct qn_bench *bench, int to_fd),
    struct qn_bench_child *ret_child, quern_error *err);
/* In the child: sends a number, or, when status is not OK, the error. */
void qn_bench_child_send(int to_fd, int64_t value, quern_status status, const quern_error *error);
/* In the parent: waits for the next number. The child's error becomes ours. */
QUERN_NODISCARD quern_status qn_bench_child_receive(const struct qn_bench_child *child,
                                                    int64_t *ret_value, quern_error *err);
/* Ends the child if it has not ended. A zeroed child is fine. */
void qn_bench_child_finish(struct qn_bench_child *child);

#endif
