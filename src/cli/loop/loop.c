/* SPDX-License-Identifier: MIT */
/* loop.c - commands that stay: a line of JSON for each task, lines of JSON as answers.
 *
 * A process says {"ready":true} when it can take tasks, within start_ms. So a program that cannot
 * start at all is known as such: that is a failure with its reason, never a crash, and it is
 * started again after a pause that grows to 10 s. The timeout of a run begins when its process is
 * ready. Each run takes an idle process, the one that was used last, or starts one: there are never
 * more than runs at a time.
 *
 * What a process does wrong costs the run that it has: its death, a line that is no answer of this
 * task, a line that is too long, the end of its output, no end after a cancellation. Death by a
 * signal of others is a crash, anything else a failure with its reason. A process that is not quiet
 * between two runs (it has ended, or has written something), or has read nothing of its task when
 * it ends, is replaced, and costs no run; unless it is a new one: that has failed to start. */
#include "cli/loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/str.h"
#include "cli/loop/loop_answer.h"
#include "cli/loop/loop_limits.h"
#include "cli/loop/loop_stock.h"
#include "cli/loop/loop_task.h"
#include "cli/memory.h"
#include "pool/exec/loop_process.h"
#include "worker/run/death_text.h"
#include "worker/run/mux.h"
#include "worker/run/run.h"

enum {
    LINE_SIZE_MAX = 8 << 20,
    STDERR_SIZE_MAX = 4096,
    START_MS = 30000,
    KILL_AFTER_MS = 5000,
    SHOWN_MAX = 60 /* bytes of the command in an error text */
};

struct loop {
    char *command; /* owned */
    struct qn_loop_options options;
    struct qn_loop_stock stock;
    _Atomic bool noise_reported;
};

struct attempt {
    struct loop *loop;
    quern_run *run;
    const quern_task *task;
    struct qn_loop_limits limits;
    struct qn_loop_flood flood;
    struct qn_loop_process *process; /* NULL: none yet */
    struct qn_loop_wait wait;
    bool has_task;  /* as far as we know the process has it */
    char note[192]; /* what else is to say of its end; "": nothing */
};

/* --- Ends of a run --------------------------------------------------------------------- */

static quern_outcome not_started(struct attempt *attempt, const char *why)
{
    attempt->run->not_started = true;
    return quern_run_fail(attempt->run, QUERN_RETRY, "command was not started: %s", why);
}

/* The process has ended, or does here; it is freed. */
static quern_outcome fail_by_end(struct attempt *attempt, const char *before)
{
    struct qn_loop_process *process = attempt->process;
    bool is_ours = process->killed_by_us;
    qn_loop_process_kill(process);
    if (process->spawned.end.is_lost) {
        attempt->run->orphaned = true;
        qn_loop_process_free(process);
        attempt->process = NULL;
        return quern_run_fail(attempt->run, QUERN_RETRY, "the zygote of its command has ended");
    }
    bool over_cpu = qn_loop_limits_over_cpu(&attempt->limits, process->spawned.end.status);
    bool is_exit = !is_ours && WIFEXITED(process->spawned.end.status);
    bool is_crash = attempt->has_task && !is_ours && !over_cpu && !is_exit;
    if (is_exit && qn_loop_process_has_half_line(process)) {
        (void)snprintf(attempt->note, sizeof attempt->note, "in the middle of a line");
    } else if (is_exit && WEXITSTATUS(process->spawned.end.status) == 0) {
        (void)snprintf(attempt->note, sizeof attempt->note, "without an answer");
    }
    const struct qn_death_facts facts = {
        .status = process->spawned.end.status,
        .out_of_memory = process->spawned.end.out_of_memory,
        .over_cpu = over_cpu,
        .note = attempt->note[0] != '\0' ? attempt->note : NULL,
        .usage = is_crash ? &process->spawned.end.usage : NULL,
        .stderr_text = {process->stderr_text.text.data, process->stderr_text.text.size},
        .stderr_cut = process->stderr_text.is_cut,
    };
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    (void)qn_death_text(&facts, text, sizeof text);
    attempt->run->crashed = is_crash;
    attempt->run->signal = is_crash ? WTERMSIG(process->spawned.end.status) : 0;
    if (is_exit && attempt->has_task) {
        char name[32];
        (void)snprintf(name, sizeof name, "exit/%d", WEXITSTATUS(process->spawned.end.status));
        quern_run_set_error_class(attempt->run, name);
    }
    qn_loop_process_free(process);
    attempt->process = NULL;
    return quern_run_fail(attempt->run, QUERN_RETRY, "%s%s", before, text);
}

