/* SPDX-License-Identifier: MIT */
/* mux_exec.c - a shell command as handler.
 *
 * Relies on pool/exec/child.c for the process. Here its end becomes an outcome: the exit code is
 * the verdict, stdout the result of a task that keeps one, the last lines of stderr the error text.
 * Death by a signal that we did not send is a crash of the run, not a failure of the task: the
 * broker charges it as such. A command that cannot be started at all costs its task no attempt: see
 * shortage.h. Stdout beyond its limit is dropped; the result and the log report that. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "pool/exec/child.h"
#include "task/limits.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

/* The codes of sysexits.h, which mail programs made common. */
enum { EXIT_DONE = 0, EXIT_ARCHIVE = 65, EXIT_RETRY = 75 };
enum {
    STDOUT_SIZE_MAX = 1 << 20,
    STDERR_SIZE_MAX = 4096,
    STDERR_SIZE_LIMIT = 1 << 20,
    KILL_AFTER_MS = 5000,
    GRACE_SPARE_MS = 2000 /* to reap it and to leave pipes that other processes hold */
};
#define MARK_SIZE 64    /* of the line behind an incomplete result */
#define VERDICT_SIZE 64 /* "killed by signal 11 (SEGV)" and the like */

struct command {
    char *text;
    quern_exec_options options; /* defaults filled in */
};

/* Cut in front at a line, and without the white space at the end. */
static struct qn_str last_lines(const struct qn_buf *stderr_text)
{
    struct qn_str lines = {stderr_text->data, stderr_text->size};
    const size_t size_max = QN_ERROR_TEXT_SIZE_MAX - VERDICT_SIZE - sizeof ": ";
    while (lines.size > 0 && strchr(" \t\r\n", lines.data[lines.size - 1]) != NULL) {
        lines.size--;
    }
    if (lines.size > size_max) {
        lines.data += lines.size - size_max;
        lines.size = size_max;
        const char *newline = memchr(lines.data, '\n', lines.size);
        if (newline != NULL) {
            lines.size -= (size_t)(newline + 1 - lines.data);
            lines.data = newline + 1;
        }
    }
    return lines;
}

static void set_end_as_error(quern_run *run, const struct qn_child_end *end)
{
    char verdict[VERDICT_SIZE];
    if (end->exited) {
        (void)snprintf(verdict, sizeof verdict, "exit status %d", end->code);
    } else {
        const char *name = sigabbrev_np(end->signal);
        (void)snprintf(verdict, sizeof verdict, "killed by signal %d (SIG%s)", end->signal,
                       name != NULL ? name : "?");
    }
    struct qn_str lines = last_lines(&end->stderr_text);
    bool is_cut = end->stderr_cut || lines.data != end->stderr_text.data;
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    int length =
        snprintf(text, sizeof text, "%s%s%s%.*s", verdict, lines.size > 0 ? ": " : "",
                 is_cut ? "[cut] " : "", (int)lines.size, lines.size > 0 ? lines.data : "");
    /* %.*s stops at a NUL in the output, which suits an error text. */
    qn_run_set_error(run, text, length > 0 ? strlen(text) : 0);
}

/* Marks the end of an incomplete result. When out of memory only the log reports the cut. */
static void mark_cut(struct qn_child_end *end)
{
    struct qn_buf *output = &end->output;
    if (end->stdout_dropped > 0) {
        output->size_max += MARK_SIZE;
        quern_status status = qn_buf_printf(output, "\n[quern: cut here, %llu %s more]\n",
                                            (unsigned long long)end->stdout_dropped,
                                            qn_plural(end->stdout_dropped, "byte", "bytes"));
        (void)status;
    }
}

/* For the log; the last lines, as of a failure. */
static void keep_stderr(quern_run *run, const struct qn_child_end *end)
{
    struct qn_str lines = last_lines(&end->stderr_text);
    char *text = lines.size == 0 ? NULL : qn_alloc(lines.size + 1);
    if (text != NULL) {
        memcpy(text, lines.data, lines.size);
        text[lines.size] = '\0';
        run->stderr_text = text;
    }
}

static quern_outcome outcome_of(quern_run *run, const quern_task *task, struct qn_child_end *end)
{
    run->output_dropped = end->stdout_dropped;
    if (end->exited && end->code == EXIT_DONE) {
        if (task->retention_ms > 0) {
            mark_cut(end);
            run->result = end->output.data; /* the run owns it now */
            run->result_size = end->output.size;
            run->has_result = true;
            qn_buf_init(&end->output, 0);
        }
        return QUERN_DONE;
    }
    set_end_as_error(run, end);
    if (!end->exited && !end->cancelled) {
        run->crashed = true;
        return QUERN_RETRY;
    }
    return end->exited && end->code == EXIT_ARCHIVE ? QUERN_ARCHIVE : QUERN_RETRY;
}

