/* SPDX-License-Identifier: MIT */
/* loop.c - commands that stay: a line of JSON for each task, lines of JSON as answers.
 *
 * A process says {"ready":true} when it can take tasks. So a program that cannot start at all is
 * known as such, and its start is no part of a task's time; it is started again after a pause that
 * grows to 10 s. Each run takes an idle process, the one that was used last, or starts one: there
 * are never more than runs at a time.
 *
 * What a process does wrong costs the run that it has: its death, a line that is no answer of this
 * task, a line that is too long, no end after a cancellation. Death by a signal of others is a
 * crash, anything else a failure with its reason. A process that is not quiet between two runs (it
 * has ended, or has written something) is replaced, and costs no run.
 *
 * A process ends by the end of its input, a second later by SIGTERM, then by SIGKILL: one that had
 * its number of runs while others go on (it is looked at when the next run begins or ends), all of
 * them when the mux is freed. If this program is killed, their guards kill them. */
#include "cli/loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "cli/loop/loop_answer.h"
#include "cli/loop/loop_limits.h"
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
    EOF_MS = 1000, /* from the end of its input to SIGTERM */
    KILL_AFTER_MS = 5000,
    PAUSE_MS_MIN = 100,
    PAUSE_MS_MAX = 10000
};

struct loop {
    char *command; /* owned */
    struct qn_loop_options options;
    pthread_mutex_t mutex;
    struct qn_list idle;      /* guarded by mutex, as all below; the last used one first */
    struct qn_list ending;    /* their input is closed */
    int64_t pause_ms;         /* after a start that failed; 0: the last one went well */
    int64_t start_at_mono_ns; /* no start before */
};

struct attempt {
    struct loop *loop;
    quern_run *run;
    const quern_task *task;
    struct qn_loop_limits limits;
    struct qn_loop_flood flood;
    struct qn_loop_process *process; /* NULL: none yet */
    struct qn_loop_wait wait;
    char note[192]; /* why we killed it; "": we did not */
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
    bool is_crash = !is_ours && !over_cpu && WIFSIGNALED(process->spawned.end.status);
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
    if (!is_ours && WIFEXITED(process->spawned.end.status)) {
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
    case QN_LOOP_LINE:
    case QN_LOOP_CANCELLED:
    case QN_LOOP_ENDED:
        break;
    }
    return fail_by_end(attempt, before);
}

/* --- Processes ------------------------------------------------------------------------- */

/* With mutex held. Looks at those that are to end; returns when to look again, INT64_MAX: never. */
static int64_t sweep(struct loop *loop)
{
    int64_t next_mono_ns = INT64_MAX;
    int64_t now_mono_ns = qn_clock_mono_ns();
    struct qn_list *after;
    for (struct qn_list *node = loop->ending.next; node != &loop->ending; node = after) {
        struct qn_loop_process *process = QN_CONTAINER_OF(node, struct qn_loop_process, node);
        const struct qn_loop_wait now = {.cancel_fd = -1, .until_mono_ns = now_mono_ns};
        struct qn_bytes line;
        after = node->next;
        bool is_late = now_mono_ns >= process->alarm_mono_ns;
        if (qn_loop_process_next(process, &now, &line) == QN_LOOP_ENDED ||
            (is_late && process->killed_by_us)) {
            qn_list_remove(node);
            qn_loop_process_free(process);
            continue;
        }
        if (is_late) {
            qn_loop_process_signal(process, SIGTERM);
            process->alarm_mono_ns = now_mono_ns + KILL_AFTER_MS * QN_NS_PER_MS;
        }
        next_mono_ns =
            process->alarm_mono_ns < next_mono_ns ? process->alarm_mono_ns : next_mono_ns;
    }
    return next_mono_ns;
}

/* With mutex held. */
static void begin_end(struct loop *loop, struct qn_loop_process *process)
{
    qn_loop_process_close_input(process);
    process->alarm_mono_ns = qn_clock_mono_ns() + EOF_MS * QN_NS_PER_MS;
    qn_list_append(&loop->ending, &process->node);
}

/* NULL: none is idle. */
static struct qn_loop_process *take_idle(struct loop *loop)
{
    struct qn_loop_process *found = NULL;
    (void)pthread_mutex_lock(&loop->mutex);
    (void)sweep(loop);
    while (found == NULL && !qn_list_empty(&loop->idle)) {
        found = QN_CONTAINER_OF(qn_list_shift(&loop->idle), struct qn_loop_process, node);
        if (!qn_loop_process_is_quiet(found)) {
            qn_loop_process_free(found);
            found = NULL;
        }
    }
    (void)pthread_mutex_unlock(&loop->mutex);
    return found;
}

static void give_back(struct loop *loop, struct qn_loop_process *process)
{
    (void)pthread_mutex_lock(&loop->mutex);
    process->run_count++;
    if (loop->options.runs_max > 0 && process->run_count >= loop->options.runs_max) {
        begin_end(loop, process);
    } else {
        qn_list_prepend(&loop->idle, &process->node);
    }
    (void)sweep(loop);
    (void)pthread_mutex_unlock(&loop->mutex);
}

