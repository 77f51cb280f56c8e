/* SPDX-License-Identifier: MIT */
/* child.c - runs one shell command to its end: feeds it, reads it, cancels it, reaps it.
 *
 * One poll loop over stdin, stdout, stderr, its progress, the cancel descriptor and the process
 * itself. Nothing blocks on a pipe, so a child that reads nothing, or writes before it reads,
 * cannot cause a deadlock. Relies on spawn.c for a child that is a process group of its own.
 *
 * Happy path: input written and closed, both outputs read to their end, the process ended.
 * Cancelled: SIGTERM to the group; after kill_after_ms SIGKILL, or as soon as
 * the run is abandoned, because its task may belong to another run by then. When the process has
 * ended, the rest of its group is killed before it is reaped (so no other group can have its
 * number). Pipes that daemons with a session of their own still hold are left after LINGER_MS, that
 * of the progress at once. When memory runs out while output is read, the output is cut; the run
 * continues.
 *
 * Progress is for display only. It is read PROGRESS_READS_MAX times within PROGRESS_MS, then no
 * more until that time has passed: a child that floods it with bytes has to wait, and one that
 * writes little at a time, without a pause, does not keep this thread busy. */
#include "pool/exec/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "pool/exec/sigpipe.h"
#include "pool/exec/spawn.h"
#include "pool/exec/stderr_tail.h"

enum { READ_SIZE = 16384, LINGER_MS = 1000, ABANDONED_LOOK_MS = 20 };
enum { SIGNALLED_BY_SHELL = 128 };
enum { PROGRESS_READS_MAX = 64, PROGRESS_MS = 100, PROGRESS_REST_MAX = 65536 };

enum { IN, OUT, ERR, PROGRESS, CANCEL, PROCESS, FD_COUNT };

struct watch {
    const struct qn_child_spec *spec;
    struct qn_child_end *end;
    struct pollfd fds[FD_COUNT]; /* fd -1: not watched any more */
    struct qn_spawned *child;
    size_t input_sent;
    struct qn_stderr_tail
        stderr_tail;       /* as much as the spec says, or as the report of spawn.h needs */
    bool ended;            /* the process; it is a zombie until it is reaped */
    int64_t alarm_mono_ns; /* when to kill, or, once it has ended, when to stop reading */
    int progress_reads;    /* since progress_from_mono_ns */
    int64_t progress_from_mono_ns;
};

static void close_watched(struct watch *watch, int which)
{
    if (watch->fds[which].fd >= 0) {
        (void)close(watch->fds[which].fd);
        watch->fds[which].fd = -1;
    }
}

/* Writes as much as fits. A child that closed its stdin does not need the rest. */
static void write_input(struct watch *watch)
{
    const struct qn_child_spec *spec = watch->spec;
    while (watch->input_sent < spec->input_size) {
        ssize_t count = write(watch->fds[IN].fd, (const char *)spec->input + watch->input_sent,
                              spec->input_size - watch->input_sent);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            return;
        }
        if (count < 0) {
            break;
        }
        watch->input_sent += (size_t)count;
    }
    close_watched(watch, IN);
}

/* Keeps the first stdout_size_max bytes. */
static void keep_output(struct watch *watch, const char *data, size_t size)
{
    struct qn_buf *output = &watch->end->output;
    size_t room = output->size_max - output->size;
    size_t kept = size < room ? size : room;
    if (kept > 0 && qn_buf_append(output, data, kept) != QUERN_OK) {
        kept = 0;
    }
    watch->end->stdout_dropped += size - kept;
}

/* Reads one piece, then the other descriptors are polled. */
static void read_piece(struct watch *watch, int which)
{
    char piece[READ_SIZE];
    ssize_t count = read(watch->fds[which].fd, piece, sizeof piece);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (count <= 0) {
        close_watched(watch, which);
    } else if (which == OUT) {
        keep_output(watch, piece, (size_t)count);
    } else if (which == PROGRESS) {
        watch->progress_reads++;
        watch->spec->on_progress(piece, (size_t)count, watch->spec->user);
    } else {
        qn_stderr_tail_add(&watch->stderr_tail, piece, (size_t)count);
    }
}