/* It does not keep to the rules. */
static quern_outcome fail_by_fault(struct attempt *attempt, const char *before, const char *why)
{
    (void)snprintf(attempt->note, sizeof attempt->note, "%s", why);
    qn_loop_process_signal(attempt->process, SIGKILL);
    return fail_by_end(attempt, before);
}

static quern_outcome fail_by_event(struct attempt *attempt, const char *before,
                                   enum qn_loop_event event)
{
    char why[64];
    switch (event) {
    case QN_LOOP_TOO_LONG:
        (void)snprintf(why, sizeof why, "it wrote a line of more than %d bytes", LINE_SIZE_MAX);
        return fail_by_fault(attempt, before, why);
    case QN_LOOP_NO_MEMORY:
        return fail_by_fault(attempt, before, "no memory for its line");
    case QN_LOOP_TIMEOUT:
        return fail_by_fault(attempt, before, "it did not end");
    case QN_LOOP_SILENT:
        return fail_by_fault(attempt, before,
                             attempt->has_task ? "it closed its output and went on"
                                               : "it closed its input or output and went on");
    case QN_LOOP_LINE:
    case QN_LOOP_CANCELLED:
    case QN_LOOP_ENDED:
        break;
    }
    return fail_by_end(attempt, before);
}

/* --- Processes ------------------------------------------------------------------------- */

/* False: the run was cancelled meanwhile. */
static bool await_pause(struct attempt *attempt)
{
    struct pollfd cancel = {.fd = attempt->wait.cancel_fd, .events = POLLIN};
    int64_t left_ns;
    while ((left_ns = qn_loop_stock_pause_ns(&attempt->loop->stock)) > 0) {
        if (poll(&cancel, 1, (int)(left_ns / QN_NS_PER_MS) + 1) > 0) {
            return false;
        }
    }
    return true;
}

/* What goes before the end of a process that did not become ready: which command it is of. */
static void name_command(const struct loop *loop, const char *what, char *out, size_t size)
{
    size_t shown = strcspn(loop->command, "\n");
    bool is_cut = loop->command[shown] != '\0' || shown > SHOWN_MAX;
    shown = shown > SHOWN_MAX ? SHOWN_MAX : shown;
    (void)snprintf(out, size, "'%.*s%s' %s: ", (int)shown, loop->command, is_cut ? "..." : "",
                   what);
}

static quern_outcome fail_unready(struct attempt *attempt, enum qn_loop_event event)
{
    char before[SHOWN_MAX + 64];
    char within[32];
    char why[128];
    name_command(attempt->loop, "was not ready", before, sizeof before);
    quern_run_set_error_class(attempt->run, "not-ready");
    if (event == QN_LOOP_CANCELLED) {
        return fail_by_fault(attempt, before, "its run was cancelled");
    }
    if (event != QN_LOOP_TIMEOUT) {
        return fail_by_event(attempt, before, event);
    }
    qn_duration_format(attempt->loop->options.start_ms, within, sizeof within);
    (void)snprintf(why, sizeof why, "it did not write the line {\"ready\":true} within %s", within);
    return fail_by_fault(attempt, before, why);
}

/* False, with the outcome: it did not become ready. */
static bool await_ready(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct qn_bytes line;
    struct qn_loop_answer answer;
    quern_error err;
    attempt->wait.until_mono_ns =
        qn_clock_mono_ns() + attempt->loop->options.start_ms * QN_NS_PER_MS;
    enum qn_loop_event event = qn_loop_process_next(attempt->process, &attempt->wait, &line);
    attempt->wait.until_mono_ns = INT64_MAX;
    if (event == QN_LOOP_LINE) {
        if (!qn_loop_answer_read(line, NULL, &answer)) {
            qn_memory_exhausted();
        }
        qn_loop_answer_finish(&answer);
        if (answer.kind == QN_LOOP_READY) {
            return true;
        }
        char before[SHOWN_MAX + 64];
        name_command(attempt->loop, "was not ready", before, sizeof before);
        quern_run_set_error_class(attempt->run, "not-ready");
        *ret_outcome = fail_by_fault(attempt, before, answer.why);
    } else if (event == QN_LOOP_ENDED &&
               qn_loop_process_refusal(attempt->process, &err) != QUERN_OK) {
        qn_loop_process_free(attempt->process);
        *ret_outcome =
            err.code == QUERN_E_INVALID
                ? quern_run_fail(attempt->run, QUERN_RETRY, "command was not started: %s", err.text)
                : not_started(attempt, err.text);
    } else {
        *ret_outcome = fail_unready(attempt, event);
    }
    attempt->process = NULL;
    return false;
}

