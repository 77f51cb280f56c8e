/* SPDX-License-Identifier: MIT */
/* loop_process.c - a shell command that stays: one poll loop over its pipes and its end.
 *
 * Relies on spawn.c for a process that is a group of its own. Happy path: input is written as it
 * fits while output is read, so that a process which writes before it reads causes no deadlock; a
 * line is returned as soon as its end was read. Failures: a line without end is an event once it is
 * too long, and then nothing more is read; when the process has ended, its group is killed before
 * it is reaped, and what it wrote before is read, but not waited for: a daemon may hold its pipes.
 * One that can say nothing more has a second to end by itself.
 *
 * Whether a process that ended has read any of its input shows in the pipe: the kernel still counts
 * what was not taken out of it. */
#include "pool/exec/loop_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/exec/sigpipe.h"
#include "pool/exec/tree_limits.h"

enum { READ_SIZE = 16384, LOOK_MS = 20, REST_MAX = 1 << 20, SILENT_MS = 1000 };
enum { IN, OUT, ERR, CANCEL, PROCESS, FD_COUNT };

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

quern_status qn_loop_process_start(const struct qn_loop_process_spec *spec,
                                   struct qn_loop_process **ret_process, quern_error *err)
{
    struct qn_loop_process *process = qn_alloc_zero(1, sizeof *process);
    if (process == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_spawn(&spec->request, &process->spawned, err);
    if (status != QUERN_OK) {
        qn_free(process);
        return status;
    }
    qn_stderr_tail_init(&process->stderr_text, spec->stderr_size_max > QN_SPAWN_REPORT_SIZE
                                                   ? spec->stderr_size_max
                                                   : QN_SPAWN_REPORT_SIZE);
    qn_buf_init(&process->input, SIZE_MAX / 2);
    process->line_size_max = spec->line_size_max;
    qn_buf_init(&process->output, spec->line_size_max + READ_SIZE + 1);
    *ret_process = process;
    return QUERN_OK;
}

quern_status qn_loop_process_send(struct qn_loop_process *process, struct qn_bytes bytes,
                                  quern_error *err)
{
    qn_buf_finish(&process->input); /* the last one may have been large */
    qn_buf_init(&process->input, SIZE_MAX / 2);
    process->input_sent = 0;
    process->is_unread = process->spawned.stdin_fd < 0;
    qn_buf_reset(&process->stderr_text.text);
    process->stderr_text.is_cut = false;
    if (qn_buf_append(&process->input, bytes.data, bytes.size) != QUERN_OK) {
        return qn_error_nomem(err);
    }
    return QUERN_OK;
}

void qn_loop_process_limit(struct qn_loop_process *process, int64_t cpu_ms, uint64_t memory_max)
{
    bool is_limited = cpu_ms > 0 || memory_max > 0;
    if ((is_limited || process->is_limited) && !process->has_ended) {
        qn_tree_limits_set(qn_spawn_pid(&process->spawned), cpu_ms, memory_max);
    }
    process->is_limited = is_limited;
}

static void begin_silence(struct qn_loop_process *process)
{
    if (process->silent_at_mono_ns == 0) {
        process->silent_at_mono_ns = qn_clock_mono_ns() + SILENT_MS * QN_NS_PER_MS;
    }
}

/* What is still in the pipe will never be read: all who could do that have closed it. */
static void close_input(struct qn_loop_process *process)
{
    int left = 0;
    if (process->spawned.stdin_fd >= 0 && ioctl(process->spawned.stdin_fd, FIONREAD, &left) == 0) {
        process->is_unread = (size_t)left >= process->input_sent;
    }
    close_fd(&process->spawned.stdin_fd);
}

/* It has closed its stdin. One that has read what was sent last, or a part, may still answer. */
static void lose_input(struct qn_loop_process *process)
{
    close_input(process);
    if (process->is_unread) {
        begin_silence(process);
    }
}

static void write_input(struct qn_loop_process *process)
{
    struct qn_sigpipe sigpipe;
    qn_sigpipe_block(&sigpipe);
    ssize_t count = write(process->spawned.stdin_fd, process->input.data + process->input_sent,
                          process->input.size - process->input_sent);
    bool is_over = count < 0 && errno != EINTR && errno != EAGAIN;
    qn_sigpipe_restore(&sigpipe);
    if (is_over) {
        lose_input(process);
    } else if (count > 0) {
        process->input_sent += (size_t)count;
    }
}

/* False: there is nothing more at present. */
static bool read_stderr(struct qn_loop_process *process)
{
    char piece[READ_SIZE];
    ssize_t count = read(process->spawned.stderr_fd, piece, sizeof piece);
    if (count > 0) {
        qn_stderr_tail_add(&process->stderr_text, piece, (size_t)count);
        return true;
    }
    if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_fd(&process->spawned.stderr_fd);
    }
    return false;
}

