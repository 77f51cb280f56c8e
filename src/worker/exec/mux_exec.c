/* SPDX-License-Identifier: MIT */
/* mux_exec.c - a shell command as handler.
 *
 * Relies on pool/exec/child.c for the process. Here its end becomes an outcome: the exit code is
 * the verdict, together with its orders (orders.h), stdout the result of a task that keeps one, the
 * last lines of stderr the error text.
 * Death by a signal that we did not send is a crash of the run, not a failure of the task: the
 * broker charges it as such. A command that cannot be started for want of processes, descriptors or
 * memory costs its task no attempt: see shortage.h. One whose environment is too large would never
 * start: that is a failure, so that its attempts are used up at last. Stdout beyond its limit is
 * dropped; the result and the log report that. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/memory/sized.h"
#include "base/text/number.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "pool/exec/child.h"
#include "task/limits.h"
#include "worker/exec/environment.h"
#include "worker/exec/progress_lines.h"
#include "worker/run/death_text.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

enum {
    STDOUT_SIZE_MAX = 1 << 20,
    STDERR_SIZE_MAX = 4096,
    STDERR_SIZE_LIMIT = 1 << 20,
    KILL_AFTER_MS = 5000
};
#define MARK_SIZE 64 /* of the line behind an incomplete result */

struct command {
    char *text;
    quern_exec_options options;    /* defaults filled in */
    _Atomic bool garbage_reported; /* that one of its runs wrote garbage as its progress */
    _Atomic bool order_reported;   /* that one of its runs wrote a wrong order */
};

/* A death that we did not cause is worth its CPU time and its memory. */
static void set_end_as_error(quern_run *run, const struct qn_child_end *end)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    bool is_crash = !end->exited && !end->cancelled;
    const struct qn_death_facts facts = {
        .status = end->status,
        .out_of_memory = end->out_of_memory,
        .over_cpu = end->over_cpu,
        .usage = is_crash ? &end->usage : NULL,
        .stderr_text = {end->stderr_text.data, end->stderr_text.size},
        .stderr_cut = end->stderr_cut,
    };
    run->signal = is_crash && WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
    qn_run_set_error(run, text, qn_death_text(&facts, text, sizeof text));
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
    struct qn_bytes lines = qn_death_text_last_lines(
        (struct qn_bytes){end->stderr_text.data, end->stderr_text.size}, QN_ERROR_TEXT_SIZE_MAX);
    char *text = lines.size == 0 ? NULL : qn_alloc(lines.size + 1);
    if (text != NULL) {
        memcpy(text, lines.data, lines.size);
        text[lines.size] = '\0';
        run->stderr_text = text;
    }
}

/* Before its own error stands why it is not retried. */
static void set_why(quern_run *run, const char *class_name)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    (void)snprintf(text, sizeof text, "%s", run->error != NULL ? run->error : "");
    (void)quern_run_fail(run, QUERN_ARCHIVE, "class \"%s\" is not retried: %s", class_name, text);
}

static void note_failure(quern_run *run, const struct qn_orders *orders, int code)
{
    char text[32];
    (void)snprintf(text, sizeof text, "exit/%d", code);
    quern_run_set_error_class(run, orders->class_name[0] != '\0' ? orders->class_name : text);
    if (orders->order == QN_ORDER_NO_RETRY) {
        set_why(run, orders->class_name);
    }
}

static void keep_result(quern_run *run, struct qn_child_end *end)
{
    mark_cut(end);
    run->result = end->output.data; /* the run owns it now */
    run->result_size = end->output.size;
    run->has_result = true;
    qn_buf_init(&end->output, 0);
}

/* Its death at its CPU limit is a failure of the task, as a timeout is; any other one that we did
 * not cause is a crash. The end of a cancelled command is nothing that its orders were about. */
static quern_outcome outcome_of(quern_run *run, const quern_task *task,
                                const struct qn_orders *given, struct qn_child_end *end)
{
    static const struct qn_orders none = {0};
    const struct qn_orders *orders = end->cancelled ? &none : given;
    run->output_dropped = end->stdout_dropped;
    run->facts = end->is_lost ? run->facts : qn_death_text_facts(end->status, &end->usage);
    if (end->is_lost) {
        run->orphaned = true;
        return quern_run_fail(run, QUERN_RETRY, "the zygote of its command has ended");
    }
    if (!end->exited || end->code != 0) {
        set_end_as_error(run, end);
    }
    if (!end->exited) {
        run->crashed = !end->cancelled && !end->over_cpu;
        return QUERN_RETRY;
    }
    quern_outcome outcome = qn_orders_decide(orders, end->code);
    bool is_again = outcome == QUERN_RETRY || outcome == QUERN_SNOOZE;
    if (orders->order != QN_ORDER_NONE && is_again) {
        (void)quern_run_again_in(run, orders->delay_ms);
    }
    if (end->code != 0 && !end->cancelled) {
        note_failure(run, orders, end->code);
    } else if (outcome == QUERN_DONE && task->retention_ms > 0) {
        keep_result(run, end);
    }
    return outcome;
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

/* Once each for a command: its other runs do the same. */
static void report_lines(quern_run *run, struct command *command,
                         const struct qn_progress_lines *lines)
{
    run->progress_garbled = lines->garbled && !atomic_exchange(&command->garbage_reported, true);
    if (lines->orders.wrong[0] != '\0' && !atomic_exchange(&command->order_reported, true)) {
        run->wrong_order = qn_str_dup(lines->orders.wrong); /* out of memory: not reported */
    }
}

static quern_outcome not_started(quern_run *run, const char *why)
{
    run->not_started = true;
    return quern_run_fail(run, QUERN_RETRY, "command was not started: %s", why);
}

static int64_t first_of(int64_t first, int64_t second)
{
    return first > 0 ? first : second;
}

/* Those of the task come first, then its handler's, then its own. */
static int64_t kill_after_ms(const struct command *command, const quern_run *run)
{
    int64_t handlers_ms = run->entry != NULL ? run->entry->options.kill_after_ms : 0;
    return first_of(run->leased->task.kill_after_ms,
                    first_of(handlers_ms, command->options.kill_after_ms));
}

static struct qn_exec_limits limits_of(const struct command *command, const quern_run *run)
{
    static const quern_handler_options none = {0};
    const quern_handler_options *options = run->entry != NULL ? &run->entry->options : &none;
    const struct qn_task *task = &run->leased->task;
    int64_t cpu_ms = first_of(task->cpu_ms, options->cpu_ms);
    return (struct qn_exec_limits){
        .address_space_bytes = (uint64_t)first_of(task->memory_max, options->memory_max),
        .cpu_s = (uint64_t)(cpu_ms / 1000 + (cpu_ms % 1000 != 0 ? 1 : 0)),
        .no_new_privs = command->options.no_new_privs,
    };
}

static quern_outcome run_command(quern_run *run, const quern_task *task, void *user)
{
    struct command *command = user;
    struct qn_arena arena = {0};
    struct qn_environment environment = {.arena = &arena};
    struct reporter reporter = {.run = run};
    if (!qn_environment_make(&environment, run, task)) {
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
        .limits = limits_of(command, run),
        .launcher = run->launcher,
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
    qn_progress_lines_end(&reporter.lines);
    report_lines(run, command, &reporter.lines);
    quern_outcome outcome = outcome_of(run, task, &reporter.lines.orders, &end);
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