/* False, with the outcome: there is none. The timeout of the run is held. */
static bool start_process(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct loop *loop = attempt->loop;
    if (!await_pause(attempt)) {
        *ret_outcome = not_started(attempt, "it is started again after a pause");
        return false;
    }
    static const char *const environment[] = {"QUERN_LOOP=1", NULL};
    const struct qn_loop_process_spec spec = {
        .request = {.command = loop->command,
                    .environment = environment,
                    .limits = {.address_space_bytes = attempt->limits.memory_at_start,
                               .no_new_privs = loop->options.no_new_privs},
                    .launcher = attempt->run->launcher},
        .line_size_max = LINE_SIZE_MAX,
        .stderr_size_max = STDERR_SIZE_MAX,
    };
    quern_error err;
    if (qn_loop_process_start(&spec, &attempt->process, &err) != QUERN_OK) {
        *ret_outcome = not_started(attempt, err.text);
        return false;
    }
    bool is_ready = await_ready(attempt, ret_outcome);
    qn_loop_stock_note_start(&loop->stock, is_ready);
    return is_ready;
}

/* False, with the outcome: there is none. */
static bool take_process(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct loop *loop = attempt->loop;
    bool was_noisy;
    attempt->has_task = false;
    attempt->process = qn_loop_stock_take(&loop->stock, &was_noisy);
    if (was_noisy && !atomic_exchange(&loop->noise_reported, true)) {
        attempt->run->replaced = "it has written something after its answer";
    }
    if (attempt->process != NULL) {
        return true;
    }
    qn_run_hold_clock(attempt->run, true);
    bool is_ready = start_process(attempt, ret_outcome);
    if (is_ready) {
        qn_run_hold_clock(attempt->run, false);
    }
    return is_ready;
}

/* --- The run --------------------------------------------------------------------------- */

static void post_progress(struct attempt *attempt, const struct qn_loop_answer *answer,
                          struct qn_progress *progress)
{
    int32_t percent = answer->progress.percent >= 0 ? answer->progress.percent : progress->percent;
    *progress = answer->progress;
    progress->percent = percent;
    qn_run_post_progress(attempt->run, progress);
}

/* For the log of a run that is done, and as the error of a failure without one of its own. */
static void use_stderr(struct attempt *attempt, bool is_done)
{
    const struct qn_buf *text = &attempt->process->stderr_text.text;
    struct qn_bytes lines =
        qn_death_text_last_lines((struct qn_bytes){text->data, text->size}, QN_ERROR_TEXT_SIZE_MAX);
    if (lines.size > 0 && !is_done) {
        qn_run_set_error(attempt->run, lines.data, lines.size);
    } else if (lines.size > 0 && attempt->loop->options.log_stderr) {
        char *copy = qn_memory_must(qn_alloc(lines.size + 1));
        memcpy(copy, lines.data, lines.size);
        copy[lines.size] = '\0';
        attempt->run->stderr_text = copy;
    }
}

static quern_outcome take_answer(struct attempt *attempt, struct qn_loop_answer *answer)
{
    quern_run *run = attempt->run;
    quern_outcome outcome = (quern_outcome)answer->outcome;
    bool is_done = outcome == QUERN_DONE;
    qn_loop_process_read_stderr(attempt->process);
    if (answer->error != NULL && !is_done) {
        qn_run_set_error(run, answer->error, strlen(answer->error));
    } else if (is_done || outcome == QUERN_RETRY || outcome == QUERN_ARCHIVE) {
        use_stderr(attempt, is_done);
    }
    if (answer->class_name[0] != '\0') {
        quern_run_set_error_class(run, answer->class_name);
    }
    if (answer->delay_ms >= 0 && (outcome == QUERN_RETRY || outcome == QUERN_SNOOZE)) {
        (void)quern_run_again_in(run, answer->delay_ms);
    }
    if (is_done && attempt->task->retention_ms > 0 && answer->result != NULL) {
        run->result = answer->result; /* the run owns it now */
        run->result_size = answer->result_size;
        run->has_result = true;
        answer->result = NULL;
    }
    if (attempt->wait.cancel_fd < 0) {
        qn_loop_process_free(attempt->process); /* it got SIGTERM */
    } else {
        qn_loop_stock_give_back(&attempt->loop->stock, attempt->process);
    }
    return outcome;
}

/* True, with the outcome: the run has ended. */
static bool take_line(struct attempt *attempt, struct qn_bytes line, struct qn_progress *progress,
                      quern_outcome *ret_outcome)
{
    struct qn_loop_answer answer;
    if (!qn_loop_answer_read(line, attempt->task->id, &answer)) {
        qn_memory_exhausted();
    }
    bool has_ended = answer.kind != QN_LOOP_PROGRESS;
    if (answer.kind == QN_LOOP_PROGRESS) {
        post_progress(attempt, &answer, progress);
    } else if (answer.kind == QN_LOOP_ANSWER) {
        *ret_outcome = take_answer(attempt, &answer);
    } else {
        *ret_outcome = fail_by_fault(attempt, "", answer.why);
    }
    qn_loop_answer_finish(&answer);
    return has_ended;
}