/* Makes room in front: its lines were returned. */
static void drop_read_lines(struct qn_loop_process *process)
{
    struct qn_buf *output = &process->output;
    if (process->output_read == 0) {
        return;
    }
    memmove(output->data, output->data + process->output_read, output->size - process->output_read);
    output->size -= process->output_read;
    output->data[output->size] = '\0';
    process->output_scanned -= process->output_read;
    process->output_read = 0;
}

/* QN_LOOP_LINE: nothing went wrong; *ret_more is false if there is nothing more at present. */
static enum qn_loop_event read_output(struct qn_loop_process *process, bool *ret_more)
{
    char piece[READ_SIZE];
    ssize_t count = read(process->spawned.stdout_fd, piece, sizeof piece);
    *ret_more = count > 0;
    if (count > 0 && process->is_ending) {
        return QN_LOOP_LINE;
    }
    if (count > 0) {
        drop_read_lines(process);
        quern_status status = qn_buf_append(&process->output, piece, (size_t)count);
        return status == QUERN_OK       ? QN_LOOP_LINE
               : status == QUERN_E_FULL ? QN_LOOP_TOO_LONG
                                        : QN_LOOP_NO_MEMORY;
    }
    if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_fd(&process->spawned.stdout_fd);
        begin_silence(process);
    }
    return QN_LOOP_LINE;
}

static bool take_line(struct qn_loop_process *process, struct qn_bytes *ret_line)
{
    struct qn_buf *output = &process->output;
    if (process->output_scanned == output->size) {
        return false;
    }
    char *from = output->data + process->output_scanned;
    char *newline = memchr(from, '\n', output->size - process->output_scanned);
    if (newline == NULL) {
        process->output_scanned = output->size;
        return false;
    }
    char *start = output->data + process->output_read;
    *ret_line = (struct qn_bytes){start, (size_t)(newline - start)};
    process->output_read = (size_t)(newline + 1 - output->data);
    process->output_scanned = process->output_read;
    return true;
}

static bool is_too_long(const struct qn_loop_process *process)
{
    return process->output.size - process->output_read > process->line_size_max;
}

/* What it wrote before its end. A line that is too long ends that, too. */
static void read_rest(struct qn_loop_process *process)
{
    enum qn_loop_event event = QN_LOOP_LINE;
    bool more = process->spawned.stdout_fd >= 0;
    while (more && event == QN_LOOP_LINE) {
        event = read_output(process, &more);
    }
}

static void reap(struct qn_loop_process *process)
{
    qn_spawn_reap(&process->spawned);
    process->has_ended = true;
    close_input(process);
    read_rest(process);
    qn_loop_process_read_stderr(process);
    close_fd(&process->spawned.stdout_fd);
    close_fd(&process->spawned.stderr_fd);
}

/* One that was told to end may be silent as long as its owner waits for that. */
static int64_t silent_at(const struct qn_loop_process *process)
{
    bool is_due = process->silent_at_mono_ns != 0 && !process->killed_by_us && !process->is_ending;
    return is_due ? process->silent_at_mono_ns : INT64_MAX;
}

static int timeout_ms(const struct qn_loop_process *process, const struct qn_loop_wait *wait)
{
    int64_t silent_at_ns = silent_at(process);
    int64_t until_ns = silent_at_ns < wait->until_mono_ns ? silent_at_ns : wait->until_mono_ns;
    if (until_ns == INT64_MAX) {
        return -1;
    }
    int64_t left_ns = until_ns - qn_clock_mono_ns();
    int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + QN_NS_PER_MS - 1) / QN_NS_PER_MS;
    if (wait->until_mono_ns != INT64_MAX && wait->abandoned != NULL && left_ms > LOOK_MS) {
        return LOOK_MS;
    }
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* QN_LOOP_LINE: it may be waited for. */
static enum qn_loop_event over(const struct qn_loop_process *process,
                               const struct qn_loop_wait *wait)
{
    int64_t now_ns = qn_clock_mono_ns();
    if (wait->until_mono_ns != INT64_MAX &&
        (now_ns >= wait->until_mono_ns ||
         (wait->abandoned != NULL && atomic_load(wait->abandoned)))) {
        return QN_LOOP_TIMEOUT;
    }
    return now_ns >= silent_at(process) ? QN_LOOP_SILENT : QN_LOOP_LINE;
}

