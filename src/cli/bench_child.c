/* SPDX-License-Identifier: MIT */
/* bench_child.c - processes for `quern bench`, and the pipe they report through.
 *
 * A child is forked before anything of the library is opened, so that it may open its own. Each
 * report is one write of a struct smaller than PIPE_BUF, so reports never mix. A child that ends
 * without a report closes the pipe, which the parent sees as an error. */
#include "cli/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

struct report {
    int64_t value;
    quern_status status;
    quern_error error;
};

quern_status qn_bench_child_start(const struct qn_bench *bench,
                                  void (*main)(const struct qn_bench *bench, int to_fd),
                                  struct qn_bench_child *ret_child, quern_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no pipe: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid < 0) {
        int code = errno;
        (void)close(fds[0]);
        (void)close(fds[1]);
        return qn_error_set(err, QUERN_E_FULL, "no process: %s", strerror(code));
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(fds[0]);
        main(bench, fds[1]);
        _exit(0);
    }
    (void)close(fds[1]);
    *ret_child = (struct qn_bench_child){.pid = pid, .from_fd = fds[0]};
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
        _exit(1); /* nobody listens any more */
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
            return qn_error_set(err, QUERN_E_CLOSED, "a process of the bench ended early");
        }
        got += (size_t)size;
    }
    if (report.status != QUERN_OK) {
        return qn_error_set(err, report.status, "%s", report.error.text);
    }
    *ret_value = report.value;
    return QUERN_OK;
}

void qn_bench_child_finish(struct qn_bench_child *child)
{
    if (child->pid == 0) {
        return;
    }
    (void)kill(child->pid, SIGKILL);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    (void)close(child->from_fd);
    child->pid = 0;
}
