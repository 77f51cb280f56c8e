/* SPDX-License-Identifier: MIT */
/* mux_exec.c - a shell command as handler.
 *
 * Relies on pool/exec/child.c for the process. Here its end becomes an outcome: the exit code is
 * the verdict, stdout the result of a task that keeps one, the last lines of stderr the error text.
 * Death by a signal that we did not send is a crash of the run, not a failure of the task: the
 * broker charges it as such. A command that cannot be started for want of processes, descriptors or
 * memory costs its task no attempt: see shortage.h. One whose environment is too large would never
 * start: that is a failure, so that its attempts are used up at last. Stdout beyond its limit is
 * dropped; the result and the log report that. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
#include "worker/run/progress_lines.h"
#include "worker/run/run.h"

/* The codes of sysexits.h, which mail programs made common. */
enum { EXIT_DONE = 0, EXIT_ARCHIVE = 65, EXIT_RETRY = 75 };
enum {
    STDOUT_SIZE_MAX = 1 << 20,
    STDERR_SIZE_MAX = 4096,
    STDERR_SIZE_LIMIT = 1 << 20,
    KILL_AFTER_MS = 5000
};
/* Of the variables for headers. Linux takes 128 KiB for one and, mostly, 2 MiB for all. */
enum {
    HEADER_BYTES_MAX = 65536,
    OTHER_ENTRIES = 16, /* at most this many variables are not headers */
    ENTRY_MAX = QN_HEADER_COUNT_MAX + OTHER_ENTRIES,
    HEADER_NAME_SIZE = QN_NAME_SIZE_MAX + 32
};
#define HEADER_PREFIX "QUERN_HEADER_"
#define MARK_SIZE 64    /* of the line behind an incomplete result */
#define VERDICT_SIZE 64 /* "killed by signal 11 (SEGV)" and the like */

struct command {
    char *text;
    quern_exec_options options;    /* defaults filled in */
    _Atomic bool garbage_reported; /* that one of its runs wrote garbage as its progress */
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
    if (end->exited && !end->cancelled) {
        char error_class[32];
        (void)snprintf(error_class, sizeof error_class, "exit/%d", end->code);
        quern_run_set_error_class(run, error_class);
    }
    if (!end->exited && !end->cancelled) {
        run->crashed = true;
        return QUERN_RETRY;
    }
    return end->exited && end->code == EXIT_ARCHIVE ? QUERN_ARCHIVE : QUERN_RETRY;
}

/* --- The environment ------------------------------------------------------------------- */

struct environment {
    struct qn_arena *arena;
    const char *entries[ENTRY_MAX + 1]; /* NULL-terminated */
    size_t count;
    bool out_of_memory;
};

/* What qn_arena_printf made; NULL: memory is out. */
static void add_entry(struct environment *environment, const char *text)
{
    if (text == NULL || environment->count == ENTRY_MAX) {
        environment->out_of_memory = true;
        return;
    }
    environment->entries[environment->count++] = text;
}

/* As in CGI: upper case, and "_" for "-". False: the name has other characters than letters,
 * digits, "-" and "_", or another header got this variable. */
static bool name_variable(const struct environment *environment, const char *name,
                          char variable[HEADER_NAME_SIZE])
{
    size_t size = strlen(HEADER_PREFIX);
    if (name[0] == '\0') {
        return false;
    }
    memcpy(variable, HEADER_PREFIX, size);
    for (const char *at = name; *at != '\0'; at++) {
        char c = *at == '-' ? '_' : *at;
        c = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        if ((c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z')) ||
            size + 2 > HEADER_NAME_SIZE) {
            return false;
        }
        variable[size++] = c;
    }
    variable[size++] = '=';
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->entries[i], variable, size) == 0) {
            return false;
        }
    }
    variable[size - 1] = '\0';
    return true;
}

/* Those that are left out are counted, so that a handler may notice. */
static void add_headers(struct environment *environment, const quern_task *task)
{
    char variable[HEADER_NAME_SIZE];
    size_t bytes = 0;
    size_t added = 0;
    size_t omitted = 0;
    add_entry(environment, HEADER_PREFIX); /* those of a task whose handler started this worker */
    for (size_t i = 0; i < task->header_count; i++) {
        const char *value = task->headers[i].value != NULL ? task->headers[i].value : "";
        size_t size = strlen(task->headers[i].name) + strlen(value);
        if (added == QN_HEADER_COUNT_MAX || bytes + size > HEADER_BYTES_MAX ||
            !name_variable(environment, task->headers[i].name, variable)) {
            omitted++;
            continue;
        }
        bytes += size;
        added++;
        add_entry(environment, qn_arena_printf(environment->arena, "%s=%s", variable, value));
    }
    add_entry(environment,
              qn_arena_printf(environment->arena, "QUERN_HEADERS_OMITTED=%zu", omitted));
}

static const char *find_header(const quern_task *task, const char *name)
{
    for (size_t i = 0; i < task->header_count; i++) {
        const char *value = task->headers[i].value;
        if (strcasecmp(task->headers[i].name, name) == 0 && value != NULL &&
            strlen(value) <= QN_HEADER_VALUE_SIZE_MAX) {
            return value;
        }
    }
    return NULL;
}

/* The names of OpenTelemetry. Without the header the worker's own stay, as in any child. */
static void add_trace(struct environment *environment, const quern_task *task)
{
    const char *parent = find_header(task, "traceparent");
    const char *state = find_header(task, "tracestate");
    if (parent != NULL) {
        add_entry(environment, qn_arena_printf(environment->arena, "TRACEPARENT=%s", parent));
        add_entry(environment,
                  qn_arena_printf(environment->arena, "TRACESTATE=%s", state != NULL ? state : ""));
    }
}