/* The process has not read its task. False, with the outcome: it is a new one, which failed to
 * start. */
static bool drop_unread(struct attempt *attempt, enum qn_loop_event event,
                        quern_outcome *ret_outcome)
{
    if (attempt->process->run_count > 0) {
        qn_loop_process_free(attempt->process);
        attempt->process = NULL;
        return true;
    }
    char before[SHOWN_MAX + 64];
    name_command(attempt->loop, "was ready, but took no task", before, sizeof before);
    attempt->has_task = false;
    quern_run_set_error_class(attempt->run, "not-ready");
    qn_loop_stock_note_start(&attempt->loop->stock, false);
    *ret_outcome = fail_by_event(attempt, before, event);
    return false;
}

/* False, with the outcome: the run has ended. True: its process has, and knew nothing of it. */
static bool converse(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct qn_progress progress = {0};
    struct qn_bytes line;
    for (;;) {
        enum qn_loop_event event = qn_loop_process_next(attempt->process, &attempt->wait, &line);
        bool is_end = event == QN_LOOP_ENDED || event == QN_LOOP_SILENT;
        if (event == QN_LOOP_LINE) {
            if (take_line(attempt, line, &progress, ret_outcome)) {
                return false;
            }
            qn_loop_flood_slow_down(&attempt->flood, attempt->wait.cancel_fd);
        } else if (event == QN_LOOP_CANCELLED) {
            qn_loop_process_signal(attempt->process, SIGTERM);
            attempt->wait.cancel_fd = -1;
            attempt->wait.abandoned = &attempt->run->abandoned;
            attempt->wait.until_mono_ns =
                qn_clock_mono_ns() + attempt->limits.kill_after_ms * QN_NS_PER_MS;
        } else if (is_end && attempt->wait.cancel_fd >= 0 &&
                   !attempt->process->spawned.end.is_lost &&
                   qn_loop_process_is_unread(attempt->process)) {
            return drop_unread(attempt, event, ret_outcome);
        } else {
            *ret_outcome = fail_by_event(attempt, "", event);
            return false;
        }
    }
}

static void send_task(struct attempt *attempt)
{
    size_t size;
    quern_error err;
    char *text = qn_loop_task_line(attempt->run, attempt->task, &size);
    qn_loop_process_limit(attempt->process, attempt->limits.cpu_ms, attempt->limits.memory_max);
    quern_status status =
        qn_loop_process_send(attempt->process, (struct qn_bytes){text, size}, &err);
    free(text);
    if (status != QUERN_OK) {
        qn_memory_exhausted();
    }
    attempt->has_task = true;
}

static quern_outcome run_loop(quern_run *run, const quern_task *task, void *user)
{
    struct attempt attempt = {
        .loop = user,
        .run = run,
        .task = task,
        .limits = qn_loop_limits_of(run, KILL_AFTER_MS),
        .wait = {.cancel_fd = quern_run_cancel_fd(run), .until_mono_ns = INT64_MAX}};
    quern_outcome outcome = QUERN_RETRY;
    if (attempt.wait.cancel_fd < 0) {
        char why[128];
        (void)snprintf(why, sizeof why, "no descriptor to cancel it by: %s", strerror(errno));
        return not_started(&attempt, why);
    }
    while (take_process(&attempt, &outcome)) {
        send_task(&attempt);
        if (!converse(&attempt, &outcome)) {
            break;
        }
    }
    return outcome;
}

/* --- The mux --------------------------------------------------------------------------- */

static void free_loop(void *user)
{
    struct loop *loop = user;
    qn_loop_stock_finish(&loop->stock);
    qn_free(loop->command);
    qn_free(loop);
}

quern_status qn_loop_add(quern_mux *mux, const char *pattern, const char *command,
                         const struct qn_loop_options *options, quern_error *err)
{
    struct loop *loop = qn_memory_must(qn_alloc_zero(1, sizeof *loop));
    loop->command = qn_memory_must(qn_str_dup(command));
    loop->options = *options;
    if (loop->options.start_ms == 0) {
        loop->options.start_ms = START_MS;
    }
    qn_loop_stock_init(&loop->stock, options->runs_max);
    const struct qn_mux_entry entry = {
        .handler = run_loop,
        .user = loop,
        .free_user = free_loop,
        .grace_ms = KILL_AFTER_MS + QN_GRACE_SPARE_MS,
        .has_process = true,
    };
    quern_status status = qn_mux_add(mux, pattern, &entry, err);
    if (status != QUERN_OK) {
        free_loop(loop);
    }
    return status;
}
