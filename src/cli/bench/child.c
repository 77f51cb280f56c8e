/* SPDX-License-Identifier: MIT */
/* child.c - processes for `quern bench`, and the pipe they report through.
 *
 * A child is forked before anything of the library is opened, so that it may open its own. Each
 * report is one write of a struct smaller than PIPE_BUF, so reports never mix. A child that ends
 * without a report closes the pipe, which the parent sees as an error. */
#include "cli/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"

struct report {
    int64_t value;
    quern_status status;
    quern_error error;
};

quern_status qn_bench_child_start(const struct qn_bench *bench,
                                  void (*main)(const struct qn_bench *bench,
                                               const struct qn_bench_pipes *pipes),
                                  void *shared, struct qn_bench_child *ret_child, quern_error *err)
{
    int reports[2] = {-1, -1};
    int hold[2] = {-1, -1};
    bool open = pipe2(reports, O_CLOEXEC) == 0 && pipe2(hold, O_CLOEXEC) == 0;
    pid_t pid = open ? fork() : -1;
    if (pid < 0) {
        quern_status status = qn_error_set(err, QUERN_E_FULL, "no process: %s", strerror(errno));
        for (size_t i = 0; i < 2; i++) {
            (void)close(reports[i]);
            (void)close(hold[i]);
        }
        return status;
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(reports[0]);
        (void)close(hold[1]);
        main(bench,
             &(struct qn_bench_pipes){.to_fd = reports[1], .hold_fd = hold[0], .shared = shared});
        _exit(0);
    }
    (void)close(reports[1]);
    (void)close(hold[0]);
    *ret_child = (struct qn_bench_child){.pid = pid, .from_fd = reports[0], .hold_fd = hold[1]};
    return QUERN_OK;
}

void qn_bench_child_send(int to_fd, int64_t value, quern_status status, const quern_error *error)
{
    struct report report = {.value = value, .status = status};
    if (error != NULL) {
        report.error = *error;
    }
    ssize_t size = 0;
    do {
        size = write(to_fd, &report, sizeof report);
    } while (size < 0 && errno == EINTR);
    if (size != (ssize_t)sizeof report) {
        _exit(1); /* no reader is left */
    }
}

quern_status qn_bench_child_receive(const struct qn_bench_child *child, int64_t *ret_value,
                                    quern_error *err)
{
    struct report report;
    size_t got = 0;
    while (got < sizeof report) {
        ssize_t size = read(child->from_fd, (char *)&report + got, sizeof report - got);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return qn_error_set(err, QUERN_E_CLOSED, "a process of the benchmark ended early");
        }
        got += (size_t)size;
    }
    if (report.status != QUERN_OK) {
        return qn_error_set(err, report.status, "%s", report.error.text);
    }
    *ret_value = report.value;
    return QUERN_OK;
}

quern_status qn_bench_child_receive_any(const struct qn_bench_child *children, size_t count,
                                        int64_t *ret_value, quern_error *err)
{
    struct pollfd *fds = qn_alloc_zero(count, sizeof *fds);
    if (fds == NULL) {
        return qn_error_nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        fds[i] = (struct pollfd){.fd = children[i].from_fd, .events = POLLIN};
    }
    quern_status status = QUERN_OK;
    *ret_value = 0;
    while (status == QUERN_OK && *ret_value == 0) {
        if (poll(fds, (nfds_t)count, -1) < 0 && errno != EINTR) {
            status = qn_error_set(err, QUERN_E_FULL, "poll: %s", strerror(errno));
        }
        for (size_t i = 0; i < count && status == QUERN_OK && *ret_value == 0; i++) {
            if (fds[i].revents != 0) {
                status = qn_bench_child_receive(&children[i], ret_value, err);
            }
        }
    }
    qn_free(fds);
    return status;
}

int64_t qn_bench_process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec spent;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0) {
        return -1;
    }
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

int64_t qn_bench_process_rss(pid_t pid)
{
    char path[64];
    char line[256];
    long long kib = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *about = fopen(path, "re");
    while (about != NULL && kib < 0 && fgets(line, sizeof line, about) != NULL) {
        if (strncmp(line, "RssAnon:", strlen("RssAnon:")) == 0) {
            kib = strtoll(line + strlen("RssAnon:"), NULL, 10);
        }
    }
    if (about != NULL) {
        (void)fclose(about);
    }
    return kib < 0 ? -1 : kib * 1024;
}

size_t qn_bench_process_children(pid_t pid, pid_t *ret_pids, size_t count_max)
{
    char path[64];
    size_t count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *list = fopen(path, "re");
    while (list != NULL && count < count_max && fscanf(list, "%d", &ret_pids[count]) == 1) {
        count++;
    }
    if (list != NULL) {
        (void)fclose(list);
    }
    return count;
}

/* Waits for the end of the process and returns the resources it used. */
static void reap(struct qn_bench_child *child)
{
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    (void)close(child->from_fd);
    if (child->hold_fd >= 0) {
        (void)close(child->hold_fd);
    }
    child->pid = 0;
}

void qn_bench_child_release(struct qn_bench_child *child)
{
    if (child->pid == 0) {
        return;
    }
    (void)close(child->hold_fd);
    child->hold_fd = -1;
    reap(child);
}

void qn_bench_child_finish(struct qn_bench_child *child)
{
    if (child->pid == 0) {
        return;
    }
    (void)kill(child->pid, SIGKILL);
    reap(child);
}
