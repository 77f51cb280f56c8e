/* SPDX-License-Identifier: MIT */
/* bench.h - what `quern bench` measures: one function a figure, and the processes it needs. */
#ifndef QN_CLI_BENCH_BENCH_H
#define QN_CLI_BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "quern/client.h"
#include "quern/mux.h"
#include "quern/worker.h"

#define QN_BENCH_QUEUE "quern-bench"
#define QN_BENCH_TYPE "bench"

/* Where the workers of a bench run its tasks. */
enum qn_bench_pool {
    QN_BENCH_THREADS,
    QN_BENCH_PREFORK, /* in children of a zygote */
    QN_BENCH_EXEC     /* `true` for each of them, instead of the handler */
};

struct qn_bench {
    const char *url;
    size_t task_count;
    size_t batch; /* tasks of one call; 1: one at a time */
    size_t payload_size;
    size_t active;        /* tasks of the queue that are held active all the time */
    size_t rate;          /* latency: tasks a second; 0: one when all sleep */
    uint32_t concurrency; /* enqueueing threads, or runs at a time; 0: the default */
    uint32_t workers;     /* worker processes */
    uint32_t queues;      /* the number of queues that get the tasks in turn */
    bool standing;        /* drain takes tasks that are there; nothing is removed */
    bool delayed;         /* latency: of delayed tasks, against their due time */
    enum qn_bench_pool pool;
    int signal; /* deaths: what the child ends by */
};

/* The name of the index-th queue of a bench. */
#define QN_BENCH_NAME_SIZE 32
void qn_bench_queue_name(uint32_t index, char out[QN_BENCH_NAME_SIZE]);

/* --- Load (load.c) ------------------------------------------------------------------ */

/* The cost of task_count tasks. -1: not measured, or not known for this broker. */
struct qn_bench_load {
    int64_t ns;
    int64_t worker_cpu_ns; /* of all workers together, without their start */
    int64_t broker_cpu_ns; /* of its server, while the workers ran */
    int64_t worker_rss;    /* anonymous memory of the first worker at the end, bytes */
    int64_t child_cpu_ns;  /* of all prefork children of one worker, with their start */
    int64_t child_rss;     /* of the largest of them */
    int64_t zygote_rss;
};
/* They fork: no thread and no broker may exist in this process. */
QUERN_NODISCARD quern_status qn_bench_enqueue(const struct qn_bench *bench,
                                              struct qn_bench_load *ret_load, quern_error *err);
QUERN_NODISCARD quern_status qn_bench_drain(const struct qn_bench *bench,
                                            struct qn_bench_load *ret_load, quern_error *err);
/* A client process and worker processes. */
QUERN_NODISCARD quern_status qn_bench_e2e(const struct qn_bench *bench,
                                          struct qn_bench_load *ret_load, quern_error *err);

/* --- Filling and holding (fill.c) --------------------------------------------------- */

/* Stores count tasks by this many threads, with the batch and payload of the bench. */
QUERN_NODISCARD quern_status qn_bench_fill(const struct qn_bench *bench, quern_client *client,
                                           size_t count, uint32_t thread_count, quern_error *err);

/* The main of a process that holds bench->active tasks of the first queue active until it is
 * released; reports a number when it has them (hold.c). */
struct qn_bench_pipes;
void qn_bench_hold_main(const struct qn_bench *bench, const struct qn_bench_pipes *pipes);

/* --- Working (work.c) ---------------------------------------------------------------- */

/* Runs that the broker has confirmed, over all worker processes; in memory that they share. */
struct qn_bench_board {
    atomic_size_t done;
    /* Of the prefork children of the worker that saw the last run, at that moment, while they are
     * still there; -1: it has none. */
    int64_t child_cpu_ns;
    int64_t child_rss;
    int64_t zygote_rss;
};
QUERN_NODISCARD struct qn_bench_board *qn_bench_board_new(void); /* NULL: out of memory */
void qn_bench_board_free(struct qn_bench_board *board);

struct qn_bench_worker {
    struct qn_bench_board *board;
    quern_handler handler;
    void (*on_ready)(void *user); /* called before it starts; may be NULL */
    /* For each run that the broker has confirmed, in the worker's process; may be NULL. */
    void (*on_report)(const quern_run_report *report, void *user);
    void *user; /* of all three */
};
/* A worker that handles the bench's tasks, in the pool of the bench, until the board counts
 * task_count; then *ret_done_ns is that moment, but 0 in a worker that did not see the last one. */
QUERN_NODISCARD quern_status qn_bench_work(const struct qn_bench *bench,
                                           const struct qn_bench_worker *worker,
                                           int64_t *ret_done_ns, quern_error *err);

/* --- Latency (latency.c) ------------------------------------------------------------ */

int qn_bench_compare(const void *left, const void *right); /* of times, for qsort */
/* Fills task_count samples, in ns, sorted: from enqueue here to the start of the handler in another
 * process that was idle; or, with `delayed`, from the due time (negative: too early). No thread and
 * no broker may exist in this process. */
QUERN_NODISCARD quern_status qn_bench_latency(const struct qn_bench *bench, int64_t *ret_samples,
                                              quern_error *err);

/* --- Deaths (deaths.c) ---------------------------------------------------------------- */

/* Of task_count deaths of prefork children, in ns: until the broker has the task as pending again,
 * and until its handler is called again. Each is the first death of its task, and the worker has no
 * other task at that time. No thread and no broker may exist in this process. */
QUERN_NODISCARD quern_status qn_bench_deaths(const struct qn_bench *bench, int64_t *ret_pending,
                                             int64_t *ret_again, quern_error *err);

/* --- Child processes (child.c) ------------------------------------------------------ */

struct qn_bench_child {
    pid_t pid;
    int from_fd;
    int hold_fd; /* closed, the child sees the end of its own hold_fd */
};

/* The arguments of a child. */
struct qn_bench_pipes {
    int to_fd;   /* for qn_bench_child_send */
    int hold_fd; /* its end: the parent wants this one to end */
    void *shared;
};
/* Forks a process that calls main(bench, pipes) and ends. It dies with this thread. */
QUERN_NODISCARD quern_status qn_bench_child_start(const struct qn_bench *bench,
                                                  void (*main)(const struct qn_bench *bench,
                                                               const struct qn_bench_pipes *pipes),
                                                  void *shared, struct qn_bench_child *ret_child,
                                                  quern_error *err);
/* In the child: sends a number, or, when status is not OK, the error. */
void qn_bench_child_send(int to_fd, int64_t value, quern_status status, const quern_error *error);
/* In the parent: waits for the next number. The child's error becomes ours. */
QUERN_NODISCARD quern_status qn_bench_child_receive(const struct qn_bench_child *child,
                                                    int64_t *ret_value, quern_error *err);
/* Waits for a number of any of them; returns with the first that is not 0. */
QUERN_NODISCARD quern_status qn_bench_child_receive_any(const struct qn_bench_child *children,
                                                        size_t count, int64_t *ret_value,
                                                        quern_error *err);
/* Waits for the child to end normally. */
void qn_bench_child_release(struct qn_bench_child *child);
/* CPU time of the process so far, ns; its anonymous memory, bytes. -1: not known. */
int64_t qn_bench_process_cpu_ns(pid_t pid);
int64_t qn_bench_process_rss(pid_t pid);
/* The processes that it has started; how many of them were written to ret_pids. */
size_t qn_bench_process_children(pid_t pid, pid_t *ret_pids, size_t count_max);
/* Ends the child if it has not ended. A zeroed child is fine. */
void qn_bench_child_finish(struct qn_bench_child *child);

#endif