/* False: the run was cancelled meanwhile. */
static bool await_pause(struct attempt *attempt)
{
    struct loop *loop = attempt->loop;
    struct pollfd cancel = {.fd = attempt->wait.cancel_fd, .events = POLLIN};
    for (;;) {
        (void)pthread_mutex_lock(&loop->mutex);
        int64_t left_ns = loop->start_at_mono_ns - qn_clock_mono_ns();
        (void)pthread_mutex_unlock(&loop->mutex);
        if (left_ns <= 0) {
            return true;
        }
        if (poll(&cancel, 1, (int)(left_ns / QN_NS_PER_MS) + 1) > 0) {
            return false;
        }
    }
}

static void note_start(struct loop *loop, bool is_ready)
{
    (void)pthread_mutex_lock(&loop->mutex);
    int64_t pause_ms = is_ready ? 0 : loop->pause_ms > 0 ? 2 * loop->pause_ms : PAUSE_MS_MIN;
    loop->pause_ms = pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX;
    loop->start_at_mono_ns = is_ready ? 0 : qn_clock_mono_ns() + loop->pause_ms * QN_NS_PER_MS;
    (void)pthread_mutex_unlock(&loop->mutex);
}

#define NOT_READY "it was not ready: "

/* False, with the outcome: it did not become ready. */
static bool await_ready(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct qn_bytes line;
    struct qn_loop_answer answer;
    quern_error err;
    attempt->wait.until_mono_ns = qn_clock_mono_ns() + START_MS * QN_NS_PER_MS;
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
        *ret_outcome = fail_by_fault(attempt, NOT_READY, answer.why);
    } else if (event == QN_LOOP_ENDED &&
               qn_loop_process_refusal(attempt->process, &err) != QUERN_OK) {
        qn_loop_process_free(attempt->process);
        *ret_outcome =
            err.code == QUERN_E_INVALID
                ? quern_run_fail(attempt->run, QUERN_RETRY, "command was not started: %s", err.text)
                : not_started(attempt, err.text);
    } else if (event == QN_LOOP_TIMEOUT || event == QN_LOOP_CANCELLED) {
        *ret_outcome = fail_by_fault(attempt, NOT_READY, "it wrote nothing");
    } else {
        *ret_outcome = fail_by_event(attempt, NOT_READY, event);
    }
    attempt->process = NULL;
    return false;
}

/* False, with the outcome: there is none. */
static bool take_process(struct attempt *attempt, quern_outcome *ret_outcome)
{
    struct loop *loop = attempt->loop;
    attempt->process = take_idle(loop);
    if (attempt->process != NULL) {
        return true;
    }
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
    note_start(loop, is_ready);
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
        give_back(attempt->loop, attempt->process);
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

static quern_outcome converse(struct attempt *attempt)
{
    struct qn_progress progress = {0};
    struct qn_bytes line;
    quern_outcome outcome = QUERN_RETRY;
    for (;;) {
        enum qn_loop_event event = qn_loop_process_next(attempt->process, &attempt->wait, &line);
        if (event == QN_LOOP_LINE) {
            if (take_line(attempt, line, &progress, &outcome)) {
                return outcome;
            }
            qn_loop_flood_slow_down(&attempt->flood, attempt->wait.cancel_fd);
        } else if (event == QN_LOOP_CANCELLED) {
            qn_loop_process_signal(attempt->process, SIGTERM);
            attempt->wait.cancel_fd = -1;
            attempt->wait.abandoned = &attempt->run->abandoned;
            attempt->wait.until_mono_ns =
                qn_clock_mono_ns() + attempt->limits.kill_after_ms * QN_NS_PER_MS;
        } else {
            return fail_by_event(attempt, "", event);
        }
    }
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
    if (!take_process(&attempt, &outcome)) {
        return outcome;
    }
    qn_loop_process_limit(attempt.process, attempt.limits.cpu_ms, attempt.limits.memory_max);
    size_t size;
    char *text = qn_loop_task_line(run, task, &size);
    quern_error err;
    quern_status status =
        qn_loop_process_send(attempt.process, (struct qn_bytes){text, size}, &err);
    free(text);
    if (status != QUERN_OK) {
        qn_memory_exhausted();
    }
    return converse(&attempt);
}

/* --- The mux --------------------------------------------------------------------------- */

static void free_loop(void *user)
{
    struct loop *loop = user;
    int64_t next_mono_ns;
    while (!qn_list_empty(&loop->idle)) {
        begin_end(loop, QN_CONTAINER_OF(qn_list_shift(&loop->idle), struct qn_loop_process, node));
    }
    while ((next_mono_ns = sweep(loop)) != INT64_MAX) {
        struct qn_loop_process *first =
            QN_CONTAINER_OF(loop->ending.next, struct qn_loop_process, node);
        const struct qn_loop_wait wait = {.cancel_fd = -1, .until_mono_ns = next_mono_ns};
        struct qn_bytes line;
        (void)qn_loop_process_next(first, &wait, &line);
    }
    (void)pthread_mutex_destroy(&loop->mutex);
    qn_free(loop->command);
    qn_free(loop);
}

quern_status qn_loop_add(quern_mux *mux, const char *pattern, const char *command,
                         const struct qn_loop_options *options, quern_error *err)
{
    struct loop *loop = qn_memory_must(qn_alloc_zero(1, sizeof *loop));
    loop->command = qn_memory_must(qn_str_dup(command));
    loop->options = *options;
    qn_list_init(&loop->idle);
    qn_list_init(&loop->ending);
    if (pthread_mutex_init(&loop->mutex, NULL) != 0) {
        qn_memory_exhausted();
    }
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