/* QN_LOOP_LINE: nothing has happened that the caller must know. */
static enum qn_loop_event poll_once(struct qn_loop_process *process,
                                    const struct qn_loop_wait *wait)
{
    bool sends = process->input_sent < process->input.size;
    bool more;
    struct pollfd fds[FD_COUNT] = {
        [IN] = {.fd = process->spawned.stdin_fd, .events = sends ? POLLOUT : 0},
        [OUT] = {.fd = process->spawned.stdout_fd, .events = POLLIN},
        [ERR] = {.fd = process->spawned.stderr_fd, .events = POLLIN},
        [CANCEL] = {.fd = wait->cancel_fd, .events = POLLIN},
        [PROCESS] = {.fd = process->spawned.end_fd, .events = POLLIN},
    };
    if (poll(fds, FD_COUNT, timeout_ms(process, wait)) < 0) {
        return QN_LOOP_LINE; /* interrupted, or out of kernel memory: again */
    }
    if (fds[IN].revents != 0 && sends) {
        write_input(process);
    } else if (fds[IN].revents != 0) {
        lose_input(process);
    }
    if (fds[ERR].revents != 0) {
        (void)read_stderr(process);
    }
    if (fds[CANCEL].revents != 0) {
        return QN_LOOP_CANCELLED; /* before its output, which may have no end */
    }
    if (fds[OUT].revents != 0) {
        return read_output(process, &more);
    }
    if (fds[PROCESS].revents != 0) {
        reap(process);
    }
    return QN_LOOP_LINE;
}

enum qn_loop_event qn_loop_process_next(struct qn_loop_process *process,
                                        const struct qn_loop_wait *wait, struct qn_bytes *ret_line)
{
    for (;;) {
        enum qn_loop_event end = over(process, wait);
        if (end != QN_LOOP_LINE) { /* one look: it may have ended */
            enum qn_loop_event event = poll_once(process, wait);
            return process->has_ended ? QN_LOOP_ENDED : event == QN_LOOP_LINE ? end : event;
        }
        if (take_line(process, ret_line)) {
            return ret_line->size > process->line_size_max ? QN_LOOP_TOO_LONG : QN_LOOP_LINE;
        }
        if (is_too_long(process)) {
            return QN_LOOP_TOO_LONG;
        }
        if (process->has_ended) {
            return QN_LOOP_ENDED;
        }
        enum qn_loop_event event = poll_once(process, wait);
        if (event != QN_LOOP_LINE) {
            return event;
        }
    }
}

bool qn_loop_process_is_quiet(struct qn_loop_process *process)
{
    struct pollfd fds[] = {{.fd = process->spawned.stdout_fd, .events = POLLIN},
                           {.fd = process->spawned.end_fd, .events = POLLIN},
                           {.fd = process->spawned.stdin_fd}}; /* POLLERR: no process can read it */
    return !process->has_ended && process->output_read == process->output.size &&
           process->input_sent == process->input.size && process->spawned.stdin_fd >= 0 &&
           process->spawned.stdout_fd >= 0 && poll(fds, 3, 0) == 0;
}

bool qn_loop_process_is_noisy(struct qn_loop_process *process)
{
    struct pollfd fd = {.fd = process->spawned.stdout_fd, .events = POLLIN};
    return process->output_read < process->output.size ||
           (poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN) != 0);
}

bool qn_loop_process_is_unread(const struct qn_loop_process *process)
{
    return process->is_unread;
}

bool qn_loop_process_has_half_line(const struct qn_loop_process *process)
{
    return process->output_read < process->output.size;
}

void qn_loop_process_kill(struct qn_loop_process *process)
{
    if (!process->has_ended) {
        qn_loop_process_signal(process, SIGKILL);
        reap(process);
    }
}

void qn_loop_process_read_stderr(struct qn_loop_process *process)
{
    for (int i = 0; i < REST_MAX / READ_SIZE && process->spawned.stderr_fd >= 0; i++) {
        if (!read_stderr(process)) {
            return;
        }
    }
}

void qn_loop_process_close_input(struct qn_loop_process *process)
{
    close_fd(&process->spawned.stdin_fd);
    process->is_ending = true;
}

void qn_loop_process_signal(struct qn_loop_process *process, int number)
{
    if (process->has_ended) {
        return;
    }
    process->killed_by_us = true;
    qn_spawn_signal(&process->spawned, number);
}

quern_status qn_loop_process_refusal(const struct qn_loop_process *process, quern_error *err)
{
    return qn_spawn_refusal(&process->spawned, &process->stderr_text.text, err);
}

void qn_loop_process_free(struct qn_loop_process *process)
{
    if (process == NULL) {
        return;
    }
    qn_loop_process_kill(process);
    qn_buf_finish(&process->input);
    qn_buf_finish(&process->output);
    qn_buf_finish(&process->stderr_text.text);
    qn_free(process);
}