static void terminate(struct watch *watch)
{
    watch->fds[CANCEL].fd = -1; /* the caller's: not closed */
    watch->end->cancelled = true;
    qn_spawn_signal(watch->child, SIGTERM);
    watch->alarm_mono_ns = qn_clock_mono_ns() + watch->spec->kill_after_ms * QN_NS_PER_MS;
}

/* A shell reports the death of its command as 128 + signal. The hard limit, a second after the soft
 * one, kills. */
static bool is_over_cpu(const struct watch *watch)
{
    const struct qn_child_end *end = watch->end;
    int64_t cpu_s = (int64_t)end->usage.ru_utime.tv_sec + end->usage.ru_stime.tv_sec;
    if (watch->spec->limits.cpu_s == 0) {
        return false;
    }
    int number = end->exited ? end->code - SIGNALLED_BY_SHELL : end->signal;
    return number == SIGXCPU ||
           (number == SIGKILL && !end->cancelled && cpu_s >= (int64_t)watch->spec->limits.cpu_s);
}

static void note_end(struct watch *watch)
{
    struct qn_child_end *end = watch->end;
    int status = watch->child->end.status;
    end->status = status;
    end->usage = watch->child->end.usage;
    end->out_of_memory = watch->child->end.out_of_memory;
    end->is_lost = watch->child->end.is_lost;
    end->exited = WIFEXITED(status);
    end->code = end->exited ? WEXITSTATUS(status) : 0;
    end->signal = end->exited ? 0 : WTERMSIG(status);
    end->over_cpu = is_over_cpu(watch);
}

static void reap(struct watch *watch)
{
    watch->ended = true;
    watch->fds[PROCESS].fd = -1; /* closed by this: */
    qn_spawn_reap(watch->child);
    close_watched(watch, IN);
    watch->fds[CANCEL].fd = -1;
    watch->alarm_mono_ns = qn_clock_mono_ns() + LINGER_MS * QN_NS_PER_MS;
    note_end(watch);
}

/* Reads progress or lets it wait. Returns the moment until which it waits; INT64_MAX: it does
 * not. */
static int64_t limit_progress(struct watch *watch)
{
    struct pollfd *progress = &watch->fds[PROGRESS];
    int64_t until_mono_ns = watch->progress_from_mono_ns + PROGRESS_MS * QN_NS_PER_MS;
    if (watch->progress_reads < PROGRESS_READS_MAX) {
        return INT64_MAX;
    }
    progress->events = 0;
    int64_t now_mono_ns = qn_clock_mono_ns();
    if (now_mono_ns < until_mono_ns) {
        return until_mono_ns;
    }
    watch->progress_reads = 0;
    watch->progress_from_mono_ns = now_mono_ns;
    progress->events = POLLIN;
    return INT64_MAX;
}