/* False: memory is out. */
static bool make_environment(struct environment *environment, const quern_run *run,
                             const quern_task *task)
{
    struct qn_arena *arena = environment->arena;
    int64_t deadline_at_ms = quern_run_deadline_at_ms(run);
    const char *cause = quern_cause_name(quern_run_cause(run));
    bool has_cause = quern_run_cause(run) != QUERN_CAUSE_NONE && cause != NULL;
    add_entry(environment, qn_arena_printf(arena, "QUERN_TASK_ID=%s", task->id));
    add_entry(environment, qn_arena_printf(arena, "QUERN_TASK_TYPE=%s", task->type));
    add_entry(environment, qn_arena_printf(arena, "QUERN_QUEUE=%s", task->queue));
    add_entry(environment, qn_arena_printf(arena, "QUERN_RETRY_COUNT=%lld",
                                           (long long)quern_run_retry_count(run)));
    add_entry(environment,
              qn_arena_printf(arena, "QUERN_RETRY_MAX=%lld", (long long)task->retry_max));
    add_entry(environment,
              qn_arena_printf(arena, "QUERN_FENCE=%llu", (unsigned long long)quern_run_fence(run)));
    add_entry(environment, qn_arena_printf(arena, "QUERN_CAUSE=%s", has_cause ? cause : ""));
    add_entry(environment, deadline_at_ms != 0 ? qn_arena_printf(arena, "QUERN_DEADLINE=%lld",
                                                                 (long long)deadline_at_ms / 1000)
                                               : qn_arena_printf(arena, "QUERN_DEADLINE="));
    add_trace(environment, task);
    add_headers(environment, task);
    return !environment->out_of_memory;
}

/* --- The run --------------------------------------------------------------------------- */

struct reporter {
    quern_run *run;
    struct qn_progress_lines lines;
};

static void take_progress(const char *data, size_t size, void *user)
{
    struct reporter *reporter = user;
    if (qn_progress_lines_feed(&reporter->lines, data, size)) {
        qn_run_post_progress(reporter->run, &reporter->lines.progress);
    }
}

/* A crash, or the end of a cancelled run, is nothing that a command could have foreseen. */
static quern_outcome apply_requests(quern_run *run, const struct qn_line_requests *requests,
                                    const struct qn_child_end *end, quern_outcome outcome)
{
    if (!end->exited || end->cancelled) {
        return outcome;
    }
    if (requests->error_class[0] != '\0') {
        quern_run_set_error_class(run, requests->error_class);
    }
    if (requests->has_snooze && (end->code == EXIT_DONE || end->code == EXIT_RETRY)) {
        return quern_run_again_in(run, requests->snooze_ms);
    }
    if (outcome != QUERN_RETRY) {
        return outcome;
    }
    if (requests->no_retry) {
        char text[QN_ERROR_TEXT_SIZE_MAX + 1];
        (void)snprintf(text, sizeof text, "%s", run->error != NULL ? run->error : "");
        return quern_run_fail(run, QUERN_ARCHIVE, "class \"%s\" is not retried: %s",
                              requests->error_class, text);
    }
    if (requests->has_retry_in) {
        (void)quern_run_again_in(run, requests->retry_in_ms);
    }
    return outcome;
}

static quern_outcome not_started(quern_run *run, const char *why)
{
    run->not_started = true;
    return quern_run_fail(run, QUERN_RETRY, "command was not started: %s", why);
}

static int64_t kill_after_ms(const struct command *command, const quern_run *run)
{
    int64_t own_ms = run->entry != NULL ? run->entry->options.kill_after_ms : 0;
    return own_ms > 0 ? own_ms : command->options.kill_after_ms;
}

static quern_outcome run_command(quern_run *run, const quern_task *task, void *user)
{
    struct command *command = user;
    struct qn_arena arena = {0};
    struct environment environment = {.arena = &arena};
    struct reporter reporter = {.run = run};
    if (!make_environment(&environment, run, task)) {
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
        .environment = environment.entries,
        .input = task->payload,
        .input_size = task->payload_size,
        .stdout_size_max = command->options.stdout_size_max,
        .stderr_size_max = command->options.stderr_size_max,
        .kill_after_ms = kill_after_ms(command, run),
        .cancel_fd = cancel_fd,
        .abandoned = &run->abandoned,
        .on_progress = take_progress,
        .user = &reporter,
    };
    struct qn_child_end end;
    quern_error error;
    quern_status status = qn_child_run(&spec, &end, &error);
    qn_arena_finish(&arena);
    if (status == QUERN_E_INVALID) {
        return quern_run_fail(run, QUERN_RETRY, "command was not started: %s", error.text);
    }
    if (status != QUERN_OK) {
        return not_started(run, error.text);
    }
    run->progress_garbled =
        reporter.lines.garbled && !atomic_exchange(&command->garbage_reported, true);
    quern_outcome outcome =
        apply_requests(run, &reporter.lines.requests, &end, outcome_of(run, task, &end));
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
    quern_status status =
        qn_sized_copy(QN_ROOM_OF(command->options), (struct qn_bytes){options, options_size},
                      "exec options", err);
    if (status != QUERN_OK) {
        goto fail;
    }
    status = fill_options(&command->options, err);
    if (status != QUERN_OK) {
        goto fail;
    }
    command->text = qn_str_dup(command_text);
    if (command->text == NULL) {
        status = qn_error_nomem(err);
        goto fail;
    }
    const struct qn_mux_entry entry = {
        .handler = run_command,
        .user = command,
        .free_user = free_command,
        .grace_ms = command->options.kill_after_ms + QN_GRACE_SPARE_MS,
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
