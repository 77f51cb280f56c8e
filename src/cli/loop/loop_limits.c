/* SPDX-License-Identifier: MIT */
/* loop_limits.c - limits of a run, and a pace for its progress: 256 lines in 100 ms. */
#include "cli/loop/loop_limits.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

enum { SIGNALLED_BY_SHELL = 128 };
enum { PROGRESS_LINES_MAX = 256, PROGRESS_MS = 100 };

static int64_t first_of(int64_t first, int64_t second)
{
    return first > 0 ? first : second;
}

struct qn_loop_limits qn_loop_limits_of(const quern_run *run, int64_t kill_after_ms)
{
    static const quern_handler_options none = {0};
    const quern_handler_options *options = run->entry != NULL ? &run->entry->options : &none;
    const struct qn_task *task = &run->leased->task;
    return (struct qn_loop_limits){
        .kill_after_ms =
            first_of(task->kill_after_ms, first_of(options->kill_after_ms, kill_after_ms)),
        .cpu_ms = first_of(task->cpu_ms, options->cpu_ms),
        .memory_max = (uint64_t)first_of(task->memory_max, options->memory_max),
        .memory_at_start = (uint64_t)options->memory_max,
    };
}

/* A shell reports the death of its command as 128 + signal. */
bool qn_loop_limits_over_cpu(const struct qn_loop_limits *limits, int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - SIGNALLED_BY_SHELL;
    return limits->cpu_ms > 0 && number == SIGXCPU;
}

void qn_loop_flood_slow_down(struct qn_loop_flood *flood, int cancel_fd)
{
    int64_t now_mono_ns = qn_clock_mono_ns();
    int64_t until_mono_ns = flood->from_mono_ns + PROGRESS_MS * QN_NS_PER_MS;
    if (++flood->count >= PROGRESS_LINES_MAX && now_mono_ns < until_mono_ns) {
        struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};
        (void)poll(&cancel, 1, (int)((until_mono_ns - now_mono_ns) / QN_NS_PER_MS) + 1);
        now_mono_ns = qn_clock_mono_ns();
    }
    if (now_mono_ns >= until_mono_ns) {
        flood->from_mono_ns = now_mono_ns;
        flood->count = 0;
    }
}