/* Milliseconds until the alarm or `until_mono_ns`, rounded up; -1: neither is set. */
static int poll_timeout_ms(const struct watch *watch, int64_t until_mono_ns)
{
    int64_t next_mono_ns =
        watch->alarm_mono_ns < until_mono_ns ? watch->alarm_mono_ns : until_mono_ns;
    if (next_mono_ns == INT64_MAX) {
        return -1;
    }
    int64_t left_ns = next_mono_ns - qn_clock_mono_ns();
    if (left_ns <= 0) {
        return 0;
    }
    int64_t left_ms = (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    if (!watch->ended && watch->spec->abandoned != NULL && left_ms > ABANDONED_LOOK_MS) {
        return ABANDONED_LOOK_MS;
    }
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

static bool is_abandoned(const struct watch *watch)
{
    return !watch->ended && watch->spec->abandoned != NULL && atomic_load(watch->spec->abandoned);
}

/* True when there is nothing more to wait for. */
static bool handle_alarm(struct watch *watch)
{
    if (watch->alarm_mono_ns == INT64_MAX ||
        (qn_clock_mono_ns() < watch->alarm_mono_ns && !is_abandoned(watch))) {
        return false;
    }
    if (watch->ended) {
        return true;
    }
    watch->alarm_mono_ns = INT64_MAX;
    qn_spawn_signal(watch->child, SIGKILL);
    return false;
}

static void watch_child(struct watch *watch)
{
    while (!watch->ended || watch->fds[OUT].fd >= 0 || watch->fds[ERR].fd >= 0) {
        if (poll(watch->fds, FD_COUNT, poll_timeout_ms(watch, limit_progress(watch))) < 0 &&
            errno != EINTR) {
            /* Out of kernel memory: poll again, the child continues nevertheless. */
            continue;
        }
        if (watch->fds[IN].fd >= 0 && watch->fds[IN].revents != 0) {
            write_input(watch);
        }
        for (int which = OUT; which <= PROGRESS; which++) {
            if (watch->fds[which].fd >= 0 && watch->fds[which].revents != 0) {
                read_piece(watch, which);
            }
        }
        if (watch->fds[CANCEL].fd >= 0 && watch->fds[CANCEL].revents != 0) {
            terminate(watch);
        }
        if (watch->fds[PROCESS].fd >= 0 && watch->fds[PROCESS].revents != 0) {
            reap(watch);
        }
        if (handle_alarm(watch)) {
            break;
        }
    }
    for (int i = 0; i < PROGRESS_REST_MAX / READ_SIZE && watch->fds[PROGRESS].fd >= 0; i++) {
        read_piece(watch, PROGRESS); /* others may hold it open: what is there, no more */
    }
    for (int which = IN; which <= PROGRESS; which++) {
        close_watched(watch, which);
    }
}

quern_status qn_child_run(const struct qn_child_spec *spec, struct qn_child_end *ret_end,
                          quern_error *err)
{
    struct qn_spawned child;
    const struct qn_spawn_request request = {
        .command = spec->command,
        .environment = spec->environment,
        .with_progress = spec->on_progress != NULL,
        .limits = spec->limits,
        .launcher = spec->launcher,
    };
    quern_status status = qn_spawn(&request, &child, err);
    if (status != QUERN_OK) {
        return status;
    }
    *ret_end = (struct qn_child_end){0};
    qn_buf_init(&ret_end->output, spec->stdout_size_max);
    struct watch watch = {
        .spec = spec,
        .end = ret_end,
        .fds = {[IN] = {.fd = child.stdin_fd, .events = POLLOUT},
                [OUT] = {.fd = child.stdout_fd, .events = POLLIN},
                [ERR] = {.fd = child.stderr_fd, .events = POLLIN},
                [PROGRESS] = {.fd = child.progress_fd, .events = POLLIN},
                [CANCEL] = {.fd = spec->cancel_fd, .events = POLLIN},
                [PROCESS] = {.fd = child.end_fd, .events = POLLIN}},
        .child = &child,
        .alarm_mono_ns = INT64_MAX,
    };
    qn_stderr_tail_init(&watch.stderr_tail, spec->stderr_size_max > QN_SPAWN_REPORT_SIZE
                                                ? spec->stderr_size_max
                                                : QN_SPAWN_REPORT_SIZE);
    struct qn_sigpipe sigpipe;
    qn_sigpipe_block(&sigpipe);
    if (spec->input_size == 0) {
        close_watched(&watch, IN);
    }
    watch_child(&watch);
    qn_sigpipe_restore(&sigpipe);
    status = qn_spawn_refusal(&child, &watch.stderr_tail.text, err);
    qn_stderr_tail_trim(&watch.stderr_tail, spec->stderr_size_max);
    ret_end->stderr_text = watch.stderr_tail.text;
    ret_end->stderr_cut = watch.stderr_tail.is_cut;
    if (status != QUERN_OK) {
        qn_child_end_finish(ret_end);
        return status;
    }
    return QUERN_OK;
}

void qn_child_end_finish(struct qn_child_end *end)
{
    qn_buf_finish(&end->output);
    qn_buf_finish(&end->stderr_text);
}