/* NULL when memory is out. */
static const char **make_environment(struct qn_arena *arena, const quern_run *run,
                                     const quern_task *task)
{
    char *texts[] = {
        qn_arena_printf(arena, "QUERN_TASK_ID=%s", task->id),
        qn_arena_printf(arena, "QUERN_TASK_TYPE=%s", task->type),
        qn_arena_printf(arena, "QUERN_QUEUE=%s", task->queue),
        qn_arena_printf(arena, "QUERN_RETRY_COUNT=%lld", (long long)quern_run_retry_count(run)),
        qn_arena_printf(arena, "QUERN_FENCE=%llu", (unsigned long long)quern_run_fence(run)),
    };
    const size_t count = sizeof texts / sizeof texts[0];
    const char **environment = qn_arena_alloc(arena, (count + 1) * sizeof *environment);
    if (environment == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (texts[i] == NULL) {
            return NULL;
        }
        environment[i] = texts[i];
    }
    environment[count] = NULL;
    return environment;
}

static quern_outcome not_started(quern_run *run, const char *why)
{
    run->not_started = true;
    return quern_run_fail(run, QUERN_RETRY, "command was not started: %s", why);
}

static quern_outcome run_command(quern_run *run, const quern_task *task, void *user)
{
    const struct command *command = user;
    struct qn_arena arena = {0};
    const char **environment = make_environment(&arena, run, task);
    if (environment == NULL) {
        qn_arena_finish(&arena);
        return not_started(run, "out of memory");
    }
    int cancel_fd = quern_run_cancel_fd(run);
    if (cancel_fd < 0) {
        char why[128];
        (void)snprintf(why, sizeof why, "no descriptor to cancel it by: %s", strerror(errno));
        qn_arena_finish(&arena);
        return not_started(run, why);
    }
    const struct qn_child_spec spec = {
        .command = command->text,
        .environment = environment,
        .input = task->payload,
        .input_size = task->payload_size,
        .stdout_size_max = command->options.stdout_size_max,
        .stderr_size_max = command->options.stderr_size_max,
        .kill_after_ms = command->options.kill_after_ms,
        .cancel_fd = cancel_fd,
        .abandoned = &run->abandoned,
    };
    struct qn_child_end end;
    quern_error error;
    quern_status status = qn_child_run(&spec, &end, &error);
    qn_arena_finish(&arena);
    if (status != QUERN_OK) {
        return not_started(run, error.text);
    }
    quern_outcome outcome = outcome_of(run, task, &end);
    if (outcome == QUERN_DONE && command->options.log_stderr) {
        keep_stderr(run, &end);
    }
    qn_child_end_finish(&end);
    return outcome;
}

static void free_command(void *user)
{
    struct command *command = user;
    qn_free(command->text);
    qn_free(command);
}

static quern_status fill_options(quern_exec_options *options, quern_error *err)
{
    const size_t stdout_size_limit = QN_PAYLOAD_SIZE_LIMIT - MARK_SIZE;
    if (options->stdout_size_max > stdout_size_limit) {
        return qn_error_set(err, QUERN_E_INVALID, "stdout_size_max is over %zu bytes",
                            stdout_size_limit);
    }
    if (options->stderr_size_max > STDERR_SIZE_LIMIT) {
        return qn_error_set(err, QUERN_E_INVALID, "stderr_size_max is over %d bytes",
                            STDERR_SIZE_LIMIT);
    }
    if (options->kill_after_ms < 0 || options->kill_after_ms > QN_DURATION_MS_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "kill_after_ms is negative or over 100 years");
    }
    if (!qn_sized_zero(options->reserved, sizeof options->reserved)) {
        return qn_error_set(err, QUERN_E_INVALID, "exec options: reserved is not 0");
    }
    if (options->stdout_size_max == 0) {
        options->stdout_size_max = STDOUT_SIZE_MAX;
    }
    if (options->stderr_size_max == 0) {
        options->stderr_size_max = STDERR_SIZE_MAX;
    }
    if (options->kill_after_ms == 0) {
        options->kill_after_ms = KILL_AFTER_MS;
    }
    return QUERN_OK;
}

quern_status quern_mux_exec_sized(quern_mux *mux, const char *pattern, const char *command_text,
                                  const quern_exec_options *options, size_t options_size,
                                  quern_error *err)
{
    if (pattern == NULL || command_text == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            pattern == NULL ? "pattern" : "command");
    }
    if (qn_str_blank(command_text)) {
        return qn_error_set(err, QUERN_E_INVALID, "command is blank");
    }
    struct command *command = qn_alloc_zero(1, sizeof *command);
    if (command == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = qn_sized_copy(&command->options, sizeof command->options, options,
                                        options_size, "exec options", err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = fill_options(&command->options, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    command->text = qn_strdup(command_text);
    if (command->text == NULL) {
        status = qn_error_nomem(err);
        goto fail;
    }
    const struct qn_mux_entry entry = {
        .handler = run_command,
        .user = command,
        .free_user = free_command,
        .grace_ms = command->options.kill_after_ms + GRACE_SPARE_MS,
        .has_process = true,
    };
    status = qn_mux_add(mux, pattern, &entry, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    return QUERN_OK;

fail:
    free_command(command);
    return status;
}
